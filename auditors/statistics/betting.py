"""Bets against a claim: how to stake on the next pair of runs, given all earlier ones.

For a test phi with values in [0, 1], epsilon-delta-DP says E_P[phi] <= e^epsilon E_Q[phi] + delta. A pair
of runs, x on the data and y on its neighbour, then pays

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
from scipy.special import expit

from dpaudit.auditors.sampling.samples import Array

#: No factor of a bet may fall below this: one unlucky pair never takes everything.
_FLOOR = 1e-3
_NEWTON_STEPS = 10
_CLOSE_ENOUGH = 1e-7
_RIDGE = np.array([1e-6, 1.0, 10.0])


@dataclass(frozen=True)
class Bets:
    """One bet for each of several claims (epsilon, delta), on the same bins of scores.

    Attributes:
        data: [e, bins], the factor that a run on the data pays if it falls into a bin.
        neighbour: [e, bins], the same of the pair's other run.
        growth: [e], expected log E if the estimates behind the bet were true; 0 for no bet.
    """

    data: Array
    neighbour: Array
    growth: Array

    def swapped(self) -> Bets:
        """The same bets with the two data sets in each other's place."""
        return Bets(self.neighbour, self.data, self.growth)

    def log_wealth(self, x: Array, y: Array) -> Array:
        """Log of the product of E over runs with counts x and y [bins, ...] on the two sides, [e, ...]."""
        gained: Array = np.log(self.data) @ x + np.log(self.neighbour) @ y
        return gained


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

    Args:
        scores: [bins], a score that stands for each bin.
        data: [bins], how many runs on the data fell there.
        neighbour: [bins], the same of the neighbour.
    """
    weight = data + neighbour
    mean = float(np.average(scores, weights=weight))
    spread = float(np.sqrt(np.average((scores - mean) ** 2, weights=weight)))
    z = np.clip((scores - mean) / max(spread, 1e-300), -8.0, 8.0)
    features = np.stack([np.ones_like(z), z, z * z], axis=1)  # [bins, 3]
    weights = np.zeros(3)
    for _ in range(15):
        odds = expit(features @ weights)
        gradient = features.T @ (data - weight * odds) - _RIDGE * weights
        hessian = (features * (weight * odds * (1 - odds))[:, None]).T @ features + np.diag(_RIDGE)
        step = np.linalg.solve(hessian, gradient)
        weights = weights + step / max(1.0, float(np.abs(step).max()))
    ratio: Array = features @ weights
    return ratio


def soft_tests(ratio: Array, epsilons: Array) -> Array:
    """Clipped logistic functions of the log ratio, [e, c, bins]; the clips lie around each epsilon."""
    low = np.repeat([-1.5, -1.0, -0.6, -0.2, 0.2, 0.7], 2)
    high = np.maximum(low + 0.3, np.tile([1.5, 4.0], 6))
    bottom, top = expit(epsilons[:, None] + low)[..., None], expit(epsilons[:, None] + high)[..., None]
    # 1 - expit keeps its digits where expit is all but 1.
    width = np.maximum(top - bottom, 1e-15)
    test: Array = np.clip((expit(ratio) - bottom) / width, 0.0, 1.0)
    return test


def best_bets(p: Array, q: Array, phi: Array, epsilons: Array, deltas: Array) -> tuple[Bets, Array]:
    """For each claim the test among several, and its stake and hedge, of the largest growth.

    The bets are those of the claim that P, the data, is not too much likelier than Q, the neighbour.

    Args:
        p: [bins], estimated probabilities of the data's runs.
        q: [bins], of the neighbour's.
        phi: [e, c, bins] in [0, 1].
        epsilons: [e].
        deltas: [e].

    Returns:
        The bets, and the test that each is on, [e, bins].
    """
    stake, hedge, growth = _maximise(p, q, phi, np.exp(epsilons)[:, None], deltas[:, None])
    best = np.argmax(growth, axis=1)
    row = np.arange(len(epsilons))
    gained = growth[row, best]
    chosen = phi[row, best]  # [e, bins]
    stake, hedge = (np.where(gained > 0, value[row, best], 0.0)[:, None] for value in (stake, hedge))
    cost = np.exp(epsilons)[:, None] * chosen + deltas[:, None]
    bets = Bets(1 - hedge + stake * chosen, 1 + hedge - stake * cost, np.maximum(gained, 0.0))
    return bets, chosen


def _maximise(p: Array, q: Array, phi: Array, odds: Array, delta: Array) -> tuple[Array, Array, Array]:
    """Newton's method for the concave growth of (stake, hedge), started at no bet, [e, c] each."""
    cost = odds[..., None] * phi + delta[..., None]  # [e, c, bins]
    shape = phi.shape[:-1]
    stake, hedge, growth, reach = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.ones(shape)

    def allowed(stake: Array, hedge: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        # Linear in phi, each factor is least at phi = 0 or phi = 1, whichever bins there are.
        first = np.minimum(1 - hedge, 1 - hedge + stake)
        second = 1 + hedge - stake * (odds + delta)
        return (stake >= 0) & (first > _FLOOR) & (second > _FLOOR)

    for _ in range(_NEWTON_STEPS):
        first = 1 - hedge[..., None] + stake[..., None] * phi
        second = 1 + hedge[..., None] - stake[..., None] * cost
        one, two = 1 / first, 1 / second
        to_stake = (one * phi) @ p - (two * cost) @ q
        to_hedge = two @ q - one @ p
        one, two = one * one, two * two
        aa = (one * phi * phi) @ p + (two * cost * cost) @ q + 1e-12
        ab = -((one * phi) @ p + (two * cost) @ q)
        bb = one @ p + two @ q
        determinant = np.maximum(aa * bb - ab * ab, 1e-15)
        move_stake = (bb * to_stake - ab * to_hedge) / determinant
        move_hedge = (aa * to_hedge - ab * to_stake) / determinant
        promised = move_stake * to_stake + move_hedge * to_hedge
        if np.all(promised < _CLOSE_ENOUGH):
            break
        length = reach.copy()
        inside = allowed(stake + length * move_stake, hedge + length * move_hedge)
        for _ in range(8):
            if inside.all():
                break
            length = np.where(inside, length, length / 2)
            inside = allowed(stake + length * move_stake, hedge + length * move_hedge)
        length = np.where(inside, length, 0.0)
        new_stake, new_hedge = stake + length * move_stake, hedge + length * move_hedge
        reached = (
            np.log(1 - new_hedge[..., None] + new_stake[..., None] * phi) @ p
            + np.log(1 + new_hedge[..., None] - new_stake[..., None] * cost) @ q
        )
        # A step too far is taken back, and the next one is shorter.
        better = reached >= growth
        reach = np.where(better, np.minimum(1.0, 2 * length), length / 4)
        stake, hedge = np.where(better, new_stake, stake), np.where(better, new_hedge, hedge)
        growth = np.where(better, reached, growth)
    return stake, hedge, growth
