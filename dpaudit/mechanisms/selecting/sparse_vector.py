"""Sparse vector: comparisons of many values with a threshold; only above-threshold answers cost."""

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import ONE, Answer, Array, Calibrated, Move, Queries, Times, fields
from dpaudit.mechanisms.selecting.integrals import log_integral
from dpaudit.models import Count, Positive, Scale
from dpaudit.noise.levels import LawName, Level
from dpaudit.noise.randomness import OF_NOISE, Randomness


class AboveThreshold(Calibrated):
    """Successive comparisons of values with a threshold, until `answers` values have reached it.

    The threshold gets noise once, and each value gets independent noise. `monotone`: one unit moves all
    values in one direction.
    """

    released_by = "sparse_vector"
    drawn_exactly = True
    law: ClassVar[LawName]

    answers: Count = 1
    monotone: Annotated[bool, Field(strict=True)] = False

    @property
    @abstractmethod
    def scales(self) -> tuple[float, float]:
        """The scales, or sigmas, of the noise on the threshold and on a value."""

    @property
    def sides(self) -> int:
        """The largest change of a value relative to the shifted threshold, in sensitivities."""
        return 1 if self.monotone else 2

    def level(self, randomness: Randomness) -> Level:
        """Draw a threshold's noise; raises `InvalidParameter` if a scale is not a finite double above 0."""
        if not all(0.0 < scale < math.inf for scale in self.scales):
            what = f"noise of scales {self.scales}"
            raise InvalidParameter(
                what, where=OF_NOISE, remedy="choose another epsilon, or rescale the values"
            )
        return randomness.level(self.law, self.scales[0])

    def answering(self) -> Callable[..., Array]:
        """Return the sampler of one release; it keeps one secret threshold noise for all values."""
        levels: list[Level] = []
        scale = self.scales[1]

        def answer(value: Array, threshold: Array, randomness: Randomness) -> Array:
            levels[:] = levels or [self.level(randomness)]
            return np.array(float(levels[0].reached(float(value), float(threshold), scale)))

        return answer

    def log_probability(self, yes: NDArray[np.bool_], ahead: Array) -> float | None:
        """Return the log probability of answers [n], True for yes; `ahead` [n] is value minus threshold.

        It integrates over the threshold's noise, by quadrature with error about 1e-12. Returns None for more
        than about a thousand values, or if values far apart would make it too slow.
        """
        on_threshold, on_value = self.scales
        sides = np.where(yes, 1.0, -1.0)

        def log_of(level: Array) -> Array:
            passed = (ahead - level[:, None]) * (sides / on_value)
            found = self._log_tail(passed).sum(axis=1) + self._log_density(level / on_threshold)
            return np.asarray(found - math.log(on_threshold))

        return log_integral(log_of, np.append(ahead, 0.0), min(on_threshold, on_value))

    @staticmethod
    @abstractmethod
    def _log_tail(x: Array) -> Array:
        """Return the log probability that noise of scale 1 is at most x."""

    @staticmethod
    @abstractmethod
    def _log_density(x: Array) -> Array:
        """Return the log density of noise of scale 1."""

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the largest change of a value; for monotone values, the largest rise plus largest fall."""
        moved = [0.0, *(float(b.query - a.query) for a, b in zip(one[1:], other[1:], strict=True))]
        up, down = max(moved), -min(moved)
        if self.monotone:
            return [Move(up + down, self.sensitivity.value, "of a value, up and down together")]
        return [Move(max(up, down), self.sensitivity.value, "of a value")]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return `log_probability` of all answers together."""
        if len(answers) == 1:  # no comparisons
            return 0.0
        thresholds = np.array([0.0 if answer.at is None else answer.at[1] for answer in answers[1:]])
        values = np.array([float(asked.query) for asked in queries[1:]])
        return self.log_probability(
            np.array([float(answer.output) for answer in answers[1:]]) > 0.5, values - thresholds
        )

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return 0: the outputs have no additive noise."""
        del answers, differences
        return 0.0

    def nearest_output(self, value: Array, query: Array) -> Array:
        """Return the nearest of the answers 0 (below the threshold) and 1 (above)."""
        del query
        return np.clip(np.rint(value), 0.0, 1.0)


class SparseVector(AboveThreshold):
    """Noisy comparisons with a threshold by Laplace noise, until `answers` values have reached it.

    With c answers and sensitivity D, the threshold's noise has scale D/epsilon1, and each value's noise has
    scale 2 c D/epsilon2, or c D/epsilon2 if `monotone`. epsilon1 + epsilon2 = epsilon is split as 1 to
    (2 c)^(2/3), or 1 to c^(2/3) if `monotone`, which minimizes the variance of the difference.

    Obligation: between neighbouring data sets each value changes by at most the sensitivity, also if it is
    chosen from earlier answers; if `monotone`, all values change in one direction. Only the answers are
    released, and none after the last yes. All answers together are then epsilon-DP, for any number of values
    (Lyu, Su and Li 2017, Algorithm 7 and Theorems 4 and 5, after Dwork and Roth 2014, Algorithm 2). A
    numeric answer is a separate release.
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l1",)
    noise_field = "epsilon"
    law = "laplace"

    example = fields(epsilon=0.5, sensitivity=ONE["l1"], answers=2, monotone=False)

    kind: Literal["sparse-vector"] = "sparse-vector"
    epsilon: Positive

    @property
    def scales(self) -> tuple[float, float]:
        """The scales of the noise, rounded up until their exact joint cost is at most epsilon."""
        return _laplace_scales(self.sensitivity.value, self.sides * self.answers, self.epsilon)

    def dominating_pair(self) -> dominating.Pure:
        """Return the pair that dominates every epsilon-DP pair."""
        return dominating.Pure(self.epsilon)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return `size` times epsilon: every change in the proof grows by that factor."""
        return self.model_copy(update={"epsilon": times(self.epsilon, size)}), 1

    @staticmethod
    def _log_tail(x: Array) -> Array:
        return np.where(x < 0.0, x - math.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))

    @staticmethod
    def _log_density(x: Array) -> Array:
        return np.asarray(-np.abs(x) - math.log(2.0))


class GaussianSparseVector(AboveThreshold):
    """Noisy comparisons with a threshold by Gaussian noise, until `answers` of `steps` values reach it.

    A value's noise has standard deviation `sigma`; the threshold's noise has sigma/sqrt(2 sqrt(c)) for c
    answers, or sigma/sqrt(sqrt(c)) if `monotone`, which minimizes the variance of the difference.

    Obligation: between neighbouring data sets each value changes by at most the sensitivity D, also if it is
    chosen from earlier answers; if `monotone`, all values change in one direction. Only the answers are
    released, none after the last yes and none after `steps` comparisons. Then the Renyi divergence of order
    alpha is at most alpha/2 (D^2/threshold sigma^2 + c (2 D)^2/sigma^2) + log(N)/(alpha - 1), with D in place
    of 2 D if `monotone`; N is the number of possible outcomes, the sum of binomials (steps over j) for j up
    to c (Zhu and Wang 2020; their proof for one answer carries over). It is also at most alpha/2 steps
    D^2/sigma^2, as if all noisy values were released.
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l2",)
    noise_field = "sigma"
    law = "normal"

    example = fields(sigma=10.0, sensitivity=ONE["l2"], answers=2, steps=100, monotone=False)

    kind: Literal["gaussian-sparse-vector"] = "gaussian-sparse-vector"
    sigma: Scale
    steps: Count

    @property
    def scales(self) -> tuple[float, float]:
        """As `AboveThreshold.scales`."""
        times = self.sides * math.sqrt(self.answers)
        return self.sigma / math.sqrt(times) or self.sigma, self.sigma

    def dominating_pair(self) -> dominating.SparseGaussian:
        """Return the pair with the relative shifts of both noises and the numbers of answers and steps."""
        moved, (threshold, value) = Fraction(self.sensitivity.value), map(Fraction, self.scales)
        alone = moved / value
        return dominating.SparseGaussian(
            moved / threshold, self.sides * alone, alone, self.answers, self.steps
        )

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return the mechanism with `size` times the sensitivity."""
        value = times(self.sensitivity.value, size)
        return self.with_sensitivity(self.sensitivity.model_copy(update={"value": value})), 1

    @staticmethod
    def _log_tail(x: Array) -> Array:
        return np.asarray(scipy.special.log_ndtr(x))

    @staticmethod
    def _log_density(x: Array) -> Array:
        return np.asarray(-0.5 * x * x - 0.5 * math.log(2.0 * math.pi))


@functools.lru_cache(maxsize=256)
def _laplace_scales(moved: float, paid: int, epsilon: float) -> tuple[float, float]:
    """Return scales of threshold and value with moved/threshold + paid moved/value at most epsilon."""

    def cost(threshold: float, value: float) -> Fraction:
        return Fraction(moved) / Fraction(threshold) + paid * Fraction(moved) / Fraction(value)

    unit = moved or 1.0  # with sensitivity 0, any noise suffices
    first = epsilon / (1.0 + float(paid) ** (2.0 / 3.0))
    found = unit / first if first else math.inf, paid * (unit / (epsilon - first))
    while _are_doubles(found) and cost(*found) > epsilon:
        found = math.nextafter(found[0], math.inf), math.nextafter(found[1], math.inf)
    return found


def _are_doubles(scales: tuple[float, float]) -> bool:
    return all(0.0 < scale < math.inf for scale in scales)
