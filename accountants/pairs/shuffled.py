"""Shuffled answers: the profile of one among many coins, as a table of losses.

One of c + 1 coins shows heads with probability e/(e + 1) or 1/(e + 1), e = e^epsilon0; the others are fair.
With a heads and b = c + 1 - a tails the loss is log((e a + b)/(a + e b)), which rises with a, so that

    delta_c(epsilon) = max over a of (e - E)/(e + 1) P(A = a - 1) - (E - 1) P(A >= a),

E = e^epsilon, for the heads A of the c fair ones. It falls with c, since another fair coin can be added. The
number c is random. Between neighbours of a grid of numbers it counts as the lower one, and P(c < next one) is
rounded up in summation by parts.

P(A >= a) and P(c <= .) are incomplete beta functions of scipy, with an assumed relative error of at most
2e-10; tests/accountants/pairs checks them against ball arithmetic. P(A = a) is Stirling's series.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy

from dpaudit.accountants.pairs.profiles import Losses, symmetric
from dpaudit.accountants.privacy_loss.contour.factors import Vector
from dpaudit.accountants.privacy_loss.terms import LARGEST_PARAMETER
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import dominating

_ASSUMED = 2e-10
_MOST_USERS = 10**9  # more users count as this many: they protect at least as much
_FINE, _COARSE = 1536, 256  # points of the profile in its bulk, and in its tail
#: Grid of c in deviations: far below its mean, and near it dense enough for a quarter of a percent.
_FAR, _NEAR, _NEAR_IF_MANY = np.arange(-38.0, -9.0), np.arange(-9.0, 6.1, 0.125), np.arange(-9.0, 6.1, 0.5)
_MANY = 100.0


@functools.lru_cache(maxsize=256)
def shuffled_losses(pair: dominating.Shuffled) -> Losses:
    """Return a pair that dominates; `CannotBound` if epsilon0 is past the range of the computation."""
    epsilon0 = max(pair.epsilon, 1e-9)  # below, rounding is larger
    if not epsilon0 <= LARGEST_PARAMETER:
        what = f"shuffled answers of epsilon = {epsilon0!r}"
        raise CannotBound(what, where="mechanism shuffled", remedy="randomize more")
    others, shrunk = min(pair.users, _MOST_USERS) - 1, math.exp(-epsilon0)
    spread = 2.0 * math.tanh(0.5 * epsilon0) / math.sqrt(max(others * shrunk, 1.0))
    points = _points(epsilon0, spread)
    delta = _among(points, epsilon0, others, shrunk)
    if pair.categories is not None:
        likely = 1.0 / (1.0 + (min(pair.categories, 10**300) - 1) * shrunk)  # e/(e + k - 1)
        own = min(1.0, likely * (1.0 + shrunk) * (1.0 + 1e-12))
        delta = np.minimum(delta, own * _among(points, epsilon0, others, 2.0 * shrunk * likely))
    delta[:-1] += 1e-300  # covers underflow
    if delta[0] > 1.0 - 1e-12:  # no coins other than the user's own
        likely = 1.0 / (1.0 + shrunk)
        masses = np.array([max(shrunk * likely, 1e-300), likely])
        return Losses(np.array([-epsilon0, epsilon0]), masses, masses[::-1], 0.0, 0.0)
    return symmetric(points, np.minimum(delta, 1.0))


def _among(points: Vector, epsilon0: float, others: int, chance: float) -> Vector:
    """Return the profile among a binomial number of coins; `chance` is rounded down: fewer protect less."""
    coins, below = _coins(others, chance * (1.0 - 1e-12))
    delta = np.zeros(len(points))
    rest = np.zeros(len(points))  # the profile at the next larger number of coins
    for number, most in zip(coins[::-1].tolist(), below[::-1].tolist(), strict=True):
        here = np.maximum(_delta(points, epsilon0, float(number)), rest)
        delta += most * (here - rest)
        rest = here
    return delta


def _coins(others: int, chance: float) -> tuple[Vector, Vector]:
    """Return numbers of coins from 0 on, each with an upper bound on the probability to be below the next."""
    mean, deviation = others * chance, math.sqrt(others * chance * (1.0 - chance))
    if others <= 512:
        numbers = np.arange(others + 1, dtype=np.float64)
    else:
        steps = np.append(_FAR, _NEAR_IF_MANY if deviation > _MANY else _NEAR)
        places = np.clip(np.floor(mean + deviation * steps), 0.0, float(others))
        numbers = np.unique(np.append(places, np.arange(64.0)))
    below = scipy.special.betaincc(numbers[1:], others - numbers[1:] + 1.0, chance)
    return numbers, np.append(np.minimum(below * (1.0 + _ASSUMED), 1.0), 1.0)


def _points(epsilon0: float, spread: float) -> Vector:
    bulk, tail = min(epsilon0, 9.0 * spread), min(epsilon0, 40.0 * spread)
    far = np.geomspace(max(tail, 1e-300), epsilon0, 64) if tail < epsilon0 else np.empty(0)
    parts = (np.linspace(0.0, bulk, _FINE), np.linspace(bulk, tail, _COARSE), far)
    return np.unique(np.append(np.concatenate(parts), epsilon0).clip(0.0, epsilon0))


def _delta(epsilon: Vector, epsilon0: float, coins: float) -> Vector:
    """Return an upper bound on delta_c at epsilons in [0, epsilon0]; [points]."""
    gained = -np.expm1(epsilon - epsilon0) / (1.0 + math.exp(-epsilon0))
    share = np.expm1(-(epsilon + epsilon0)) / (math.expm1(-epsilon0) * (1.0 + np.exp(-epsilon)))
    # If rounding selects the next a, it drops only the outcome whose loss is epsilon up to rounding.
    a = np.clip(np.ceil((coins + 1.0) * share), 1.0, coins + 1.0)
    inside = a <= coins
    more = np.where(inside, scipy.special.betainc(a, np.where(inside, coins - a + 1.0, 1.0), 0.5), 0.0)
    most = gained * _mass(a - 1.0, coins) * (1.0 + _ASSUMED)
    return np.maximum(most - np.expm1(np.minimum(epsilon, 700.0)) * more * (1.0 - _ASSUMED), 0.0)


def _mass(heads: Vector, coins: float) -> Vector:
    """Return P(A = heads) for `coins` fair coins, to 1e-11; coins at least 0."""
    if coins < 64.0:
        row = np.array([math.comb(int(coins), a) for a in range(int(coins) + 1)], dtype=np.float64)
        return np.asarray(row[heads.astype(np.int64)] * 0.5**coins)
    tails = coins - heads
    inner = (heads > 0.0) & (tails > 0.0)
    a, b = np.where(inner, heads, 1.0), np.where(inner, tails, 1.0)
    size = np.sqrt(coins / (2.0 * math.pi * a * b))
    series = _stirling(np.array([coins])) - _stirling(a) - _stirling(b)
    found = size * np.exp(series - coins * _relative_entropy((a - b) / coins))
    return np.asarray(np.where(inner, found, 0.5**coins))


def _relative_entropy(x: Vector) -> Vector:
    """Return ((1 + x) log(1 + x) + (1 - x) log(1 - x))/2, without cancellation; |x| below 1."""
    square, series = x * x, np.zeros(len(x))
    for j in range(12, 0, -1):  # x^2j/(2j (2j - 1))
        series = square * (1.0 / (2 * j * (2 * j - 1)) + series)
    direct = 0.5 * ((1.0 + x) * np.log1p(x) + (1.0 - x) * np.log1p(-x))
    return np.where(square < 0.01, series, direct)


def _stirling(n: Vector) -> Vector:
    """Return log n! minus Stirling's formula, n at least 1."""
    small = n < 16.0
    near = np.where(small, n, 1.0)
    direct = scipy.special.gammaln(near + 1.0) - (near + 0.5) * np.log(near) + near
    direct -= 0.5 * math.log(2.0 * math.pi)
    far = np.where(small, 16.0, n)
    inverse = 1.0 / (far * far)
    series = 1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))
    return np.where(small, direct, series / far)
