"""Poisson-sampled Laplace noise on the contour, in the notation of `sampled`.

With noise of scale 1 moved by e, u = -e for x < 0 (mass 1/2 under the law without the unit), u = e for x > e
(mass e^-e / 2), and u = 2 x - e with density e^-x / 2 between. So M(s) is two atoms and an integral over
[0, e] of r^p e^-x / 2.

Quadrature: Gauss and Legendre's rule with n points on panels of half-width w <= 1/2. On the Bernstein ellipse
with parameter R, |Im x| <= y = w (R - 1/R) / 2 and Re x stays within g = w ((R + 1/R) / 2 - 1) of the panel;
with y <= 0.7, there r(Re x) cos 2y <= |r| <= r(Re x), |arg r| <= 2 y, and r(Re x) and e^-Re x are within e^(2
(2 w + g)) and e^(2 w + g) of any value on the panel. The rule is off by at most 64/15 / (1 - R^-2) R^-(2n -
2) w times the largest modulus on the ellipse (Trefethen 2013, Theorem 19.3), and the panel's own integral is
at least 2 w times the least on it.

Decay: integrating by parts, the integral is below V / t with V the largest of e^(e - 3 x) r^(a + 1) / (4 q)
twice at both ends (its logarithm is convex if a + 1 >= 0 and falls otherwise); the atoms do not decay. For
smaller t, the tilted law's two atoms p, q' at distance D give |M(c + it) / M(c)|^2 <= 1 - 2 p q' (1 - cos t
D).
"""

import functools
import math

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import Vector, least_versine, log_rest
from dpaudit.accountants.privacy_loss.contour.sampled import MOST_POINTS, Rule, SampledFactor, log_mixture


class SampledLaplaceFactor(SampledFactor):
    """Laplace noise of scale 1, moved by `parameter`."""

    def cost(self, c: float, end: float) -> float:
        """Return a sixteenth of the quadrature's points: a matrix product is fast."""
        panels, points, _ = self._layout(c, end)
        return panels * points / 16.0 + 1.0

    def rule(self, c: float, end: float) -> Rule:
        """Return Gauss and Legendre's rule between the atoms."""
        panels, points, _ = self._layout(c, end)
        capped = points > 128 or panels * points > MOST_POINTS
        points = min(points, 128)
        panels = min(panels, MOST_POINTS // points)
        node, weight = legendre(points)
        e, w = self.parameter, 0.5 * self.parameter / panels
        x = (w * (2.0 * np.arange(panels) + 1.0)[:, None] + w * node[None, :]).ravel()
        log_base = np.log(np.tile(0.5 * w * weight, panels)) - x
        x = np.concatenate([[-1.0], x, [e + 1.0]])
        log_base = np.concatenate([[-math.log(2.0)], log_base, [-math.log(2.0) - e]])
        relative = 1.0 if capped else 8.0 * math.exp(-34.0) / self.count
        return self.weigh(c, x, log_mixture(np.clip(2.0 * x - e, -e, e), self.rate), log_base, relative)

    def log_decays(self, c: float, lower: Vector, upper: Vector) -> tuple[Vector, ...]:
        """Return the two bounds of the module's docstring on each interval."""
        rule, a, e = self.rule(c, 0.0), self.exponent(c), self.parameter
        log_ratio = log_mixture(np.array([-e, e]), self.rate)  # [2]
        least = rule.cumulant + rule.cumulant_error
        atoms = 0.5 * np.exp(np.array([0.0, -e]) + a * log_ratio - least) * (1.0 - 1e-9)  # [2]
        ends = np.array([e, -2.0 * e]) + (a + 1.0) * log_ratio - least
        variation = 2.0 * float(np.exp(np.minimum(ends, 690.0)).sum()) / (4.0 * self.rate)
        slack = 1.0 + 4.0 * rule.cumulant_error + 1e-8
        far = np.log(np.maximum(float(atoms.sum()) * slack + variation * slack / lower, 1e-300))
        distance = float(log_ratio[1] - log_ratio[0])
        versine = least_versine(distance * (1.0 - 1e-9) * lower, distance * (1.0 + 1e-9) * upper)
        return far, log_rest(2.0 * atoms[0] * atoms[1] * versine)

    def _layout(self, c: float, end: float) -> tuple[int, int, float]:
        return layout(self.parameter, self.exponent(c), end, 36.0 + math.log(self.count))


def layout(epsilon: float, exponent: float, end: float, level: float) -> tuple[int, int, float]:
    """Return the number of panels, the points on each, and R, for an error of e^-level at |t| <= end."""
    a = abs(exponent)
    panels = math.ceil(epsilon * max(1.0, 0.25 * min(a, 1e4), 0.125 * end))
    w = 0.5 * epsilon / panels
    y = min(0.7, 2.0 * w)
    stretch = y / w + math.hypot(y / w, 1.0)  # R
    g = w * (0.5 * (stretch + 1.0 / stretch) - 1.0)
    growth = min((2.0 * a + 1.0) * (2.0 * w + g) + 2.0 * y * end, 1e9)
    growth += min(exponent, 0.0) * math.log(math.cos(2.0 * y)) - math.log1p(-(stretch**-2))
    return panels, 2 + math.ceil(0.5 * (level + growth) / math.log(stretch)), stretch


@functools.cache
def legendre(points: int) -> tuple[Vector, Vector]:
    """Return nodes in [-1, 1], and their weights."""
    return np.polynomial.legendre.leggauss(points)
