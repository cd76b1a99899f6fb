"""The one fold: from a ledger's releases to what a single unit of privacy can be exposed to.

Count, sequential composition and parallel composition are handled here and nowhere else, so that no
mechanism's formula ever sees a count. Sequential: every release without a partition counts for every
unit. Parallel (McSherry 2009): of one split a unit touches one part - or two, where the split
looked at values and a replaced record may leave one part and enter another. Different splits are
independent, so their parts add up. In a group of k units each is exposed so: on what all of them
meet every mechanism is its group's (`dpaudit.accountants.groups`), and of one split they touch up to k times
as many parts, each as often as there are units of the group in it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from dpaudit.accountants.groups import for_group
from dpaudit.accountants.rounding import sum_up, up
from dpaudit.errors import CannotBound
from dpaudit.ledger import Ledger
from dpaudit.mechanisms import AnyMechanism
from dpaudit.relations import Neighbouring
from dpaudit.releases import Partition, Release

#: Which mechanisms run on one unit's data, and how many times each.
Exposure = Mapping[AnyMechanism, int]

_MOST_EXPOSURES = 4096


class Composition:
    """The releases of a run, grouped by mechanism and by the part of a split that they touch.

    Args:
        neighbouring: the relation between neighbouring data sets.
        group_size: how many units the two data sets may differ in.
    """

    def __init__(self, neighbouring: Neighbouring, group_size: int = 1) -> None:
        self.neighbouring = neighbouring
        self.group_size = group_size
        self._common: Counter[AnyMechanism] = Counter()
        self._splits: dict[str, dict[str, Counter[AnyMechanism]]] = {}
        self._by_values: set[str] = set()

    def add(self, release: Release) -> None:
        """Take one release in: `count` runs of its mechanism, on all units or on one part's."""
        self._group(release.partition)[release.mechanism] += release.count

    def exposures(self) -> tuple[Exposure, ...]:
        """Every distinct multiset of mechanisms that one unit, or group, can be exposed to.

        The bound of a run is the largest bound over these.

        Raises:
            CannotBound: there are more distinct ones than can be tried one by one.
        """
        exposures = [_seen_by(self._common, self.group_size)]
        for split in self._splits:
            # Told apart split by split: what differs after all splits is found without trying all products.
            products = itertools.product(exposures, self._choices(split))
            exposures = _distinct(so_far + choice for so_far, choice in products)
        return tuple(exposures)

    def mechanisms(self) -> frozenset[AnyMechanism]:
        """Every mechanism that occurs in some exposure."""
        parts = [part for split in self._splits.values() for part in split.values()]
        seen = set(_seen_by(self._common, self.group_size))
        for part in parts:
            for units in range(1, self.group_size + 1):
                seen |= set(_seen_by(part, units))
        return frozenset(seen)

    def total(self, cost: Callable[[AnyMechanism], float]) -> float:
        """The largest sum of an additive cost over all exposures, rounded up.

        For a cost that adds up, the dearest parts of each split are found without trying all.
        """
        dearest = [_sum(_seen_by(self._common, self.group_size), cost)]
        for split, parts in self._splits.items():
            costs = (
                [_sum(_seen_by(part, units), cost) for units in range(1, self.group_size + 1)]
                for part in parts.values()
            )
            dearest.append(_dearest(costs, self._parts_touched(split)))
        return sum_up(dearest)

    def _group(self, partition: Partition | None) -> Counter[AnyMechanism]:
        if partition is None:
            return self._common
        if partition.by == "values":
            self._by_values.add(partition.split)
        return self._splits.setdefault(partition.split, {}).setdefault(partition.part, Counter())

    def _parts_touched(self, split: str) -> int:
        """How many parts the units of a group touch at most, each counted once a unit."""
        return self.group_size * self.neighbouring.parts_touched(split_by_values=split in self._by_values)

    def _choices(self, split: str) -> list[Counter[AnyMechanism]]:
        touched = self._parts_touched(split)
        # Parts with the same contents need to be told apart only as often as a group can touch them.
        seen: Counter[frozenset[tuple[AnyMechanism, int]]] = Counter()
        parts = []
        for part in self._splits[split].values():
            key = frozenset(part.items())
            seen[key] += 1
            if seen[key] <= touched:
                parts.append(part)
        met = (
            Counter(places)
            for places in itertools.combinations_with_replacement(
                range(len(parts)), min(touched, self.group_size * len(parts))
            )
        )
        return _distinct(
            sum((_seen_by(parts[place], units) for place, units in places.items()), Counter())
            for places in met
            if max(places.values()) <= self.group_size
        )


def compose(releases: Iterable[Release], neighbouring: Neighbouring, group_size: int = 1) -> Composition:
    """Fold releases into their composition, for single units or for groups of them."""
    composition = Composition(neighbouring, group_size)
    for release in releases:
        composition.add(release)
    return composition


def compose_ledger(ledger: Ledger) -> Composition:
    """Fold a ledger; under local trust it describes one user, so the number of users never enters."""
    return compose(ledger.releases, ledger.header.neighbouring, ledger.header.group_size)


def repeated(cost: float, count: int) -> float:
    """`count` times a cost, rounded up."""
    return up(Fraction(cost) * count) if math.isfinite(cost) else cost


def _distinct(exposures: Iterable[Counter[AnyMechanism]]) -> list[Counter[AnyMechanism]]:
    """Exposures without repetition; raises `CannotBound` for more than can be tried one by one."""
    found: dict[frozenset[tuple[AnyMechanism, int]], Counter[AnyMechanism]] = {}
    for exposure in exposures:
        found[frozenset(exposure.items())] = exposure
        if len(found) > _MOST_EXPOSURES:
            raise CannotBound(
                f"more than {_MOST_EXPOSURES} ways to meet the parts of the splits",
                where="composition",
                remedy="claim zCDP, which adds up part by part",
            )
    return list(found.values())


def _sum(mechanisms: Exposure, cost: Callable[[AnyMechanism], float]) -> float:
    return sum_up(repeated(cost(mechanism), count) for mechanism, count in mechanisms.items())


def _seen_by(mechanisms: Counter[AnyMechanism], units: int) -> Counter[AnyMechanism]:
    """What mechanisms are to data sets that differ in so many units."""
    if units == 1:
        return mechanisms
    seen: Counter[AnyMechanism] = Counter()
    for mechanism, count in mechanisms.items():
        grouped, times = for_group(mechanism, units)
        seen[grouped] += count * times
    return seen


def _dearest(parts: Iterable[list[float]], touched: int) -> float:
    """The largest sum of parts' costs with `touched` units to place; parts list their costs for 1, 2, ..."""
    best = [0.0] * (touched + 1)  # [units placed]
    for costs in parts:
        for placed in range(touched, 0, -1):
            ways = (
                sum_up([best[placed - units], cost]) for units, cost in enumerate(costs[:placed], start=1)
            )
            best[placed] = max(best[placed], *ways)
    return max(best)
