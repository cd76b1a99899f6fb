"""Poisson-sampled Gaussian noise on the contour, with replaced units; notation as in `sampled_gaussian`.

P is (1 - q) N(0, 1) + q N(mu, 1) and Q is (1 - q) N(0, 1) + q N(-mu, 1); either is the other's mirror image.
With r the ratio of P to N(0, 1), the loss l(x) = log r(x) / r(-x) is odd and increases, and

    M(s) = integral of phi r(x)^(s + 1) r(-x)^-s,    Re s = c > 0.

Quadrature: the trapezoid rule; on the strip |y| <= d the integrand is at most e^(d^2 / 2 + 2 t mu d) (cos mu
d)^-c times its value on the axis, as in `sampled_gaussian` for either ratio. The range is cut where the rest
is below e^-46 / count of M(c). On the left r(x) <= r(-x), so the integrand is below phi. On the right it is
below phi e^((c + 1) u) (1 - q)^-c, and M(c) is at least 1 and q^(c + 1) e^(c (c + 1) mu^2 / 2) / 2.

Decay: `_near`, with r(x)^(c + 1) r(-x)^-c increasing; and, by parts, |M(c + it)| <= V / t with V the total
variation of phi r(x)^(c + 1) r(-x)^-c / l'. With the posterior weights w, w' of r(x) and r(-x), l' = mu (w +
w') is at least mu q e^(-mu^2 / 2) and |l'' / l'| at most mu: V / M(c) is at most the tilted law's mean of
|x| + 2 (c + 1) mu over that least l'.
"""

import math

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import Vector
from dpaudit.accountants.privacy_loss.contour.sampled import Rule, log_mixture
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor


def replaced_loss(x: Vector, mu: float, rate: float) -> Vector:
    """Return the loss at x: r(x) - r(-x) = q e^(mu x - mu^2 / 2) (1 - e^(-2 mu x)), without cancellation."""
    size = mu * np.abs(x)
    behind = log_mixture(-size - 0.5 * mu * mu, rate)
    with np.errstate(divide="ignore"):
        gained = math.log(rate) + size - 0.5 * mu * mu + np.log(-np.expm1(-2.0 * size)) - behind
    return np.copysign(np.logaddexp(0.0, gained), x)


def replaced_point(loss: Vector, mu: float, rate: float) -> Vector:
    """Return x at loss l: with w = e^(mu x), A = e^(-mu^2 / 2), q A w^2 - (1 - q) (e^l - 1) w = e^l q A."""
    size = np.abs(loss)
    half = 0.5 * (1.0 - rate) * -np.expm1(-size)
    moved = rate * np.exp(-0.5 * (size + mu * mu))
    with np.errstate(divide="ignore"):
        x = (size + np.log((half + np.hypot(half, moved)) / rate) + 0.5 * mu * mu) / mu
    return np.copysign(np.where(size > 0.0, x, 0.0), loss)


class ReplacedGaussianFactor(SampledGaussianFactor):
    """Gaussian noise that a sampled unit moves by `parameter` = mu, either way; both orders are equal."""

    def exponent(self, c: float) -> float:
        """Return the exponent of the whole ratio, under P."""
        return c

    @property
    def paired(self) -> int:
        """Enough cells to bound the decay until the total variation does; no shifted line is used here."""
        return 64

    def rule(self, c: float, end: float) -> Rule:
        """Return the trapezoid rule; the losses' own rounding exceeds that of a single mixture."""
        rule = super().rule(c, end)
        error, mean_error = 16.0 * rule.cumulant_error, 16.0 * rule.mean_error
        return rule._replace(cumulant_error=error, mean_error=mean_error)

    def log_decays(self, c: float, lower: Vector, upper: Vector) -> tuple[Vector, ...]:
        """Return the two bounds on each interval."""
        rule, mu = self.rule(c, 0.0), self.parameter
        near = self._near(c, rule, rule.cumulant + rule.cumulant_error, lower, upper)
        varies = float(rule.weight @ np.abs(rule.point)) + 2.0 * (c + 1.0) * mu
        return near, math.log(varies / (mu * self.rate)) + 0.5 * mu * mu + 1e-6 - np.log(lower)

    def _log_ratio(self, x: Vector) -> Vector:
        return replaced_loss(x, self.parameter, self.rate)

    def _log_base(self, x: Vector) -> Vector:
        return super()._log_base(x) + log_mixture(self._loss(x), self.rate)

    def _least(self, a: float, edge: Vector) -> Vector:
        least: Vector = log_mixture(self._loss(edge[:-1]), self.rate) + a * self._log_ratio(edge[:-1])
        return least

    def span(self, c: float, end: float) -> tuple[float, float, float]:
        """Return the ends and the step as for one mixture."""
        mu, level = self.parameter, 46.0 + math.log(self.count)
        likely = min(0.5 * c * (c + 1.0) * mu * mu, math.log(2.0) - (c + 1.0) * math.log(self.rate))
        high = (c + 1.0) * mu + math.sqrt(2.0 * (level + likely - c * math.log1p(-self.rate)))
        return -math.sqrt(2.0 * level), high, self._step(c, 2.0 * end, cosine=True)
