"""Costs of many Gaussian or Laplace mechanisms in arrays, never below the cost of each alone.

Each quotient, square or product comes with its exact rounding error (Dekker 1971), so each result is the
least double that is not below the exact one, or the next double. If a number is too extreme for these errors,
the result is NaN, and the caller computes that mechanism alone.
"""

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import scipy

from dpaudit.accountants.closed_forms.conversions import ROUNDING, UNDERFLOW
from dpaudit.accountants.closed_forms.rounding import Vector, exact_product, exact_sum, up
from dpaudit.ledger.columns import Kind
from dpaudit.mechanisms import AnyMechanism

#: sensitivity [n], scale [n] -> cost [n], NaN if it must be computed alone.
ManyCosts: TypeAlias = Callable[[Vector, Vector], Vector]


class Cost:
    """The cost of one run of a mechanism on an additive scale, and the costs of many of one kind.

    A call with a mechanism runs the decorated function, which raises `CannotBound` if there is no cost. Each
    cost from `many` is at least that function's result, up to the function's own rounding.
    """

    def __init__(self, one: Callable[[AnyMechanism], float], gaussian: ManyCosts, laplace: ManyCosts) -> None:
        functools.update_wrapper(self, one)
        self._one = one
        self._many: dict[Kind, ManyCosts] = {"gaussian": gaussian, "laplace": laplace}

    def __call__(self, mechanism: AnyMechanism) -> float:
        """Return the cost of one mechanism."""
        return self._one(mechanism)

    def many(self, kind: Kind, sensitivity: Vector, scale: Vector) -> Vector:
        """Return the cost of each of many mechanisms of one kind; NaN if only `__call__` can compute it."""
        with np.errstate(all="ignore"):  # extreme results become NaN below
            costs = self._many[kind](sensitivity, scale)
        return np.where(np.isfinite(costs), costs, np.nan)


def additive(gaussian: ManyCosts, laplace: ManyCosts) -> Callable[[Callable[[AnyMechanism], float]], Cost]:
    """Decorate the cost of one mechanism with the costs of many Gaussian and many Laplace ones."""
    return lambda one: Cost(one, gaussian, laplace)


def times_up(cost: Vector, count: Vector) -> Vector:
    """Return costs times whole counts below 2^53, each rounded up; NaN where a cost is extreme."""
    with np.errstate(all="ignore"):
        product, error = exact_product(cost, count)
        result = np.where(error > 0.0, np.nextafter(product, np.inf), product)
    return np.where((cost == 0.0) | ((cost >= 1e-200) & (cost <= 1e200)), result, np.nan)


def gaussian_pure(sensitivity: Vector, scale: Vector) -> Vector:
    """Return pure epsilon of Gaussian noise: 0 for a query that never changes, otherwise none (NaN)."""
    del scale
    return np.where(sensitivity == 0.0, 0.0, np.nan)


def gaussian_mu_squared(sensitivity: Vector, scale: Vector) -> Vector:
    """Return (sensitivity / sigma)^2, rounded up by at most two steps."""
    ratio, rest = _quotient(sensitivity, scale)
    # With the remainder r of the division: (s/sigma)^2 = q^2 + 2 q r/sigma + (r/sigma)^2. The last term is
    # below 2^-106 of the first; the slack covers it and the rounding of the two corrections.
    square, error = exact_product(ratio, ratio)
    cross = 2.0 * ratio * (rest / scale)
    high, low = exact_sum(square, error + cross)
    slack = 2.0**-48 * (np.abs(error) + np.abs(cross)) + 2.0**-104 * square
    exact = (rest == 0.0) & (error == 0.0)
    below = low + slack <= 0.0
    result = np.where(exact, square, np.where(below, high, np.nextafter(high, np.inf)))
    return _sane(sensitivity, scale, np.where(sensitivity == 0.0, 0.0, result))


def gaussian_rho(sensitivity: Vector, scale: Vector) -> Vector:
    """Return sensitivity^2 / (2 sigma^2), rounded up by at most two steps; halving is exact here."""
    return gaussian_mu_squared(sensitivity, scale) / 2.0


def laplace_pure(sensitivity: Vector, scale: Vector) -> Vector:
    """Return sensitivity / scale, rounded up by at most one step."""
    ratio, rest = _quotient(sensitivity, scale)
    result = np.where(rest > 0.0, np.nextafter(ratio, np.inf), ratio)
    return _sane(sensitivity, scale, result)


def quotients_up(sensitivity: Vector, scale: Vector) -> Vector:
    """Return sensitivity / scale, rounded up by at most one step; infinite past the largest double."""
    with np.errstate(all="ignore"):
        quotient = laplace_pure(sensitivity, scale)
    for row in np.flatnonzero(~np.isfinite(quotient)).tolist():
        quotient[row] = up(Fraction(float(sensitivity[row])) / Fraction(float(scale[row])))
    return quotient


def laplace_rho(sensitivity: Vector, scale: Vector) -> Vector:
    """Return epsilon + e^-epsilon - 1 as in `laplace_to_zcdp`, with twice its allowance for rounding.

    The terms and their order are the same. The second half of the allowance covers numpy's expm1, which may
    differ by a few units in the last place.
    """
    epsilon = laplace_pure(sensitivity, scale)
    series = np.zeros_like(epsilon)
    for order in range(18, 2, -1):
        series = (1.0 - series) * epsilon / order
    rho = np.where(epsilon >= 1.0, epsilon + np.expm1(-epsilon), 0.5 * epsilon * epsilon * (1.0 - series))
    return np.where(epsilon == 0.0, 0.0, np.nextafter(rho * (1.0 + 2.0 * ROUNDING), np.inf))


def laplace_mu_squared(sensitivity: Vector, scale: Vector) -> Vector:
    """Return the square of mu as in `pure_to_gdp`, with twice its allowance: 2e-13 on each mu."""
    epsilon = laplace_pure(sensitivity, scale)
    mu = 2.0 * np.sqrt(2.0) * scipy.special.erfinv(np.tanh(0.5 * np.minimum(epsilon, 1.0)))
    if len(rows := np.flatnonzero(~(epsilon < 1.0))):
        large = epsilon[rows]
        logarithm = -(large + np.log1p(np.exp(-large)))
        z = -scipy.special.ndtri_exp(logarithm)
        for _ in range(2):
            scaled = 0.5 * scipy.special.erfcx(z / np.sqrt(2.0))
            z += (np.log(scaled) - 0.5 * z * z - logarithm) * scaled * np.sqrt(2.0 * np.pi)
        mu[rows] = 2.0 * z
    mu *= 1.0 + 2e-13
    squared = np.nextafter(np.nextafter(mu * mu, np.inf), np.inf)
    # Above 700 the quantile's exponent leaves its range.
    return np.where(epsilon == 0.0, 0.0, np.where(epsilon <= 700.0, squared, np.nan))


def gaussian_log_moment(t: float, sensitivity: Vector, scale: Vector) -> Vector:
    """Return rho t (t + 1) as in `log_moment`, with twice its allowance."""
    return gaussian_rho(sensitivity, scale) * t * (t + 1.0) * (1.0 + 2.0 * ROUNDING) + UNDERFLOW


def laplace_log_moment(t: float, sensitivity: Vector, scale: Vector) -> Vector:
    """Return `dpaudit.accountants.pairs.moments.laplace_log_moment` of each, with twice its allowance."""
    epsilon = laplace_pure(sensitivity, scale)
    a, b = t * epsilon, (t + 1.0) * epsilon
    excess = ((t + 1.0) * _second_order(np.minimum(a, 30.0)) + t * _second_order(-b)) / (2.0 * t + 1.0)
    small = np.log1p(excess) * (1.0 + 4.0 * ROUNDING)
    ratio = t / (t + 1.0)
    terms = (a, np.full_like(a, -np.log1p(ratio)), np.log1p(ratio * np.exp(-a - b)))
    large = sum(terms) + 2.0 * ROUNDING * sum(map(np.abs, terms))
    return np.where(epsilon == 0.0, 0.0, np.where(a < 30.0, small, large)) + UNDERFLOW


def _second_order(x: Vector) -> Vector:
    """Return e^x - 1 - x, without cancellation."""
    near = np.clip(x, -0.5, 0.5)
    series = np.zeros_like(x)
    for order in range(20, 2, -1):
        series = (1.0 + series) * near / order
    return np.where(np.abs(x) > 0.5, np.expm1(x) - x, 0.5 * near * near * (1.0 + series))


def _quotient(dividend: Vector, divisor: Vector) -> tuple[Vector, Vector]:
    """Return the rounded quotient and the exact remainder dividend - quotient * divisor."""
    quotient = dividend / divisor
    product, error = exact_product(quotient, divisor)
    return quotient, (dividend - product) - error


def _sane(sensitivity: Vector, scale: Vector, result: Vector) -> Vector:
    """Return the result, or NaN where a number is so extreme that a product or its error leaves the range."""
    ordinary = (sensitivity == 0.0) | ((sensitivity >= 1e-60) & (sensitivity <= 1e60))
    return np.where(ordinary & (scale >= 1e-60) & (scale <= 1e60), result, np.nan)
