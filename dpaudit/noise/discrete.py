"""Discrete Gaussian and discrete Laplace noise, exactly, many draws at once.

A scale is a double, taken as an exact rational number. Doubles and tables of 64-bit integers with proved
error bounds decide almost every draw; more bits and ball arithmetic decide the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.noise.bits import Bits
from dpaudit.noise.continuous import LAPLACE, NORMAL, Scale, floors
from dpaudit.noise.reals import WORD, Ball, Uniform, exact, flint, floor

#: Below this sigma a table of the distribution is used; above it, rounded normal numbers are rarely rejected.
_TABLE_BELOW = 4.0
#: Wider noise could, with a tiny probability, exceed every double.
_WIDEST = 2.0**1000
#: Standard deviations in a table; each tail beyond has probability about 2^-60.
_REACH = 9.0


def discrete_laplace(bits: Bits, count: int, scale: float) -> NDArray[Any]:
    """Draw integers k with probability proportional to exp(-|k|/scale): [count].

    With q = exp(-1/scale) and a random sign, |k| >= i has probability 2 q^i/(1 + q) for i >= 1. This equals
    the probability of -scale log(W) + scale log(2/(1 + q)) >= i for a uniform W.
    """
    with np.errstate(over="ignore"):
        q_less_1 = float(np.expm1(-1.0 / np.float64(scale)))

    def offset(_: int) -> Ball:
        rate = 1 / exact(scale)
        return -exact(scale) * ((-rate).expm1() / 2).log1p()

    near = np.full(count, -scale * math.log1p(q_less_1 / 2.0))
    return floors(bits, LAPLACE, Scale.of(scale, 0), near, offset, mirrored=True)


def discrete_gaussian(bits: Bits, count: int, sigma: float) -> NDArray[Any]:
    """Draw integers k with probability proportional to exp(-k^2/(2 sigma^2)): [count]."""
    if sigma < _TABLE_BELOW:
        return _by_table(bits, count, sigma)
    if sigma > _WIDEST:
        remedy = "give the values in a larger unit"
        raise InvalidParameter(
            f"discrete Gaussian noise of sigma {sigma}, which may exceed every double",
            where="sigma",
            remedy=remedy,
        )
    found: list[NDArray[Any]] = []
    missing = count
    while missing:
        kept = _proposals(bits, missing, sigma)
        found.append(kept)
        missing -= len(kept)
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _proposals(bits: Bits, count: int, sigma: float) -> NDArray[Any]:
    """Draw rounded normal numbers and keep each with probability a(k) in (0, 1]: at most [count].

    The rounded number is k with probability `cell`, the mean of the density over [k - 1/2, k + 1/2]. Divided
    by the density at k, the cell is the mean of exp(-k t/sigma^2 - t^2/(2 sigma^2)) over |t| <= 1/2. This is
    at least exp(-1/(24 sigma^2)) by Jensen's inequality, and at most sinh(c/2)/(c/2) <= exp(c^2/24) with
    c = k/sigma^2. So a(k) = exp(-1/(24 sigma^2)) density/cell is at most 1, and at least
    1 - (1 + k^2/sigma^2)/(24 sigma^2); the lower bound decides most draws.
    """
    k = floors(bits, NORMAL, Scale.of(sigma, 0), np.full(count, 0.5), lambda _: exact(0.5))
    words = bits.words(count)
    most = (1.0 + (k / sigma).astype(np.float64) ** 2) / (24.0 * sigma * sigma)
    # 1 - V exceeds (2^64 - 1 - word)/2^64; doubles have relative error at most 2^-50, unless they underflow.
    kept = (~words).astype(np.float64) * 2.0**-WORD >= np.maximum(most * (1.0 + 2.0**-40), 2.0**-60)
    for i in np.flatnonzero(~kept).tolist():
        kept[i] = Uniform(bits, int(words[i])).below(functools.partial(_acceptance, int(k[i]), sigma))
    return np.asarray(k[kept])


def _acceptance(k: int, sigma: float) -> Ball:
    """Return the acceptance probability a(k), in balls."""
    s, arb = exact(sigma), flint().arb
    # Subtracting two nearly equal numbers needs more precision.
    with flint().ctx.workprec(flint().ctx.prec + 2 * max(0, math.frexp(sigma)[1])):
        low, high = ((arb(2 * abs(k) + side) / (2 * s * arb(2).sqrt())).erfc() for side in (-1, 1))
        density = (-((arb(k) / s) ** 2) / 2).exp() / (s * (2 * arb.pi()).sqrt())
        return (-1 / (24 * s * s)).exp() * density / ((low - high) / 2)


def _by_table(bits: Bits, count: int, sigma: float) -> NDArray[np.int64]:
    """Draw by inversion: k is the largest integer with P(noise < k) <= U."""
    first, table = _table(sigma)
    words = bits.words(count)
    place = np.searchsorted(table, words)  # the number of entries below the word
    k = place + (first - 1)
    undecided = (place == 0) | (place == len(table)) | (table[np.minimum(place, len(table) - 1)] == words)
    for i in np.flatnonzero(undecided).tolist():
        uniform, at = Uniform(bits, int(words[i])), int(k[i])
        while uniform.below(functools.partial(_below, at, sigma)):
            at -= 1
        while not uniform.below(functools.partial(_below, at + 1, sigma)):
            at += 1
        k[i] = at
    return k


@functools.lru_cache(maxsize=64)
def _table(sigma: float) -> tuple[int, NDArray[np.uint64]]:
    """Return the first k of a table, and the first 64 bits of P(noise < k) for successive k."""
    reach = math.ceil(_REACH * sigma) + 1
    entries = [_first_bits(functools.partial(_below, k, sigma)) for k in range(-reach, reach + 2)]
    return -reach, np.array(entries, dtype=np.uint64)


def _first_bits(probability: Callable[[], Ball]) -> int:
    """Return floor(p 2^64) for a probability p with 0 < p < 1."""
    digits = 4 * WORD
    while True:
        with flint().ctx.workprec(digits):
            p = probability()
            found = floor(p * flint().arb(2) ** WORD)
            if found is not None:
                return found
            if p < 2.0**-100 or 1 - p < 2.0**-100:  # the enclosure may always contain 0 or 1
                return 0 if p < 0.5 else 2**WORD - 1
        digits *= 2


def _below(k: int, sigma: float) -> Ball:
    """Return the probability of noise below k, in balls."""
    s = exact(sigma)
    total = 1 + 2 * _tail(1, s)
    return _tail(1 - k, s) / total if k <= 0 else 1 - _tail(k, s) / total


def _tail(first: int, sigma: Ball) -> Ball:
    """Return the sum of exp(-k^2/(2 sigma^2)) over k >= `first`; `first` is at least 1."""
    arb, k = flint().arb, first
    total, half = arb(0), -1 / (2 * sigma * sigma)
    leading = (half * k * k).exp()
    while True:
        term = (half * k * k).exp()
        # Each later term is at most this ratio times its predecessor.
        ratio = (half * (2 * k + 1)).exp()
        rest = term / (1 - ratio)
        if not rest > leading * arb(2) ** -flint().ctx.prec:
            return total + arb(0).union(rest)
        total, k = total + term, k + 1
