"""Poisson-subsampled Gaussian noise on the contour, in one order of its pair.

With r(x) = 1 - q + q e^(mu x - mu^2 / 2) the ratio of (1 - q) N(0, 1) + q N(mu, 1) to N(0, 1), and phi the
normal
density, M(s) = integral of phi(x) r(x)^p dx: p = s + 1 when the mixture is P, p = -s when it is Q. Below a =
Re p and
l = log r, so that the loss is l, or -l.

Quadrature: the trapezoid rule over x. For z = x + i y with |y| <= d and mu d <= pi / 2, |r(z)| <= r(x), Re
r(z) >= r(x)
cos(mu d) and |arg r(z)| <= mu d, hence the integrand on that strip is at most e^(d^2 / 2 + t mu d) (cos mu
d)^(-c) times
its value on the axis (the cosine only for p = -s), and the rule is off by at most 2 / (e^(2 pi d / h) - 1)
times the
integral of that (Trefethen and Weideman 2014, Theorem 5.1). The range is cut where what is left is below
e^-46 / count: on the left phi times r(x)^a is below phi (1 - q)^min(a, 0), on the right r <= e^(mu x - mu^2
/ 2).

Decay: `sampled_decay`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Along, Cumulant, Vector, polar
from dpaudit.accountants.privacy_loss.contour.sampled_decay import log_variation, near, shifted

_BLOCK = 64
_POINTS, _MOST_POINTS = 4096, 1 << 16


class Rule(NamedTuple):
    """A quadrature rule under the tilted law.

    `weight` [points] adds up to 1; `loss` [points]; `point` [points]; log M(c); bounds on the relative error
    of the
    rule, on the absolute error of log M(c), and on the mean of |loss| and of |loss| times the weights' own
    error.
    """

    weight: Vector
    loss: Vector
    point: Vector
    cumulant: float
    relative_error: float
    cumulant_error: float
    mean: float
    mean_error: float


def weigh(
    point: Vector, log_ratio: Vector, log_base: Vector, exponent: float, sign: float, relative: float
) -> Rule:
    """Tilt a rule whose untilted weights exp(log_base) [points] add up to 1.

    log M(c) is computed as log1p of the sum of base * (r^a - 1), so that it is exact relative to its own
    smallness.
    """
    tilt = exponent * log_ratio  # [points]
    log_weight = log_base + tilt
    peak = max(0.0, float(log_weight.max()))
    weight = np.exp(log_weight - peak)
    total = float(weight.sum())
    slack = (32.0 + math.log2(len(point))) * UNIT
    if peak == 0.0 and float(tilt.max()) < 600.0:
        base = np.exp(log_base)
        excess = base * np.expm1(tilt)
        cumulant = math.log1p(float(excess.sum()))
        rounding = (slack + 8.0 * UNIT) * float(np.abs(excess).sum()) + 8.0 * UNIT * float(
            (base * (np.abs(tilt) * np.exp(np.maximum(tilt, 0.0)) + np.abs(log_base * np.expm1(tilt)))).sum()
        )
        cumulant_error = 2.0 * rounding / total + 8.0 * UNIT * abs(cumulant)
    else:
        cumulant = peak + math.log(total)
        share = weight / total
        cumulant_error = slack + 16.0 * UNIT * (
            float((share * (np.abs(tilt) + np.abs(log_base) + np.abs(log_weight))).sum()) + abs(cumulant)
        )
    weight = weight / total
    error = 8.0 * UNIT * (np.abs(tilt) + np.abs(log_base) + np.abs(log_weight) + 4.0)
    size = weight * np.abs(log_ratio)
    return Rule(
        weight,
        sign * log_ratio,
        point,
        cumulant,
        relative,
        cumulant_error + 2.0 * relative,
        float(size.sum()),
        float((size * error).sum()),
    )


def transform(rule: Rule, t: Vector, count: float) -> Along:
    """Count times the log of the rule's characteristic function at t = 0, h, 2 h, ...; one matrix product.

    With t = a + b, e^(i t l) - 1 = A B + A + B for A = e^(i a l) - 1, B = e^(i b l) - 1: small where t l is
    small.
    """
    nodes = len(t)
    step = float(t[1] - t[0]) if nodes > 1 else 0.0
    fine_t, coarse_t = step * np.arange(min(_BLOCK, nodes)), step * _BLOCK * np.arange(-(-nodes // _BLOCK))
    away = np.zeros((len(coarse_t), len(fine_t)), dtype=np.complex128)
    for start in range(0, len(rule.weight), _POINTS):
        loss, weight = rule.loss[start : start + _POINTS], rule.weight[start : start + _POINTS]
        fine = _turn(np.outer(fine_t, loss))  # [block, points]
        coarse = _turn(np.outer(coarse_t, loss)) * weight  # [blocks, points]
        away += coarse @ fine.T + coarse.sum(axis=1)[:, None] + (fine @ weight)[None, :]
    away = away.ravel()[:nodes]
    error = t * (3.0 * (len(rule.weight) + 32.0) * UNIT * rule.mean + 2.0 * rule.mean_error)
    log_modulus, phase, error = polar(away.real, away.imag, 4.0 * (error + 2.0 * rule.relative_error))
    return Along(count * log_modulus, count * phase, count * error)


def _turn(angle: Vector) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    turned = np.empty(angle.shape, dtype=np.complex128)
    turned.real = -2.0 * np.sin(0.5 * angle) ** 2
    turned.imag = np.sin(angle)
    return turned


@dataclass(frozen=True)
class SampledGaussianFactor:
    """`count` runs; `mixture_first` if the sampled distribution is P."""

    mu: float
    rate: float
    count: float
    mixture_first: bool

    def cost(self, c: float, end: float) -> float:
        """A sixteenth of the quadrature's points: a matrix product is fast."""
        low, high, step = self._range(c, end)
        return (high - low) / step / 16.0 + 1.0

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
        """The best of the three bounds on each interval."""
        rule, a = self._rule(c, 0.0), self._exponent(c)
        mean = float(rule.weight @ rule.point)
        spread = math.sqrt(float(rule.weight @ (rule.point - mean) ** 2))
        highest, lowest = rule.cumulant + rule.cumulant_error, rule.cumulant - rule.cumulant_error
        low, high, _ = self._range(c, 0.0)
        bounds = (
            log_variation(self._log_ratio, a, self.mu, self.rate) - lowest - np.log(lower),
            near(self._log_ratio, a, mean, spread, highest, lower, upper),
            shifted(self._log_ratio, a, self.mu, self.rate, (0.8 * low, high), lowest, lower),
        )
        total: Vector = self.count * (1.0 - 1e-12) * np.minimum(0.0, np.minimum.reduce(bounds))
        return total

    def _exponent(self, c: float) -> float:
        return c + 1.0 if self.mixture_first else -c

    def _log_ratio(self, x: Vector) -> Vector:
        """Log of 1 - q + q e^u, without cancellation for small q or u and without overflow."""
        u = self.mu * x - 0.5 * self.mu * self.mu
        small = np.log1p(self.rate * np.expm1(np.minimum(u, 30.0)))
        large = (
            u + math.log(self.rate) + np.log1p((1.0 - self.rate) / self.rate * np.exp(-np.maximum(u, 30.0)))
        )
        ratio: Vector = np.where(u <= 30.0, small, large)
        return ratio

    def _range(self, c: float, end: float) -> tuple[float, float, float]:
        a, mu, level = self._exponent(c), self.mu, 46.0 + math.log(self.count)
        left = max(0.0, a * math.log1p(-self.rate))  # log of the bound on r^a there
        low = -math.sqrt(2.0 * (level + left))
        if a > 0.0:
            likely = min(0.5 * a * (a - 1.0) * mu * mu, -a * math.log(self.rate))
            high = a * mu + math.sqrt(2.0 * (level + likely))
        else:
            high = max(0.5 * mu, math.sqrt(2.0 * level))
        widest = min(6.0, 0.499 * math.pi / mu)
        steps = []
        for d in (widest, 0.5 * widest, 0.25 * widest, 0.1 * widest, 0.03 * widest, 0.01 * widest):
            growth = 0.5 * d * d + end * mu * d - (0.0 if a > 0.0 else c * math.log(math.cos(mu * d)))
            steps.append(2.0 * math.pi * d / (34.0 + math.log(self.count) + growth))
        return low, high, max(steps)

    def _rule(self, c: float, end: float) -> Rule:
        low, high, step = self._range(c, end)
        capped = (high - low) / step > _MOST_POINTS
        step = max(step, (high - low) / _MOST_POINTS)
        x: Vector = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64)
        log_base = -0.5 * x * x + math.log(step / math.sqrt(2.0 * math.pi))
        sign = 1.0 if self.mixture_first else -1.0
        relative = 1.0 if capped else 8.0 * (math.exp(-34.0) + math.exp(-46.0)) / self.count
        return weigh(x, self._log_ratio(x), log_base, self._exponent(c), sign, relative)
