"""Sparse vector: which of many values lie above a threshold, at the price of those that do."""

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
    """Whether values reach a threshold, one after another, until `answers` of them did.

    The threshold gets noise once, and each value noise of its own. `monotone`: one unit moves all values in
    one direction.
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
        """How far a value may move against a threshold that moves along, in multiples of the sensitivity."""
        return 1 if self.monotone else 2

    def level(self, randomness: Randomness) -> Level:
        """The noise of a threshold; raises `InvalidParameter` where a scale is no double above 0."""
        if not all(0.0 < scale < math.inf for scale in self.scales):
            what = f"noise of scales {self.scales}"
            raise InvalidParameter(
                what, where=OF_NOISE, remedy="choose another epsilon, or rescale the values"
            )
        return randomness.level(self.law, self.scales[0])

    def answering(self) -> Callable[..., Array]:
        """A level of its own, which stays secret and the same for all values."""
        levels: list[Level] = []
        scale = self.scales[1]

        def answer(value: Array, threshold: Array, randomness: Randomness) -> Array:
            levels[:] = levels or [self.level(randomness)]
            return np.array(float(levels[0].reached(float(value), float(threshold), scale)))

        return answer

    def log_probability(self, yes: NDArray[np.bool_], ahead: Array) -> float | None:
        """Log probability of answers [n], True for yes, to values that are `ahead` [n] of their thresholds.

        It is the integral over the threshold's noise, by quadrature to about 1e-12; None for over a thousand
        values, or where they are so far apart that it would take too long.
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
        """Log probability that noise of scale 1 is at most x."""

    @staticmethod
    @abstractmethod
    def _log_density(x: Array) -> Array:
        """Log density of noise of scale 1."""

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The largest move of a value; of monotone ones up and down together."""
        moved = [0.0, *(float(b.query - a.query) for a, b in zip(one[1:], other[1:], strict=True))]
        up, down = max(moved), -min(moved)
        if self.monotone:
            return [Move(up + down, self.sensitivity.value, "of a value, up and down together")]
        return [Move(max(up, down), self.sensitivity.value, "of a value")]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """`log_probability` of all answers together."""
        if len(answers) == 1:  # nothing was asked
            return 0.0
        thresholds = np.array([0.0 if answer.at is None else answer.at[1] for answer in answers[1:]])
        values = np.array([float(asked.query) for asked in queries[1:]])
        return self.log_probability(
            np.array([float(answer.output) for answer in answers[1:]]) > 0.5, values - thresholds
        )

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """None: noise is not added to what comes out."""
        del answers, differences
        return 0.0

    def nearest_output(self, value: Array, query: Array) -> Array:
        """The nearest of the answers 0 (below the threshold) and 1 (above)."""
        del query
        return np.clip(np.rint(value), 0.0, 1.0)


class SparseVector(AboveThreshold):
    """Whether values reach a threshold, by Laplace noise, until `answers` of them did.

    With c answers and D the sensitivity, the threshold's noise has scale D/epsilon1 and each value's 2 c
    D/epsilon2, or c D/epsilon2 if `monotone`, with epsilon1 + epsilon2 = epsilon split as 1 to (2 c)^(2/3) or
    c^(2/3), which is best for the variance of their difference.

    Obligation: between neighbouring data sets each value, however chosen from earlier answers, moves by
    at most the sensitivity; if `monotone`, all of them in one direction. No more is released than the
    answers, and none after the last yes; then they are epsilon-DP together, however many there are
    (Lyu, Su and Li 2017, Algorithm 7 and Theorems 4 and 5, after Dwork and Roth 2014, Algorithm 2). A
    numeric answer is a release of its own.
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l1",)
    noise_field = "epsilon"
    law = "laplace"

    example = fields(epsilon=0.5, sensitivity=ONE["l1"], answers=2, monotone=False)

    kind: Literal["sparse-vector"] = "sparse-vector"
    epsilon: Positive

    @property
    def scales(self) -> tuple[float, float]:
        """As `AboveThreshold.scales`: rounded up until together they cost at most epsilon, exactly."""
        return _laplace_scales(self.sensitivity.value, self.sides * self.answers, self.epsilon)

    def dominating_pair(self) -> dominating.Pure:
        """The pair that dominates every epsilon-DP pair."""
        return dominating.Pure(self.epsilon)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """epsilon times the size: every move that the proof counts grows so many times."""
        return self.model_copy(update={"epsilon": times(self.epsilon, size)}), 1

    @staticmethod
    def _log_tail(x: Array) -> Array:
        return np.where(x < 0.0, x - math.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))

    @staticmethod
    def _log_density(x: Array) -> Array:
        return np.asarray(-np.abs(x) - math.log(2.0))


class GaussianSparseVector(AboveThreshold):
    """Whether values reach a threshold, by Gaussian noise, until `answers` of at most `steps` did.

    A value's noise is `sigma`, the threshold's sigma/sqrt(2 sqrt(c)) for c answers, or sigma/sqrt(sqrt(c)) if
    `monotone`, which is best for the variance of their difference.

    Obligation: between neighbouring data sets each value, however chosen from earlier answers, moves by
    at most the sensitivity D; if `monotone`, all of them in one direction. No more is released than the
    answers, none after the last yes and none after `steps`. Then the Renyi divergence of order alpha is at
    most alpha/2 (D^2/threshold sigma^2 + c (2 D)^2/sigma^2) + log(N)/(alpha - 1), with D in place of 2 D if
    `monotone` and N the number of possible outcomes, the sum of binomials (steps over j) for j up to c (Zhu
    and Wang 2020, whose proof for one answer carries over). It is also at most alpha/2 steps D^2/sigma^2, as
    if all noisy values were released.
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
        """How far both noises are moved, and how many outcomes there are."""
        moved, (threshold, value) = Fraction(self.sensitivity.value), map(Fraction, self.scales)
        alone = moved / value
        return dominating.SparseGaussian(
            moved / threshold, self.sides * alone, alone, self.answers, self.steps
        )

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """The sensitivity times the size."""
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
    """Scales of threshold and value at which moved/threshold + paid moved/value is at most epsilon."""

    def cost(threshold: float, value: float) -> Fraction:
        return Fraction(moved) / Fraction(threshold) + paid * Fraction(moved) / Fraction(value)

    unit = moved or 1.0  # any noise hides what does not move
    first = epsilon / (1.0 + float(paid) ** (2.0 / 3.0))
    found = unit / first if first else math.inf, paid * (unit / (epsilon - first))
    while _are_doubles(found) and cost(*found) > epsilon:
        found = math.nextafter(found[0], math.inf), math.nextafter(found[1], math.inf)
    return found


def _are_doubles(scales: tuple[float, float]) -> bool:
    return all(0.0 < scale < math.inf for scale in scales)
