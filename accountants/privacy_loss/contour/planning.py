"""Choose the line's crossing of the real axis, the density of its nodes, and its end.

The crossing is a choice, not a bound: any abscissa c > 0 is sound; the saddle point only makes the sum short.

The alias bounds are those of `contour`. The tail bound: a non-increasing step function bounds the integrand
beyond the node t_N = N h, so the sum over the further nodes is below the integral from t_N on.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Cumulant, Factor, Vector
from dpaudit.accountants.privacy_loss.contour.many_sampled import cumulants

CUT = 3e-12  # relative size at which aliases and the tail are cut
_LARGEST_LOG_C = 80.0
_RATIO, _STEPS = 1.1, 280  # 1.1^280 = 4e11


class Saddle(NamedTuple):
    """An abscissa, and the saddle-point approximation there."""

    c: float
    epsilon: float  # the epsilon whose saddle is c
    sigma: float  # the width of the peak
    log_delta: float


class Anchors(NamedTuple):
    """Chernoff's bound at other abscissae: log delta(x) <= constant - a x; both [anchors]."""

    a: Vector
    constant: Vector


class LinePlan(NamedTuple):
    """An abscissa, the period W = 2 pi / h, the number of nodes, the tail bound and the alias bounds."""

    c: float
    period: float
    nodes: int
    start: Vector  # [steps]
    weighted: Vector  # bounds on (1/pi) * integral over t > start of |M(c + it)| / (M(c) t^2); [steps]
    anchors: Anchors


def total_cumulant(factors: Sequence[Factor], c: float) -> Cumulant:
    """Return the sum of the factors' cumulants."""
    parts = [Cumulant(0.0, 0.0, 0.0, 0.0), *cumulants(factors, c)]
    value, slope, curvature, error = (math.fsum(each) for each in zip(*parts, strict=True))
    return Cumulant(value, slope, max(curvature, 0.0), error * (1.0 + 1e-12) + 2.0 * UNIT * abs(value))


def saddle(factors: Sequence[Factor], c: float) -> Saddle:
    """Return the epsilon at which c minimises K(c) - c epsilon - log c (c + 1); Laplace's approximation."""
    cumulant = total_cumulant(factors, c)
    epsilon, sigma = cumulant.slope - 1.0 / c - 1.0 / (c + 1.0), _width(cumulant, c)
    exponent = cumulant.value - c * epsilon - math.log(c) - math.log1p(c)
    return Saddle(c, epsilon, sigma, exponent - math.log(sigma * math.sqrt(2.0 * math.pi)))


def saddle_for_epsilon(factors: Sequence[Factor], epsilon: float) -> Saddle:
    """Return the saddle at epsilon, which must lie below the largest loss; epsilon(c) increases with c."""
    return _bisect(factors, lambda point: point.epsilon < epsilon)


def saddle_for_delta(factors: Sequence[Factor], log_delta: float) -> Saddle:
    """Return the saddle where delta is about exp(log_delta); delta falls as c grows."""
    return _bisect(factors, lambda point: point.log_delta > log_delta)


def plan_line(
    factors: Sequence[Factor], c: float, epsilon: float, ceiling: float, log_delta: float
) -> LinePlan:
    """Return the number of nodes and the period W that cut aliases and the tail at `CUT` of delta."""
    sigma, scale = _width(total_cumulant(factors, c), c), log_scale(factors, c, epsilon)
    # The tail is bounded from every point of a geometric ladder on.
    start: Vector = np.asarray(0.5 / sigma * _RATIO ** np.arange(_STEPS), dtype=np.float64)
    end, logs = np.append(start[1:], np.inf), np.zeros(_STEPS)
    for factor in factors:
        logs = logs + factor.decay(c, start, end)
    # The maximum over this and all later intervals never increases along the ladder.
    modulus = np.exp(np.maximum.accumulate(np.minimum(logs, 0.0)[::-1])[::-1]) * (1.0 + 1e-9)
    weighted = np.cumsum((modulus * (1.0 / start - 1.0 / end))[::-1])[::-1] / np.pi * (1.0 + 1e-9)
    # Chernoff bounds left and right of c bound the aliases, except for points too close to c.
    a = [c * share for share in (0.02, 0.1, 0.25, 0.45, 0.65, 0.8, 1.1, 1.3, 1.6, 2.0, 5.0)]
    a = [other for other in a + [c + width / sigma for width in (2.0, 4.0, 7.0)] if abs(other - c) > 1e-6 * c]
    anchors = Anchors(np.array([0.0, *a]), np.array([0.0, *(chernoff(factors, other) for other in a)]))
    log_cut = min(log_delta - scale, -math.log(sigma)) + math.log(CUT)
    needed = (anchors.constant - anchors.a * epsilon - scale - log_cut) / np.abs(anchors.a - c)
    right = anchors.a > c
    above = min(float(needed[right].min()), (ceiling - epsilon) * 1.00001)
    period = max(above, float(needed[~right].min()), 1.0 / c)
    enough = start[weighted * (c * (c + 1.0)) <= math.exp(log_cut)]
    nodes = 1.00001 * min(enough, default=math.inf) * period / (2.0 * math.pi)  # the step will be rounded
    return LinePlan(c, period, int(min(nodes, 1e15)) + 2, start, weighted, anchors)


def log_scale(factors: Sequence[Factor], c: float, epsilon: float) -> float:
    """Return log of the magnitude at the crossing: K(c) - c epsilon - log c (c + 1)."""
    return total_cumulant(factors, c).value - c * epsilon - math.log(c) - math.log1p(c)


def chernoff_constant(cumulant: float, a: float) -> float:
    """Return B of log delta(x) <= B - a x: K(a) + a log a - (1 + a) log(1 + a), rounded up."""
    terms = (cumulant, -a * math.log1p(1.0 / a), -math.log1p(a))
    return sum(terms) + 16.0 * UNIT * sum(abs(term) for term in terms)


def chernoff(factors: Sequence[Factor], a: float) -> float:
    """Return the B of `chernoff_constant` for a composition."""
    cumulant = total_cumulant(factors, a)
    return chernoff_constant(cumulant.value + cumulant.error, a)


def _width(cumulant: Cumulant, c: float) -> float:
    return math.sqrt(cumulant.curvature + 1.0 / (c * c) + 1.0 / (c + 1.0) ** 2)


def _bisect(factors: Sequence[Factor], is_left: Callable[[Saddle], bool]) -> Saddle:
    # First bracket log c, from 0 outwards, in doubling steps.
    near, far, step, rising = 0.0, 0.0, 1.0, is_left(saddle(factors, 1.0))
    while abs(far) < _LARGEST_LOG_C:
        near, far, step = far, far + (step if rising else -step), 2.0 * step
        if is_left(saddle(factors, math.exp(far))) != rising:
            break
    left, right = sorted((near, far))
    while right - left > 0.004:
        middle = 0.5 * (left + right)
        left, right = (middle, right) if is_left(saddle(factors, math.exp(middle))) else (left, middle)
    return saddle(factors, math.exp(0.5 * (left + right)))
