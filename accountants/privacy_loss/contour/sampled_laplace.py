"""Poisson-subsampled Laplace noise on the contour, in one order of its pair.

With noise of scale 1 moved by e, the ratio of (1 - q) Lap(0) + q Lap(e) to Lap(0) is r = 1 - q + q e^l with
l = -e for
x < 0 (mass 1/2 under Lap(0)), l = e for x > e (mass e^-e / 2), and l = 2 x - e with density e^-x / 2
between. So M(s) is
two atoms and an integral over [0, e] of r^p e^-x / 2; p = s + 1 when the mixture is P, p = -s when it is Q.

Quadrature: Gauss and Legendre's rule with n points on panels of half-width w <= 1/2. On the Bernstein
ellipse with
parameter R, |Im x| <= y = w (R - 1/R) / 2 and Re x stays within g = w ((R + 1/R) / 2 - 1) of the panel; with
y <= 0.7,
there r(Re x) cos 2y <= |r| <= r(Re x), |arg r| <= 2 y, and r(Re x) and e^-Re x are within e^(2 (2 w + g)) and
e^(2 w + g) of any value on the panel. The rule is off by at most 64/15 / (1 - R^-2) R^-(2n - 2) w times the
largest
modulus on the ellipse (Trefethen 2013, Theorem 19.3), and the panel's own integral is at least 2 w times the
least on it.

Decay: integrating by parts, the integral is below V / t with V the largest of e^(e - 3 x) r^(a + 1) / (4 q)
twice at both ends
(its logarithm is convex where a + 1 >= 0 and falls otherwise), a = Re p; the atoms do not decay. Nearer, the
tilted law's
two atoms p, q' at distance D give |M(c + it) / M(c)|^2 <= 1 - 2 p q' (1 - cos t D).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import Along, Cumulant, Vector, least_versine
from dpaudit.accountants.privacy_loss.contour.sampled import Rule, transform, weigh

_MOST_POINTS = 1 << 16


@dataclass(frozen=True)
class SampledLaplaceFactor:
    """`count` runs at loss `epsilon`, sampled at `rate`; `mixture_first` if the sampled distribution is P."""

    epsilon: float
    rate: float
    count: float
    mixture_first: bool

    def cost(self, c: float, end: float) -> float:
        """A sixteenth of the quadrature's points: a matrix product is fast."""
        panels, points = self._size(c, end)
        return panels * points / 16.0 + 1.0

    def cumulant(self, c: float) -> Cumulant:
        """By quadrature."""
        rule = self._rule(c, 0.0)
        slope = float(rule.weight @ rule.loss)
        curvature = float(rule.weight @ (rule.loss - slope) ** 2)
        return Cumulant(
            self.count * rule.cumulant,
            self.count * slope,
            self.count * curvature,
            self.count * rule.cumulant_error,
        )

    def along(self, c: float, t: Vector) -> Along:
        """By quadrature fine enough for the last node; t = 0, h, 2 h, ..."""
        return transform(self._rule(c, float(t[-1])), t, self.count)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """The better of two bounds on each interval (module docstring)."""
        rule, a = self._rule(c, 0.0), self._exponent(c)
        log_ratio = self._log_ratio(np.array([-self.epsilon, self.epsilon]))  # [2]
        least = rule.cumulant + rule.cumulant_error
        atoms = 0.5 * np.exp(np.array([0.0, -self.epsilon]) + a * log_ratio - least) * (1.0 - 1e-9)  # [2]
        ends = np.array([self.epsilon, -2.0 * self.epsilon]) + (a + 1.0) * log_ratio - least
        variation = 2.0 * float(np.exp(np.minimum(ends, 690.0)).sum()) / (4.0 * self.rate)
        slack = 1.0 + 4.0 * rule.cumulant_error + 1e-8
        far = np.log(np.maximum(float(atoms.sum()) * slack + variation * slack / lower, 1e-300))
        distance = float(log_ratio[1] - log_ratio[0])
        versine = least_versine(distance * (1.0 - 1e-9) * lower, distance * (1.0 + 1e-9) * upper)
        near = 0.5 * np.log1p(-np.minimum(2.0 * atoms[0] * atoms[1] * versine, 1.0 - 1e-12))
        total: Vector = self.count * (1.0 - 1e-12) * np.minimum(0.0, np.minimum(far, near))
        return total

    def _exponent(self, c: float) -> float:
        return c + 1.0 if self.mixture_first else -c

    def _log_ratio(self, loss: Vector) -> Vector:
        small = np.log1p(self.rate * np.expm1(np.minimum(loss, 30.0)))
        large = (
            loss
            + math.log(self.rate)
            + np.log1p((1 - self.rate) / self.rate * np.exp(-np.maximum(loss, 30.0)))
        )
        ratio: Vector = np.where(loss <= 30.0, small, large)
        return ratio

    def _size(self, c: float, end: float) -> tuple[int, int]:
        """How many panels, and how many points on each."""
        a = abs(self._exponent(c))
        panels = math.ceil(self.epsilon * max(1.0, 0.25 * min(a, 1e4), 0.125 * end))
        w = 0.5 * self.epsilon / panels
        y = min(0.7, 2.0 * w)
        stretch = y / w + math.hypot(y / w, 1.0)  # R
        g = w * (0.5 * (stretch + 1.0 / stretch) - 1.0)
        growth = (2.0 * a + 1.0) * (2.0 * w + g) + 2.0 * y * end
        growth = min(growth, 1e9)
        growth += 0.0 if self.mixture_first else -a * math.log(math.cos(2.0 * y))
        level = 36.0 + math.log(self.count) + growth - math.log1p(-(stretch**-2))
        return panels, 2 + math.ceil(0.5 * level / math.log(stretch))

    def _rule(self, c: float, end: float) -> Rule:
        panels, points = self._size(c, end)
        capped = points > 128 or panels * points > _MOST_POINTS
        points = min(points, 128)
        panels = min(panels, _MOST_POINTS // points)
        node, weight = _legendre(points)
        w = 0.5 * self.epsilon / panels
        x = (w * (2.0 * np.arange(panels) + 1.0)[:, None] + w * node[None, :]).ravel()
        log_base = np.log(np.tile(0.5 * w * weight, panels)) - x
        x = np.concatenate([[-1.0], x, [self.epsilon + 1.0]])
        loss = np.clip(2.0 * x - self.epsilon, -self.epsilon, self.epsilon)
        log_base = np.concatenate([[-math.log(2.0)], log_base, [-math.log(2.0) - self.epsilon]])
        relative = 1.0 if capped else 8.0 * math.exp(-34.0) / self.count
        sign = 1.0 if self.mixture_first else -1.0
        return weigh(x, self._log_ratio(loss), log_base, self._exponent(c), sign, relative)


@functools.cache
def _legendre(points: int) -> tuple[Vector, Vector]:
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return np.asarray(nodes, dtype=np.float64), np.asarray(weights, dtype=np.float64)
