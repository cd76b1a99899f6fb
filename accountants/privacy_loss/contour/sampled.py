"""Poisson-sampled releases on the contour, in one order of their pair; for both kinds of noise.

With r = 1 - q + q e^u the ratio of the mixture to the law without the unit, u the loss of the noise itself,
M(s) is the integral of r^p over the law without the unit: p = s + 1 if the mixture is P, p = -s if it is Q.
Throughout, a = Re p and l = log r, so the loss is l, or -l. A quadrature rule turns the integral into a sum;
its points and its error are in `sampled_gaussian` and `sampled_laplace`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Along, Cumulant, Vector, polar

_BLOCK, _POINTS = 64, 4096
MOST_POINTS = 1 << 16  # a rule with more points is cut short, which weakens its proved bounds


class Rule(NamedTuple):
    """A quadrature rule under the tilted law; vectors are [points]."""

    weight: Vector  # adds up to 1
    loss: Vector
    point: Vector
    cumulant: float  # log M(c)
    relative_error: float  # bounds the rule's own error
    cumulant_error: float  # bounds the absolute error of log M(c)
    mean: float  # of |loss|
    mean_error: float  # the mean of |loss| times the weights' own error


def log_mixture(u: Vector, rate: float) -> Vector:
    """Return log of 1 - q + q e^u for q > 0, without overflow, nor cancellation for small q or u."""
    if rate == 1.0:
        return u
    small = np.log1p(rate * np.expm1(np.minimum(u, 700.0)))
    if rate > 0.5:  # 1 - q is exact, and log1p would cancel for u < 0
        small = np.where(u < -0.5, np.log((1.0 - rate) + rate * np.exp(np.minimum(u, 0.0))), small)
    large = u + math.log(rate) + np.log1p((1.0 - rate) / rate * np.exp(-np.maximum(u, 700.0)))
    return np.where(u <= 700.0, small, large)


@dataclass(frozen=True)
class SampledFactor(ABC):
    """`count` runs sampled at `rate` < 1; `mixture_first` if the sampled distribution is P."""

    parameter: float  # mu of Gaussian noise, epsilon of Laplace noise
    rate: float
    count: float
    mixture_first: bool
    light: bool = False  # one of very many: its decay gets a cheaper bound

    @abstractmethod
    def log_decays(self, c: float, lower: Vector, upper: Vector) -> tuple[Vector, ...]:
        """Bound log |M(c + it) / M(c)| of one run from above for lower <= t <= upper; each [intervals]."""

    @abstractmethod
    def rule(self, c: float, end: float) -> Rule:
        """Return a quadrature rule at abscissa c, fine enough for t <= end."""

    def exponent(self, c: float) -> float:
        """Return the real part a of p at Re s = c."""
        return c + 1.0 if self.mixture_first else -c

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """Return the best of the bounds on each interval, for all runs."""
        best: Vector = np.minimum.reduce(self.log_decays(c, lower, upper))
        return self.count * (1.0 - 1e-12) * np.minimum(0.0, best)

    def cumulant(self, c: float) -> Cumulant:
        """Return the cumulant, computed by quadrature."""
        rule = self.rule(c, 0.0)
        slope = float(rule.weight @ rule.loss)
        curvature = float(rule.weight @ (rule.loss - slope) ** 2)
        return Cumulant(*(self.count * one for one in (rule.cumulant, slope, curvature, rule.cumulant_error)))

    def along(self, c: float, t: Vector) -> Along:
        """Compute by quadrature fine enough for the last node; t = 0, h, 2 h, ...; one product of matrices.

        With t = a + b, e^(itl) - 1 = A B + A + B for A = e^(ial) - 1, B = e^(ibl) - 1: small where t l is.
        """
        rule, nodes = self.rule(c, float(t[-1])), len(t)
        step = float(t[1] - t[0]) if nodes > 1 else 0.0
        fine_t = step * np.arange(min(_BLOCK, nodes))
        coarse_t = step * _BLOCK * np.arange(-(-nodes // _BLOCK))
        away = np.zeros((len(coarse_t), len(fine_t)), dtype=np.complex128)
        for start in range(0, len(rule.weight), _POINTS):
            loss, weight = rule.loss[start : start + _POINTS], rule.weight[start : start + _POINTS]
            fine = _turn(np.outer(fine_t, loss))  # [block, points]
            coarse = _turn(np.outer(coarse_t, loss)) * weight  # [blocks, points]
            away += coarse @ fine.T + coarse.sum(axis=1)[:, None] + (fine @ weight)[None, :]
        away = away.ravel()[:nodes]
        error = t * (3.0 * (len(rule.weight) + 32.0) * UNIT * rule.mean + 2.0 * rule.mean_error)
        log_modulus, phase, error = polar(away.real, away.imag, 4.0 * (error + 2.0 * rule.relative_error))
        return Along(self.count * log_modulus, self.count * phase, self.count * error)

    def weigh(self, c: float, point: Vector, log_ratio: Vector, log_base: Vector, relative: float) -> Rule:
        """Tilt a rule whose untilted weights exp(log_base) [points] add up to 1.

        A small log M(c) keeps its relative accuracy as log1p of the sum of base * (r^a - 1).
        """
        tilt = self.exponent(c) * log_ratio
        log_weight = log_base + tilt
        peak = max(0.0, float(log_weight.max()))
        weight = np.exp(log_weight - peak)
        total = float(weight.sum())
        weight /= total
        slack = (32.0 + math.log2(len(point))) * UNIT
        sizes = np.abs(tilt) + np.abs(log_base) + np.abs(log_weight)
        if peak == 0.0 and float(tilt.max()) < 600.0:
            base, grown = np.exp(log_base), np.expm1(tilt)
            cumulant = math.log1p(float((base * grown).sum()))
            moved = np.abs(tilt) * np.exp(np.maximum(tilt, 0.0)) + np.abs(log_base * grown)
            rounding = (slack + 8.0 * UNIT) * float((base * np.abs(grown)).sum())
            rounding += 8.0 * UNIT * float((base * moved).sum())
            cumulant_error = 2.0 * rounding / total + 8.0 * UNIT * abs(cumulant)
        else:
            cumulant = peak + math.log(total)
            cumulant_error = slack + 16.0 * UNIT * (float((weight * sizes).sum()) + abs(cumulant))
        size, loss = weight * np.abs(log_ratio), log_ratio if self.mixture_first else -log_ratio
        mean, mean_error = float(size.sum()), float((size * (8.0 * UNIT * (sizes + 4.0))).sum())
        cumulant_error += 2.0 * relative
        return Rule(weight, loss, point, cumulant, relative, cumulant_error, mean, mean_error)


def _turn(angle: Vector) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    """Return e^(i angle) - 1, without cancellation."""
    turned = np.empty(angle.shape, dtype=np.complex128)
    turned.real, turned.imag = -2.0 * np.sin(0.5 * angle) ** 2, np.sin(angle)
    return turned
