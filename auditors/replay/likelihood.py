"""The likelihood of a transcript: the density of its releases' outputs, given the queries.

All items of one stream, and all points of one function, make one release.
"""

from collections.abc import Sequence

import numpy as np

from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import (
    Array,
    Asked,
    Gaussian,
    GaussianNoise,
    HiddenSample,
    InTurns,
    PrivateSelection,
    Queries,
    SampledSum,
)
from dpaudit.mechanisms.samples.sampled import log_likelihood_together


class NoDensity(ValueError):
    """The density of a release is not known; the message names the release."""


def queries_of(entries: Sequence[Entry]) -> Queries:
    """Return the queries of a run."""
    return [Asked(entry.query, entry.scale, entry.rows) for entry in entries]


def log_ratio(entries: Sequence[Entry], one: Queries, other: Queries) -> float:
    """Return the log density of the outputs, in order, given the queries `one`, minus that given `other`.

    Both have the same number of queries, with the same shapes. A release with the same query in both adds 0,
    whatever its density. A release that moves and has no known density raises `NoDensity`. Releases on one
    sample depend on each other, so they have one joint density.
    """
    total = 0.0
    for group in _independent(entries):
        sides = [[queries[i] for i in group] for queries in (one, other)]
        if any(_differ(*asked) for asked in zip(*sides, strict=True)):
            made = [entries[i] for i in group]
            with np.errstate(over="ignore"):  # outputs too far from the query have density zero
                first, second = (_log_likelihood(made, side) for side in sides)
            if first is None or second is None:
                raise NoDensity(_unknown(made))
            total += first - second
    return total


def _independent(entries: Sequence[Entry]) -> list[list[int]]:
    """Return the positions of each release's entries; releases on one sample form one group."""
    groups: dict[object, list[int]] = {}
    for position, entry in enumerate(entries):
        sample = entry.release.sample
        groups.setdefault(entry.number if sample is None else sample, []).append(position)
    return list(groups.values())


def _log_likelihood(made: Sequence[Entry], queries: Queries) -> float | None:
    """Return the log density of one release, or of all releases on one sample; None: not known."""
    if len({entry.number for entry in made}) == 1:
        return made[0].release.mechanism.log_likelihood(made, queries)
    mechanisms = [m for entry in made if isinstance(m := entry.release.mechanism, SampledSum)]
    return log_likelihood_together(mechanisms, made, queries)


def _differ(one: Asked, other: Asked) -> bool:
    if one.query.tobytes() != other.query.tobytes() or one.scale != other.scale:
        return True
    if one.rows is None or other.rows is None:
        return False
    return one.rows.shape != other.rows.shape or one.rows.tobytes() != other.rows.tobytes()


def _unknown(made: Sequence[Entry]) -> str:
    """Say why no density is known, and how to avoid that."""
    release = made[0].release
    if len({entry.number for entry in made}) > 1 and not all(map(_is_gaussian, made)):
        return (
            f"releases of sample {release.sample!r} are made on one sample of the records, and their density "
            "together is known for Gaussian noise alone"
        )
    if isinstance(release.mechanism, InTurns | SampledSum):
        return (
            f"release {release.label!r} is of a secret sample of the records, of which too many samples have "
            "different sums: give a pair of few records, or of many that are alike"
        )
    return f"the density of release {release.label!r} is not known"


def _is_gaussian(entry: Entry) -> bool:
    mechanism = entry.release.mechanism
    return isinstance(mechanism, SampledSum) and isinstance(mechanism.mechanism, Gaussian)


def require_densities(entries: Sequence[Entry]) -> None:
    """Raise `NoDensity` for a release that may have a loss although its query does not move."""
    for entry in entries:
        mechanism, known = entry.release.mechanism, entry.rows is not None or not entry.query.size
        if isinstance(mechanism, HiddenSample) and not known:
            raise NoDensity(
                f"release {entry.release.label!r} is of a secret sample of the records, "
                "which the transcript does not hold"
            )
        if isinstance(entry.release.mechanism, PrivateSelection):
            raise NoDensity(
                f"release {entry.release.label!r} is the best of trials that the transcript does not hold; "
                "replay a trial by itself"
            )


def releases_of(entries: Sequence[Entry]) -> list[list[int]]:
    """Return the positions of each release's entries."""
    groups: dict[int, list[int]] = {}
    for position, entry in enumerate(entries):
        groups.setdefault(entry.number, []).append(position)
    return list(groups.values())


def gaussian_share(entries: Sequence[Entry], differences: Sequence[Array]) -> list[tuple[float, bool]]:
    """Return for each release the mu^2 of a Gaussian pair, and whether it is exact.

    `mu^2` comes from the queries' differences, one for each entry. It is exact for Gaussian noise of a fixed
    scale. For other noise it is a rough guide: the figure for Gaussian noise with the same spread.
    """
    shares = []
    for group in releases_of(entries):
        mechanism = entries[group[0]].release.mechanism
        share = mechanism.gaussian_share([entries[i] for i in group], [differences[i] for i in group])
        shares.append((share, isinstance(mechanism, GaussianNoise)))
    return shares
