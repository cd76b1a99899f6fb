"""How far the queries of one run moved from those of another, against what the ledger declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    distance,
)

Twin = tuple[Entry, Entry]


@dataclass(frozen=True)
class Movement:
    """One release's move.

    Attributes:
        entry: the recorded entry to name, the one that moved last or most.
        measured: how far the query moved.
        declared: how far it may.
        measure: what was measured, in words.
    """

    entry: Entry
    measured: float
    declared: float
    measure: str


def movements(recorded: Sequence[Entry], other: Sequence[Entry]) -> Iterator[Movement]:
    """The move of every release that both runs made; all items of one stream make one move."""
    releases: dict[int, list[Twin]] = {}
    for twin in zip(recorded, other, strict=False):
        releases.setdefault(twin[0].number, []).append(twin)
    for twins in releases.values():
        with np.errstate(over="ignore"):  # the distance of two finite queries may exceed every double
            moves = list(_moves(twins))
        yield from moves


def _moves(twins: Sequence[Twin]) -> Iterator[Movement]:
    entry, twin = twins[0]
    mechanism = entry.release.mechanism
    match mechanism:
        case Gaussian() | Laplace() | DiscreteGaussian() | DiscreteLaplace() | SymmetricGaussian():
            measured = max(distance(mechanism.norm, part) for part in _repetitions(entry, twin))
            yield Movement(entry, measured, mechanism.sensitivity.value, f"in {mechanism.norm}")
        case PoissonSampled():
            measured = distance(mechanism.norm, entry.query - twin.query)
            yield Movement(entry, measured, mechanism.sensitivity.value, f"in {mechanism.norm}")
        case RandomizedResponse():
            changed = max(float(np.count_nonzero(part)) for part in _repetitions(entry, twin))
            yield Movement(entry, changed, 1.0, "in changed answers")
        case Exponential():
            spread = float(np.ptp(entry.query - twin.query))
            yield Movement(entry, spread, mechanism.epsilon, "in the range of log weights")
        case TreeAggregation():
            items = twins[1:]  # the first entry is the opening
            moved = sum(distance(mechanism.norm, one.query - two.query) for one, two in items)
            yield Movement(
                twins[-1][0], moved, mechanism.sensitivity.value, f"in {mechanism.norm}, over its items"
            )
        case GaussianProcess():
            yield Movement(
                twins[-1][0], _function_norm(mechanism, twins[1:]), mechanism.sensitivity.value, "in rkhs"
            )
        case SmoothGaussian():
            yield from _smooth(mechanism, entry, twin)
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            # Its guarantee holds however far the query moves; that it moves tells which part was touched.
            moved = float(not np.array_equal(entry.query, twin.query))
            yield Movement(entry, moved, 1.0, "at all")
        case _:
            assert_never(mechanism)


def _repetitions(entry: Entry, twin: Entry) -> list[Array]:
    """The differences of the queries, repetition by repetition."""
    difference = entry.query - twin.query
    return [np.asarray(part) for part in difference] if entry.release.count > 1 else [difference]


def _function_norm(mechanism: GaussianProcess, twins: Sequence[Twin]) -> float:
    """The least RKHS norm that the functions' difference can have, given its values where it was asked."""
    asked = [(one.at, one.query - two.query) for one, two in twins if one.at is not None]
    if not asked:
        return 0.0
    points = np.concatenate([at for at, _ in asked])
    values = np.concatenate([difference for _, difference in asked])
    return float(np.sqrt(mechanism.kernel.squared_norm(points, values)))


def _smooth(mechanism: SmoothGaussian, entry: Entry, twin: Entry) -> Iterator[Movement]:
    if entry.scale is None or twin.scale is None:
        return
    moved = mechanism.alpha * float(np.linalg.norm((entry.query - twin.query).ravel()))
    yield Movement(entry, moved / min(entry.scale, twin.scale), 1.0, "in noise scales over alpha")
    drift = 2.0 * abs(float(np.log(entry.scale / twin.scale)))
    yield Movement(entry, drift, mechanism.beta, "in the logarithm of the noise variance")
