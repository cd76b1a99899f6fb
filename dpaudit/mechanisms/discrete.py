"""Noise on the integers, sampled exactly: rational arithmetic on fair bits, no floating point.

The samplers are Algorithms 1 to 3 of Canonne, Kamath and Steinke 2020. A scale is the rational number
that its double is, so the distribution is that of the ledger's figure and not of something near it.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import LaplaceNoise
from dpaudit.mechanisms.base import Array, FixedNoise, ValueMechanism, residual
from dpaudit.mechanisms.randomness import Bits, Randomness
from dpaudit.models import Positive


class IntegerNoise(ValueMechanism):
    """Integer noise on a value of integers, drawn exactly."""

    integer_noise = True

    @abstractmethod
    def sample(self, value: Array, source: np.random.Generator | Bits) -> Array:
        """`value`, integers of any shape, plus integer noise of the same shape."""

    def answer(self, value: Array, randomness: Randomness) -> Array:
        """`sample`, from fair bits."""
        return self.sample(value, randomness.bits)

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

    kind: Literal["discrete-gaussian"] = "discrete-gaussian"
    sigma: Positive

    def dominating_pair(self) -> dominating.DiscreteGaussian:
        """Between vectors of integers the squared distance is an integer too."""
        squared = math.floor(Fraction(self.sensitivity.value) ** 2)
        return dominating.DiscreteGaussian(Fraction(self.sigma), squared, self.ratio(self.sigma) ** 2 / 2)

    def sample(self, value: Array, source: np.random.Generator | Bits) -> Array:
        """As `IntegerNoise.sample`."""
        variance = Fraction(self.sigma) ** 2
        return _noisy(value, source, lambda bits: discrete_gaussian(variance, bits))

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

    kind: Literal["discrete-laplace"] = "discrete-laplace"

    def dominating_pair(self) -> dominating.DiscreteLaplace:
        """One coordinate moved by the whole sensitivity."""
        return dominating.DiscreteLaplace(Fraction(self.sensitivity.value), Fraction(self.scale))

    def sample(self, value: Array, source: np.random.Generator | Bits) -> Array:
        """As `IntegerNoise.sample`."""
        scale = Fraction(self.scale)
        return _noisy(value, source, lambda bits: discrete_laplace(scale, bits))

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        noise = _integer_residual(output, query)
        if noise is None:
            return -math.inf
        # The normaliser (1 - p)/(1 + p) with p = e^(-1/scale).
        return float(-np.abs(noise / self.scale).sum() + noise.size * math.log(math.tanh(0.5 / self.scale)))


def require_integers(query: Array, where: str) -> None:
    """Raise `InvalidParameter` unless every entry is an integer."""
    if not np.array_equal(query, np.rint(query)):
        why = "integer noise leaves the fractional part of the value as it is"
        remedy = "scale and round each unit's contribution, and calibrate to the rounded ones"
        raise InvalidParameter("a value that is not an integer", where=where, why=why, remedy=remedy)


def discrete_laplace(scale: Fraction, bits: Bits) -> int:
    """An integer with probability proportional to exp(-|k|/scale), exactly (Algorithm 2)."""
    t, s = scale.numerator, scale.denominator
    while True:
        low = bits.below(t)
        if not _bernoulli_exp(low, t, bits):
            continue
        high = 0
        while _bernoulli_exp(1, 1, bits):
            high += 1
        magnitude = (low + t * high) // s
        negative = bits.below(2) == 1
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


def discrete_gaussian(variance: Fraction, bits: Bits) -> int:
    """An integer with probability proportional to exp(-k^2/(2 variance)), exactly (Algorithm 3)."""
    n, d = variance.numerator, variance.denominator
    t = math.isqrt(n // d) + 1  # floor(sigma) + 1
    while True:
        proposal = discrete_laplace(Fraction(t), bits)
        # (|Y| - variance/t)^2 / (2 variance), over one denominator.
        if _bernoulli_exp((abs(proposal) * d * t - n) ** 2, 2 * n * d * t * t, bits):
            return proposal


def _bernoulli_exp(numerator: int, denominator: int, bits: Bits) -> bool:
    """True with probability exp(-gamma), exactly, for gamma = numerator/denominator >= 0 (Algorithm 1)."""
    whole, rest = divmod(numerator, denominator)
    for _ in range(whole):
        if not _bernoulli_exp_fraction(1, 1, bits):
            return False
    return _bernoulli_exp_fraction(rest, denominator, bits)


def _bernoulli_exp_fraction(numerator: int, denominator: int, bits: Bits) -> bool:
    """For gamma in [0, 1]: the first of Bernoulli(gamma/k), k = 1, 2, ..., to fail is at an odd k."""
    k = 1
    while bits.below(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def _noisy(value: Array, source: np.random.Generator | Bits, draw: Callable[[Bits], int]) -> Array:
    require_integers(value, "sample")
    bits = source if isinstance(source, Bits) else Bits(source.bytes)
    # Added as integers; rounding the sum to a double is post-processing.
    noisy = [float(int(entry) + draw(bits)) for entry in value.ravel().tolist()]
    return np.array(noisy, dtype=np.float64).reshape(value.shape)


def _integer_residual(output: Array, query: Array) -> Array | None:
    noise = residual(output, query)
    return noise if np.array_equal(noise, np.rint(noise)) else None


def _log_normaliser(sigma: float) -> float:
    """log of the sum over all integers of exp(-k^2/(2 sigma^2))."""
    k = np.arange(1, 41, dtype=np.float64)
    if sigma < 1.0:
        with np.errstate(over="ignore"):
            return math.log1p(2.0 * float(np.exp(-0.5 * np.square(k / sigma)).sum()))
    # Poisson summation: the dual sum converges where the direct one does not.
    dual = 0.0 if sigma > 40.0 else 2.0 * float(np.exp(-2.0 * np.square(math.pi * sigma * k)).sum())
    return math.log(sigma) + 0.5 * math.log(2.0 * math.pi) + math.log1p(dual)
