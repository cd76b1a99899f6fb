"""How far the queries of one run moved from those of another, against what the ledger declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

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
    sensitivity_of,
)
from dpaudit.noise import Entry
from dpaudit.sensitivity import Norm

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
        yield from _release_moves(twins)


def moves(one: Entry, two: Entry, tolerance: float) -> bool:
    """Whether one question's query differs between the runs, by more than a share of its sensitivity."""
    sensitivity = sensitivity_of(one.release.mechanism)
    if sensitivity is None:
        return not np.array_equal(one.query, two.query)
    return _distance(sensitivity.norm, one, two) > tolerance * sensitivity.value


def _release_moves(twins: Sequence[Twin]) -> Iterator[Movement]:
    entry, twin = twins[0]
    mechanism = entry.release.mechanism
    match mechanism:
        case Gaussian() | Laplace() | DiscreteGaussian() | DiscreteLaplace() | SymmetricGaussian():
            measured = max(distance(mechanism.norm, part) for part in _repetitions(entry, twin))
            yield Movement(entry, measured, mechanism.sensitivity.value, f"in {mechanism.norm}")
        case PoissonSampled():
            measured = _distance(mechanism.norm, entry, twin)
            yield Movement(entry, measured, mechanism.sensitivity.value, f"in {mechanism.norm}")
        case RandomizedResponse():
            changed = max(float(np.count_nonzero(part)) for part in _repetitions(entry, twin))
            yield Movement(entry, changed, 1.0, "in changed answers")
        case Exponential():
            spread = float(np.ptp(_difference(entry, twin)))
            yield Movement(entry, spread, mechanism.epsilon, "in the range of log weights")
        case TreeAggregation():
            items = twins[1:]  # the first entry is the opening
            moved = sum(_distance(mechanism.norm, one, two) for one, two in items)
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
            return
        case _:
            assert_never(mechanism)


def _repetitions(entry: Entry, twin: Entry) -> list[Array]:
    """The differences of the queries, repetition by repetition."""
    difference = _difference(entry, twin)
    return [np.asarray(part) for part in difference] if entry.release.count > 1 else [difference]


def _function_norm(mechanism: GaussianProcess, twins: Sequence[Twin]) -> float:
    """The least RKHS norm that the functions' difference can have, given its values where it was asked."""
    asked = [(one.at, _difference(one, two)) for one, two in twins if one.at is not None]
    if not asked:
        return 0.0
    points = np.concatenate([at for at, _ in asked])
    values = np.concatenate([difference for _, difference in asked])
    return float(np.sqrt(mechanism.kernel.squared_norm(points, values)))


def _smooth(mechanism: SmoothGaussian, entry: Entry, twin: Entry) -> Iterator[Movement]:
    if entry.scale is None or twin.scale is None:
        return
    moved = mechanism.alpha * distance("l2", _difference(entry, twin))
    yield Movement(entry, moved / min(entry.scale, twin.scale), 1.0, "in noise scales over alpha")
    drift = 2.0 * abs(float(np.log(entry.scale / twin.scale)))
    yield Movement(entry, drift, mechanism.beta, "in the logarithm of the noise variance")


def _distance(norm: Norm, one: Entry, two: Entry) -> float:
    return distance(norm, _difference(one, two))


def _difference(one: Entry, two: Entry) -> Array:
    with np.errstate(over="ignore"):  # the difference of two finite queries may exceed every double
        return one.query - two.query
