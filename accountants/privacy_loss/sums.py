"""Sums and products of many parameters with counts, exact for few of them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.privacy_loss.contour.factors import Vector
from dpaudit.accountants.privacy_loss.solve import Bracket

_EXACT_COUNT = 256  # up to so many the sum or product is a fraction


def any_of(delta: Vector, counts: Vector) -> Bracket:
    """Bounds on 1 - product of (1 - delta)^count, exact to the last place for few releases."""
    real = (delta > 0.0) & (counts > 0.0)
    delta, counts = delta[real], counts[real]
    if not len(delta):
        return Bracket(0.0, 0.0)
    if np.any(delta == 1.0):
        return Bracket(1.0, 1.0)
    if counts.sum() <= _EXACT_COUNT:
        kept = math.prod(
            (1 - Fraction(d)) ** int(n) for d, n in zip(delta.tolist(), counts.tolist(), strict=True)
        )
        exact = up(1 - Fraction(kept))
        return Bracket(exact if Fraction(exact) == 1 - kept else math.nextafter(exact, 0.0), exact)
    total = -math.expm1(math.fsum((counts * np.log1p(-delta)).tolist()))
    return Bracket(total * (1.0 - 1e-14), min(1.0, total * (1.0 + 1e-14)))


def weighted_sum_up(values: Vector, counts: Vector) -> float:
    """The sum of values times whole counts, rounded up."""
    if len(values) <= _EXACT_COUNT:
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        return up(sum((Fraction(value) * int(count) for value, count in pairs), Fraction(0)))
    return float(np.sum(values * counts)) * (1.0 + 1e-14)
