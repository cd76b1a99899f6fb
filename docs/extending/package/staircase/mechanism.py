"""Staircase noise, the least noise that gives pure differential privacy to one number, and its pair."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import ONE, Array, Calibrated, Times, ValueMechanism, fields, residual
from dpaudit.models import Positive
from dpaudit.noise.grid import OnGrid, to_doubles
from dpaudit.noise.randomness import Randomness


@dataclass(frozen=True)
class StaircasePair(dominating.Added):
    """The pair of two queries that are the whole sensitivity apart; it dominates all that are closer.

    The density falls by e^-epsilon at each step, and two points that are at most the sensitivity apart lie on
    the same step or on neighbouring ones: every loss is -epsilon, 0 or epsilon. The distributions mirror each
    other, so that P(-epsilon) = e^-epsilon P(epsilon), and P(epsilon) is the total variation distance over
    1 - e^-epsilon. For a symmetric density that falls away from 0 the distance grows with the move.
    """

    steps: float  # epsilon

    def epsilon(self) -> float:
        """The largest loss."""
        return self.steps

    def table(self) -> dominating.Table:
        """The three losses; the probability of the largest is raised, so that no rounding lowers it."""
        fall, split = math.exp(-self.steps), best_split(self.steps)
        largest = (split + fall * (0.5 - split)) / (split + fall * (1.0 - split)) * (1.0 + 1e-12)
        least = largest * fall
        losses, middle = (-self.steps, 0.0, self.steps), max(0.0, 1.0 - largest - least)
        return dominating.Table(losses, (least, middle, largest), 0.0)


class Staircase(Calibrated, ValueMechanism):
    """Noise whose density is a geometric staircase, steps as wide as the sensitivity, for one number.

    Obligation: the query is a single number that moves by at most the sensitivity between neighbouring
    data sets; then the release is epsilon-DP (Geng and Viswanath 2014, Theorem 1).
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l1",)
    noise_field = "epsilon"
    example = fields(epsilon=0.5, sensitivity=ONE["l1"])

    kind: Literal["staircase"] = "staircase"
    epsilon: Positive

    def dominating_pair(self) -> StaircasePair:
        """Three losses, whatever the sensitivity."""
        return StaircasePair(self.epsilon)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """epsilon times the size: the noise follows the sensitivity of one unit."""
        return self.model_copy(update={"epsilon": times(self.epsilon, size)}), 1

    def require_fits(self, query: Array, where: str) -> None:
        """Raise `InvalidParameter` unless the value is a single number."""
        if query.size != 1:
            remedy = "release each number by a staircase of its own"
            raise InvalidParameter(f"{query.size} numbers", where=where, remedy=remedy)

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """`value`, of one entry, plus noise in floating point (Geng and Viswanath 2014, Algorithm 1)."""
        value, generator = to_doubles(value), randomness.generator
        fall, split = math.exp(-self.epsilon), best_split(self.epsilon)
        step = generator.geometric(1.0 - fall, value.shape) - 1
        inner = generator.random(value.shape) < split / (split + (1.0 - split) * fall)
        place = generator.random(value.shape)
        distance = step + np.where(inner, split * place, split + (1.0 - split) * place)
        return value + generator.choice((-1.0, 1.0), value.shape) * distance * self.sensitivity.value

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        width, fall, split = self.sensitivity.value, math.exp(-self.epsilon), best_split(self.epsilon)
        steps = float(np.abs(residual(output, query)).sum()) / width
        fallen = math.floor(steps) + (steps - math.floor(steps) >= split)
        height = (1.0 - fall) / (2.0 * width * (split + fall * (1.0 - split)))
        return math.log(height) - fallen * self.epsilon


def best_split(epsilon: float) -> float:
    """Where a step falls, as a part of its width: the value that is best for the mean error."""
    return 1.0 / (1.0 + math.exp(epsilon / 2.0))
