"""Bounded sums of rows in memory: a whole data frame, or all rows of some units of a larger frame."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from dpaudit.tables import cells
from dpaudit.tables.hashing import MISSING, Hash, parts
from dpaudit.tables.plan import Bins, Key, Kind, Measure, Plan, Sums

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """A column of n rows.

    Attributes:
        kind: the kind as which it is read.
        order: [n], equal where values are equal, and in the values' own order.
        missing: [n], whether there is no value.
        distinct: for text and objects, the values in order, numbers first.
    """

    kind: Kind
    order: NDArray[Any]
    missing: NDArray[np.bool_]
    distinct: tuple[str | float, ...] = ()

    def at(self, rows: Any) -> Column:
        """Return the column for some of the rows."""
        return Column(self.kind, self.order[rows], self.missing[rows], self.distinct)

    def codes(self, hashed: Hash, i: int) -> Whole:
        """One hash code of every value: [n]."""
        if self.kind in {"text", "objects"}:
            texts = [each for each in self.distinct if isinstance(each, str)]
            numbers = np.array(self.distinct[: len(self.distinct) - len(texts)], dtype=np.float64)
            of_numbers = hashed.of_number(*parts(numbers), i)
            codes = np.concatenate([of_numbers, hashed.of_text(texts)[:, i], [MISSING]])[self.order]
        elif self.kind == "number":
            codes = hashed.of_number(*parts(_numbers(self)), i)
        else:
            codes = hashed.of_whole(self.order, i)
        return np.where(self.missing, MISSING, codes)

    def within(self, known: Collection[Any] | None) -> NDArray[np.bool_]:
        """Return which rows are in a group, [n]: in a known group, or in any."""
        if known is None:
            return ~self.missing
        if self.kind in {"text", "objects"}:
            inside = [each in known for each in self.distinct]
            found: NDArray[np.bool_] = np.array([*inside, False], dtype=np.bool_)[self.order]
            return found
        return ~self.missing & np.isin(self.order, np.array(sorted(map(int, known)), dtype=np.int64))

    def value(self, row: int) -> Any:
        """Return a key's value as the answer shows it."""
        found = self.order[row]
        if self.kind in {"text", "objects"}:
            return self.distinct[int(found)]
        return bool(found) if self.kind == "boolean" else int(found)


def column(series: nw.Series[Any], kind: Kind) -> Column:
    """Return a column as in a data frame."""
    if kind == "amounts":
        numbers = np.array([cells.amount(each) for each in series.to_list()], dtype=np.float64)
        return Column("number", numbers, np.isnan(numbers))
    if kind in _READERS:
        found: list[Any] = list(map(_READERS[kind], series.to_list()))
        kind = "text" if kind == "words" else kind
        known = sorted(set(found) - {None}, key=_in_order)
        place = {each: i for i, each in enumerate(known)}
        order = np.fromiter((-1 if each is None else place[each] for each in found), np.int64, len(found))
        return Column(kind, order, order < 0, tuple(known))
    missing = series.is_null().to_numpy().astype(np.bool_)
    if missing.any():
        series = series.fill_null(False if series.dtype == nw.Boolean else 0)
    values = np.array(series.to_numpy()).astype(np.float64 if kind == "number" else np.int64)
    return Column(kind, values, missing | np.isnan(values) if kind == "number" else missing)


#: How each cell of a column is read that is no number.
_READERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    "text": cells.text,
    "objects": cells.cell,
    "words": cells.word,
}


def _in_order(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


@dataclass(frozen=True)
class Bounded:
    """The kept rows: their columns, and each row's unit number and group number, [n]."""

    held: dict[str, Column]
    units: Whole
    cell: Whole


def sums(frame: nw.DataFrame[Any], plan: Plan) -> Sums:
    """Return a plan's sums for a frame that has all rows of its units."""
    return added(bounded(frame, plan), plan)


def bounded(frame: nw.DataFrame[Any], plan: Plan) -> Bounded:
    """Return the rows that a plan keeps; its measures do not matter."""
    held = {name: column(frame[name], kind) for name, kind in plan.columns}
    kept = np.flatnonzero(_counted(held, plan))
    held = {name: each.at(kept) for name, each in held.items()}
    unit, hashed = held[plan.unit], Hash(plan.hash_key)
    _, units = np.unique(unit.order, return_inverse=True)
    cell = _cells([held[name] for name in plan.keys], len(kept))
    first = _first(units, cell)
    if plan.groups_per_unit is not None:
        rows = np.flatnonzero(_of_few_groups(held, plan, hashed, units, cell, first))
        held, units, cell = {name: each.at(rows) for name, each in held.items()}, units[rows], cell[rows]
    if plan.rows_per_unit is not None:
        rows = _few_rows(held, plan, hashed, units)
        held, units, cell = {name: each.at(rows) for name, each in held.items()}, units[rows], cell[rows]
    return Bounded(held, units, cell)


def _counted(held: dict[str, Column], plan: Plan) -> NDArray[np.bool_]:
    """Which rows belong to a unit and to a group."""
    counted = ~held[plan.unit].missing
    for i, name in enumerate(plan.keys):
        counted &= held[name].within(None if plan.groups is None else set(plan.groups[i]))
    return counted


def _cells(keys: list[Column], n: int) -> Whole:
    """The number of each row's group, in the order of the keys' values: [n]."""
    if not keys:
        return np.zeros(n, dtype=np.int64)
    together = np.stack([each.order.astype(np.int64) for each in keys], axis=1)
    return np.unique(together, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _first(units: Whole, cell: Whole) -> Whole:
    """One row of every unit in every group."""
    order = np.lexsort((cell, units))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(units[order]) != 0) | (np.diff(cell[order]) != 0)
    return order[new]


def _places(units: Whole) -> Whole:
    """Return each entry's position within its unit, for sorted units: 0, 1, ..."""
    starts = np.flatnonzero(np.diff(units, prepend=-1))
    return np.arange(len(units)) - np.repeat(starts, np.diff(starts, append=len(units)))


def _of_few_groups(
    held: dict[str, Column], plan: Plan, hashed: Hash, units: Whole, cell: Whole, first: Whole
) -> NDArray[np.bool_]:
    """Return which rows are in their unit's kept groups."""
    some = {name: held[name].at(first) for name in (plan.unit, *plan.keys)}
    joined = [hashed.joined({name: some[name].codes(hashed, i) for name in plan.keys}, i) for i in range(2)]
    mixed = [hashed.both(some[plan.unit].codes(hashed, i), joined[i], i) for i in range(2)]
    order = np.lexsort((cell[first], mixed[1], mixed[0], units[first]))
    assert plan.groups_per_unit is not None  # noqa: S101  (called only then)
    few = first[order[_places(units[first][order]) < plan.groups_per_unit]]
    width = int(cell.max(initial=0)) + 1
    return np.isin(units * width + cell, units[few] * width + cell[few])


def _few_rows(held: dict[str, Column], plan: Plan, hashed: Hash, units: Whole) -> Whole:
    """Return the kept rows of each unit."""
    most = plan.rows_per_unit
    assert most is not None  # noqa: S101  (called only then)
    many = np.bincount(units, minlength=1)[units] > most
    rows = np.flatnonzero(many)
    some = {name: each.at(rows) for name, each in held.items()}
    mixed = [
        hashed.both(
            some[plan.unit].codes(hashed, i),
            hashed.joined({name: c.codes(hashed, i) for name, c in some.items()}, i),
            i,
        )
        for i in range(2)
    ]
    # Where hashes are equal the values decide, so that no other unit's rows have a part in it: column by
    # column, a missing one first, as databases sort. Sorted are the last columns first.
    ties = [one for c in reversed(some.values()) for one in (np.where(c.missing, 0, c.order), ~c.missing)]
    order = np.lexsort((*ties, mixed[1], mixed[0], units[rows]))
    few = rows[order[_places(units[rows][order]) < most]]
    return np.sort(np.concatenate([np.flatnonzero(~many), few]))


def added(kept: Bounded, plan: Plan) -> Sums:
    """The sums of every cell that has a row."""
    held, units, cell = kept.held, kept.units, kept.cell
    bins, inside = _bins(held, plan.bins, len(units))
    width = 1 if plan.bins is None else len(plan.bins.edges) + 1
    place = cell * width + bins
    found, where = np.unique(place[inside], return_inverse=True)
    one = np.zeros(len(found), dtype=np.int64)
    one[where] = np.flatnonzero(inside)
    totals = np.zeros((len(found), len(plan.measures)), dtype=np.int64)
    for i, measure in enumerate(plan.measures):
        np.add.at(totals[:, i], where, _measured(held, measure, units, cell)[inside])
    answer: Sums = {}
    for row, number, total in zip(one.tolist(), found.tolist(), totals.tolist(), strict=True):
        key: Key = tuple(held[name].value(row) for name in plan.keys)
        answer[key if plan.bins is None else (*key, number % width)] = total
    return answer


def _bins(held: dict[str, Column], bins: Bins | None, n: int) -> tuple[Whole, NDArray[np.bool_]]:
    """Each row's bin, and whether it has one."""
    if bins is None:
        return np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.bool_)
    one = held[bins.column]
    return np.searchsorted(np.array(bins.edges), _numbers(one), side="right").astype(np.int64), ~one.missing


def _numbers(one: Column) -> NDArray[np.float64]:
    return np.where(one.missing, 0.0, one.order.astype(np.float64))


def _measured(held: dict[str, Column], measure: Measure, units: Whole, cell: Whole) -> Whole:
    """A measure of every row: [n]."""
    if measure.what == "rows":
        return np.ones(len(units), dtype=np.int64)
    if measure.what == "units":
        found = np.zeros(len(units), dtype=np.int64)
        found[_first(units, cell)] = 1
        return found
    one = held[measure.column]
    if measure.what == "known":
        return (~one.missing).astype(np.int64)
    x = np.clip(_numbers(one), measure.lower, measure.upper)
    if measure.what == "square":
        x = (x - measure.center) * (x - measure.center)
    steps = np.clip(np.floor(x * 2.0**-measure.exponent), *measure.steps).astype(np.int64)
    return np.where(one.missing, 0, steps)
