"""Controlled rounding: rationals and sums rounded outwards, products with their rounding errors."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.models import down, up

__all__ = [
    "Doubles",
    "Vector",
    "down",
    "exact_product",
    "exact_sum",
    "sqrt_down",
    "sqrt_up",
    "sum_up",
    "up",
]

#: A one-dimensional array of doubles.
Vector: TypeAlias = NDArray[np.float64]

#: A double or an array of doubles: each operation below rounds each entry alike.
Doubles = TypeVar("Doubles", float, Vector)


def sqrt_up(exact: Fraction) -> float:
    """Return the smallest double not below the square root of a rational, or the next double."""
    root = math.sqrt(up(exact))
    while math.isfinite(root) and Fraction(root) ** 2 < exact:
        root = math.nextafter(root, math.inf)
    return root


def sqrt_down(exact: Fraction) -> float:
    """Return the largest double not above the square root of a rational, or the previous double."""
    root = math.sqrt(down(exact))
    while Fraction(root) ** 2 > exact:
        root = math.nextafter(root, 0.0)
    return root


def sum_up(terms: Iterable[float]) -> float:
    """Return the sum of doubles, rounded upwards.

    `math.fsum` returns the double nearest to the exact sum. Adding its negative shows on which side of it
    the exact sum lies (Shewchuk 1997).
    """
    values = list(terms)
    try:
        nearest = math.fsum(values)
    except OverflowError:
        return math.inf
    if math.isinf(nearest):
        return nearest
    values.append(-nearest)
    return math.nextafter(nearest, math.inf) if math.fsum(values) > 0 else nearest


def exact_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a + b exactly, as the rounded sum and its error (Knuth 1969)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a * b as the rounded product and its error, exact unless the error underflows (Dekker 1971)."""
    product = a * b
    scaled_a, scaled_b = 134217729.0 * a, 134217729.0 * b  # 2^27 + 1
    high_a, high_b = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
