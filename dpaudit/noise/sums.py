"""Sums of integers on a grid: exact, so that neither the order of the rows nor their number matters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.noise.grid import LOG2_MOST_STEPS, OnGrid

_LIMB = 20  # bits; two of them hold an entry of a row that a bound on a contribution allows
_ROWS = (
    2**11
)  # of a product of doubles: 2^11 squares of numbers up to 2^21 are integers up to 2^53, all exact
_BLOCK = 2**20  # rows whose products, up to 2^42 each, int64 can add


def total(rows: OnGrid) -> OnGrid:
    """The sum over the first axis of rows whose entries are below 2^42 steps: int64, or Python's integers."""
    m = rows.integers
    if len(m) * int(np.abs(m).max(initial=0)) < 2**LOG2_MOST_STEPS:
        return OnGrid(m.sum(axis=0), rows.exponent)
    parts = [m[first : first + _BLOCK].sum(axis=0) for first in range(0, len(m), _BLOCK)]
    return OnGrid(np.array(parts, dtype=object).sum(axis=0, initial=0), rows.exponent)


def gram(rows: OnGrid) -> OnGrid:
    """The sum of the outer products x x' of the rows [n, d], whose entries are below 2^40 steps: [d, d].

    With x = 2^20 a + b, it is 2^40 A + 2^20 (C - A - B) + B for the sums A of a a', B of b b' and C of
    (a + b)(a + b)'; each is a product of matrices of doubles that holds nothing but integers up to 2^53.
    """
    m = rows.integers
    high, low = m >> _LIMB, m & (2**_LIMB - 1)
    of_high, of_low, of_both = (_products(limbs) for limbs in (high, low, high + low))
    integers = (of_high << 2 * _LIMB) + ((of_both - of_high - of_low) << _LIMB) + of_low
    return OnGrid(integers, 2 * rows.exponent)


def _products(limbs: NDArray[np.int64]) -> NDArray[Any]:
    """The sum of the rows' outer products, of entries up to 2^21: Python's integers [d, d]."""
    size = limbs.shape[1]
    summed = np.zeros((size, size), dtype=object)
    for start in range(0, len(limbs), _BLOCK):
        part = np.zeros((size, size), dtype=np.int64)
        for first in range(start, min(start + _BLOCK, len(limbs)), _ROWS):
            x = limbs[first : min(first + _ROWS, start + _BLOCK)].astype(np.float64)
            part += (x.T @ x).astype(np.int64)
        summed = summed + part
    return summed
