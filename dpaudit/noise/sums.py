"""Sums of integers on a grid: exact, so that neither the order of the rows nor their number matters."""

import numpy as np
from numpy.typing import NDArray

from dpaudit.noise.grid import LOG2_MOST_STEPS, OnGrid

#: Bits of a limb, of which two hold an entry of a row within its bound.
_LIMB = 20
#: Rows of one product of doubles: as many squares of numbers up to 2^21 add up to at most 2^53, exactly.
_ROWS = 2**11
#: Rows whose products, up to 2^42 each, int64 can add.
_BLOCK = 2**20


def total(rows: OnGrid) -> OnGrid:
    """The sum over the first axis of rows whose entries are below 2^42 steps: int64, or Python's integers."""
    # An axis more: the sums of numbers would be np.int64, which stay such among objects, and overflow.
    m, shape = rows.integers[:, None], rows.shape[1:]
    if len(m) * int(np.abs(m).max(initial=0)) < 2**LOG2_MOST_STEPS:
        return OnGrid(m.sum(axis=0).reshape(shape), rows.exponent)
    parts = [m[first : first + _BLOCK].sum(axis=0) for first in range(0, len(m), _BLOCK)]
    return OnGrid(np.array(parts, dtype=object).sum(axis=0, initial=0).reshape(shape), rows.exponent)


def gram(rows: OnGrid) -> OnGrid:
    """The sum of the outer products x x' of the rows [n, d], whose entries are below 2^40 steps: [d, d].

    With x = 2^20 a + b, it is 2^40 A + 2^20 (C - A - B) + B for the sums A of a a', B of b b' and C of
    (a + b)(a + b)'; each is a product of matrices of doubles that holds nothing but integers up to 2^53.
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
    """The sum of the outer products of up to 2^20 rows, of entries up to 2^21: [d, d]."""
    summed = np.zeros((limbs.shape[1], limbs.shape[1]), dtype=np.int64)
    for first in range(0, len(limbs), _ROWS):
        x = limbs[first : first + _ROWS].astype(np.float64)
        summed += (x.T @ x).astype(np.int64)
    return summed
