"""Exact sums of integers on a grid; they do not depend on the order or the grouping of the rows."""

import numpy as np
from numpy.typing import NDArray

from dpaudit.noise.grid import LOG2_MOST_STEPS, OnGrid

#: Bits of a limb; two limbs hold an entry of a clipped row.
_LIMB = 20
#: Rows per matrix product in doubles: this many squares of numbers up to 2^21 sum to at most 2^53, exactly.
_ROWS = 2**11
#: Rows per block: int64 can add this many products up to 2^42.
_BLOCK = 2**20


def total(rows: OnGrid) -> OnGrid:
    """Return the sum over the first axis, in int64 or Python integers; entries are below 2^42 steps."""
    # The extra axis keeps sums in arrays: np.int64 scalars would stay int64 in an object array and overflow.
    m, shape = rows.integers[:, None], rows.shape[1:]
    if len(m) * int(np.abs(m).max(initial=0)) < 2**LOG2_MOST_STEPS:
        return OnGrid(m.sum(axis=0).reshape(shape), rows.exponent)
    parts = [m[first : first + _BLOCK].sum(axis=0) for first in range(0, len(m), _BLOCK)]
    return OnGrid(np.array(parts, dtype=object).sum(axis=0, initial=0).reshape(shape), rows.exponent)


def gram(rows: OnGrid) -> OnGrid:
    """Return the sum [d, d] of the outer products x x' of the rows [n, d]; entries are below 2^40 steps.

    With x = 2^20 a + b, it is 2^40 A + 2^20 (C - A - B) + B for the sums A of a a', B of b b' and C of
    (a + b)(a + b)'. Each of these is a matrix product in doubles with integers up to 2^53 only.
    """
    size = rows.integers.shape[1]
    integers = np.zeros((size, size), dtype=object)
    for first in range(0, len(rows.integers), _BLOCK):
        m = rows.integers[first : first + _BLOCK]
        high, low = m >> _LIMB, m & (2**_LIMB - 1)
        of_high, of_low, of_both = (_products(limbs) for limbs in (high, low, high + low))
        mixed = of_both - of_high - of_low
        upper, lower = of_high + (mixed >> _LIMB), of_low + ((mixed & (2**_LIMB - 1)) << _LIMB)
        integers = integers + ((upper.astype(object) << 2 * _LIMB) + lower)
    return OnGrid(integers, 2 * rows.exponent)


def _products(limbs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum [d, d] of the outer products of up to 2^20 rows with entries up to 2^21."""
    summed = np.zeros((limbs.shape[1], limbs.shape[1]), dtype=np.int64)
    for first in range(0, len(limbs), _ROWS):
        x = limbs[first : first + _ROWS].astype(np.float64)
        summed += (x.T @ x).astype(np.int64)
    return summed
