"""Bets against a claim, placed on a block of pairs of runs from the earlier runs alone.

For a test phi with values in [0, 1], (epsilon, delta)-DP implies E_P[phi] <= e^epsilon E_Q[phi] + delta. A
pair of runs, x on the data and y on its neighbour, then pays

    E = (1 + stake phi(x) - hedge) (1 + hedge - stake (e^epsilon phi(y) + delta)),        stake >= 0.

Where neither factor can be negative, E is an e-value: its expectation under the claim is at most
(1 + t)(1 - t) <= 1 with t = stake E_P[phi] - hedge. To first order it is the bet
1 + stake (phi(x) - e^epsilon phi(y) - delta); the hedge makes it the growth-optimal one. By the
Karush-Kuhn-Tucker conditions of min KL(P || P0) + KL(Q || Q0) over the pairs (P0, Q0) that satisfy the
claim, P / P0 and Q / Q0 are exactly of this form (Gruenwald, de Heide, Koolen 2024: the reverse
information projection), with phi a logistic function of the log-likelihood ratio, clipped to [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dpaudit.auditors.statistics.clopper_pearson import largest_refuted
from dpaudit.auditors.statistics.learning.logistic import logistic_weights
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import ThresholdEvent
from dpaudit.mechanisms import Array

#: Pairs that place the first bets and are not bet on themselves.
FIRST_BLOCK = 64
#: After how many parts of a block the wealth is evaluated.
LOOKS = 16
#: Tests are tuned on every so many-th epsilon of a grid.
_COARSE = 25
_BINS = 36
#: No factor of a bet may fall below this: one unlucky pair never takes everything.
_FLOOR = 1e-3
_NEWTON_STEPS = 10
#: Sums and squares of scores up to here are doubles; beyond 1 / _LARGE and below it they need another scale.
_LARGE = 2.0**400
#: A step that promises less growth than this is not taken.
_CLOSE_ENOUGH = 1e-10
#: A step takes this part of the room up to where a bet is not allowed; none is shorter than the other.
_MOST_OF_ROOM, _SHORTEST = 0.8, 2e-3


@dataclass(frozen=True)
class Bets:
    """One bet for each of several claims (epsilon, delta), on the same bins of scores.

    A run on the data pays the factor `data` [e, bins] of the bin that it falls into, the pair's other run
    the factor `neighbour`. `growth` [e] is the expected log E if the estimates behind the bet were true; it
    is 0 for no bet.
    """

    data: Array
    neighbour: Array
    growth: Array

    def swapped(self) -> Bets:
        """The same bets with the two data sets exchanged."""
        return Bets(self.neighbour, self.data, self.growth)

    def log_wealth(self, x: Array, y: Array) -> Array:
        """Log of the product of E over runs with counts x and y [bins, ...] on the two sides, [e, ...]."""
        found, placed = np.zeros((len(self.growth), *x.shape[1:])), self.growth > 0  # else all factors are 1
        found[placed] = np.log(self.data[placed]) @ x + np.log(self.neighbour[placed]) @ y
        return found


def both_directions(one: Bets, other: Bets) -> Bets:
    """One bet on the claim in both directions at once, from a bet on either.

    The gains are added. If the first bet's factors expect at most 1 + t and 1 - t, the second's at most
    1 - s and 1 + s, then the sums' product expects at most (1 + t - s)(1 - t + s) <= 1. Stakes are
    scaled down together where a sum would fall below the floor.
    """
    data, neighbour = one.data + other.data - 2, one.neighbour + other.neighbour - 2
    least = np.minimum(data.min(axis=1), neighbour.min(axis=1))
    scale = np.minimum(1.0, (1 - _FLOOR) / np.maximum(-least, 1e-300))[:, None]
    return Bets(1 + scale * data, 1 + scale * neighbour, one.growth + other.growth)


def most_log_gain(epsilon: float, delta: float) -> float:
    """The largest log E that any bet on one pair can pay.

    Randomized response between two outputs x and y, each likelier on its own side by
    r = (e^epsilon + delta) / (1 + e^epsilon), keeps the claim in both directions. There the pair (x, y)
    has probability r^2, so that no e-value may pay more than r^-2 for it.
    """
    odds = math.exp(min(epsilon, 700.0))
    return -2 * math.log1p(-(1 - delta) / (1 + odds))


def log_ratio(scores: Array, data: Array, neighbour: Array) -> Array:
    """Estimated log-likelihood ratio at each bin: a logistic regression on a quadratic of the score.

    All [bins]: a score that represents each bin, and how many runs of either side fell into it.
    """
    weight, ridge = data + neighbour, np.array([1e-6, 1.0, 10.0])
    mean = float(np.average(scores, weights=weight))
    spread = float(np.sqrt(np.average((scores - mean) ** 2, weights=weight)))
    z = np.clip((scores - mean) / max(spread, 1e-300), -8.0, 8.0)
    features = np.stack([np.ones_like(z), z, z * z], axis=1)  # [bins, 3]
    return np.asarray(features @ logistic_weights(features, data, neighbour, ridge))


def soft_tests(ratio: Array, epsilons: Array) -> Array:
    """Clipped logistic functions of the log ratio, [e, c, bins]; the clips lie around each epsilon."""
    low = np.repeat([-1.5, -1.0, -0.6, -0.2, 0.2, 0.7], 2)
    high = np.maximum(low + 0.3, np.tile([1.5, 4.0], 6))
    bottom, top = (scipy.special.expit(epsilons[:, None] + end)[..., None] for end in (low, high))
    # 1 - expit keeps its digits where expit is all but 1.
    width = np.maximum(top - bottom, 1e-15)
    return np.asarray(np.clip((scipy.special.expit(ratio) - bottom) / width, 0.0, 1.0))


def best_bets(p: Array, q: Array, phi: Array, epsilons: Array, deltas: Array) -> tuple[Bets, Array]:
    """For each claim the test among several, and its stake and hedge, of the largest growth.

    The bets are against the claim that P, the data, is not too much likelier than Q, the neighbour. p and
    q [bins] are estimated probabilities of the data's and the neighbour's runs, the tests phi are
    [e, c, bins] in [0, 1]. Returned are the bets and the test that each bets on, [e, bins].
    """
    odds, delta = np.exp(epsilons)[:, None], deltas[:, None]
    found, growth = _maximise(p, q, phi, odds, delta), np.zeros(phi.shape[:-1])
    staked = found[0].any(axis=1)
    first, second = _factors(found[:, staked], phi[staked], odds[staked], delta[staked])
    growth[staked] = np.log(first) @ p + np.log(second) @ q
    best, row = np.argmax(growth, axis=1), np.arange(len(epsilons))
    gained, chosen = growth[row, best], phi[row, best]
    paid = _factors(np.where(gained > 0, found[:, row, best], 0.0), chosen, odds[:, 0], delta[:, 0])
    return Bets(*paid, np.maximum(gained, 0.0)), chosen


def _factors(at: Array, phi: Array, odds: Array, delta: Array) -> tuple[Array, Array]:
    """What a bet with a stake and a hedge, at [2, ...], pays for a run on either side, [..., bins]."""
    stake, hedge = at[..., None]
    return 1 - hedge + stake * phi, 1 + hedge - stake * (odds[..., None] * phi + delta[..., None])


def _maximise(p: Array, q: Array, phi: Array, odds: Array, delta: Array) -> Array:
    """Newton's method for the concave growth of stake and hedge, started at no bet; both, [2, e, c]."""
    cost = odds[..., None] * phi + delta[..., None]  # [e, c, bins]

    def slopes(at: Array) -> tuple[Array, Array]:
        """The growth's slopes by stake and hedge, and the step to the top of its quadratic, [2, e, c]."""
        stake, hedge = at[..., None]
        one, two = 1 / (1 - hedge + stake * phi), 1 / (1 + hedge - stake * cost)
        one_phi, two_cost = one * phi, two * cost
        to_stake, to_hedge = one_phi @ p - two_cost @ q, two @ q - one @ p
        aa = (one_phi * one_phi) @ p + (two_cost * two_cost) @ q + 1e-12
        ab = (one_phi * one) @ p + (two_cost * two) @ q
        bb = (one * one) @ p + (two * two) @ q
        step = np.stack([bb * to_stake + ab * to_hedge, aa * to_hedge + ab * to_stake])
        return np.stack([to_stake, to_hedge]), step / np.maximum(aa * bb - ab * ab, 1e-15)

    def room(at: Array, step: Array) -> Array:
        """How many such steps lead to a stake of 0, or a factor at the floor."""
        (stake, hedge), (more, up), most = at, step, odds + delta
        # With a stake of 0 or more one factor is least at phi = 0 and the other at phi = 1, in any bins.
        have = np.stack([stake, 1 - hedge - _FLOOR, 1 + hedge - stake * most - _FLOOR])
        taken = np.stack([-more, up, more * most - up])
        steps = np.where(taken > 0, have / np.maximum(taken, 1e-300), np.inf)
        return np.asarray(steps.min(axis=0))

    found, reach = np.zeros((2, *phi.shape[:-1])), np.ones(phi.shape[:-1])
    at, rows = found.copy(), np.ones(len(phi), dtype=np.bool_)
    slope, step = slopes(at)
    for _ in range(_NEWTON_STEPS):
        promised = (slope * step).sum(axis=0)
        length = np.minimum(reach, _MOST_OF_ROOM * room(at, step))
        length[(promised < _CLOSE_ENOUGH) | (length < _SHORTEST)] = 0.0
        # Where there is no step none will follow: most claims that are true end here, with no bet.
        left = length.any(axis=1)
        if not left.any():
            break
        if not left.all():
            rows[rows] = left
            phi, cost, odds, delta = (each[left] for each in (phi, cost, odds, delta))
            at, slope, step = at[:, left], slope[:, left], step[:, left]
            length, promised = length[left], promised[left]
        ahead = at + length * step
        next_slope, next_step = slopes(ahead)
        # After a step too far, at whose end the growth falls faster than it rose, a shorter one is taken.
        better = (next_slope * step).sum(axis=0) >= -promised
        reach = np.where(better, np.minimum(1.0, 2 * length), length / 4)
        pairs = (ahead, at), (next_slope, slope), (next_step, step)
        at, slope, step = (np.where(better, new, old) for new, old in pairs)
        found[:, rows] = at
    return found


@dataclass(frozen=True)
class Block:
    """Bins of the score, whose increasing `cuts` [bins - 1] each belong to the bin above, and bets on them.

    `soft` are bets on growth-optimal tests of a fitted log-likelihood ratio, in both directions; `single`
    are bets on one event.
    """

    cuts: Array
    soft: Bets
    single: Bets

    def gains(self, x: Array, y: Array, length: int) -> Array:
        """Log wealth gained on the block's pairs by each of its looks, [2, e, looks].

        From the block's scores so far, x on the data and y on the neighbour, of the `length` pairs that it
        will have; a later look is taken at their end.
        """
        one, other = (
            np.stack([_counts(side[:end], self.cuts) for end in looks(length)], axis=1) for side in (x, y)
        )  # [bins, looks]
        return np.stack([bets.log_wealth(one, other) for bets in (self.soft, self.single)])


def looks(length: int) -> NDArray[np.int64]:
    """After how many pairs of a block of this length the wealth is evaluated, [looks]; last at its end."""
    return np.linspace(0, length, min(LOOKS, length) + 1).astype(np.int64)[1:]


def _counts(scores: Array, cuts: Array) -> Array:
    at = np.searchsorted(cuts, scores, side="right")
    return np.bincount(at, minlength=len(cuts) + 1).astype(np.float64)


def place(past: Samples, event: ThresholdEvent, epsilons: Array, deltas: Array) -> Block:
    """Bets against each (epsilon, delta), [e] with increasing epsilons, from all earlier runs.

    The single event to bet on must have been chosen on the earlier runs, too.
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
    odds, weight = scipy.special.expit(ratio), x + y
    # Runs of both sides, divided by the fitted ratio: a tail's probability is estimated from all runs in it.
    p, q = weight * odds / np.sum(weight * odds), weight * (1 - odds) / np.sum(weight * (1 - odds))
    forth = _soft(p, q, ratio, epsilons, deltas)
    back = _soft(q, p, -ratio, epsilons, deltas).swapped()
    return Block(cuts, both_directions(forth, back), _single(event, cuts, edge, x, y, epsilons, deltas))


def _centres(pooled: Array, cuts: Array, weight: Array) -> Array:
    """A finite score that represents each bin: its runs' mean, or its cut where it has none.

    Where the scores are so large or so small that their squares are no doubles, all are on another scale.
    """
    finite, at = pooled[np.isfinite(pooled)], np.searchsorted(cuts, pooled, side="right")
    size = float(np.abs(finite).max(initial=0.0))
    if size > _LARGE or 0.0 < size < 1 / _LARGE:
        scale = _LARGE**-1.5 if size > 1 else _LARGE**1.5
        finite, pooled, cuts = finite * scale, pooled * scale, cuts * scale
    low, high = (float(finite[0]), float(finite[-1])) if len(finite) else (-1.0, 1.0)
    reach = high - low if high > low else 1.0
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
    event: ThresholdEvent, cuts: Array, edge: float, x: Array, y: Array, epsilons: Array, deltas: Array
) -> Bets:
    inside = (np.arange(len(cuts) + 1) > int(np.searchsorted(cuts, edge))) == event.upper
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

    In the best outcome every pair pays the most a bet can; no bets are on the first block.
    """
    most = most_log_gain(epsilon, delta)
    return FIRST_BLOCK + int(min(np.ceil(-np.log(1 - confidence) / most), 1e18)) if most > 0 else 10**18


def largest_refutable(pairs: int, delta: float, confidence: float, highest: float) -> float:
    """The largest epsilon that `pairs` pairs can refute, whatever they show, up to the highest; 0 if none."""
    return largest_refuted(lambda epsilon: pairs_needed(epsilon, delta, confidence) <= pairs, highest, 50)
