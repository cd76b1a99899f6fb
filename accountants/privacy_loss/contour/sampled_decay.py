"""How fast the characteristic function of one Poisson-subsampled Gaussian loss decays: three proved bounds.

Notation of `sampled`: M(s) = integral of phi r^p, a = Re p, w(x) = q e^u / r the posterior weight, l = log r.

* `near`: for two independent copies of the loss under the tilted law |M(c + it) / M(c)|^2 = 1 - E[1 - cos t
(L - L')],
  bounded below cell by cell. Sharp while the modulus is near 1.
* `shifted`: move the line of integration to x + i y, 0 < mu y < pi, on the side where |r^(it)| = e^(-t |arg
r|) is small:
  |M(c + it)| <= e^(y^2/2) * integral of phi |r(x + iy)|^a e^(-t |arg r(x + iy)|), with |r(x + iy)|^2 = r^2
  (1 - 2 (1 - cos mu y)
  w (1 - w)) and |arg r(x + iy)| increasing in x while mu y <= pi / 2. Decreases in t.
* `far`: integrating by parts, |M(c + it)| <= V / t, V the total variation of phi r^a / l' = e^(mu^2) / (mu
q) phi(x + mu)
  r^(a + 1). The derivative of its logarithm, -(x + mu) + (a + 1) mu w(x) with w sigmoid, has at most three
  zeros, so V is
  at most four times its largest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from dpaudit.accountants.privacy_loss.contour.factors import Vector, least_versine

_PAIRED, _CELLS = 20, 64

LogRatio = Callable[[Vector], Vector]


def log_normal_mass(left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """Log of the normal measure of [left, right], from below and from above, precise in both tails."""
    mirrored = left + right > 0.0
    inner = log_ndtr(np.where(mirrored, -left, right))
    outer = log_ndtr(np.where(mirrored, -right, left))
    share = np.maximum(-np.expm1(np.minimum(outer - inner, 0.0)), 1e-18)
    error: Vector = 1e-9 + 1e-14 * (1.0 + np.abs(inner)) * (1.0 + 1.0 / share)
    mass: Vector = inner + np.log(share)
    # The difference of two nearly equal measures may be lost, but is never above the larger.
    return mass - error, np.minimum(mass + error, inner * (1.0 - 1e-14) + 1e-9)


def near(
    log_ratio: LogRatio, a: float, mean: float, spread: float, log_total: float, lower: Vector, upper: Vector
) -> Vector:
    """Log of the first bound over lower <= t <= upper.

    The tilted x has about `mean` and `spread`, and log M(c) <= `log_total`.
    """
    edge = mean + spread * np.linspace(-2.8, 2.8, _PAIRED + 1)  # [cells + 1]
    ratio = log_ratio(edge)
    # r increases, so that r^a is least at one end of each cell.
    least = np.minimum(a * ratio[:-1], a * ratio[1:]) - log_total
    log_mass, _ = log_normal_mass(edge[:-1], edge[1:])
    mass = np.exp(log_mass + least - 1e-8 - 1e-11 * (np.abs(least) + np.abs(log_mass)))
    first, second = np.triu_indices(_PAIRED, 1)  # [pairs]
    slack = 1e-12 * float(np.abs(ratio).max())
    shortest = np.maximum(ratio[second] - ratio[first + 1] - slack, 0.0)[:, None]
    longest = (ratio[second + 1] - ratio[first] + slack)[:, None]
    gained = (2.0 * mass[first] * mass[second]) @ least_versine(shortest * lower, longest * upper)
    bound: Vector = 0.5 * np.log1p(-np.minimum(gained, 1.0 - 1e-12))
    return bound


def shifted(
    log_ratio: LogRatio,
    a: float,
    mu: float,
    rate: float,
    edges: tuple[float, float],
    log_least: float,
    lower: Vector,
) -> Vector:
    """Log of the second bound at t = `lower`, with log M(c) >= `log_least`."""
    edge = np.linspace(*edges, _CELLS + 1)  # [cells + 1]
    left, right = edge[:-1], edge[1:]
    ratio = log_ratio(edge)
    if a >= 0.0:  # a l(x) is convex: below its chord
        slope = a * np.diff(ratio) / (right - left)
        level = a * ratio[:-1] - slope * left
    else:  # concave: below its tangent
        middle = 0.5 * (left + right)
        slope = a * mu * _posterior(middle, mu, rate, log_ratio)
        level = a * log_ratio(middle) - slope * middle
    _, normal_mass = log_normal_mass(left - slope, right - slope)
    inside = level + 0.5 * slope**2 + normal_mass + 1e-14 * slope**2
    beyond_left = float(log_ndtr(edge[0])) + max(a * float(ratio[0]), a * math.log1p(-rate))
    if a >= 0.0:  # edges[1] >= mu / 2, where r <= e^(mu x - mu^2 / 2)
        beyond_right = 0.5 * a * (a - 1.0) * mu * mu + float(log_ndtr(a * mu - edge[-1]))
    else:
        beyond_right = float(log_ndtr(-edge[-1])) + a * float(ratio[-1])
    log_mass = np.concatenate([[beyond_left], inside, [beyond_right]]) - log_least
    log_mass += 1e-8 + 1e-11 * (np.abs(log_mass) + abs(log_least))
    weight = _posterior(edge, mu, rate, log_ratio)
    mixed = np.maximum(weight[:-1] * (1.0 - weight[:-1]), weight[1:] * (1.0 - weight[1:]))
    mixed = np.where((weight[:-1] < 0.5) & (weight[1:] > 0.5), 0.25, mixed)
    mixed = np.concatenate([[0.25], mixed, [0.25]]) * (1.0 + 1e-9)
    odds = (
        np.log(rate / (1.0 - rate)) + mu * np.append(-np.inf, edge) - 0.5 * mu * mu
    )  # [cells + 2], left ends
    best = np.zeros(len(lower))
    for share in (0.9, 0.4, 0.15):
        theta = 0.5 * math.pi * share
        y = theta / mu
        # arg(1 + o e^(i theta)) of the odds o, at the left end of each cell
        argument = np.arctan2(math.sin(theta), np.exp(np.minimum(-odds, 700.0)) + math.cos(theta)) * (
            1.0 - 1e-9
        )
        argument[0] = 0.0  # the first cell has no left end
        shrink = 0.0 if a >= 0.0 else 0.5 * a * np.log1p(-2.0 * (1.0 - math.cos(theta)) * mixed)
        exponent = (log_mass + shrink)[:, None] - np.outer(argument, lower)  # [cells + 2, intervals]
        peak = exponent.max(axis=0)
        total = peak + np.log(np.exp(exponent - peak).sum(axis=0)) + 0.5 * y * y + 1e-9
        best = np.minimum(best, total)
    return best


def log_variation(log_ratio: LogRatio, a: float, mu: float, rate: float) -> float:
    """Log of an upper bound on V."""
    beta = a + 1.0
    # Stationary where x + mu = beta mu w(x), 0 <= w <= 1; between grid points a quadratic bound.
    x = np.linspace(min(0.0, beta * mu), max(0.0, beta * mu), 257) - mu
    spacing = abs(beta) * mu / 256.0
    values = -0.5 * (x + mu) ** 2 + beta * log_ratio(x)
    largest = float(values.max()) + 0.125 * spacing**2 * (1.0 + abs(beta) * mu * mu / 4.0)
    largest += 1e-12 * (1.0 + abs(beta) * mu) ** 2
    return math.log(4.0 / math.sqrt(2.0 * math.pi)) + mu * mu - math.log(mu * rate) + largest


def _posterior(x: Vector, mu: float, rate: float, log_ratio: LogRatio) -> Vector:
    """w(x) = q e^u / r(x), in [0, 1]."""
    weight: Vector = np.exp(np.minimum(math.log(rate) + mu * x - 0.5 * mu * mu - log_ratio(x), 0.0))
    return weight
