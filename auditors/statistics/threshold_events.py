"""Events that an audit tests: a score beyond a threshold, claimed to be likelier on one of the sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpaudit.auditors.statistics.samples import Samples
from dpaudit.mechanisms import Array

_CANDIDATES = 200


@dataclass(frozen=True)
class ThresholdEvent:
    """Scores at or beyond a threshold.

    Attributes:
        threshold: the score.
        upper: whether the event is score >= threshold, or score <= threshold.
        swapped: whether it is likelier on the neighbour than on the data.
    """

    threshold: float
    upper: bool
    swapped: bool

    def counts(self, samples: Samples) -> tuple[int, int]:
        """The number of runs with the event, on the likelier side (x) and on the other (y)."""
        data, neighbour = (
            int(np.sum(side >= self.threshold if self.upper else side <= self.threshold))
            for side in (samples.data, samples.neighbour)
        )
        return (neighbour, data) if self.swapped else (data, neighbour)

    def __str__(self) -> str:
        sign = ">=" if self.upper else "<="
        likelier = "the neighbour" if self.swapped else "the data"
        return f"score {sign} {self.threshold:.6g}, likelier on {likelier}"


@dataclass(frozen=True)
class Candidates:
    """Events on both tails and in both directions, with the counts x and y of each, all [c]."""

    thresholds: Array
    upper: NDArray[np.bool_]
    swapped: NDArray[np.bool_]
    x: Array
    y: Array

    def event(self, index: int) -> ThresholdEvent:
        """One of the events."""
        return ThresholdEvent(
            float(self.thresholds[index]), bool(self.upper[index]), bool(self.swapped[index])
        )


def candidates(samples: Samples) -> Candidates:
    """Thresholds at ranks of the pooled scores, denser towards both tails, with their counts."""
    data, neighbour = (np.sort(side, kind="stable") for side in (samples.data, samples.neighbour))
    # Stable sorting is a merge where the parts are sorted.
    pooled = np.sort(np.concatenate([data, neighbour]), kind="stable")
    n = len(pooled)
    tail = np.geomspace(1, n, _CANDIDATES).astype(int) - 1
    ranks = np.unique(np.concatenate([tail, n - 1 - tail, np.linspace(0, n - 1, _CANDIDATES).astype(int)]))
    at = np.unique(pooled[ranks])  # [t]
    above = [len(side) - np.searchsorted(side, at, side="left") for side in (data, neighbour)]
    below = [np.searchsorted(side, at, side="right") for side in (data, neighbour)]
    count = len(at)
    return Candidates(
        thresholds=np.tile(at, 4),
        upper=np.repeat([True, True, False, False], count),
        swapped=np.repeat([False, True, False, True], count),
        x=np.concatenate([above[0], above[1], below[0], below[1]]).astype(np.float64),
        y=np.concatenate([above[1], above[0], below[1], below[0]]).astype(np.float64),
    )


def event_for_epsilon(
    samples: Samples, epsilons: Array, deltas: Array, tested: int, error: float
) -> tuple[ThresholdEvent, float]:
    """The event that promises to refute some claimed point by the widest margin, and that point's delta.

    The choice depends on these runs only; a test of the event on other runs is valid whatever they are.

    Args:
        samples: the runs to choose on.
        epsilons: [k] of the claimed points.
        deltas: [k] of the claimed points.
        tested: how many runs a side the event will be tested on.
        error: the level it will be tested at.
    """
    found = candidates(samples)
    scale = tested / len(samples)
    # One more run on the other side than was counted: an event is not chosen for a lucky zero.
    x, y = found.x[:, None] * scale, (found.y[:, None] + 1) * scale
    excess = np.maximum(x - tested * deltas, 1e-9)  # [c, k]
    share = np.maximum(1 / np.maximum(x, 1e-9) - 1 / tested, 0) * (x / excess) ** 2
    variance = share + 1 / y + 1 / (tested + 1)
    promised = np.log(excess / y) + ndtri(error) * np.sqrt(variance) - epsilons
    best = int(np.argmax(promised))
    return found.event(best // len(epsilons)), float(deltas[best % len(epsilons)])


def event_for_mu(samples: Samples, error: float) -> ThresholdEvent:
    """The event that promises the largest lower bound on mu; chosen as `event_for_epsilon` is."""
    found = candidates(samples)
    n = len(samples) + 1
    p, q = (found.x + 0.5) / n, (found.y + 0.5) / n
    quantile_p, quantile_q = ndtri(np.minimum(p, 1 - 0.25 / n)), ndtri(np.minimum(q, 1 - 0.25 / n))

    def variance(share: Array, quantile: Array) -> Array:
        # The delta method: the variance of a proportion over the squared normal density.
        return share * (1 - share) / n * (2 * np.pi) * np.exp(quantile**2)

    spread = np.sqrt(variance(p, quantile_p) + variance(q, quantile_q))
    return found.event(int(np.argmax(quantile_p - quantile_q + ndtri(error) * spread)))
