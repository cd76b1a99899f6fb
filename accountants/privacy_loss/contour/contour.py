"""delta(epsilon) as a contour integral, between proved bounds.

For every real x let delta(x) = E_P[(1 - e^(x - L))_+], L the total loss. Its two-sided Laplace transform is

    integral of e^(s x) delta(x) dx = E_P[integral up to L of e^(s x) (1 - e^(x - L)) dx]
                                    = M(s) / (s (s + 1)),    Re s > 0,

so delta(epsilon) = 1/(2 pi i) * integral over Re s = c of F(s) ds, F(s) = M(s) e^(-s epsilon) / (s
(s + 1)), for any c > 0 (Zhu, Dong and Wang 2022, section 4, in another form). The trapezoid rule with step h
gives, by Poisson's summation formula (F is O(t^-2), and delta(x) e^(c x) is continuous and integrable),

    h/(2 pi) * sum over k of F(c + i k h) = sum over j of e^(c j W) delta(epsilon + j W),    W = 2 pi / h.

Every summand on the right is >= 0 and the one at j = 0 is delta(epsilon): the complete sum is an upper bound.
Its excess is bounded with delta(x) <= 1 and delta(x) <= e^(K(a) - a x) a^a / (1 + a)^(1 + a) for every a > 0
(Canonne, Kamath and Steinke 2020, Proposition 12): geometric series, for j < 0 with a < c, for j > 0 with a >
c. The tail that is cut off is bounded in `planning`. Every node's exponent carries a bound on its rounding
error.

Smoothing. If atoms keep M from falling, the releases are composed with one more, a Gaussian of variance v
(mu^2) much below the loss's own scale. That can only increase delta, so the upper bound remains valid. With p
the density of the smoothed loss under P, the increase is at most e^(v/8) v p(epsilon): the transform of the
increase over y = epsilon - L is (e^(v s (s + 1) / 2) - 1) / (s (s + 1)), that is the integral over 0 < w < v
of

    (1/2) n_w(y),    n_w(y) = e^(-(y - w/2)^2 / (2 w)) / sqrt(2 pi w)
                            = e^(y/2 - y^2/(2 w) - w/8) / sqrt(2 pi w),

and n_w(y) sqrt(w) <= e^(v/8) n_v(y) sqrt(v), with integral of w^(-1/2) over (0, v) = 2 v^(1/2). The density
is a trapezoid sum over the same nodes without 1 / (s (s + 1)), an upper bound for the same reason. This gives
bounds on both sides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour import planning
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Factor, GaussianFactor, Vector, safe_log
from dpaudit.accountants.privacy_loss.contour.planning import Anchors, LinePlan, Saddle, plan_line


class CurvePoint(NamedTuple):
    """Bounds on log delta at one epsilon, an estimate between them, and -d log delta / d epsilon."""

    log_lower: float
    log_estimate: float
    log_upper: float
    slope: float


@dataclass(frozen=True, eq=False)
class Contour:
    """One line Re s = c with its nodes: the values of M for delta near one epsilon."""

    c: float
    period: float  # W = 2 pi / h
    exponent: float  # K(c) - log c (c + 1)
    exponent_error: float
    t: Vector  # [nodes], from 0
    log_amplitude: Vector  # log |M(s) / M(c)| + log |c (c + 1) / (s (s + 1))|
    phase: Vector
    error: Vector
    cut_off: float  # the tail, relative to exp(exponent - c epsilon)
    anchors: Anchors
    ceiling: float  # the largest loss; infinite under smoothing
    smoothing: float  # the extra variance v
    density_cut_off: float
    exact: bool  # neither smoothed nor cut short

    def curve(self, epsilon: float) -> CurvePoint:
        """Return bounds on log delta(epsilon), epsilon >= 0; sharp near the epsilon of the line."""
        angle, amplitude = self.phase - self.t * epsilon, np.exp(self.log_amplitude)
        loss = self.error + 4.0 * UNIT * (self.t * epsilon + np.abs(self.phase) - self.log_amplitude + 4.0)
        # No characteristic function exceeds 1: the computed value and the weight together bound any error.
        weight = self.c * (self.c + 1.0) / (np.hypot(self.c, self.t) * np.hypot(self.c + 1.0, self.t))
        rounding = np.minimum(_grown(amplitude, self.log_amplitude, loss), amplitude + weight)
        summing = (math.log2(len(self.t)) + 16.0) * UNIT
        rounded = _trapezoid(rounding + summing * amplitude) / self.period
        estimate = _trapezoid(amplitude * np.cos(angle)) / self.period
        sine = float(self.t @ (amplitude * np.sin(angle)))
        slope = self.c - 2.0 * sine / max(self.period * estimate, 1e-300) if estimate > 0.0 else self.c
        scale = self.exponent - self.c * epsilon
        sizes = abs(self.exponent) + self.c * epsilon + abs(scale) + 1.0
        scale_error = self.exponent_error + 4.0 * UNIT * sizes
        upper = (estimate + rounded + self.cut_off) * (1.0 + 8.0 * UNIT)
        lower = (estimate - rounded - self.cut_off - self._aliases(epsilon, scale)) * (1.0 - 8.0 * UNIT)
        if self.smoothing > 0.0:
            lower -= self._smoothing_excess(amplitude, angle, loss, summing)
        log_lower, log_upper = safe_log(lower), math.log(upper)
        least = scale - scale_error + log_lower - 4.0 * UNIT * abs(log_lower)
        most = min(0.0, scale + scale_error + log_upper + 4.0 * UNIT * abs(log_upper))
        return CurvePoint(least, scale + safe_log(estimate), most, slope)

    def _aliases(self, epsilon: float, scale: float) -> float:
        a, constant = self.anchors
        exponents = np.abs(a - self.c) * self.period * (1.0 - 1e-12)
        logs = constant - a * epsilon - exponents - np.log(-np.expm1(-exponents))
        logs += 16.0 * UNIT * (np.abs(constant) + a * epsilon + exponents)
        right = a > self.c
        above, below = (math.exp(min(float(logs[side].min()) - scale, 700.0)) for side in (right, ~right))
        reached = epsilon + 0.999999 * self.period >= self.ceiling
        return ((0.0 if reached else above) + below) * (1.0 + 1e-6)

    def _smoothing_excess(self, amplitude: Vector, angle: Vector, loss: Vector, summing: float) -> float:
        s = self.c + 1j * self.t
        unweighted = amplitude * np.exp(1j * angle) * (s * (s + 1.0))
        size = np.abs(unweighted)
        with np.errstate(divide="ignore"):
            grown = _grown(size, np.log(size), loss + 16.0 * UNIT)
        rounding = np.minimum(grown, size + self.c * (self.c + 1.0))
        density = _trapezoid(unweighted.real + rounding + summing * size) / self.period
        density += self.c * (self.c + 1.0) * self.density_cut_off
        if density <= 0.0 or self.smoothing > 4000.0:  # with so much smoothing there is no lower bound
            return 0.0 if density <= 0.0 else math.inf
        return density * self.smoothing * math.exp(self.smoothing / 8.0) * (1.0 + 1e-9)


def lay(
    factors: Sequence[Factor], point: Saddle, epsilon: float, ceiling: float, most: int, sharper: float = 0.0
) -> Contour:
    """Choose a line at or left of the saddle near `epsilon`, below the bound `ceiling` on the loss.

    Smooth if the sum would take more than `most` elementary formulas. `sharper` is the distance of log delta
    below the saddle-point approximation, where that is known to fail.
    """
    width = point.sigma * math.sqrt(2.0 * math.pi)
    log_delta = planning.log_scale(factors, point.c, epsilon) - math.log(width) - sharper
    plan = plan_line(factors, point.c, epsilon, ceiling, log_delta)
    # A rare large loss may widen the peak; slightly to the left it has no weight.
    for share in (0.8, 0.6, 0.4):
        if plan.nodes > 8192:
            other = plan_line(factors, share * point.c, epsilon, ceiling, log_delta)
            plan = min(plan, other, key=lambda one: one.nodes)
    c, most_nodes = plan.c, 1 << 16
    while most_nodes > 256:
        end = min(plan.nodes, most_nodes) * 2.0 * math.pi / plan.period
        if most_nodes * sum(factor.cost(c, end) for factor in factors) <= most:
            break
        most_nodes //= 2
    if plan.nodes <= most_nodes:
        return _evaluate(factors, plan, ceiling, 0.0, exact=True)
    # With smoothing, the sum ends where v t^2 / 2 is about 14.
    period = plan_line(factors, c, epsilon, math.inf, log_delta).period
    variance = (5.3 * period / (2.0 * math.pi * most_nodes)) ** 2
    end = most_nodes * 2.0 * math.pi / plan.period
    if float(np.interp(end, plan.start, plan.weighted)) * width < variance:
        return _evaluate(factors, plan._replace(nodes=most_nodes), ceiling, 0.0, exact=False)
    smoothed = [*factors, GaussianFactor(variance)]
    plan = plan_line(smoothed, c, epsilon, math.inf, log_delta)
    plan = plan._replace(nodes=min(plan.nodes, 2 * most_nodes))
    return _evaluate(smoothed, plan, math.inf, variance, exact=False)


def _evaluate(
    factors: Sequence[Factor], plan: LinePlan, ceiling: float, smoothing: float, *, exact: bool
) -> Contour:
    c = plan.c
    # A step of 20 bits makes the nodes k h exact.
    mantissa, power = math.frexp(2.0 * math.pi / plan.period)
    step = math.ldexp(math.floor(mantissa * 2**20), power - 20)
    t: Vector = step * np.arange(plan.nodes + 1, dtype=np.float64)
    log_modulus, phase, error = np.zeros((3, len(t)))
    for factor in factors:
        along = factor.along(c, t)
        log_modulus, phase = log_modulus + along.log_modulus, phase + along.phase
        error = error + along.error + 4.0 * UNIT * (np.abs(phase) - log_modulus)
    weight = -0.5 * (np.log1p((t / c) ** 2) + np.log1p((t / (c + 1.0)) ** 2))
    cumulant, last = planning.total_cumulant(factors, c), float(t[-1])
    index = int(np.searchsorted(plan.start, last, side="right")) - 1
    cut_off = float(plan.weighted[index]) if index >= 0 else 1.0 / (math.pi * last)
    density_cut_off = 0.0
    if smoothing > 0.0:  # the integral beyond T of e^(-v t^2 / 2) is at most e^(-v T^2 / 2) / (v T)
        damping = math.exp(-0.5 * smoothing * last * last * (1.0 - 1e-12))
        density_cut_off = damping / (smoothing * last * math.pi) * (1.0 + 1e-9)
    return Contour(
        c=c,
        period=2.0 * math.pi / step,
        exponent=cumulant.value - math.log(c) - math.log1p(c),
        exponent_error=cumulant.error + 4.0 * UNIT * (abs(math.log(c)) + math.log1p(c)),
        t=t,
        log_amplitude=np.maximum(log_modulus, -800.0) + weight,
        phase=phase - np.arctan2(t, c) - np.arctan2(t, c + 1.0),
        error=error + 16.0 * UNIT * (1.0 - weight),
        cut_off=c * (c + 1.0) * cut_off,
        anchors=plan.anchors,
        ceiling=ceiling,
        smoothing=smoothing,
        density_cut_off=density_cut_off,
        exact=exact,
    )


def _grown(size: Vector, log_size: Vector, loss: Vector) -> Vector:
    """Return size * (e^loss - 1) without overflow."""
    large = np.exp(np.minimum(log_size + loss, 700.0))
    return np.where(loss < 1.0, size * np.expm1(np.minimum(loss, 1.0)), large)


def _trapezoid(values: Vector) -> float:
    """Return the sum over all nodes of an even function, given at t >= 0."""
    return 2.0 * float(values.sum()) - float(values[0])
