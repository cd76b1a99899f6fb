"""Rounding upwards, exactly: a sum of costs that is never below the true one."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction


def up(exact: Fraction) -> float:
    """The smallest double that is not below a rational number."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def down(exact: Fraction) -> float:
    """The largest double that is not above a rational number."""
    return 0.0 - up(-exact)  # for zero not -0.0


def sqrt_up(exact: Fraction) -> float:
    """The smallest double, or the one after it, that is not below the square root of a rational."""
    root = math.sqrt(up(exact))
    while math.isfinite(root) and Fraction(root) ** 2 < exact:
        root = math.nextafter(root, math.inf)
    return root


def sqrt_down(exact: Fraction) -> float:
    """The largest double, or the one before it, that is not above the square root of a rational."""
    root = math.sqrt(down(exact))
    while Fraction(root) ** 2 > exact:
        root = math.nextafter(root, 0.0)
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
