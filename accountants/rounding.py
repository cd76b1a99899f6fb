"""Rounding upwards, exactly: a sum of costs that is never below the true one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction


def up(exact: Fraction) -> float:
    """The smallest double that is not below a rational number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def sqrt_up(exact: Fraction) -> float:
    """The smallest double, or the one after it, that is not below the square root of a rational."""
    root = math.sqrt(up(exact))
    while math.isfinite(root) and Fraction(root) ** 2 < exact:
        root = math.nextafter(root, math.inf)
    return root


def sum_up(terms: Iterable[float]) -> float:
    """The sum of doubles, rounded upwards.

    `math.fsum` gives the double nearest to the exact sum; adding its negative tells on which side
    of it the exact sum lies (Shewchuk 1997).
    """
    values = list(terms)
    try:
        nearest = math.fsum(values)
    except OverflowError:
        return math.inf
    if math.isinf(nearest):
        return nearest
    return math.nextafter(nearest, math.inf) if math.fsum([*values, -nearest]) > 0 else nearest
