"""Coins and random choices with exactly the stated probabilities."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.noise.bits import Bits
from dpaudit.noise.continuous import LAPLACE, MARGIN
from dpaudit.noise.grid import Array
from dpaudit.noise.reals import GUARD, WORD, Ball, Uniform, exact, flint, floor, order

#: The largest error of cumulative shares in doubles, for up to `_MOST_IN_DOUBLES` candidates. Log weights
#: differ by at most 746 and have relative error 2^-51, exponentials 2^-45, and each addition adds 2^-53.
_SHARE_MARGIN = 2.0**-30
_MOST_IN_DOUBLES = 1 << 20


def coins(bits: Bits, count: int, probability: Callable[[], Ball]) -> NDArray[np.bool_]:
    """Draw independent coins [count] that are True with a probability.

    `probability` computes an enclosure at the current precision.
    """
    words = bits.words(count)
    with flint().ctx.workprec(4 * WORD):
        scaled = probability() * flint().arb(2) ** WORD
        first = floor(scaled)
    if first is None:  # too near a multiple of 2^-64: decide every word separately
        return np.array([Uniform(bits, int(w)).below(probability) for w in words], dtype=np.bool_)
    if first >= 2**WORD:
        return np.ones(count, dtype=np.bool_)
    found = words < np.uint64(first)
    for i in np.flatnonzero(words == np.uint64(first)).tolist():
        found[i] = Uniform(bits, first).below(probability)
    return found


def sampled(bits: Bits, count: int, rate: float) -> NDArray[np.bool_]:
    """Draw coins [count] that are True with probability exactly the double `rate` in [0, 1]."""
    return coins(bits, count, functools.partial(exact, rate))


def subset(bits: Bits, count: int, size: int) -> NDArray[np.bool_]:
    """Draw a uniform subset of `size` among `count` items, as a mask [count], by Floyd's method."""
    fewer = min(size, count - size)
    found: set[int] = set()
    for last in range(count - fewer, count):
        one = bits.below(last + 1)
        found.add(last if one in found else one)
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[list(found)] = True
    return chosen if fewer == size else ~chosen


def responses(bits: Bits, value: Array, epsilon: float, categories: int) -> Array:
    """Apply randomized response to each category.

    A category is kept with probability 1/(1 + (categories - 1) e^-epsilon), and otherwise replaced by a
    uniform other category.
    """

    def kept() -> Ball:
        return 1 / (1 + (categories - 1) * (-exact(epsilon)).exp())

    other = _below(bits, value.size, categories - 1).astype(np.float64).reshape(value.shape)
    other += other >= value  # skip the true category
    return np.where(coins(bits, value.size, kept).reshape(value.shape), value, other)


def _below(bits: Bits, count: int, bound: int) -> NDArray[np.uint64]:
    """Draw uniform integers in [0, bound): [count], by rejection."""
    most = np.uint64(2**WORD - 2**WORD % bound - 1)
    words = bits.words(count)
    while (rejected := words > most).any():
        words = words.copy()
        words[rejected] = bits.words(int(rejected.sum()))
    return words % np.uint64(bound)


def choose(bits: Bits, scores: Array, factor: Fraction) -> int:
    """Draw an index i with probability proportional to exp(factor scores[i]); scores [k], k at least 1."""
    uniform = Uniform(bits)
    with np.errstate(over="ignore", under="ignore"):
        shifted = (scores - scores.max()) * float(factor)
        cumulative = np.cumsum(np.exp(np.maximum(shifted, -746.0)))
    total = float(cumulative[-1])
    low, high = (
        int(np.searchsorted(cumulative, total * (float(uniform) + side * _SHARE_MARGIN), side="right"))
        for side in (-1.0, 1.0)
    )
    if low == high and low < len(scores) <= _MOST_IN_DOUBLES and math.isfinite(total):
        return low

    def decision(u: Ball) -> int | None:
        best, reached = exact(float(scores.max())), [flint().arb(0)]
        for score in scores.tolist():
            reached.append(reached[-1] + ((exact(score) - best) * exact(factor)).exp())
        at = u * reached[-1]
        # Every index whose interval may contain the point.
        possible = [i for i in range(len(scores)) if not (at < reached[i] or at > reached[i + 1])]
        return possible[0] if len(possible) == 1 else None

    return int(uniform.decide(decision))


def permute_and_flip(bits: Bits, scores: Array, factor: Fraction) -> int:
    """Return the index that the permute-and-flip mechanism selects from scores [k].

    Permute-and-flip visits the scores in random order and returns the first one whose coin, with probability
    exp(factor (score - best)), is true. Equivalently, this throws all coins and draws uniformly from the
    indices with a true coin.
    """
    words = bits.words(len(scores))
    best = float(scores.max())
    with np.errstate(over="ignore", under="ignore"):
        chances = np.exp(np.maximum((scores - best) * float(factor), -746.0))
    uniform = words * 2.0**-WORD
    shows = (uniform < chances - _SHARE_MARGIN) | (scores == best)
    undecided = ~shows & (uniform <= chances + _SHARE_MARGIN)
    for i in np.flatnonzero(undecided).tolist():
        chance = functools.partial(_chance, float(scores[i]), best, factor)
        shows[i] = Uniform(bits, int(words[i])).below(chance)
    showing = np.flatnonzero(shows)
    return int(showing[bits.below(len(showing))])


def _chance(score: float, best: float, factor: Fraction) -> Ball:
    return ((exact(score) - exact(best)) * exact(factor)).exp()


def noisy_max(bits: Bits, scores: Array, factor: Fraction) -> int:
    """Return the index of the largest factor scores[i] plus independent Laplace(1) noise; scores [k]."""
    words = bits.words(len(scores))
    signs = np.where(words >> np.uint64(WORD - 1), -1.0, 1.0)
    rest = words & np.uint64(2 ** (WORD - 1) - 1)
    # As in `continuous.floors`: a sign, and the first 63 bits of a number u in [0, 1/2).
    u = np.maximum(rest.view(np.int64) * 2.0**-WORD, 2.0**-WORD)
    away = -LAPLACE.quantile(u)
    best = float(scores.max())
    with np.errstate(over="ignore"):
        weights = (scores - best) * float(factor)
    error = 2.0**-WORD / u + 2.0**-49 + MARGIN * away - 2.0**-50 * weights
    error[u < 2.0**-44] = np.inf
    value = weights + signs * away
    lowest = np.where(np.isfinite(error), value - error, -np.inf)
    leading = np.flatnonzero(~(value + error < lowest.max())).tolist()
    uniforms = [Uniform(bits, int(rest[i])) for i in leading]
    width = WORD
    while len(leading) > 1:
        width *= 2
        with flint().ctx.workprec(width + GUARD):
            balls = []
            for i, uniform in zip(leading, uniforms, strict=True):
                uniform.extend(width)
                weight = (exact(float(scores[i])) - exact(best)) * exact(factor)
                balls.append(weight - int(signs[i]) * LAPLACE.ball(uniform.ball()))
            first = max(range(len(balls)), key=lambda i: float(balls[i].mid()))
            if all(balls[first] > ball for i, ball in enumerate(balls) if i != first):
                return int(leading[first])
    return int(leading[0])


def negative_binomial(bits: Bits, eta: float, gamma: float) -> int:
    """Draw K >= 1, P(K = k) proportional to (1 - gamma)^k times prod over i < k of (eta + i)/(i + 1).

    For eta = 0 the factor of i = 0 is left out. P(K = 1) is (1 - gamma) eta/(gamma^-eta - 1), or
    (1 - gamma)/log(1/gamma) for eta = 0.
    """

    def first() -> Ball:
        log_inverse = -exact(gamma).log()
        share = 1 / log_inverse if eta == 0.0 else exact(eta) / (exact(eta) * log_inverse).expm1()
        return (1 - exact(gamma)) * share

    return _counted(bits, 1, first, lambda k: (1 - exact(gamma)) * (k + exact(eta)) / (k + 1))


def poisson(bits: Bits, mean: float) -> int:
    """Draw from the Poisson distribution."""
    none = functools.partial(_exponential, -mean)
    return _counted(bits, 0, none, lambda k: exact(mean) / (k + 1))


def _exponential(exponent: float) -> Ball:
    return exact(exponent).exp()


def _counted(bits: Bits, least: int, first: Callable[[], Ball], ratio: Callable[[int], Ball]) -> int:
    """Return the integer k >= `least` with P(< k) <= U < P(<= k).

    P(`least`) is `first()`, and P(k + 1) is `ratio(k)` times P(k).
    """

    def decision(u: Ball) -> int | None:
        k, mass, reached = least, first(), flint().arb(0)
        while True:
            reached += mass
            below = order(u, reached)
            if below is None:
                return None
            if below:
                return k
            mass *= ratio(k)
            k += 1

    return int(Uniform(bits).decide(decision))
