"""Poisson-sampled Gaussian noise on the contour, in the notation of `sampled`.

u = mu x - mu^2 / 2 of a standard normal x with density phi, so that r(x) is the ratio of (1 - q) N(0, 1) + q
N(mu, 1) to N(0, 1) and M(s) = integral of phi r^p. Let w(x) = q e^u / r be the posterior weight.

Quadrature: the trapezoid rule over x. For z = x + i y with |y| <= d and mu d <= pi / 2, |r(z)| <= r(x), Re
r(z) >= r(x) cos(mu d) and |arg r(z)| <= mu d. So the integrand on that strip is at most e^(d^2 / 2 + t mu d)
(cos mu d)^(-c) times its value on the axis (the cosine only for p = -s), and the rule is off by at most 2 /
(e^(2 pi d / h) - 1) times the integral of that (Trefethen and Weideman 2014, Theorem 5.1). The range is cut
where the rest is below e^-46 / count: on the left phi times r(x)^a is below phi (1 - q)^min(a, 0), on the
right r <= e^(mu x - mu^2 / 2).

Decay of |M(c + it) / M(c)|, three bounds:

* `_near`: for two independent copies of the loss under the tilted law its square is 1 - E[1 - cos t (L -
  L')], bounded below cell by cell. Sharp while the modulus is near 1.
* `_shifted`: move the line of integration to x + i y, 0 < mu y < pi, on the side where |r^(it)| = e^(-t |arg
  r|) is small: |M(c + it)| <= e^(y^2/2) * integral of phi |r(x + iy)|^a e^(-t |arg r(x + iy)|), with |r(x +
  iy)|^2 = r^2 (1 - 2 (1 - cos mu y) w (1 - w)) and |arg r(x + iy)| increasing in x while mu y <= pi / 2.
  Decreases in t.
* `_log_variation`: integrating by parts, |M(c + it)| <= V / t, V the total variation of phi r^a / l' =
  e^(mu^2) / (mu q) phi(x + mu) r^(a + 1). The derivative of its logarithm, -(x + mu) + (a + 1) mu w(x) with w
  sigmoid, has at most three zeros, so V is at most four times its largest value.
"""

import math

import numpy as np

from dpaudit.accountants.closed_forms.gaussian import log_normal_tail
from dpaudit.accountants.privacy_loss.contour.factors import Vector, least_versine, log_rest
from dpaudit.accountants.privacy_loss.contour.sampled import MOST_POINTS, Rule, SampledFactor, log_mixture

_CELLS = 64
TRUNCATED = 8.0 * (math.exp(-34.0) + math.exp(-46.0))  # over the count: a rule's own error


class SampledGaussianFactor(SampledFactor):
    """Gaussian noise moved by `parameter` = mu standard deviations."""

    def cost(self, c: float, end: float) -> float:
        """Return a sixteenth of the quadrature's points: a matrix product is fast."""
        low, high, step = self.span(c, end)
        return (high - low) / step / 16.0 + 1.0

    def rule(self, c: float, end: float) -> Rule:
        """Return the nodes and weights of the trapezoid rule."""
        low, high, step = self.span(c, end)
        capped = (high - low) / step > MOST_POINTS
        step = max(step, (high - low) / MOST_POINTS)
        x: Vector = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64)
        log_base = self._log_base(x) + math.log(step / math.sqrt(2.0 * math.pi))
        relative = 1.0 if capped else TRUNCATED / self.count
        return self.weigh(c, x, self._log_ratio(x), log_base, relative)

    def log_decays(self, c: float, lower: Vector, upper: Vector) -> tuple[Vector, ...]:
        """Return the three bounds on each interval."""
        rule, a = self.rule(c, 0.0), self.exponent(c)
        highest, lowest = rule.cumulant + rule.cumulant_error, rule.cumulant - rule.cumulant_error
        far = self._log_variation(a) - lowest - np.log(lower)
        near = self._near(a, rule, highest, lower, upper)
        return (far, near) if self.light else (far, near, self._shifted(c, lowest, lower))

    @property
    def paired(self) -> int:
        """The number of cells whose pairs bound the decay."""
        return 8 if self.light else 20

    def _loss(self, x: Vector) -> Vector:
        return self.parameter * x - 0.5 * self.parameter * self.parameter

    def _log_ratio(self, x: Vector) -> Vector:
        return log_mixture(self._loss(x), self.rate)

    def _log_base(self, x: Vector) -> Vector:
        return -0.5 * x * x

    def _least(self, a: float, edge: Vector) -> Vector:
        """Return log of the least r^a on each cell: r increases, so it is at one end."""
        ratio = a * self._log_ratio(edge)
        return np.minimum(ratio[:-1], ratio[1:])

    def _posterior(self, x: Vector) -> Vector:
        """Return w(x) = q e^u / r(x), in [0, 1]."""
        return np.exp(np.minimum(math.log(self.rate) + self._loss(x) - self._log_ratio(x), 0.0))

    def span(self, c: float, end: float) -> tuple[float, float, float]:
        """Return the ends of the rule for t <= end, and its step."""
        a, mu, level = self.exponent(c), self.parameter, 46.0 + math.log(self.count)
        left = max(0.0, a * math.log1p(-self.rate))  # log of the bound on r^a there
        low = -math.sqrt(2.0 * (level + left))
        if a > 0.0:
            likely = min(0.5 * a * (a - 1.0) * mu * mu, -a * math.log(self.rate))
            high = a * mu + math.sqrt(2.0 * (level + likely))
        else:
            high = max(0.5 * mu, math.sqrt(2.0 * level))
        return low, high, self._step(c, end, cosine=a <= 0.0)

    def _step(self, c: float, end: float, *, cosine: bool) -> float:
        """Return the largest step for one of several strips; `cosine` if a ratio is in the denominator."""
        mu, step = self.parameter, 0.0
        widest = min(6.0, 0.499 * math.pi / mu)
        for d in (widest * share for share in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)):
            growth = 0.5 * d * d + end * mu * d - (c * math.log(math.cos(mu * d)) if cosine else 0.0)
            step = max(step, 2.0 * math.pi * d / (34.0 + math.log(self.count) + growth))
        return step

    def _near(self, a: float, rule: Rule, log_total: float, lower: Vector, upper: Vector) -> Vector:
        """Return log of the first bound over lower <= t <= upper, with log M(c) <= `log_total`."""
        mean = float(rule.weight @ rule.point)
        spread = math.sqrt(float(rule.weight @ (rule.point - mean) ** 2))
        paired = self.paired
        edge = mean + spread * np.linspace(-2.8, 2.8, paired + 1)  # [cells + 1]
        ratio = self._log_ratio(edge)
        least = self._least(a, edge) - log_total
        log_mass, _ = _log_normal_mass(edge[:-1], edge[1:])
        mass = np.exp(log_mass + least - 1e-8 - 1e-11 * (np.abs(least) + np.abs(log_mass)))
        first, second = np.triu_indices(paired, 1)  # [pairs]
        slack = 1e-12 * float(np.abs(ratio).max())
        shortest = np.maximum(ratio[second] - ratio[first + 1] - slack, 0.0)
        longest, weight = ratio[second + 1] - ratio[first] + slack, 2.0 * mass[first] * mass[second]
        gained = np.zeros(len(lower))
        for some in np.array_split(np.arange(len(lower)), min(10, len(lower))):
            left = np.flatnonzero((longest - shortest) * lower[some[0]] < 6.3)  # the others span a turn
            phases = shortest[left, None] * lower[some], longest[left, None] * upper[some]
            gained[some] = weight[left] @ least_versine(*phases)
        return log_rest(gained)

    def _shifted(self, c: float, log_least: float, lower: Vector) -> Vector:
        """Return log of the second bound at t = `lower`, with log M(c) >= `log_least`."""
        a, mu, rate = self.exponent(c), self.parameter, self.rate
        low, high, _ = self.span(c, 0.0)
        edge = np.linspace(0.8 * low, high, _CELLS + 1)  # [cells + 1]
        left, right = edge[:-1], edge[1:]
        ratio, weight = self._log_ratio(edge), self._posterior(edge)
        if a >= 0.0:  # a l(x) is convex: below its chord; r <= e^(mu x - mu^2 / 2) beyond an edge >= mu / 2
            slope = a * np.diff(ratio) / (right - left)
            level = a * ratio[:-1] - slope * left
            beyond_right = 0.5 * a * (a - 1.0) * mu * mu + log_normal_tail(edge[-1] - a * mu)
        else:  # concave: below its tangent
            middle = 0.5 * (left + right)
            slope = a * mu * self._posterior(middle)
            level = a * self._log_ratio(middle) - slope * middle
            beyond_right = log_normal_tail(edge[-1]) + a * float(ratio[-1])
        _, normal_mass = _log_normal_mass(left - slope, right - slope)
        inside = level + 0.5 * slope**2 + normal_mass + 1e-14 * slope**2
        beyond_left = log_normal_tail(-edge[0]) + max(a * float(ratio[0]), a * math.log1p(-rate))
        log_mass = np.concatenate([[beyond_left], inside, [beyond_right]]) - log_least
        log_mass += 1e-8 + 1e-11 * (np.abs(log_mass) + abs(log_least))
        mixed = np.maximum(weight[:-1] * (1.0 - weight[:-1]), weight[1:] * (1.0 - weight[1:]))
        mixed = np.where((weight[:-1] < 0.5) & (weight[1:] > 0.5), 0.25, mixed)
        mixed = np.concatenate([[0.25], mixed, [0.25]]) * (1.0 + 1e-9)
        # The odds w / (1 - w) at the left end of each cell, [cells + 2]; the first cell has no left end.
        log_odds = math.log(rate / (1.0 - rate)) + np.append(-np.inf, self._loss(edge))
        inverse, best = np.exp(np.minimum(-log_odds, 700.0)), np.zeros(len(lower))
        for share in (0.9, 0.4, 0.15):
            theta = 0.5 * math.pi * share
            # arg(1 + o e^(i theta)) of the odds o
            argument = np.arctan2(math.sin(theta), inverse + math.cos(theta)) * (1.0 - 1e-9)
            argument[0] = 0.0
            shrink = 0.0 if a >= 0.0 else 0.5 * a * np.log1p(-2.0 * (1.0 - math.cos(theta)) * mixed)
            exponent = (log_mass + shrink)[:, None] - np.outer(argument, lower)  # [cells + 2, intervals]
            peak = exponent.max(axis=0)
            total = peak + np.log(np.exp(exponent - peak).sum(axis=0)) + 0.5 * (theta / mu) ** 2 + 1e-9
            best = np.minimum(best, total)
        return best

    def _log_variation(self, a: float) -> float:
        """Return log of an upper bound on V."""
        mu, beta = self.parameter, a + 1.0
        # Stationary where x + mu = beta mu w(x), 0 <= w <= 1; between grid points a quadratic bound holds.
        x = np.linspace(min(0.0, beta * mu), max(0.0, beta * mu), 257) - mu
        spacing = abs(beta) * mu / 256.0
        values = -0.5 * (x + mu) ** 2 + beta * self._log_ratio(x)
        largest = float(values.max()) + 0.125 * spacing**2 * (1.0 + abs(beta) * mu * mu / 4.0)
        largest += 1e-12 * (1.0 + abs(beta) * mu) ** 2
        return math.log(4.0 / math.sqrt(2.0 * math.pi)) + mu * mu - math.log(mu * self.rate) + largest


def _log_normal_mass(left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """Return log of the normal measure of [left, right], from below and above, precise in both tails."""
    mirrored = left + right > 0.0
    inner = _log_tails(np.where(mirrored, left, -right))
    outer = _log_tails(np.where(mirrored, right, -left))
    share = np.maximum(-np.expm1(np.minimum(outer - inner, 0.0)), 1e-18)
    error: Vector = 1e-9 + 1e-14 * (1.0 + np.abs(inner)) * (1.0 + 1.0 / share)
    mass: Vector = inner + np.log(share)
    # The difference of two nearly equal measures may be lost, but is never above the larger one.
    return mass - error, np.minimum(mass + error, inner * (1.0 - 1e-14) + 1e-9)


def _log_tails(points: Vector) -> Vector:
    """Return `log_normal_tail` of each point; importing scipy's function would take longer."""
    return np.array([log_normal_tail(point) for point in points.tolist()])
