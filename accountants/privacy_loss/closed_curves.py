"""Releases whose curve has a closed form: Gaussian noise, and one Poisson-sampled run.

One run at rate q whose noise alone has the curve delta1: with P = (1 - q) Q + q P1,

    delta(epsilon) = w delta1(log(1 + (e^epsilon - 1) / w)),    w = q;

with Q = (1 - q) P + q Q1 the same for w = q - (1 - q) (e^epsilon - 1) > 0, else 0. Either grows with w.
"""

import math
from dataclasses import dataclass

from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon, gaussian_log_delta
from dpaudit.accountants.privacy_loss.contour.contour import CurvePoint
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, safe_log
from dpaudit.accountants.privacy_loss.lattice.splitting import Part
from dpaudit.accountants.privacy_loss.solve import Bracket, curve_epsilon, verified

_SPREAD = 64.0 * UNIT  # of mu, from the rounding of the sum of squares


@dataclass(frozen=True)
class GaussianCurve:
    """The composition of Gaussian releases whose mu^2 add up to mu^2."""

    mu: float

    def curve(self, epsilon: float) -> CurvePoint:
        """The accountant's log delta is above the truth by at most 1e-13 + 2e-15 |log delta|."""
        if self.mu == 0.0:
            return CurvePoint(-math.inf, -math.inf, -math.inf, 1.0)
        upper = gaussian_log_delta(epsilon, self.mu * (1.0 + _SPREAD))
        lower = gaussian_log_delta(epsilon, self.mu * (1.0 - _SPREAD))
        trusted = self.mu >= 1e-190 and epsilon <= 1e19 * self.mu
        lower -= (2e-13 + 4e-15 * abs(lower)) if trusted else math.inf
        # -d log delta / d epsilon is about (epsilon / mu - mu / 2) / mu, and of order 1 / mu at least.
        return CurvePoint(lower, upper, upper, max(epsilon / self.mu - 0.5 * self.mu, 0.5) / self.mu)

    def epsilon(self, log_delta: float) -> Bracket:
        """Bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta)."""
        if self.mu == 0.0 or self.curve(0.0).log_upper <= log_delta:
            return Bracket(0.0, 0.0)
        guess = gaussian_epsilon(max(math.exp(log_delta), 5e-324), self.mu)
        bracket = verified(self, guess, log_delta)
        return bracket if math.isfinite(bracket.upper) else Bracket(0.0, 2.0 * guess + 1e3)


@dataclass(frozen=True)
class SampledRun:
    """One run of Gaussian or Laplace noise at a rate below 1, in one order of its pair."""

    part: Part
    mixture_first: bool
    ceiling: float

    def curve(self, epsilon: float) -> CurvePoint:
        """Bounds on log delta(epsilon), epsilon >= 0."""
        lower, estimate, upper = (self._log_delta(epsilon, sign) for sign in (-1.0, 0.0, 1.0))
        step = 1e-9 * epsilon
        rise = self._log_delta(epsilon - step, 0.0) - estimate if estimate > -math.inf else 0.0
        return CurvePoint(lower, estimate, min(0.0, upper), rise / step if step > 0.0 else 1.0)

    def epsilon(self, log_delta: float) -> Bracket:
        """Bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta)."""
        return curve_epsilon(self, log_delta, self.ceiling)

    def _log_delta(self, epsilon: float, sign: float) -> float:
        """An upper bound where the sign is 1, a lower one where it is -1, an estimate where it is 0."""
        weight, grown = self.part.rate, math.expm1(min(epsilon, 700.0))
        if not self.mixture_first:
            rest = (1.0 - weight) * grown
            weight += sign * (8.0 * UNIT * (weight + rest) + 1e-320) - rest
        if weight <= 0.0:
            return -math.inf
        if epsilon <= 700.0 and grown / weight < math.inf:
            alone = math.log1p(grown / weight)
        else:  # past every double, where 1 is negligible
            alone = (math.log(grown) if epsilon <= 700.0 else epsilon) - math.log(weight)
        alone *= 1.0 - sign * _SPREAD
        if self.part.family == "gaussian":
            bounds = GaussianCurve(self.part.parameter).curve(alone)
            log = bounds.log_lower if sign < 0.0 else bounds.log_upper
        else:  # delta1(x) = 1 - e^((x - e) / 2)
            gap = self.part.parameter * (1.0 + sign * 8.0 * UNIT) - alone
            log = safe_log(-math.expm1(-0.5 * max(gap, 0.0)))
        log += math.log(weight)
        return log + sign * 16.0 * UNIT * (1.0 + abs(log) + abs(math.log(weight))) if log > -math.inf else log
