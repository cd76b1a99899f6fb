"""Coins and choices with the stated probabilities, exactly."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.noise.bits import Bits
from dpaudit.noise.grid import Array
from dpaudit.noise.reals import WORD, Ball, Uniform, exact, flint, floor

#: How far shares in doubles may be off, of up to `_MOST_IN_DOUBLES` candidates: log weights are at most 746
#: apart and 2^-51 off relatively, exponentials 2^-45, and each sum of two adds 2^-53.
_SHARE_MARGIN = 2.0**-30
_MOST_IN_DOUBLES = 1 << 20


def coins(bits: Bits, count: int, probability: Callable[[], Ball]) -> NDArray[np.bool_]:
    """Independent coins that are True with this probability, computed anew for every precision: [count]."""
    words = bits.words(count)
    with flint().ctx.workprec(4 * WORD):
        scaled = probability() * flint().arb(2) ** WORD
        first = floor(scaled)
    if first is None:  # so near to a multiple of 2^-64 that every word is decided by itself
        return np.array([Uniform(bits, int(w)).below(probability) for w in words], dtype=np.bool_)
    if first >= 2**WORD:
        return np.ones(count, dtype=np.bool_)
    found = words < np.uint64(first)
    for i in np.flatnonzero(words == np.uint64(first)).tolist():
        found[i] = Uniform(bits, first).below(probability)
    return found


def sampled(bits: Bits, count: int, rate: float) -> NDArray[np.bool_]:
    """Coins with the probability that the double `rate` in [0, 1] is."""
    return coins(bits, count, functools.partial(exact, rate))


def subset(bits: Bits, count: int, size: int) -> NDArray[np.bool_]:
    """True for `size` of `count`, every choice of so many equally likely: [count]; Floyd's method."""
    fewer = min(size, count - size)
    found: set[int] = set()
    for last in range(count - fewer, count):
        one = bits.below(last + 1)
        found.add(last if one in found else one)
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[list(found)] = True
    return chosen if fewer == size else ~chosen


def responses(bits: Bits, value: Array, epsilon: float, categories: int) -> Array:
    """Every category kept with probability 1/(1 + (categories - 1) e^-epsilon), else another, all alike."""

    def kept() -> Ball:
        return 1 / (1 + (categories - 1) * (-exact(epsilon)).exp())

    other = _below(bits, value.size, categories - 1).astype(np.float64).reshape(value.shape)
    other += other >= value  # one of the others, without the true one
    return np.where(coins(bits, value.size, kept).reshape(value.shape), value, other)


def _below(bits: Bits, count: int, bound: int) -> NDArray[np.uint64]:
    """Uniform integers in [0, bound): [count], by rejection."""
    most = np.uint64(2**WORD - 2**WORD % bound - 1)
    words = bits.words(count)
    while (rejected := words > most).any():
        words = words.copy()
        words[rejected] = bits.words(int(rejected.sum()))
    return words % np.uint64(bound)


def choose(bits: Bits, scores: Array, factor: Fraction) -> int:
    """An index i with probability proportional to exp(factor scores[i]); scores [k], k at least 1."""
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
        # Every index whose part of the line may hold the point.
        possible = [i for i in range(len(scores)) if not (at < reached[i] or at > reached[i + 1])]
        return possible[0] if len(possible) == 1 else None

    return int(uniform.decide(decision))
