"""The public grid of outputs, and exact values as integers on a grid.

A grid is the set of multiples of 2^e. Its exponent depends on public numbers only: on a noise scale, or on
the bound on one unit's contribution.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter

Array: TypeAlias = NDArray[np.float64]

#: The exponent of the finest grid; doubles on it keep all their digits.
FINEST: Final = -1000
#: Log2 of the least number of grid steps in a noise scale, and in a contribution bound.
STEPS_IN_SCALE: Final = 32
STEPS_IN_BOUND: Final = 39
#: Values stay below 2^62 steps of the noise's grid, so noisy values stay below 2^63.
LOG2_MOST_STEPS: Final = 62


def grid(scale: float, where: str = "grid") -> int:
    """Return the exponent e for noise of this scale: the scale lies in [2^(e+32), 2^(e+33)).

    Raises:
        InvalidParameter: the grid would be finer than 2^-1000.
    """
    return _exponent(scale, STEPS_IN_SCALE, f"noise of scale {scale}", where)


def grid_of_bound(bound: float, noise: int, where: str = "grid", *, degree: int = 1) -> int:
    """Return the exponent e for contributions of norm at most `bound` to a sum with noise on 2^`noise`.

    The bound lies in [2^(e+39), 2^(e+40)), so the sum of 2^22 contributions stays below 2^62 steps. The grid
    is coarser only if products of `degree` of its points would lie more than 52 bits below the noise's grid:
    `split` keeps 52 bits.

    Raises:
        InvalidParameter: the grid would be finer than 2^-1000.
    """
    exponent = _exponent(bound, STEPS_IN_BOUND, f"a contribution bound of {bound}", where)
    return max(exponent, -((52 - noise) // degree))


def _exponent(size: float, steps: int, what: str, where: str) -> int:
    exponent = math.frexp(size)[1] - 1 - steps
    if exponent < FINEST:
        what = f"{what}, for a grid of 2^{exponent}, finer than 2^{FINEST}"
        why = "doubles on such a grid lose digits"
        raise InvalidParameter(what, where=where, why=why, remedy="give the values in a smaller unit")
    return exponent


@dataclass(frozen=True)
class OnGrid:
    """Exact values: `integers` times 2^`exponent`; int64, or Python integers if int64 is too small."""

    integers: NDArray[Any]
    exponent: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of integers."""
        return self.integers.shape

    def to_doubles(self) -> Array:
        """Return the nearest doubles, ties to even; infinite beyond the largest double."""
        if self.integers.dtype == np.int64 and -1022 <= self.exponent < 960:
            # The conversion rounds once; multiplying by a power of two is exact.
            return self.integers.astype(np.float64) * 2.0**self.exponent
        nearest = [nearest_double(int(m), self.exponent) for m in self.integers.ravel()]
        return np.array(nearest, dtype=np.float64).reshape(self.integers.shape)


def to_doubles(value: Array | OnGrid) -> Array:
    """Return the values as doubles; exact values are rounded to the nearest."""
    return value.to_doubles() if isinstance(value, OnGrid) else value


def nearest_double(m: int, exponent: int) -> float:
    """Return the double nearest to m 2^exponent, ties to even; infinite beyond the largest double."""
    try:
        return m / 2**-exponent if exponent < 0 else float(m << exponent)
    except OverflowError:
        return math.copysign(math.inf, m)


def digits_of(value: Array) -> OnGrid:
    """Return doubles as integers on the grid of their last digit."""
    mantissas, exponents = np.frexp(value)
    least = int(exponents.min(initial=1024)) - 53
    digits = [
        m << (x - 53 - least)
        for m, x in zip(
            (mantissas * 2.0**53).astype(np.int64).ravel().tolist(), exponents.ravel().tolist(), strict=True
        )
    ]
    integers = np.empty(len(digits), dtype=object)
    integers[:] = digits
    return OnGrid(integers.reshape(value.shape), least)


def split(value: Array | OnGrid, exponent: int, where: str = "split") -> tuple[NDArray[np.int64], Array]:
    """Write every entry as (whole + rest) 2^`exponent`, exactly: an integer and a double in [-1/2, 1/2].

    Args:
        value: finite doubles, or integers on a grid, of any shape.
        exponent: the exponent of the grid.
        where: the release, for errors.

    Returns:
        whole, below 2^62 in magnitude, and rest, both of the value's shape.

    Raises:
        InvalidParameter: an entry is 2^62 steps of the grid or more, or has digits so far below the grid that
            `rest` is not a double.
    """
    if isinstance(value, OnGrid):
        if value.integers.ndim == 0:  # arithmetic would return a bare Python integer
            whole, rest = split(OnGrid(value.integers.reshape(1), value.exponent), exponent, where)
            return whole.reshape(()), rest.reshape(())
        whole, rest, kept = _split_integers(value, exponent)
        if (np.abs(whole) >= 2**LOG2_MOST_STEPS).any():
            raise _too_large(exponent, where)
    else:
        require_in_reach(value, exponent, where)
        scaled = value * 2.0**-exponent
        kept = exponent <= 0 or fits_grid(value, exponent)
        # Exact: the rest is a multiple of the last place of `scaled` and at most 1/2.
        whole = np.rint(scaled)
        rest = scaled - whole
    if not kept:
        what = f"a value with digits far below its noise's grid of 2^{exponent}"
        remedy = "round the values first, to a public number of digits"
        raise InvalidParameter(what, where=where, why="it could not be added exactly", remedy=remedy)
    return whole.astype(np.int64), rest


def fits_grid(value: Array, exponent: int) -> bool:
    """Return whether dividing the doubles by 2^`exponent`, exponent > 0, is exact."""
    return bool((value * 2.0**-exponent * 2.0**exponent == value).all())


def finite(values: Array) -> bool:
    """Return whether all numbers are finite."""
    alone = values.ndim == 0 and values.dtype == np.float64
    return math.isfinite(values) if alone else bool(np.isfinite(values).all())


def require_in_reach(value: Array, exponent: int, where: str) -> None:
    """Raise `InvalidParameter` if an entry is 2^62 steps of the grid or more, as `split` does."""
    most = LOG2_MOST_STEPS + exponent
    if most < 1024:
        largest = value if value.ndim == 0 else np.maximum.reduce(np.abs(value), axis=None, initial=0.0)
        if abs(float(largest)) >= 2.0**most:
            raise _too_large(exponent, where)


def _too_large(exponent: int, where: str) -> InvalidParameter:
    what = f"a value of 2^{LOG2_MOST_STEPS + exponent} or more under noise on the grid 2^{exponent}"
    why = "the noisy value has more digits than can be released"
    remedy = "clip the data, or add more noise: values must stay below about 2^30 times the noise's scale"
    return InvalidParameter(what, where=where, why=why, remedy=remedy)


def _split_integers(value: OnGrid, exponent: int) -> tuple[NDArray[Any], Array, bool]:
    """Return whole, rest, and whether every rest is a double."""
    m, finer = value.integers, exponent - value.exponent
    if finer <= 0:
        fits = int(np.abs(m).max(initial=0)) << -finer < 2**LOG2_MOST_STEPS
        return (m if fits else m.astype(object)) << -finer, np.zeros(m.shape), True
    if finer > 53:
        return np.zeros_like(m), np.zeros(m.shape), False
    whole = (m + (1 << (finer - 1))) >> finer
    return whole, np.ldexp((m - (whole << finer)).astype(np.float64), -finer), True
