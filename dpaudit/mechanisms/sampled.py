"""Mechanisms that run on a secret random part of the records: what all share, and Poisson samples."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import Gaussian, Laplace
from dpaudit.mechanisms.base import Answer, Array, BaseMechanism, Calibrated, Move, distance
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.mechanisms.matrices import SymmetricGaussian
from dpaudit.mechanisms.opaque import OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, Tabulated
from dpaudit.mechanisms.selection import Exponential, RandomizedResponse
from dpaudit.models import Positive
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import OF_NOISE, Randomness
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

    @property
    def expected_share(self) -> float:
        """The part of a sum over all units that is in the sample on average."""
        return self.most_likely


class Around(HiddenSample):
    """One with a mechanism inside, which gives it its noise and its sensitivity."""

    #: Whether another unit may be in the sample because a given one is not: the inner sensitivity is then
    #: that of replacing a unit, whatever the ledger's relation.
    swaps: ClassVar[bool] = False

    mechanism: BaseMechanism

    @property
    def drawn_by_caller(self) -> bool:
        """Whether that holds for the inner mechanism: then the sample is the caller's too."""
        return self.mechanism.drawn_by_caller

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


class SampledSum(Around):
    """`mechanism` on one sum over a secret sample of its rows, which the curator draws."""

    released_by = "release_sum"
    drawn_exactly = True

    @abstractmethod
    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Which of so many rows are in a sample: [count]."""

    def rows(self, contributions: Array, where: str) -> Array:
        """The rows [m, ...] of the units' contributions [n, ...]; raises `InvalidParameter`."""
        del where
        return contributions

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """Raise `InvalidParameter` for so many units; `known`: neighbours have the same number."""

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The distance of the sums over all records, sampled or not."""
        return self.mechanism.moves(one, other)

    def sample(self, rows: OnGrid, randomness: Randomness) -> Array:
        """The noisy sum [...] of the sampled ones of the rows [m, ...]."""
        chosen = self.chosen(len(rows.integers), randomness)
        return self.summed.answering()(part(rows, chosen), randomness)


class OnSample(SampledSum):
    """`mechanism` on a secret sample of the units; `contribution` bounds one unit's own part of a sum."""

    mechanism: Inner
    contribution: Positive | None = None

    def inner_pairs(self) -> tuple[dominating.Inner, dominating.Inner]:
        """The pairs of a replaced unit, and of one taken out: that of `contribution`, if it is less."""
        change: dominating.Inner = self.mechanism.dominating_pair()
        if self.contribution is None or not isinstance(self.mechanism, _Noise):
            return change, change
        declared = self.mechanism.sensitivity
        own = declared.model_copy(update={"value": min(declared.value, self.contribution)})
        return change, self.mechanism.with_sensitivity(own).dominating_pair()


class InTurns(Around):
    """`mechanism` on one sum after another, each over the units whose turn it is; turns are drawn by chance.

    Row i of every step is the same unit's.
    """

    released_by = "sampled_stream"
    condition = "hidden-turns"
    drawn_exactly = True

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of steps."""

    @property
    @abstractmethod
    def turns(self) -> int:
        """How many turns there are; they take the steps one after another, again and again."""

    def takes_part(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Which of so many units take part in their turn: [count]."""
        del randomness
        return np.ones(count, dtype=np.bool_)

    def answering(self) -> Callable[..., Array]:
        """A stream of its own, with its units' turns, which takes each step's rows [n, ...] in order.

        A row that no step before had is a new unit, with a turn of its own.
        """
        turns: list[int] = []
        noisy, now = self.mechanism.answering(), [0]

        def answer(rows: OnGrid, randomness: Randomness) -> Array:
            if now[0] == self.length:
                raise InvalidParameter(f"step {self.length + 1} of {self.length}", where=OF_NOISE)
            count = len(rows.integers)
            turns.extend(randomness.below(self.turns) for _ in range(count - len(turns)))
            chosen = np.array(turns[:count], dtype=np.int64) == now[0] % self.turns
            chosen[chosen] = self.takes_part(int(chosen.sum()), randomness)
            found = noisy(part(rows, chosen), randomness)
            now[0] += 1  # only now: a step that was refused is taken again
            return found

        return answer

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The largest distance of a step's sums over all units, whosever turn it is."""
        declared = self.sensitivity
        steps = zip(one[1:], other[1:], strict=True)
        moved = max((distance(declared.norm, a.query - b.query) for a, b in steps), default=0.0)
        return [Move(moved, declared.value, f"in {declared.norm}, in one step")]


def part(rows: OnGrid, chosen: NDArray[np.bool_]) -> OnGrid:
    """The sum [...] of the chosen ones of the rows [n, ...]."""
    return total(OnGrid(rows.integers[chosen], rows.exponent))


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
