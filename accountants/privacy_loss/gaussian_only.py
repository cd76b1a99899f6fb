"""Gaussian releases alone: their exact curve, from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon, gaussian_log_delta
from dpaudit.accountants.privacy_loss.contour.contour import Curve
from dpaudit.accountants.privacy_loss.contour.factors import UNIT
from dpaudit.accountants.privacy_loss.solve import Bracket, verified

_SPREAD = 64.0 * UNIT  # of mu, from the rounding of the sum of squares


@dataclass(frozen=True)
class GaussianCurve:
    """The composition of Gaussian releases whose mu^2 add up to mu^2."""

    mu: float

    def curve(self, epsilon: float) -> Curve:
        """The accountant's log delta is above the truth by at most 1e-13 + 2e-15 |log delta|."""
        if self.mu == 0.0:
            return Curve(-math.inf, -math.inf, -math.inf, 1.0)
        upper = gaussian_log_delta(epsilon, self.mu * (1.0 + _SPREAD))
        lower = gaussian_log_delta(epsilon, self.mu * (1.0 - _SPREAD))
        trusted = self.mu >= 1e-190 and epsilon <= 1e19 * self.mu
        lower -= (2e-13 + 4e-15 * abs(lower)) if trusted else math.inf
        # -d log delta / d epsilon is about (epsilon / mu - mu / 2) / mu, and at least 1 / mu up to a
        # constant.
        return Curve(lower, upper, upper, max(epsilon / self.mu - 0.5 * self.mu, 0.5) / self.mu)

    def log_delta(self, epsilon: float) -> Bracket:
        """Bounds on log delta at epsilon."""
        bounds = self.curve(epsilon)
        return Bracket(bounds.log_lower, bounds.log_upper)

    def epsilon(self, log_delta: float) -> Bracket:
        """Bounds on the least epsilon >= 0 with delta(epsilon) <= exp(log_delta)."""
        if self.mu == 0.0 or self.curve(0.0).log_upper <= log_delta:
            return Bracket(0.0, 0.0)
        guess = gaussian_epsilon(max(math.exp(log_delta), 5e-324), self.mu)
        bracket = verified(self, guess, log_delta)
        return bracket if math.isfinite(bracket.upper) else Bracket(0.0, 2.0 * guess + 1e3)
