"""Exact sums over rows with bounded contributions per unit, and noisy releases of these sums."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import AnyMechanism, Array, Exponential, Gaussian, KeySelection, Laplace
from dpaudit.mechanisms.selecting.keys import Keys
from dpaudit.noise.grid import OnGrid
from dpaudit.tables.arguments import group_keys, key_columns
from dpaudit.tables.frames import Frame, require_known_units
from dpaudit.tables.noise import Reach, least_noise
from dpaudit.tables.plan import Bins, Key, Kind, Measure, Plan, Sums

#: A number for each group, or the only number where there are no groups.
Answer: TypeAlias = Any

#: Rows of one cell whose sums stay below 2^62.
_MOST_ROWS: Final = 2**32

B = TypeVar("B", bound="Bounded")


class Releases(Protocol):
    """The curator's interface that a table uses."""

    ledger: Ledger
    lock: threading.RLock

    def release(
        self, value: OnGrid, mechanism: AnyMechanism, *, label: str, claimed: AnyGuarantee | None = None
    ) -> Array:
        """As `Curator.release`."""

    def release_keys(
        self, keys: Keys, units: ArrayLike, mechanism: KeySelection, *, label: str
    ) -> list[tuple[Any, ...]]:
        """As `Curator.release_keys`."""

    def select(
        self,
        scores: Array,
        mechanism: Exponential,
        *,
        label: str,
        score_sensitivity: float,
        partition: Partition | None = None,
    ) -> int:
        """As `Curator.select`."""


@dataclass(frozen=True)
class Bounded:
    """A data frame with bounded contributions per unit; `Table` describes each field."""

    curator: Releases
    frame: Frame
    unit: str
    rows_per_unit: int | None = None
    groups_per_unit: int | None = None
    keys: tuple[str, ...] = ()
    groups: tuple[Key, ...] = ((),)
    hash_key: str = ""

    @property
    def relation(self) -> Neighbouring:
        """The ledger's relation between neighbouring data."""
        return self.curator.ledger.header.neighbouring


def in_groups(of: B, by: str | Sequence[str], keys: Any) -> B:
    """Return the same rows in groups; see `Table.group_by`."""
    names = key_columns(of.frame, of.unit, by, "group_by", "number")
    return replace(of, keys=names, groups=group_keys(of.frame, names, keys))


def unit_groups(of: Bounded) -> int | None:
    """Return the largest number of groups per unit."""
    bounds = [each for each in (of.groups_per_unit, of.rows_per_unit) if each is not None]
    return min([*bounds, len(of.groups)]) if bounds else None


def unit_reach(of: Bounded, measure: Measure, shift: int = 0, *, one_cell: bool | None = None) -> Reach:
    """Return the bound on one unit's contribution, each row counted from `shift` steps."""
    low, high = (each - shift for each in measure.steps)
    step = Fraction(2) ** measure.exponent
    return Reach(
        of.rows_per_unit,
        unit_groups(of),
        min(low, 0) * step,
        max(high, 0) * step,
        single=measure.what == "units",
        one_cell=len(of.groups) == 1 if one_cell is None else one_cell,
    )


def release_noise(
    of: Bounded,
    measure: Measure,
    label: str,
    cost: AnyGuarantee,
    shift: int = 0,
    *,
    one_cell: bool | None = None,
) -> Gaussian | Laplace:
    """Return the least noise for a measure whose release stays within the cost."""
    where, reach = f"release {label!r}", unit_reach(of, measure, shift, one_cell=one_cell)
    return least_noise(cost, lambda norm: reach.sensitivity(of.relation, norm, where), where)


def exact_sums(
    of: Bounded,
    measures: tuple[Measure, ...],
    bins: Bins | None = None,
    by: tuple[str, ...] = (),
    groups: tuple[Key, ...] = (),
) -> Sums:
    """Return the exact sums in the table's groups, or in some or all groups of other columns."""
    require_known_units(of.frame, of.unit)
    keys, known = by or of.keys, None
    if listed := groups if by else of.groups if of.keys else ():
        known = tuple(tuple(dict.fromkeys(each)) for each in zip(*listed, strict=True))
    given = None if known is None else dict(zip(keys, known, strict=True))
    plan = Plan(
        unit=of.unit,
        columns=tuple((name, _read_as(of, name, keys, given)) for name in sorted(of.frame.kinds)),
        keys=keys,
        groups=known,
        rows_per_unit=of.rows_per_unit,
        groups_per_unit=of.groups_per_unit if keys else None,
        hash_key=of.hash_key,
        measures=(*measures, Measure("rows")),
        bins=bins,
    )
    sums = of.frame.sums(plan)
    if any(each[-1] >= _MOST_ROWS for each in sums.values()):
        what, remedy = "2^32 rows or more in one group", "bound rows_per_unit, or make smaller groups"
        raise InvalidParameter(what, where="curator.table", why="sums are of 64 bits", remedy=remedy)
    return sums


def _read_as(
    of: Bounded, name: str, keys: tuple[str, ...], given: Mapping[str, Sequence[Any]] | None
) -> Kind:
    """Return the kind as which a column is read: the same for every type that pandas could infer.

    `given` are the keys' public values, whose type decides how objects are read; None if keys are chosen.
    """
    kind = of.frame.kinds[name]
    if kind == "objects" and name in keys:
        return "text" if given is None else "words" if isinstance(given[name][0], str) else "amounts"
    if kind == "objects":
        return "text" if name == of.unit else kind
    return kind if kind == "text" or name == of.unit or name in keys else "number"


def release_measure(of: Bounded, measure: Measure, label: str, cost: AnyGuarantee) -> Answer:
    """Release a measure of each group."""
    noise = release_noise(of, measure, label, cost)
    sums = exact_sums(of, (measure,))
    exact = OnGrid(np.array([cell_sums(sums, group)[0] for group in of.groups], np.int64), measure.exponent)
    noisy = of.curator.release(exact, noise, label=label, claimed=cost)
    return by_group(of, [float(each) for each in noisy])


def by_group(of: Bounded, found: list[Any]) -> Answer:
    """Return one number or list for each group, under its key; without groups, the only one."""
    if not of.keys:
        return found[0]
    names = (group[0] if len(of.keys) == 1 else group for group in of.groups)
    return dict(zip(names, found, strict=True))


def query_words(of: Bounded, what: str) -> str:
    """Return a query in words, as its label."""
    return f"{what} by {', '.join(of.keys)}" if of.keys else what


def cell_sums(sums: Sums, cell: Key) -> list[int]:
    """Return a cell's sums; 0 without rows."""
    return sums.get(cell) or [0] * len(next(iter(sums.values()), [0] * 8))
