"""The one fold: from a ledger's releases to what a single unit of privacy can be exposed to.

Count, sequential composition and parallel composition are handled here and nowhere else, so that no
mechanism's formula ever sees a count. Sequential: every release without a partition counts for every
unit. Parallel (McSherry 2009): of one split a unit touches one part - or two, where the split
looked at values and a replaced record may leave one part and enter another. Different splits are
independent, so their parts add up.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

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
    """The releases of a run, grouped by mechanism and by the part of a split that they touch."""

    def __init__(self, neighbouring: Neighbouring) -> None:
        self._neighbouring = neighbouring
        self._common: Counter[AnyMechanism] = Counter()
        self._splits: dict[str, dict[str, Counter[AnyMechanism]]] = {}
        self._by_values: set[str] = set()

    def add(self, release: Release) -> None:
        """Take one release in: `count` runs of its mechanism, on all units or on one part's."""
        self._group(release.partition)[release.mechanism] += release.count

    def exposures(self) -> tuple[Exposure, ...]:
        """Every distinct multiset of mechanisms that one unit can be exposed to.

        The bound of a run is the largest bound over these.

        Raises:
            CannotBound: there are more distinct ones than can be tried one by one.
        """
        exposures = [self._common]
        for split in self._splits:
            # Told apart split by split: what differs after all splits is found without trying all products.
            products = itertools.product(exposures, self._choices(split))
            exposures = _distinct(so_far + choice for so_far, choice in products)
        return tuple(exposures)

    def total(self, cost: Callable[[AnyMechanism], float]) -> float:
        """The largest sum of an additive cost over all exposures, rounded up.

        For a cost that adds up, the dearest parts of each split are found without trying all.
        """
        dearest = [_sum(self._common, cost)]
        for split, parts in self._splits.items():
            sums = (_sum(part, cost) for part in parts.values())
            dearest += heapq.nlargest(self._parts_touched(split), sums)
        return sum_up(dearest)

    def _group(self, partition: Partition | None) -> Counter[AnyMechanism]:
        if partition is None:
            return self._common
        if partition.by == "values":
            self._by_values.add(partition.split)
        return self._splits.setdefault(partition.split, {}).setdefault(partition.part, Counter())

    def _parts_touched(self, split: str) -> int:
        return self._neighbouring.parts_touched(split_by_values=split in self._by_values)

    def _choices(self, split: str) -> list[Counter[AnyMechanism]]:
        touched = self._parts_touched(split)
        # Parts with the same contents need to be told apart only as often as one unit can touch them.
        seen: Counter[frozenset[tuple[AnyMechanism, int]]] = Counter()
        parts = []
        for part in self._splits[split].values():
            key = frozenset(part.items())
            seen[key] += 1
            if seen[key] <= touched:
                parts.append(part)
        groups = itertools.combinations(parts, min(touched, len(parts)))
        return _distinct(sum(group, Counter()) for group in groups)


def compose(releases: Iterable[Release], neighbouring: Neighbouring) -> Composition:
    """Fold releases into their composition."""
    composition = Composition(neighbouring)
    for release in releases:
        composition.add(release)
    return composition


def compose_ledger(ledger: Ledger) -> Composition:
    """Fold a ledger; under local trust it describes one user, so the number of users never enters."""
    return compose(ledger.releases, ledger.header.neighbouring)


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
