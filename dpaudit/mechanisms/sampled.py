"""Mechanisms that run on a secret random part of the records: what all share, and Poisson samples."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import Gaussian, Laplace
from dpaudit.mechanisms.base import Answer, Array, BaseMechanism, Calibrated, Move
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.mechanisms.matrices import SymmetricGaussian
from dpaudit.mechanisms.opaque import OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, Tabulated
from dpaudit.mechanisms.selection import Exponential, RandomizedResponse
from dpaudit.models import Positive
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import Randomness
from dpaudit.noise.sums import total

#: Noise on a sum of rows.
_Noise: TypeAlias = Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace | SymmetricGaussian
_Others: TypeAlias = RandomizedResponse | Exponential | OpaquePureDP | OpaqueApproxDP | OpaqueZCDP | Tabulated
Inner = Annotated[_Noise | _Others, Field(discriminator="kind")]


class HiddenSample(BaseMechanism):
    """A unit is in a release by chance, and who is in it stays secret.

    A unit that is added and one that is removed are two pairs.
    """

    condition = "hidden-sample"

    @property
    @abstractmethod
    def most_likely(self) -> float:
        """At most this is the probability that a unit is in the sample, or in an answer."""


class Around(HiddenSample):
    """One with a mechanism inside, which gives it its noise and its sensitivity."""

    mechanism: BaseMechanism

    @property
    def summed(self) -> Calibrated:
        """The inner mechanism, where it adds noise to a sum; raises `InvalidParameter` where it does not."""
        if isinstance(self.mechanism, Calibrated):
            return self.mechanism
        what = f"a sample for a {type(self.mechanism).model_fields['kind'].default} mechanism"
        remedy = "sample for a mechanism that adds noise to a sum, or release it by release_opaque"
        raise InvalidParameter(what, where=type(self).__name__, why="it adds no noise to sums", remedy=remedy)

    @property
    def sensitivity(self) -> Sensitivity:
        """The inner mechanism's: that of the sum over whoever was sampled."""
        return self.summed.sensitivity

    @property
    def declared_sensitivity(self) -> Sensitivity | None:
        """The inner mechanism's; None where it has none."""
        return self.mechanism.declared_sensitivity

    @property
    def noise(self) -> tuple[str, float] | None:
        """The inner mechanism's."""
        return self.mechanism.noise

    def with_noise(self, value: float) -> Self:
        """With other noise inside."""
        return self.model_copy(update={"mechanism": self.mechanism.with_noise(value)})

    def with_sensitivity(self, sensitivity: Sensitivity) -> Self:
        """The mechanism with another sensitivity."""
        return self.model_copy(update={"mechanism": self.summed.with_sensitivity(sensitivity)})

    @property
    def typical_noise(self) -> float:
        """The inner mechanism's."""
        return self.mechanism.typical_noise

    @property
    def grid(self) -> int | None:
        """The inner mechanism's."""
        return self.mechanism.grid


class OnSample(Around):
    """`mechanism` on a secret sample of the units; `contribution` bounds one unit's own part of a sum."""

    released_by = "release_sum"
    drawn_exactly = True

    #: Whether another unit may be in the sample because a given one is not: the inner sensitivity is then
    #: that of replacing a unit, whatever the ledger's relation.
    swaps: ClassVar[bool] = False

    mechanism: Inner
    contribution: Positive | None = None

    @abstractmethod
    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Who of so many units is in a sample: [count]."""

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """Raise `InvalidParameter` for so many units; `known`: neighbours have the same number."""

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The distance of the sums over all records, sampled or not."""
        return self.mechanism.moves(one, other)

    def inner_pairs(self) -> tuple[dominating.Inner, dominating.Inner]:
        """The pairs of a replaced unit, and of one taken out: that of `contribution`, if it is less."""
        change: dominating.Inner = self.mechanism.dominating_pair()
        if self.contribution is None or not isinstance(self.mechanism, _Noise):
            return change, change
        declared = self.mechanism.sensitivity
        own = declared.model_copy(update={"value": min(declared.value, self.contribution)})
        return change, self.mechanism.with_sensitivity(own).dominating_pair()

    def sample(self, rows: OnGrid, randomness: Randomness) -> Array:
        """The noisy sum [...] of the sampled ones of the units' rows [n, ...]."""
        chosen = self.chosen(len(rows.integers), randomness)
        summed = total(OnGrid(rows.integers[chosen], rows.exponent))
        return self.summed.answering()(summed, randomness)


class PoissonSampled(OnSample):
    """`mechanism` on a sum over units, each unit in it with probability `rate`, independently.

    Obligation: who was sampled stays secret; the inner sensitivity bounds the change of the sum when
    one sampled unit is taken out as well as when it changes. Pure epsilon becomes
    log(1 + rate (e^epsilon - 1)) (Balle, Barthe and Gaboardi 2018, Theorem 8 and section 4; the same
    holds under replace-one, as the sum without the unit is within epsilon of both). A replaced unit is
    hidden in the sample only if its own part of the sum is bounded too: `contribution`, in the inner norm,
    which rests on the same basis as the sensitivity. A bound on the change alone cannot be amplified, as a
    unit whose part is far from every other shows that it was sampled. An inner mechanism that adds no noise
    to a sum keeps its guarantee when a sampled unit is taken out as well as when it changes.
    """

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Annotated[Positive, Field(le=1)]

    @property
    def most_likely(self) -> float:
        """The rate."""
        return self.rate

    def dominating_pair(self) -> dominating.Sampled | dominating.Batch:
        """The inner pair, sampled."""
        change, own = self.inner_pairs()
        if not isinstance(change, dominating.Gaussian | dominating.Laplace):
            return dominating.Batch(change, own, self.rate)
        _, scale = self.mechanism.noise or ("", 1.0)
        part = None if self.contribution is None else Fraction(self.contribution) / Fraction(scale)
        return dominating.Sampled(change, self.rate, part)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Independent coins."""
        return randomness.coins(count, self.rate)

    def log_density(self, output: Array, without: Array, with_unit: Array) -> float:
        """Log density of the noisy sum where only one unit's membership is unknown.

        `without` is the sum over the other sampled units, `with_unit` the same sum with the unit in it.
        """
        noise = cast("_Noise", self.summed)
        inside = math.log(self.rate) + noise.log_density(output, with_unit)
        if self.rate == 1.0:
            return inside
        outside = math.log1p(-self.rate) + noise.log_density(output, without)
        return float(np.logaddexp(outside, inside))
