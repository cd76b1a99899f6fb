"""Integer noise, which every sampler draws exactly.

A scale is a double, taken as an exact rational number, so the distribution has exactly the ledger's scale.
"""

import math
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import LaplaceNoise
from dpaudit.mechanisms.base import ONE, Array, FixedNoise, ValueMechanism, fields, residual
from dpaudit.models import Scale
from dpaudit.noise.contributions import holding_whole
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import Randomness


class IntegerNoise(ValueMechanism):
    """Integer noise on a value of integers, drawn exactly."""

    integer_noise = True

    @property
    def grid(self) -> int:
        """The exponent 0 of the grid of integers."""
        return 0

    def require_fits(self, query: Array, where: str) -> None:
        """Raise `InvalidParameter` unless every entry is an integer."""
        require_integers(query, where)


class DiscreteGaussian(FixedNoise, IntegerNoise):
    """Independent discrete Gaussian noise, P(k) proportional to exp(-k^2/(2 sigma^2)), on every integer.

    Obligation: the query is integer-valued and its L2 distance between neighbouring data sets is at
    most the sensitivity; then the release is sensitivity^2/(2 sigma^2)-zCDP (Canonne, Kamath and
    Steinke 2020, Theorem 4, whose Renyi divergences add up over the coordinates). It is not mu-GDP for
    the Gaussian's mu.
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l2",)
    noise_field = "sigma"
    drawn_exactly = True

    example = fields(sigma=2.0, sensitivity=ONE["l2"])

    kind: Literal["discrete-gaussian"] = "discrete-gaussian"
    sigma: Scale

    def dominating_pair(self) -> dominating.DiscreteGaussian:
        """Return the pair for the largest integer squared distance that the sensitivity allows.

        A sensitivity that is a rounded-down root of an integer, such as `math.sqrt(3)`, counts as the root.
        """
        sigma, squared = Fraction(self.sigma), Fraction(holding_whole(self.sensitivity.value)) ** 2
        return dominating.DiscreteGaussian(sigma, math.floor(squared), squared / (2 * sigma**2))

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """Return `value`, integers of any shape, plus integer noise of the same shape."""
        require_integers(value, "sample")
        return randomness.discrete_gaussian(value, self.sigma)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        noise = _integer_residual(output, query)
        if noise is None:
            return -math.inf
        exponent = 0.5 * float(np.square(noise / self.sigma).sum())
        return -exponent - noise.size * _log_normaliser(self.sigma)


class DiscreteLaplace(LaplaceNoise, IntegerNoise):
    """Independent discrete Laplace noise, P(k) proportional to exp(-|k|/scale), on every integer.

    Obligation: the query is integer-valued and its L1 distance between neighbouring data sets is at
    most the sensitivity; then the release is (sensitivity/scale)-DP (Ghosh, Roughgarden and
    Sundararajan 2009: the geometric mechanism).
    """

    drawn_exactly = True

    example = fields(scale=2.0, sensitivity=ONE["l1"])

    kind: Literal["discrete-laplace"] = "discrete-laplace"

    def dominating_pair(self) -> dominating.DiscreteLaplace:
        """Return the pair of one coordinate, shifted by the whole sensitivity."""
        return dominating.DiscreteLaplace(Fraction(self.sensitivity.value), Fraction(self.scale))

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """Return `value`, integers of any shape, plus integer noise of the same shape."""
        require_integers(value, "sample")
        return randomness.discrete_laplace(value, self.scale)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        noise = _integer_residual(output, query)
        if noise is None:
            return -math.inf
        # The normaliser (1 - p)/(1 + p) with p = e^(-1/scale).
        return float(-np.abs(noise / self.scale).sum() + noise.size * math.log(math.tanh(0.5 / self.scale)))


def require_integers(query: Array | OnGrid, where: str) -> None:
    """Raise `InvalidParameter` unless every entry is an integer."""
    whole = query.exponent >= 0 if isinstance(query, OnGrid) else np.array_equal(query, np.rint(query))
    if not whole:
        why = "integer noise does not hide the fractional part of the value"
        remedy = "scale and round each unit's contribution, and calibrate to the rounded contributions"
        raise InvalidParameter("a value that is not an integer", where=where, why=why, remedy=remedy)


def _integer_residual(output: Array, query: Array) -> Array | None:
    noise = residual(output, query)
    return noise if np.array_equal(noise, np.rint(noise)) else None


def _log_normaliser(sigma: float) -> float:
    """Return the log of the sum over all integers of exp(-k^2/(2 sigma^2))."""
    k = np.arange(1, 41, dtype=np.float64)
    if sigma < 1.0:
        with np.errstate(over="ignore"):
            return math.log1p(2.0 * float(np.exp(-0.5 * np.square(k / sigma)).sum()))
    # By Poisson summation: for large sigma the dual sum converges faster.
    dual = 0.0 if sigma > 40.0 else 2.0 * float(np.exp(-2.0 * np.square(math.pi * sigma * k)).sum())
    return math.log(sigma) + 0.5 * math.log(2.0 * math.pi) + math.log1p(dual)
