"""The bets of one block of a sequential audit, all of them placed on earlier runs alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpaudit.auditors.sampling.samples import Array, Samples
from dpaudit.auditors.statistics.betting import (
    Bets,
    best_bets,
    both_directions,
    log_ratio,
    most_log_gain,
    soft_tests,
)
from dpaudit.auditors.statistics.threshold_events import Event

#: Pairs that are only looked at before any is bet on.
FIRST_BLOCK = 64
#: How often the wealth is looked at in a block.
LOOKS = 16
#: Tests are tuned on every so many-th epsilon of a grid.
_COARSE = 25
_BINS = 36


@dataclass(frozen=True)
class Block:
    """Bins of the score, and the bets of two strategies on them.

    Attributes:
        cuts: [bins - 1], increasing; a score equal to a cut lies above it.
        soft: bets on growth-optimal tests of a fitted log-likelihood ratio, in both directions.
        single: bets on one event.
    """

    cuts: Array
    soft: Bets
    single: Bets

    def gains(self, x: Array, y: Array, length: int) -> Array:
        """Log wealth gained on the block's pairs by each of its looks, [2, e, looks].

        Args:
            x: the block's scores on the data so far, at most `length`; a look beyond
                them is taken at their end.
            y: of the other side.
            length: how many pairs the block has in the end.
        """
        ends = looks(length)
        one, other = (
            np.stack([_counts(side[:end], self.cuts) for end in ends], axis=1) for side in (x, y)
        )  # [bins, looks]
        return np.stack([bets.log_wealth(one, other) for bets in (self.soft, self.single)])


def looks(length: int) -> NDArray[np.int64]:
    """After how many of its pairs a block of this length is looked at, [looks]; the last is its end."""
    return np.linspace(0, length, min(LOOKS, length) + 1).astype(np.int64)[1:]


def _counts(scores: Array, cuts: Array) -> Array:
    at = np.searchsorted(cuts, scores, side="right")
    return np.bincount(at, minlength=len(cuts) + 1).astype(np.float64)


def place(past: Samples, event: Event, epsilons: Array, deltas: Array) -> Block:
    """Bets against each (epsilon, delta), [e], from the past alone.

    Args:
        past: all earlier runs.
        event: the single event to bet on, chosen on them.
        epsilons: [e], increasing.
        deltas: [e].
    """
    pooled = np.sort(np.concatenate([past.data, past.neighbour]), kind="stable")
    n = len(pooled)
    tail = np.geomspace(1, n, _BINS).astype(int) - 1
    tail = tail[tail < n // 2]
    ranks = np.concatenate([tail, n - 1 - tail, np.linspace(0, n - 1, _BINS // 2).astype(int)])
    edge = event.threshold if event.upper else float(np.nextafter(event.threshold, np.inf))
    cuts = np.unique(np.append(pooled[ranks], edge))
    x, y = _counts(past.data, cuts), _counts(past.neighbour, cuts)
    ratio = log_ratio(_centres(pooled, cuts, x + y), x, y)
    odds, weight = expit(ratio), x + y
    # Runs of both sides, shared out by the fitted ratio: a tail's probability from all runs in it.
    p, q = weight * odds / np.sum(weight * odds), weight * (1 - odds) / np.sum(weight * (1 - odds))
    forth = _soft(p, q, ratio, epsilons, deltas)
    back = _soft(q, p, -ratio, epsilons, deltas).swapped()
    return Block(cuts, both_directions(forth, back), _single(event, cuts, edge, x, y, epsilons, deltas))


def _centres(pooled: Array, cuts: Array, weight: Array) -> Array:
    """A finite score that stands for each bin: its runs' mean, or its cut where it has none."""
    finite = pooled[np.isfinite(pooled)]
    low, high = (float(finite[0]), float(finite[-1])) if len(finite) else (-1.0, 1.0)
    reach = high - low if high > low else 1.0
    at = np.searchsorted(cuts, pooled, side="right")
    inside = np.clip(pooled, low - reach, high + reach)
    sums = np.bincount(at, weights=inside, minlength=len(cuts) + 1)
    nearest = np.clip(np.append(cuts[0], cuts), low - reach, high + reach)
    return np.where(weight > 0, sums / np.maximum(weight, 1), nearest)


def _soft(p: Array, q: Array, ratio: Array, epsilons: Array, deltas: Array) -> Bets:
    coarse = np.unique(np.append(np.arange(0, len(epsilons), _COARSE), len(epsilons) - 1))
    tests = soft_tests(ratio, epsilons[coarse])
    rough, tuned = best_bets(p, q, tests, epsilons[coarse], deltas[coarse])
    closest = np.argmin(np.abs(epsilons[:, None] - epsilons[coarse]), axis=1)
    # Where no test promises any growth nothing is staked.
    use = np.flatnonzero(rough.growth[closest] > 0)
    none = np.ones((len(epsilons), len(p)))
    bets = Bets(none, none.copy(), np.zeros(len(epsilons)))
    if len(use):
        fine, _ = best_bets(p, q, tuned[closest[use]][:, None], epsilons[use], deltas[use])
        bets.data[use], bets.neighbour[use], bets.growth[use] = fine.data, fine.neighbour, fine.growth
    return bets


def _single(
    event: Event, cuts: Array, edge: float, x: Array, y: Array, epsilons: Array, deltas: Array
) -> Bets:
    inside = np.arange(len(cuts) + 1) > int(np.searchsorted(cuts, edge))
    inside = inside if event.upper else ~inside
    sides = (y, x) if event.swapped else (x, y)
    runs = float(np.sum(x)) + 1
    p, q = (np.array([1 - share, share]) for share in ((side @ inside + 0.5) / runs for side in sides))
    test = np.broadcast_to(np.array([0.0, 1.0]), (len(epsilons), 1, 2))
    bets, _ = best_bets(p, q, test, epsilons, deltas)
    at = inside.astype(int)
    spread = Bets(bets.data[:, at], bets.neighbour[:, at], bets.growth)
    return spread.swapped() if event.swapped else spread


def pairs_needed(epsilon: float, delta: float, confidence: float) -> int:
    """How many pairs of runs it takes before any outcome can refute epsilon at delta.

    In the best outcome every pair pays the most a bet can; the first block places no bets.
    """
    most = most_log_gain(epsilon, delta)
    return FIRST_BLOCK + int(min(np.ceil(-np.log(1 - confidence) / most), 1e18)) if most > 0 else 10**18


def largest_refutable(pairs: int, delta: float, confidence: float, highest: float) -> float:
    """The largest epsilon that `pairs` pairs can refute, whatever they show, up to the highest; 0 if none."""
    if pairs_needed(0.0, delta, confidence) > pairs:
        return 0.0
    low, high = 0.0, highest
    if pairs_needed(high, delta, confidence) <= pairs:
        return high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if pairs_needed(middle, delta, confidence) <= pairs else (low, middle)
    return low
