"""The randomness of mechanisms: exact noise, or repeatable noise from a seed.

A mechanism requests a noisy value or a choice, and works with either class. `ExactRandomness` adds
real-valued noise and rounds on a public grid. `SeededRandomness` works in floating point; its last digits can
reveal more than the real-valued mechanism does. A seeded run can be repeated and must not be published.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.random import default_rng  # bound now, because a target may replace it in numpy
from numpy.typing import NDArray

from dpaudit.noise import choice, continuous, discrete, rational
from dpaudit.noise.bits import Bits, NeverCopied, OperatingSystemBits, SeededBits
from dpaudit.noise.grid import Array, OnGrid, digits_of, to_doubles
from dpaudit.noise.levels import ExactLevel, FloatLevel, LawName, Level
from dpaudit.noise.paths import ExactPath, FloatPath, Path

#: The samplers that a ledger may name.
Sampler = Literal["numpy-float64", "opendp-discrete", "dpaudit-exact"]
#: The sampler of real-valued noise in floating point and of exact discrete noise.
FLOATING_POINT_SAMPLER: Final = "numpy-float64"
#: The `where` of an error before the release is known.
OF_NOISE: Final = "noise"
#: The sampler of exact noise, rounded on a public grid.
EXACT_SAMPLER: Final = "dpaudit-exact"


class Randomness(NeverCopied, ABC):
    """The source of a mechanism's noise. Values are doubles of any shape, or exact values on a grid."""

    sampler: Sampler

    @staticmethod
    def live(seed: int | np.random.SeedSequence | None = None) -> Randomness:
        """Return seeded randomness, or, without a seed, exact randomness from the operating system."""
        return ExactRandomness(OperatingSystemBits()) if seed is None else SeededRandomness(seed)

    @property
    @abstractmethod
    def generator(self) -> np.random.Generator:
        """A generator for samplers outside this library."""

    @abstractmethod
    def gaussian(self, value: Array | OnGrid, sigma: float) -> Array:
        """Return the value plus independent normal noise of standard deviation `sigma`."""

    @abstractmethod
    def laplace(self, value: Array | OnGrid, scale: float) -> Array:
        """Return the value plus independent Laplace noise of this scale."""

    @abstractmethod
    def symmetric(self, value: Array | OnGrid, sigma: float) -> Array:
        """Return symmetric matrices [..., d, d] plus noise: variance sigma^2, and sigma^2/2 off diagonal."""

    @abstractmethod
    def scaled_by_data(self, value: Array, scale: float) -> Array:
        """Return the value plus normal noise of a private standard deviation, without a grid."""

    @abstractmethod
    def path(self, sigma: float, beta: float, shape: tuple[int, ...]) -> Path[Array] | Path[int]:
        """Return a path of covariance sigma^2 exp(-beta |x - y|), drawn at the requested points."""

    @abstractmethod
    def total(self, first: Array | OnGrid, *others: Array | OnGrid) -> Array | OnGrid:
        """Return the sum of values of one shape, exact if the noise is exact."""

    @abstractmethod
    def weighted(self, weights: Sequence[float], values: Sequence[Array | OnGrid]) -> Array | OnGrid:
        """Return the weighted sum of one or more values of one shape, exact if the noise is exact."""

    @abstractmethod
    def discrete_gaussian(self, value: Array | OnGrid, sigma: float) -> Array:
        """Return integers plus integers k with probability proportional to exp(-k^2/(2 sigma^2))."""

    @abstractmethod
    def discrete_laplace(self, value: Array | OnGrid, scale: float) -> Array:
        """Return integers plus integers k with probability proportional to exp(-|k|/scale)."""

    @abstractmethod
    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """Draw coins that are True with probability `rate`: [count]."""

    @abstractmethod
    def subset(self, count: int, size: int) -> NDArray[np.bool_]:
        """Draw a uniform subset of `size` among `count` items, as a mask: [count]."""

    @abstractmethod
    def responses(self, value: Array, epsilon: float, categories: int) -> Array:
        """Keep each category with probability e^epsilon/(e^epsilon + categories - 1), or draw another."""

    @abstractmethod
    def choose(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """Draw an index with probability proportional to exp(log_weights): [k].

        `exactly` holds numbers [k] and a factor; the log weights are their rounded product.
        """

    @abstractmethod
    def level(self, law: LawName, scale: float) -> Level:
        """Draw the noise of a secret threshold, to compare noisy values with it."""

    @abstractmethod
    def below(self, bound: int) -> int:
        """Draw a uniform integer in [0, bound)."""

    @abstractmethod
    def negative_binomial(self, eta: float, gamma: float) -> int:
        """Draw K >= 1 with probability proportional to (1 - gamma)^K prod over i < K of (eta + i)/(i + 1)."""

    @abstractmethod
    def poisson(self, mean: float) -> int:
        """Draw a Poisson number with this mean."""

    @abstractmethod
    def permute_and_flip(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """Return the index of the largest log weight plus exponential noise of scale 1; see `choose`."""

    @abstractmethod
    def noisy_max(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """Return the index of the largest log weight plus Laplace noise of scale 1; see `choose`."""


class ExactRandomness(Randomness):
    """Real-valued noise, rounded on a public grid, with exact decisions from fair bits."""

    sampler = EXACT_SAMPLER

    def __init__(self, bits: Bits) -> None:
        self._bits = bits

    @property
    def generator(self) -> np.random.Generator:
        """A new generator, seeded from the bits, so that no state remains to copy."""
        return default_rng(self._bits.take(256))

    def gaussian(self, value: Array | OnGrid, sigma: float) -> Array:
        """As `Randomness.gaussian`."""
        return continuous.gaussian(self._bits, value, sigma, OF_NOISE).to_doubles()

    def laplace(self, value: Array | OnGrid, scale: float) -> Array:
        """As `Randomness.laplace`."""
        return continuous.laplace(self._bits, value, scale, OF_NOISE).to_doubles()

    def symmetric(self, value: Array | OnGrid, sigma: float) -> Array:
        """As `Randomness.symmetric`."""
        return continuous.symmetric(self._bits, value, sigma, OF_NOISE).to_doubles()

    def scaled_by_data(self, value: Array, scale: float) -> Array:
        """As `Randomness.scaled_by_data`; round the real sum to the nearest double."""
        return continuous.nearest_doubles(self._bits, value, scale)

    def path(self, sigma: float, beta: float, shape: tuple[int, ...]) -> ExactPath:
        """As `Randomness.path`."""
        return ExactPath(self._bits, sigma, beta, shape, OF_NOISE)

    def total(self, first: Array | OnGrid, *others: Array | OnGrid) -> OnGrid:
        """As `Randomness.total`, without rounding."""
        return exact_sum([first, *others])

    def weighted(self, weights: Sequence[float], values: Sequence[Array | OnGrid]) -> OnGrid:
        """As `Randomness.weighted`, without rounding."""
        return exact_sum([_times(weight, value) for weight, value in zip(weights, values, strict=True)])

    def discrete_gaussian(self, value: Array | OnGrid, sigma: float) -> Array:
        """As `Randomness.discrete_gaussian`."""
        return _added(value, lambda count: discrete.discrete_gaussian(self._bits, count, sigma))

    def discrete_laplace(self, value: Array | OnGrid, scale: float) -> Array:
        """As `Randomness.discrete_laplace`."""
        return _added(value, lambda count: discrete.discrete_laplace(self._bits, count, scale))

    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """As `Randomness.coins`."""
        return choice.sampled(self._bits, count, rate)

    def subset(self, count: int, size: int) -> NDArray[np.bool_]:
        """As `Randomness.subset`."""
        return choice.subset(self._bits, count, size)

    def responses(self, value: Array, epsilon: float, categories: int) -> Array:
        """As `Randomness.responses`."""
        return choice.responses(self._bits, value, epsilon, categories)

    def choose(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """As `Randomness.choose`."""
        return choice.choose(self._bits, *(exactly or (log_weights, Fraction(1))))

    def below(self, bound: int) -> int:
        """As `Randomness.below`."""
        return self._bits.below(bound)

    def negative_binomial(self, eta: float, gamma: float) -> int:
        """As `Randomness.negative_binomial`."""
        return choice.negative_binomial(self._bits, eta, gamma)

    def poisson(self, mean: float) -> int:
        """As `Randomness.poisson`."""
        return choice.poisson(self._bits, mean)

    def level(self, law: LawName, scale: float) -> ExactLevel:
        """As `Randomness.level`."""
        return ExactLevel(self._bits, law, scale)

    def permute_and_flip(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """As `Randomness.permute_and_flip`."""
        return choice.permute_and_flip(self._bits, *(exactly or (log_weights, Fraction(1))))

    def noisy_max(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """As `Randomness.noisy_max`."""
        return choice.noisy_max(self._bits, *(exactly or (log_weights, Fraction(1))))


class SeededRandomness(Randomness):
    """Noise of a numpy generator in floating point; discrete noise is exact."""

    sampler = FLOATING_POINT_SAMPLER

    def __init__(self, seed: int | np.random.SeedSequence | np.random.Generator) -> None:
        self._generator = default_rng(seed)
        self._bits = SeededBits(self._generator)

    @property
    def generator(self) -> np.random.Generator:
        """The generator of all noise."""
        return self._generator

    def gaussian(self, value: Array | OnGrid, sigma: float) -> Array:
        """As `Randomness.gaussian`."""
        value = to_doubles(value)
        return value + self._generator.normal(0.0, sigma, value.shape)

    def laplace(self, value: Array | OnGrid, scale: float) -> Array:
        """As `Randomness.laplace`."""
        value = to_doubles(value)
        return value + self._generator.laplace(0.0, scale, value.shape)

    def symmetric(self, value: Array | OnGrid, sigma: float) -> Array:
        """As `Randomness.symmetric`."""
        value = to_doubles(value)
        square = self._generator.normal(0.0, sigma, value.shape)
        # (A + A^T)/2 for independent entries: variance sigma^2 on the diagonal, sigma^2/2 off it.
        return np.asarray(value + 0.5 * (square + np.swapaxes(square, -1, -2)))

    def scaled_by_data(self, value: Array, scale: float) -> Array:
        """As `Randomness.scaled_by_data`."""
        return self.gaussian(value, scale)

    def path(self, sigma: float, beta: float, shape: tuple[int, ...]) -> FloatPath:
        """As `Randomness.path`."""
        return FloatPath(self._generator, sigma, beta, shape)

    def total(self, first: Array | OnGrid, *others: Array | OnGrid) -> Array:
        """As `Randomness.total`, in floating point."""
        first = to_doubles(first)
        return np.asarray(first + sum((to_doubles(other) for other in others), np.zeros(first.shape)))

    def weighted(self, weights: Sequence[float], values: Sequence[Array | OnGrid]) -> Array:
        """As `Randomness.weighted`, in floating point."""
        return np.tensordot(np.asarray(weights), np.stack([to_doubles(x) for x in values]), axes=1)

    def discrete_gaussian(self, value: Array | OnGrid, sigma: float) -> Array:
        """As `Randomness.discrete_gaussian`."""
        variance = Fraction(sigma) ** 2
        return _added(value, lambda n: _drawn(n, lambda: rational.discrete_gaussian(variance, self._bits)))

    def discrete_laplace(self, value: Array | OnGrid, scale: float) -> Array:
        """As `Randomness.discrete_laplace`."""
        ratio = Fraction(scale)
        return _added(value, lambda n: _drawn(n, lambda: rational.discrete_laplace(ratio, self._bits)))

    def coins(self, count: int, rate: float) -> NDArray[np.bool_]:
        """As `Randomness.coins`."""
        return self._generator.random(count) < rate

    def subset(self, count: int, size: int) -> NDArray[np.bool_]:
        """As `Randomness.subset`."""
        return choice.subset(self._bits, count, size)

    def responses(self, value: Array, epsilon: float, categories: int) -> Array:
        """As `Randomness.responses`."""
        keep = 1.0 / (1.0 + (categories - 1) * math.exp(-epsilon))
        other = self._generator.integers(0, categories - 1, value.shape).astype(np.float64)
        other += other >= value  # skip the true category
        return np.where(self._generator.random(value.shape) < keep, value, other)

    def choose(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """As `Randomness.choose`."""
        del exactly
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        cumulative /= cumulative[-1]
        return int(np.searchsorted(cumulative, self._generator.random(), side="right"))

    def below(self, bound: int) -> int:
        """As `Randomness.below`."""
        return int(self._generator.integers(bound))

    def negative_binomial(self, eta: float, gamma: float) -> int:
        """As `Randomness.negative_binomial`, exactly."""
        return choice.negative_binomial(self._bits, eta, gamma)

    def poisson(self, mean: float) -> int:
        """As `Randomness.poisson`."""
        return int(self._generator.poisson(mean))

    def level(self, law: LawName, scale: float) -> FloatLevel:
        """As `Randomness.level`."""
        return FloatLevel(self._generator, law, scale)

    def permute_and_flip(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """As `Randomness.permute_and_flip`."""
        del exactly
        return int(np.argmax(log_weights + self._generator.exponential(1.0, log_weights.shape)))

    def noisy_max(self, log_weights: Array, exactly: tuple[Array, Fraction] | None = None) -> int:
        """As `Randomness.noisy_max`."""
        del exactly
        return int(np.argmax(log_weights + self._generator.laplace(0.0, 1.0, log_weights.shape)))


def exact_sum(values: Sequence[Array | OnGrid]) -> OnGrid:
    """Return the sum of values of one shape, as Python integers on the coarsest grid that holds them all."""
    parts = [value if isinstance(value, OnGrid) else digits_of(value) for value in values]
    finest = min(part.exponent for part in parts)
    total = sum(part.integers.astype(object) << (part.exponent - finest) for part in parts)
    return OnGrid(np.asarray(total, dtype=object), finest)


def _times(weight: float, value: Array | OnGrid) -> OnGrid:
    """Return a double times an array, exactly, as Python integers."""
    digits = value if isinstance(value, OnGrid) else digits_of(value)
    factor, below = weight.as_integer_ratio()
    product = np.asarray(digits.integers.astype(object) * factor, dtype=object)
    return OnGrid(product, digits.exponent - below.bit_length() + 1)


def _drawn(count: int, draw: Callable[[], int]) -> NDArray[np.object_]:
    found = np.empty(count, dtype=object)
    found[:] = [draw() for _ in range(count)]
    return found


def _added(value: Array | OnGrid, draw: Callable[[int], NDArray[Any]]) -> Array:
    """Return integers plus integer noise; rounding the exact sum to doubles is post-processing."""
    if not isinstance(value, OnGrid):
        small = bool((np.abs(value) < 2.0**62).all())
        value = OnGrid(value.astype(np.int64), 0) if small else digits_of(value)
    noise = draw(value.integers.size).reshape(value.integers.shape)
    if noise.dtype != object and value.exponent == 0:
        return OnGrid(value.integers + noise, 0).to_doubles()
    return exact_sum([value, OnGrid(noise, 0)]).to_doubles()
