"""Where the units of a group can lie in splits, before and after a change: every way, by enumeration."""

import itertools
from collections.abc import Iterator

from dpaudit import Neighbouring, Release


def placements(
    releases: list[Release], relation: Neighbouring, size: int = 1
) -> Iterator[list[tuple[Release, int]]]:
    """For each way, every release with how many units of the group it sees on either side."""
    splits: dict[str, set[str]] = {}
    by_values = {r.partition.split for r in releases if r.partition and r.partition.by == "values"}
    for release in releases:
        if release.partition is not None:
            splits.setdefault(release.partition.split, set()).add(release.partition.part)
    ways = []
    for split, parts in splits.items():
        moves = split in by_values and relation is not Neighbouring.ADD_OR_REMOVE_ONE
        places = [frozenset(p) for p in itertools.product(parts, repeat=2 if moves else 1)]
        ways.append([(split, units) for units in itertools.product(places, repeat=size)])
    for way in itertools.product(*ways):
        where = dict(way)
        yield [
            (r, sum(r.partition.part in unit for unit in where[r.partition.split]) if r.partition else size)
            for r in releases
        ]
