"""A mechanism that runs on a secret random part of the records."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from dpaudit.claims.sensitivity import Norm, Sensitivity
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import Gaussian, Laplace
from dpaudit.mechanisms.base import Answer, Array, BaseMechanism, Move
from dpaudit.models import Positive
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import Randomness
from dpaudit.noise.sums import total

Inner = Annotated[Gaussian | Laplace, Field(discriminator="kind")]


class PoissonSampled(BaseMechanism):
    """`mechanism` on a sum over units, each unit in it with probability `rate`, independently.

    Obligation: who was sampled stays secret; the inner sensitivity bounds the change of the sum when
    one sampled unit is taken out as well as when it changes. Pure epsilon becomes
    log(1 + rate (e^epsilon - 1)) (Balle, Barthe and Gaboardi 2018, Theorem 8 and section 4; the same
    holds under replace-one, as the sum without the unit is within epsilon of both). A replaced unit is
    hidden in the sample only if its own part of the sum is bounded too: `contribution`, in the inner norm,
    which rests on the same basis as the sensitivity. A bound on the change alone cannot be amplified, as a
    unit whose part is far from every other shows that it was sampled.
    """

    released_by = "release_sum"
    condition = "hidden-sample"
    drawn_exactly = True

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Annotated[Positive, Field(le=1)]
    mechanism: Inner
    contribution: Positive | None = None

    @property
    def sensitivity(self) -> Sensitivity:
        """The inner mechanism's: that of the sum over whoever was sampled."""
        return self.mechanism.sensitivity

    @property
    def norm(self) -> Norm:
        """The norm of the inner mechanism's sensitivity."""
        return self.mechanism.norm

    @property
    def noise(self) -> tuple[str, float] | None:
        """The inner mechanism's."""
        return self.mechanism.noise

    def dominating_pair(self) -> dominating.Sampled:
        """The inner pair, sampled."""
        _, scale = self.mechanism.noise or ("", 1.0)
        own = None if self.contribution is None else Fraction(self.contribution) / Fraction(scale)
        return dominating.Sampled(self.mechanism.dominating_pair(), self.rate, own)

    def with_noise(self, value: float) -> Self:
        """With other noise inside."""
        return self.model_copy(update={"mechanism": self.mechanism.with_noise(value)})

    def with_sensitivity(self, sensitivity: Sensitivity) -> Self:
        """The mechanism with another sensitivity."""
        return self.model_copy(update={"mechanism": self.mechanism.with_sensitivity(sensitivity)})

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The distance of the sums over all records, sampled or not."""
        return self.mechanism.moves(one, other)

    @property
    def typical_noise(self) -> float:
        """The inner mechanism's."""
        return self.mechanism.typical_noise

    @property
    def grid(self) -> int:
        """The inner mechanism's."""
        return self.mechanism.grid

    def sample(self, rows: OnGrid, randomness: Randomness) -> Array:
        """The noisy sum [...] of the sampled ones of the units' rows [n, ...]."""
        chosen = randomness.coins(len(rows.integers), self.rate)
        return self.mechanism.sample(total(OnGrid(rows.integers[chosen], rows.exponent)), randomness)

    def log_density(self, output: Array, without: Array, with_unit: Array) -> float:
        """Log density of the noisy sum where only one unit's membership is unknown.

        `without` is the sum over the other sampled units, `with_unit` the same sum with the unit in it.
        """
        inside = math.log(self.rate) + self.mechanism.log_density(output, with_unit)
        if self.rate == 1.0:
            return inside
        outside = math.log1p(-self.rate) + self.mechanism.log_density(output, without)
        return float(np.logaddexp(outside, inside))
