"""Where to cross the real axis: the saddle point, and the first guess it gives.

These are choices, not bounds: any abscissa c > 0 is sound, the saddle only makes the sum short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Cumulant, Factor

_LOG_SMALLEST, _LOG_LARGEST = -80.0, 80.0


class Saddle(NamedTuple):
    """An abscissa c, the epsilon whose saddle it is, the width sigma of the peak, log delta, roughly."""

    c: float
    epsilon: float
    sigma: float
    log_delta: float


def total_cumulant(factors: Sequence[Factor], c: float) -> Cumulant:
    """The factors' cumulants added up."""
    parts = [factor.cumulant(c) for factor in factors]
    value = math.fsum(part.value for part in parts)
    error = math.fsum(part.error for part in parts) * (1.0 + 1e-12) + 2.0 * UNIT * abs(value)
    slope, curvature = math.fsum(part.slope for part in parts), math.fsum(part.curvature for part in parts)
    return Cumulant(value, slope, max(curvature, 0.0), error)


def saddle(factors: Sequence[Factor], c: float) -> Saddle:
    """The epsilon at which c minimises K(c) - c epsilon - log c (c + 1), with Laplace's approximation."""
    cumulant = total_cumulant(factors, c)
    epsilon = cumulant.slope - 1.0 / c - 1.0 / (c + 1.0)
    sigma = math.sqrt(cumulant.curvature + 1.0 / (c * c) + 1.0 / (c + 1.0) ** 2)
    exponent = cumulant.value - c * epsilon - math.log(c) - math.log1p(c)
    return Saddle(c, epsilon, sigma, exponent - math.log(sigma * math.sqrt(2.0 * math.pi)))


def saddle_for_epsilon(factors: Sequence[Factor], epsilon: float) -> Saddle:
    """The saddle at epsilon, which must lie below the largest loss; epsilon(c) increases with c."""
    return _bisect(factors, lambda point: point.epsilon < epsilon)


def saddle_for_delta(factors: Sequence[Factor], log_delta: float) -> Saddle:
    """The saddle where delta is about exp(log_delta); it falls as c grows."""
    return _bisect(factors, lambda point: point.log_delta > log_delta)


def _bisect(factors: Sequence[Factor], is_left: Callable[[Saddle], bool]) -> Saddle:
    # Brackets c first, on a logarithmic scale from c = 1 outwards, in steps that double.
    left, right, step = 0.0, 0.0, 1.0
    point = saddle(factors, 1.0)
    if is_left(point):
        while is_left(point) and right < _LOG_LARGEST:
            left, right, step = right, right + step, 2.0 * step
            point = saddle(factors, math.exp(right))
    else:
        while not is_left(point) and left > _LOG_SMALLEST:
            left, right, step = left - step, left, 2.0 * step
            point = saddle(factors, math.exp(left))
    while right - left > 0.004:
        middle = 0.5 * (left + right)
        point = saddle(factors, math.exp(middle))
        left, right = (middle, right) if is_left(point) else (left, middle)
    return saddle(factors, math.exp(0.5 * (left + right)))
