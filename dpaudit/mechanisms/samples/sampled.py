"""Mechanisms on secret samples: their base classes, and Poisson samples."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import Gaussian, Laplace, SymmetricGaussian
from dpaudit.mechanisms.base import (
    ONE,
    Answer,
    Array,
    BaseMechanism,
    Calibrated,
    Move,
    Queries,
    ValueMechanism,
    distance,
    fields,
)
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.mechanisms.opaque import OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, Tabulated
from dpaudit.mechanisms.samples import subsets
from dpaudit.mechanisms.selection import Exponential, RandomizedResponse
from dpaudit.mechanisms.streams import StreamMechanism
from dpaudit.models import Enlarged, Positive, Share
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import OF_NOISE, Randomness
from dpaudit.noise.sums import total

#: Noise on a sum of rows.
_Noise: TypeAlias = Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace | SymmetricGaussian
_Others: TypeAlias = RandomizedResponse | Exponential | OpaquePureDP | OpaqueApproxDP | OpaqueZCDP | Tabulated
Inner = Annotated[_Noise | _Others, Field(discriminator="kind")]


class HiddenSample(BaseMechanism):
    """A mechanism on a secret random sample of the units.

    Adding a unit and removing a unit are two different pairs.
    """

    condition = "hidden-sample"
    trusted_to = "draw who is in the sample, and to keep it secret"

    @property
    @abstractmethod
    def most_likely(self) -> float:
        """An upper bound on the probability that a unit is in the sample, or in an answer."""

    @property
    def expected_share(self) -> float:
        """The expected fraction of units in the sample."""
        return self.most_likely


class Around(HiddenSample):
    """A mechanism with an inner mechanism, which determines its noise and its sensitivity."""

    #: Whether another unit may replace a given unit in the sample: the inner sensitivity is then the
    #: replace-one sensitivity, under every relation.
    swaps: ClassVar[bool] = False

    mechanism: BaseMechanism

    @property
    def drawn_by_caller(self) -> bool:
        """Whether the caller draws the inner mechanism's outputs, and then also the sample."""
        return self.mechanism.drawn_by_caller

    @property
    def summed(self) -> Calibrated:
        """The inner mechanism; raises `InvalidParameter` if it does not add noise to a sum."""
        if isinstance(self.mechanism, Calibrated):
            return self.mechanism
        what = f"a sample for a {type(self.mechanism).model_fields['kind'].default} mechanism"
        remedy = "sample for a mechanism that adds noise to a sum, or release it by release_opaque"
        raise InvalidParameter(what, where=type(self).__name__, why="it adds no noise to sums", remedy=remedy)

    @property
    def sensitivity(self) -> Sensitivity:
        """The inner sensitivity, of the sum over the sample."""
        return self.summed.sensitivity

    @property
    def declared_sensitivity(self) -> Sensitivity | None:
        """The inner mechanism's sensitivity, or None."""
        return self.mechanism.declared_sensitivity

    @property
    def noise(self) -> tuple[str, float] | None:
        """The name and the value of the inner mechanism's noise."""
        return self.mechanism.noise

    def with_noise(self, value: float) -> Self:
        """Return the mechanism with other noise in its inner mechanism."""
        return self.model_copy(update={"mechanism": self.mechanism.with_noise(value)})

    def with_sensitivity(self, sensitivity: Sensitivity) -> Self:
        """Return the mechanism with another sensitivity."""
        return self.model_copy(update={"mechanism": self.summed.with_sensitivity(sensitivity)})

    @property
    def typical_noise(self) -> float:
        """The size of the inner mechanism's noise."""
        return self.mechanism.typical_noise

    @property
    def grid(self) -> int | None:
        """The exponent of the inner mechanism's grid."""
        return self.mechanism.grid


class SampledSum(Around):
    """`mechanism` on one sum over a secret sample of its rows; the curator draws the sample."""

    released_by = "release_sum"
    drawn_exactly = True

    @property
    def sampling(self) -> tuple[tuple[str, Any], ...]:
        """The fields that determine the sampling, with their values; mechanisms on one draw share them."""
        beside = {"mechanism", "contribution"}
        return tuple((name, getattr(self, name)) for name in type(self).model_fields if name not in beside)

    @abstractmethod
    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Draw a sample of `count` rows, as a mask [count]."""

    @abstractmethod
    def sizes(self, count: int) -> Array:
        """Return the log probability of each sample size [count + 1]; equal sizes are equally likely."""

    @property
    def rows_of_one(self) -> int:
        """The largest number of rows of one unit."""
        return 1

    def rows(self, contributions: Array, where: str) -> Array:
        """Return the rows [m, ...] of the units' contributions [n, ...]; may raise `InvalidParameter`."""
        del where
        return contributions

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """Raise `InvalidParameter` for a wrong number of units; `known`: neighbours have equal numbers."""

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the change of the sum over all rows, sampled or not, and the change of other units' rows."""
        found, declared = list(self.mechanism.moves(one, other)), self.sensitivity
        left, right = one[0].rows, other[0].rows
        if left is not None and right is not None:
            found.append(_of_others([(left, right)], declared, self.rows_of_one))
        return found

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return the log density over all samples; None without rows, or with too many different sums."""
        rows = queries[0].rows
        found = None if rows is None else self.log_densities(answers[0].output[np.newaxis], rows)
        return None if found is None else float(found[0])

    def log_densities(self, outputs: Array, rows: Array) -> Array | None:
        """Return the log density of each output [k, ...] for samples of the rows [n, ...], or None."""
        if not isinstance(self.summed, ValueMechanism):
            return None
        return subsets.log_densities(self.summed, outputs, rows, self.sizes(len(rows)))

    def sample(self, rows: OnGrid, *chosen_before: Any) -> Array:
        """Return the noisy sum [...] of the sampled rows among the rows [m, ...].

        The further arguments are the sample's mask [m], if it was drawn before, and the randomness.
        """
        *before, randomness = chosen_before
        chosen = before[0] > 0.0 if before else self.chosen(len(rows.integers), randomness)
        return self.summed.answering()(part(rows, chosen), randomness)


class OnSample(SampledSum):
    """`mechanism` on a secret sample of the units.

    The inner sensitivity bounds the change of a sum when a sampled unit changes, and `contribution` bounds
    the change when a sampled unit is removed.
    """

    mechanism: Inner
    contribution: Annotated[Positive, Enlarged] | None = None

    def inner_pairs(self) -> tuple[dominating.Inner, dominating.Inner]:
        """Return the pairs of a replaced unit (by the sensitivity) and of a removed one (by `contribution`).

        Neither bounds the other: a row between 1 and 2 changes by at most 1, but removing it removes up to 2.
        Without `contribution` the sensitivity bounds both.
        """
        change: dominating.Inner = self.mechanism.dominating_pair()
        if self.contribution is None or not isinstance(self.mechanism, _Noise):
            return change, change
        own = self.mechanism.sensitivity.model_copy(update={"value": self.contribution})
        return change, self.mechanism.with_sensitivity(own).dominating_pair()


class InTurns(Around):
    """`mechanism` on successive sums, each over the units scheduled for it; the schedule is random.

    Row i belongs to the same unit in every step.
    """

    released_by = "sampled_stream"
    condition = "hidden-turns"
    drawn_exactly = True

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of steps of the stream."""

    @property
    @abstractmethod
    def turns(self) -> int:
        """The number of groups of units; the groups are scheduled in cyclic order."""

    @property
    def taking_part(self) -> float:
        """The probability that a unit takes part in a step of its group."""
        return 1.0

    def takes_part(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Draw the units that take part in a step of their group, by independent coins: [count]."""
        return (
            randomness.coins(count, self.taking_part) if self.taking_part < 1.0 else np.ones(count, np.bool_)
        )

    def answering(self) -> Callable[..., Array]:
        """Return the sampler of one release; it keeps the schedule and adds each step's rows [n, ...].

        A row index that no earlier step had is a new unit; its group is drawn then.
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
            now[0] += 1  # only now: a refused step is repeated
            return found

        return answer

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the largest distance of a step's sums over all units, scheduled or not."""
        declared = self.sensitivity
        steps = zip(one[1:], other[1:], strict=True)
        moved = max((distance(declared.norm, a.query - b.query) for a, b in steps), default=0.0)
        found = [Move(moved, declared.value, f"in {declared.norm}, in one step")]
        rows = [(a.rows, b.rows) for a, b in zip(one[1:], other[1:], strict=True)]
        known = [(a, b) for a, b in rows if a is not None and b is not None]
        return [*found, _of_others(known, declared, 1)] if known else found

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return the log density over all schedules; None without rows, or with too many schedules."""
        steps = len(answers) - 1
        if steps == 0:
            return 0.0
        given = [asked.rows for asked in queries[1:]]
        rows = [step for step in given if step is not None]
        mechanism = self.mechanism
        if len(rows) < steps or not isinstance(mechanism, ValueMechanism | StreamMechanism):
            return None
        items = np.zeros((steps, max(map(len, rows)), *rows[0].shape[1:]))
        for step, own in zip(items, rows, strict=True):
            step[: len(own)] = own
        items = items[:, items.any(axis=(0, *range(2, items.ndim)))]
        outputs = np.stack([answer.output for answer in answers[1:]])
        parts = subsets.parts(steps, self.turns, self.taking_part)
        if parts is None:
            return None
        return subsets.log_sum(partial(mechanism.log_density, outputs), [parts] * items.shape[1], items)


def log_likelihood_together(
    mechanisms: Sequence[SampledSum], answers: Sequence[Answer], queries: Queries
) -> float | None:
    """Return the joint log density of several mechanisms' sums on one sample given `queries`, or None.

    Gaussian sums divided by their standard deviations form one sum of longer rows.
    """
    inner = [mechanism.mechanism for mechanism in mechanisms]
    rows = [asked.rows for asked in queries]
    noise = [one for one in inner if isinstance(one, Gaussian)]
    known = [one for one in rows if one is not None]
    if len(noise) < len(inner) or len(known) < len(rows) or len({len(one) for one in known}) > 1:
        return None
    count = len(known[0])
    sigmas = [one.sigma for one in noise]
    joint = np.hstack(
        [own.reshape(count, own[0].size if count else 0) / s for own, s in zip(known, sigmas, strict=True)]
    )
    outputs = np.concatenate([one.output.ravel() / s for one, s in zip(answers, sigmas, strict=True)])
    one = Gaussian(sigma=1.0, sensitivity=noise[0].sensitivity)
    found = subsets.log_densities(one, outputs[np.newaxis], joint, mechanisms[0].sizes(count))
    scales = math.fsum(a.output.size * math.log(s) for a, s in zip(answers, sigmas, strict=True))
    return None if found is None else float(found[0]) - scales


def _of_others(sides: Sequence[tuple[Array, Array]], declared: Sensitivity, own: int) -> Move:
    """Return the change of other units' rows; only rounding of jointly computed rows is allowed."""
    rounded = subsets.ROUNDED * declared.value
    most = max(subsets.others_moved(one, other, declared.norm, own, rounded) for one, other in sides)
    return Move(most, 0.0, f"in {declared.norm}, in rows of other units")


def part(rows: OnGrid, chosen: NDArray[np.bool_]) -> OnGrid:
    """Return the sum [...] of the chosen rows among the rows [n, ...]."""
    return total(OnGrid(rows.integers[chosen], rows.exponent))


class PoissonSampled(OnSample):
    """`mechanism` on a sum over a Poisson sample: each unit is in it with probability `rate`, independently.

    Obligation: the sample stays secret. The inner sensitivity bounds the change of the sum when a sampled
    unit changes according to the relation, and `contribution` bounds the change when a sampled unit is
    removed: the norm of a unit's own part of the sum, in the inner norm and on the sensitivity's basis.
    Neither bounds the other. Without `contribution` the sensitivity bounds both. Pure epsilon, the larger of
    both, becomes log(1 + rate (e^epsilon - 1)) (Balle, Barthe and Gaboardi 2018, Theorem 8 and section 4; the
    same holds under replace-one, as the sum without the unit is within epsilon of both). Under replace-one
    Gaussian noise is amplified only if `contribution` is stated: a unit with a part far from all others shows
    that it was sampled. An inner mechanism that adds no noise to a sum must keep its guarantee both when a
    sampled unit is removed and when it changes.
    """

    example = fields(rate=0.01, mechanism={"kind": "laplace", "scale": 2.0, "sensitivity": ONE["l1"]})

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Share

    @property
    def most_likely(self) -> float:
        """The sampling rate."""
        return self.rate

    def dominating_pair(self) -> dominating.Sampled | dominating.Batch:
        """Return the inner mechanism's pairs on a Poisson sample."""
        change, own = self.inner_pairs()
        if not isinstance(change, dominating.Gaussian | dominating.Laplace):
            return dominating.Batch(change, own, self.rate)
        _, scale = self.mechanism.noise or ("", 1.0)
        part = None if self.contribution is None else Fraction(self.contribution) / Fraction(scale)
        return dominating.Sampled(change, self.rate, part)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Draw an independent coin for each row."""
        return randomness.coins(count, self.rate)

    def sizes(self, count: int) -> Array:
        """Return the logarithms of binomial probabilities."""
        return subsets.log_binomial(count, self.rate)
