"""Sums and products without error: the rounded result and what rounding took from it."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

#: A double, or an array of them: each operation below rounds each entry alike.
Doubles = TypeVar("Doubles", float, NDArray[np.float64])


def exact_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a + b exactly, as rounded sum and its error (Knuth 1969)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a * b as rounded product and its error, exact unless the error underflows (Dekker 1971)."""
    product = a * b
    scaled_a, scaled_b = 134217729.0 * a, 134217729.0 * b  # 2^27 + 1
    high_a, high_b = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
