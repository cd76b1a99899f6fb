"""The likelihood of a transcript: what its releases' mechanisms say of the outputs, given the queries.

All items of one stream, and all points of one function, make one release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

import numpy as np

from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import (
    Array,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianProcess,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)

#: One question for each entry: the query, and the noise scale that the data chose, if they did.
Queries = Sequence[tuple[Array, float | None]]


class NoDensity(ValueError):
    """A release of which no density is known; the message names it."""


def queries_of(entries: Sequence[Entry]) -> Queries:
    """What a run asked."""
    return [(entry.query, entry.scale) for entry in entries]


def log_ratio(entries: Sequence[Entry], one: Queries, other: Queries) -> float:
    """Log density of the outputs had `one` been asked, less that had `other` been asked.

    A release whose query is the same in both counts for nothing, whatever its density.

    Args:
        entries: what came out, in order.
        one: as many queries, of the same shapes.
        other: the same.

    Raises:
        NoDensity: a release that moves is opaque or subsampled.
    """
    total = 0.0
    for group in releases_of(entries):
        made = [entries[i] for i in group]
        sides = [[queries[i] for i in group] for queries in (one, other)]
        if not _same(*sides):
            with np.errstate(over="ignore"):  # what is so far off has density zero
                first, second = (_release(made, [query for query, _ in side], side[0][1]) for side in sides)
            total += first - second
    return total


def _same(one: Queries, other: Queries) -> bool:
    return all(
        a.tobytes() == b.tobytes() and scale == scale_other
        for (a, scale), (b, scale_other) in zip(one, other, strict=True)
    )


def require_densities(entries: Sequence[Entry]) -> None:
    """Raise `NoDensity` for a release whose loss may not vanish where its query does not move."""
    for entry in entries:
        if isinstance(entry.release.mechanism, PoissonSampled):
            raise NoDensity(
                f"release {entry.release.label!r} is of a secret sample of the records, "
                "which the transcript does not hold"
            )


def releases_of(entries: Sequence[Entry]) -> list[list[int]]:
    """The positions of each release's entries."""
    groups: dict[int, list[int]] = {}
    for position, entry in enumerate(entries):
        groups.setdefault(entry.number, []).append(position)
    return list(groups.values())


def _release(entries: Sequence[Entry], queries: Sequence[Array], scale: float | None) -> float:
    entry, query = entries[0], queries[0]
    mechanism = entry.release.mechanism
    match mechanism:
        case (
            Gaussian()
            | Laplace()
            | DiscreteGaussian()
            | DiscreteLaplace()
            | SymmetricGaussian()
            | RandomizedResponse()
            | Exponential()
        ):
            return mechanism.log_density(entry.output, query)
        case TreeAggregation():
            if len(entries) == 1:  # opened, and never fed
                return 0.0
            return mechanism.log_density(_stacked(entries), np.stack(queries[1:]))
        case GaussianProcess():
            points = _points(entries)
            if points is None:
                return 0.0
            outputs = np.concatenate([entry.output for entry in entries[1:]])
            return mechanism.log_density(outputs, np.concatenate(queries[1:]), points)
        case SmoothGaussian():
            if scale is None:
                raise NoDensity(f"release {entry.release.label!r} has no scale")
            return mechanism.log_density(entry.output, query, scale)
        case PoissonSampled() | OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            raise NoDensity(f"release {entry.release.label!r} is known by its guarantee alone")
        case _:
            assert_never(mechanism)


def _stacked(entries: Sequence[Entry]) -> Array:
    return np.stack([entry.output for entry in entries[1:]])


def _points(entries: Sequence[Entry]) -> Array | None:
    asked = [entry.at for entry in entries[1:] if entry.at is not None]
    return np.concatenate(asked) if asked else None


def gaussian_share(entries: Sequence[Entry], differences: Sequence[Array]) -> list[tuple[float, bool]]:
    """Of each release, the mu^2 of a Gaussian pair that far apart, and whether that is exact.

    It is exact for Gaussian noise of a fixed scale, and for any release that does not move; for other
    noise it is a rough guide, for Gaussian noise with the same spread.

    Args:
        entries: the releases' entries.
        differences: of the queries, one for each entry.
    """
    return [
        _share([entries[i] for i in group], [differences[i] for i in group]) for group in releases_of(entries)
    ]


def _share(entries: Sequence[Entry], differences: Sequence[Array]) -> tuple[float, bool]:
    entry, difference = entries[0], differences[0]
    mechanism = entry.release.mechanism
    match mechanism:
        case Gaussian() | SymmetricGaussian():  # the Frobenius norm is that of all entries
            return _square(difference / mechanism.sigma), True
        case TreeAggregation():
            if len(entries) == 1:
                return 0.0, True
            items = np.stack(differences[1:])
            sums = np.concatenate([np.zeros_like(items[:1]), np.cumsum(items, axis=0)])
            steps = np.arange(1, len(items) + 1)
            # A node closed by item t holds the items after t - lowbit(t).
            return _square((sums[1:] - sums[steps - (steps & -steps)]) / mechanism.sigma), True
        case GaussianProcess():
            points = _points(entries)
            if points is None:
                return 0.0, True
            values = np.concatenate(differences[1:])
            return mechanism.kernel.squared_norm(points, values) / mechanism.sigma**2, True
        case DiscreteGaussian():
            spread = mechanism.sigma
        case Laplace() | DiscreteLaplace():
            spread = math.sqrt(2.0) * mechanism.scale
        case SmoothGaussian():
            spread = entry.scale or math.inf
        case PoissonSampled():
            return 0.0, False
        case RandomizedResponse() | Exponential():
            return 0.0, not difference.any()
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            return 0.0, False
        case _:
            assert_never(mechanism)
    # Noise that the data choose tells them apart even where the value does not move.
    still = not difference.any() and not isinstance(mechanism, SmoothGaussian)
    return _square(difference / spread), still


def _square(values: Array) -> float:
    with np.errstate(over="ignore"):
        return float(np.square(values).sum())
