"""Continuous noise, rounded exactly to integers on a public grid.

For a value v, noise of scale s, a real random number Z and a public grid g = 2^e, this module computes
m = floor((v + s Z)/g + 1/2) exactly. It is a function of v + s Z, so every guarantee of the real-valued
mechanism holds for m: rounding is post-processing.

A word of 64 fair bits gives the sign of Z and the first 63 bits of a uniform u in (0, 1/2); |Z| is minus the
quantile at u. Doubles enclose v/g + (s/g) Z. If both ends of the enclosure have the same floor, that is m;
otherwise, about once in 16,000 draws, more bits and ball arithmetic decide.

Assumption on the libraries: the relative error of scipy's `ndtri` and numpy's `log` is at most 2^-47 on
(0, 1/2). The measured errors are 2^-50 for `ndtri` and 2^-52 for `log`; tests/noise compares both with ball
arithmetic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpaudit.noise.bits import Bits
from dpaudit.noise.grid import (
    Array,
    OnGrid,
    digits_of,
    fits_grid,
    grid,
    nearest_double,
    require_in_reach,
    split,
)
from dpaudit.noise.reals import WORD, Ball, Uniform, exact, flint, floor

#: The assumed relative error of a quantile, plus the rounding of the products and sums computed from it.
MARGIN = 2.0**-47 + 2.0**-50
#: The error of offsets near 1/2, in steps of the grid.
OFFSET_MARGIN = 2.0**-46
#: For more grid steps per scale, doubles would decide almost no draw.
_MOST_STEPS = 2.0**50
_DIGITS_IN_REST = 52  # bits below the grid that `split` keeps
_CHUNK = 1 << 14  # numbers per chunk, which fits into the processor's cache
_FEW = 4  # up to this many numbers, a loop is faster than array operations
_LOW_BITS = 2**63 - 1
_LOW = np.uint64(_LOW_BITS)


@dataclass(frozen=True)
class Law:
    """A symmetric distribution, given by its (negative) quantiles at u in (0, 1/2).

    Attributes:
        quantile: the quantile function for doubles of any shape.
        ball: the quantile function in ball arithmetic.
        steepness: a bound on the change of the quantile when log(u) changes by 1.
    """

    quantile: Callable[[Any], Any]
    ball: Callable[[Ball], Ball]
    steepness: float


#: Its steepness is Mills' ratio u/phi(z), which is at most sqrt(pi/2) = 1.2533 for u <= 1/2.
NORMAL = Law(
    lambda u: np.asarray(scipy.special.ndtri(u)), lambda u: -flint().arb(2).sqrt() * (2 * u).erfcinv(), 1.254
)
LAPLACE = Law(lambda u: np.log(u + u), lambda u: (2 * u).log(), 1.0)


@dataclass(frozen=True)
class Scale:
    """A noise scale in steps of the grid: as a double with relative error at most 2^-52, and as a ball."""

    steps: float
    ball: Callable[[], Ball]

    @classmethod
    def of(cls, scale: float, exponent: int) -> Scale:
        """Return the scale of a double on the grid 2^exponent."""
        steps = math.ldexp(scale, -exponent)
        return cls(steps, lambda: exact(steps))

    def over_root_two(self) -> Scale:
        """Return this scale divided by the root of 2."""
        return Scale(self.steps * 0.5**0.5, lambda: self.ball() / flint().arb(2).sqrt())


def floors(
    bits: Bits,
    law: Law,
    scale: Scale,
    offset: Array,
    exactly: Callable[[int], Ball],
    *,
    mirrored: bool = False,
) -> NDArray[Any]:
    """Return floor(offset + scale Z), exactly, for independent Z: [n] integers.

    Args:
        bits: the source of bits.
        law: the distribution of Z.
        scale: the scale of the noise.
        offset: [n], in [-1, 2], with error at most `OFFSET_MARGIN`.
        exactly: returns the offset at an index as a ball.
        mirrored: return sign(Z) floor(offset + scale |Z|) instead, for offsets >= 0.
    """
    if len(offset) <= _FEW or scale.steps > _MOST_STEPS:
        one_by_one = []
        for i, (word, near) in enumerate(zip(bits.words(len(offset)).tolist(), offset.tolist(), strict=True)):
            known = _decided(law, scale, word, near, mirrored=mirrored)
            at_it = functools.partial(exactly, i)
            one_by_one.append(
                _settle(bits, law, scale, word, at_it, mirrored=mirrored) if known is None else known
            )
        return np.array(one_by_one, dtype=np.int64 if scale.steps <= _MOST_STEPS else object)
    result = np.empty(len(offset), dtype=np.int64)
    for start in range(0, len(offset), _CHUNK):
        near = offset[start : start + _CHUNK]
        words = bits.words(len(near))
        # For u near 0, 63 bits are too few, and `_settle` decides below.
        u = np.maximum((words & _LOW).view(np.int64) * 2.0**-WORD, 2.0**-WORD)
        away = law.quantile(u) * -scale.steps
        # u has error 2^-64 from the missing bits, and was rounded to 53 bits.
        error = law.steepness * scale.steps * (2.0**-WORD / u + 2.0**-52) + (MARGIN * away + OFFSET_MARGIN)
        # A word's first bit is the sign bit of the double with the same bits.
        at = near + (away if mirrored else np.copysign(away, words.view(np.float64)))
        lowest = np.floor(at - error)
        undecided = (lowest != np.floor(at + error)) | (u < 2.0**-44)
        part = result[start : start + _CHUNK]
        part[:] = lowest
        if mirrored:
            np.negative(part, out=part, where=words.view(np.int64) < 0)
        for i in undecided.nonzero()[0].tolist():
            at_it = functools.partial(exactly, start + i)
            part[i] = _settle(bits, law, scale, int(words[i]), at_it, mirrored=mirrored)
    return result


def cell(law: Law, scale: Scale, sign: int, offset: Callable[[], Ball]) -> Callable[[Ball], int | None]:
    """Return the decision u -> floor(offset + scale Z), for Z with this sign and |Z| = -quantile(u)."""

    def decision(u: Ball) -> int | None:
        return floor(offset() - sign * law.ball(u) * scale.ball())

    return decision


def _decided(law: Law, scale: Scale, word: int, near: float, *, mirrored: bool) -> int | None:
    """Return one entry of `floors` from its first word in doubles, or None if they do not decide."""
    u = max((word & _LOW_BITS) * 2.0**-WORD, 2.0**-WORD)
    if u < 2.0**-44 or scale.steps > _MOST_STEPS:
        return None
    negative, away = word >> (WORD - 1), float(law.quantile(u)) * -scale.steps
    error = law.steepness * scale.steps * (2.0**-WORD / u + 2.0**-52) + (MARGIN * away + OFFSET_MARGIN)
    at = near - away if negative and not mirrored else near + away
    lowest = math.floor(at - error)
    if lowest != math.floor(at + error):
        return None
    return -lowest if negative and mirrored else lowest


def _settle(
    bits: Bits, law: Law, scale: Scale, word: int, offset: Callable[[], Ball], *, mirrored: bool
) -> int:
    """Return one entry of `floors` from its first word, in ball arithmetic."""
    sign = -1 if word >> (WORD - 1) else 1
    # The word without its sign bit holds the first 64 bits of a number in [0, 1/2).
    uniform = Uniform(bits, word & _LOW_BITS)
    found = int(uniform.decide(cell(law, scale, 1 if mirrored else sign, offset)))
    return sign * found if mirrored else found


def gaussian(bits: Bits, value: Array | OnGrid, sigma: float, where: str) -> OnGrid:
    """Return the value plus Gaussian noise of standard deviation `sigma`, rounded to the grid of `sigma`.

    Raises:
        InvalidParameter: the grid would be finer than 2^-1000, or the value is too large for it.
    """
    return _rounded(bits, NORMAL, value, sigma, where)


def laplace(bits: Bits, value: Array | OnGrid, scale: float, where: str) -> OnGrid:
    """Return the value plus Laplace noise of scale `scale`, rounded as in `gaussian`."""
    return _rounded(bits, LAPLACE, value, scale, where)


def symmetric(bits: Bits, value: Array | OnGrid, sigma: float, where: str) -> OnGrid:
    """Return symmetric matrices [..., d, d] plus symmetric noise, rounded as in `gaussian`.

    The noise has variance sigma^2 on the diagonal and sigma^2/2 off it; both are rounded to the grid of
    `sigma`.
    """
    at = Position.of(value, grid(sigma, where), where)
    rows, columns = np.triu_indices(at.whole.shape[-1])
    scale = Scale.of(sigma, at.exponent)
    places = np.arange(at.whole.size).reshape(at.whole.shape)
    noisy = at.whole.copy()
    for on, entry_scale in ((rows == columns, scale), (rows < columns, scale.over_root_two())):
        row, column = rows[on], columns[on]
        entries = places[..., row, column]
        moved = at.moved(bits, NORMAL, entry_scale, entries.ravel()).reshape(entries.shape)
        noisy[..., row, column] = at.whole[..., row, column] + moved
        noisy[..., column, row] = noisy[..., row, column]
    return OnGrid(noisy, at.exponent)


def _rounded(bits: Bits, law: Law, value: Array | OnGrid, scale: float, where: str) -> OnGrid:
    at = Position.of(value, grid(scale, where), where)
    moved = at.moved(bits, law, Scale.of(scale, at.exponent))
    return OnGrid(at.whole + moved.reshape(at.whole.shape), at.exponent)


@dataclass(frozen=True)
class Position:
    """Values as (whole + rest) 2^exponent, entry by entry.

    `rest` has error at most 2^-53; `digits`, if not None, holds the exact rest in steps of 2^-`below`.
    """

    whole: NDArray[np.int64]
    rest: Array
    exponent: int
    digits: NDArray[Any] | None = None
    below: int = 0

    @classmethod
    def of(cls, value: Array | OnGrid, exponent: int, where: str) -> Position:
        """Split values; raises `InvalidParameter` if one is too large for the grid."""
        if exponent > 0 and not isinstance(value, OnGrid):
            require_in_reach(value, exponent, where)
            # A number far below a coarse grid must not raise: the error would reveal it.
            value = value if fits_grid(value, exponent) else digits_of(value)
        below = 0 if not isinstance(value, OnGrid) else exponent - value.exponent
        if not isinstance(value, OnGrid) or below <= _DIGITS_IN_REST:
            return cls(*split(value, exponent, where), exponent)
        integers = value.integers.astype(object)
        # Arithmetic on an array without axes returns a bare integer.
        rounded = np.asarray((integers + (1 << (below - 1))) >> below, dtype=object)
        whole, _ = split(OnGrid(rounded, exponent), exponent, where)
        digits = np.asarray(integers - (rounded << below), dtype=object)
        rest = np.array([int(d) / (1 << below) for d in digits.ravel()]).reshape(digits.shape)
        return cls(whole.astype(np.int64), rest, exponent, digits, below)

    def moved(self, bits: Bits, law: Law, scale: Scale, entries: NDArray[np.int64] | None = None) -> Any:
        """Return floor(rest + noise + 1/2) for all entries, or for the given flat indices: [n]."""
        flat = self.rest.ravel() if entries is None else self.rest.ravel()[entries]

        def exactly(i: int) -> Ball:
            return self.offset(i if entries is None else int(entries[i]))

        return floors(bits, law, scale, 0.5 + flat, exactly)

    def offset(self, place: int) -> Ball:
        """Return rest + 1/2 at a flat index."""
        if self.digits is None:
            return exact(float(self.rest.ravel()[place])) + exact(0.5)
        return exact(Fraction(int(self.digits.ravel()[place]), 1 << self.below)) + exact(0.5)


def nearest_doubles(bits: Bits, value: Array, scale: float) -> Array:
    """Return the real numbers value + scale Z, Z normal, each rounded to the nearest double: any shape.

    Rounding to doubles is post-processing too, and needs no public grid; a private scale must not determine
    one.
    """
    noisy = []
    for entry in value.ravel().tolist():
        word = bits.take(2 * WORD)  # a sign and a number in [0, 1/2)
        signed = scale if word >> (2 * WORD - 1) else -scale

        def decision(u: Ball, v: float = entry, signed: float = signed) -> float | None:
            return _nearest(exact(v) + exact(signed) * NORMAL.ball(u))

        uniform = Uniform(bits, word & (2 ** (2 * WORD - 1) - 1), 2 * WORD)
        noisy.append(float(uniform.decide(decision)))
    return np.array(noisy, dtype=np.float64).reshape(value.shape)


def _nearest(number: Ball) -> float | None:
    """Return the nearest double, or None if the enclosure does not decide."""
    if not number.is_finite():
        return None
    low, high = (nearest_double(*map(int, end.man_exp())) for end in (number.lower(), number.upper()))
    return low if low == high else None
