"""Hypothesis strategies for your own tests: data sets of a schema, and neighbouring pairs of them.

Needs the extra `strategies`. Hypothesis shrinks a failing example, so a test ends with a small pair:

>>> import numpy as np
>>> from hypothesis import given, settings
>>> from dpaudit import L2, Curator, Gaussian, replay
>>> from dpaudit.strategies import datasets, neighbours
>>> def total(data, curator):
...     return curator.release(data.sum(), Gaussian(sigma=4.0, sensitivity=L2(1.0)), label="sum")
>>> @settings(max_examples=2, deadline=None, derandomize=True, database=None)
... @given(neighbours(datasets({"x": (0.0, 1.0)}, form="array"), "replace-one"))
... def test_total(pair):
...     assert not replay(total, [pair], replays=1, extreme_outputs=False, in_process=True).findings
>>> test_total()
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InvalidParameter, MissingExtra
from dpaudit.processes.changes import changed
from dpaudit.processes.records import number_of, taken

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

#: A column's values: the least and the largest number, a range of whole numbers, or a list of all values.
Column: TypeAlias = tuple[float, float] | range | Sequence[str]


@dataclass(frozen=True)
class Trajectories:
    """The schema of `TrajectoryData`: its states, its actions, and the steps of a trajectory.

    Rewards are in [0, 1].
    """

    n_states: int
    n_actions: int
    horizon: int


_FORMS: Final = ("records", "array", "frame")


def datasets(
    schema: Mapping[str, Column] | Trajectories,
    *,
    form: Literal["records", "array", "frame"] = "records",
    min_size: int = 2,
    max_size: int = 20,
) -> SearchStrategy[Any]:
    """Return a strategy of data sets of a schema.

    Args:
        schema: maps each column's name to its values: (low, high) for numbers, a `range` for whole numbers, a
            list of texts for categories; or a `Trajectories`, for `TrajectoryData`.
        form: a list of dicts, an array [n, d] of floats without texts ([n] for a single column), or a pandas
            frame.
        min_size: the least number of records, at least 1.
        max_size: the largest number of records.

    Raises:
        InvalidParameter: the schema is empty, a column has no values, an array would hold texts, or the sizes
            are impossible.
        MissingExtra: Hypothesis is not installed, or pandas is not installed for a frame.
    """
    _require_hypothesis()
    from hypothesis import strategies as st

    if not 1 <= min_size <= max_size:
        what, remedy = f"{min_size} to {max_size} records", "give 1 <= min_size <= max_size"
        raise InvalidParameter(what, where="datasets", remedy=remedy)
    if isinstance(schema, Trajectories):
        rows = st.lists(_trajectory(schema), min_size=min_size, max_size=max_size)
        return rows.map(functools.partial(_trajectories, schema))
    given: Any = schema
    whole = isinstance(given, Mapping) and bool(given)
    if form not in _FORMS or not whole:
        what = f"form {form!r}" if whole else f"schema {given!r}"
        remedy = f"give columns by name and a form among {', '.join(_FORMS)}"
        raise InvalidParameter(what, where="datasets", remedy=remedy)
    columns = {name: _values(name, values, form) for name, values in schema.items()}
    records = st.lists(st.fixed_dictionaries(columns), min_size=min_size, max_size=max_size)
    if form == "records":
        return records
    if form == "array":
        alone = len(columns) == 1
        return records.map(lambda rows: _array([list(row.values()) for row in rows], alone=alone))
    pandas = _pandas()
    return records.map(lambda rows: pandas.DataFrame(rows, columns=list(columns)))


def neighbours(
    data: SearchStrategy[Any],
    relation: Neighbouring | str = Neighbouring.REPLACE_ONE,
    *,
    unit: str | None = None,
) -> SearchStrategy[Pair]:
    """Return a strategy of pairs of neighbouring data sets.

    Args:
        data: a strategy of data sets: `datasets(...)`, or your own lists, arrays or dataclasses of arrays. A
            new record comes from a second data set.
        relation: the neighbouring relation. Under add-or-remove-one a record is removed or added at the end;
            under zero-out a record becomes zero in every column, for arrays only.
        unit: for a pandas frame, the column with the unit's name: all rows of one unit change. By default one
            row changes.

    Raises:
        InvalidParameter: `data` is not a strategy, the relation is unknown, `unit` is given for data other
            than a frame, or the data type has no known records.
        MissingExtra: Hypothesis is not installed.
    """
    _require_hypothesis()
    from hypothesis import strategies as st

    given: Any = data
    if not isinstance(given, st.SearchStrategy):
        what, remedy = f"data of type {type(given).__name__}", "give a strategy, such as datasets(...)"
        raise InvalidParameter(what, where="neighbours", remedy=remedy)
    try:
        kind = Neighbouring(relation)
    except ValueError:
        remedy = f"give one of {', '.join(Neighbouring)}"
        raise InvalidParameter(f"relation {relation!r}", where="neighbours", remedy=remedy) from None

    def pairs(draw: DrawFn) -> Pair:
        one, other = draw(data), draw(data)
        if hasattr(one, "iloc"):
            return _of_frames(draw, one, other, kind, unit)
        if unit is not None:
            what, remedy = f"unit {unit!r} of a {type(one).__name__}", "leave it out: a unit is one record"
            raise InvalidParameter(what, where="neighbours", remedy=remedy)
        return _of_records(draw, one, other, kind)

    return st.composite(pairs)()


def _of_records(draw: DrawFn, one: Any, other: Any, kind: Neighbouring) -> Pair:
    _require_hypothesis()
    from hypothesis import strategies as st

    number = _size(one)
    given = list(range(number))
    row = draw(st.integers(0, number - 1))
    new = number + draw(st.integers(0, _size(other) - 1))
    match kind:
        case Neighbouring.REPLACE_ONE:
            replaced = taken(one, other, [*given[:row], new, *given[row + 1 :]])
            return Pair(one, replaced, f"record {row + 1} replaced", unit=row)
        case Neighbouring.ZERO_OUT:
            return Pair(one, changed(one, [f"zero {row}"]), f"record {row + 1} at zero", unit=row)
        case Neighbouring.ADD_OR_REMOVE_ONE:
            if number > 1 and draw(st.booleans()):
                less = taken(one, other, [*given[:row], *given[row + 1 :]])
                return Pair(one, less, f"record {row + 1} removed", unit=row)
            return Pair(one, taken(one, other, [*given, new]), "a record added", unit=number)


def _of_frames(draw: DrawFn, one: Any, other: Any, kind: Neighbouring, unit: str | None) -> Pair:
    _require_hypothesis()
    from hypothesis import strategies as st

    if kind is Neighbouring.ZERO_OUT or (unit is not None and unit not in one.columns):
        what = "zero-out of a data frame" if kind is Neighbouring.ZERO_OUT else f"no column {unit!r}"
        remedy = "use replace-one or add-or-remove-one, and name a column of the frame"
        raise InvalidParameter(what, where="neighbours", remedy=remedy)
    if unit is None:
        row, new = draw(st.integers(0, len(one) - 1)), draw(st.integers(0, len(other) - 1))
        own, rest, rows = one.iloc[[row]], one.drop(one.index[row]), other.iloc[[new]]
    else:
        name, new = (
            draw(st.sampled_from(sorted(set(one[unit])))),
            draw(st.sampled_from(sorted(set(other[unit])))),
        )
        own, rest = one[one[unit] == name], one[one[unit] != name]
        rows = other[other[unit] == new].assign(**{unit: name})
    joined = _pandas().concat
    first = joined([rest, own], ignore_index=True)
    if kind is Neighbouring.REPLACE_ONE:
        return Pair(first, joined([rest, rows], ignore_index=True), "the rows of a unit replaced")
    return Pair(first, rest.reset_index(drop=True), "the rows of a unit removed")


def _size(data: Any) -> int:
    number = number_of(data)
    if not number:
        what, remedy = f"data of type {type(data).__name__}", "give lists, arrays or dataclasses of records"
        raise InvalidParameter(what, where="neighbours", remedy=remedy)
    return number


def _trajectories(schema: Trajectories, rows: Sequence[Any]) -> TrajectoryData:
    states, actions, rewards = map(np.array, zip(*rows, strict=True))
    return TrajectoryData(states, actions, rewards, schema.n_states, schema.n_actions)


def _trajectory(schema: Trajectories) -> SearchStrategy[tuple[list[int], list[int], list[float]]]:
    _require_hypothesis()
    from hypothesis import strategies as st

    steps = schema.horizon
    if min(schema.n_states, schema.n_actions, steps) < 1:
        remedy = "give at least one state, action and step"
        raise InvalidParameter(f"{schema}", where="datasets", remedy=remedy)
    states = st.lists(st.integers(0, schema.n_states - 1), min_size=steps + 1, max_size=steps + 1)
    actions = st.lists(st.integers(0, schema.n_actions - 1), min_size=steps, max_size=steps)
    return st.tuples(states, actions, st.lists(st.floats(0.0, 1.0), min_size=steps, max_size=steps))


def _values(name: str, values: Column, form: str) -> SearchStrategy[Any]:
    _require_hypothesis()
    from hypothesis import strategies as st

    if isinstance(values, range) and len(values) > 0:
        return st.sampled_from(values)
    if isinstance(values, tuple) and len(values) == 2 and all(isinstance(v, int | float) for v in values):
        low, high = map(float, values)
        if math.isfinite(low) and math.isfinite(high) and low <= high:
            return st.floats(low, high, allow_nan=False, allow_subnormal=False)
    texts = isinstance(values, list | tuple) and all(isinstance(v, str) for v in values)
    if texts and values and form != "array":
        return st.sampled_from(list(values))
    what = f"column {name!r} of {values!r}" + (" in an array" if texts and values else "")
    remedy = "give (low, high), a range, or a list of texts in records or a frame"
    raise InvalidParameter(what, where="datasets", remedy=remedy)


def _array(rows: Sequence[Sequence[float]], *, alone: bool) -> Any:
    made = np.array(rows, dtype=float)
    return made[:, 0] if alone else made


def _require_hypothesis() -> None:
    try:
        importlib.import_module("hypothesis")
    except ImportError as error:
        what, remedy = f"Hypothesis cannot be imported: {error}", "pip install 'dpaudit[strategies]'"
        raise MissingExtra(what, where="dpaudit.strategies", remedy=remedy) from None


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        what, remedy = f"pandas cannot be imported: {error}", "pip install pandas, or use another form"
        raise MissingExtra(what, where="dpaudit.strategies", remedy=remedy) from None
