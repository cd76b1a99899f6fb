"""Mechanisms that run on a secret random part of the records: what all share, and Poisson samples."""

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
    """A unit is in a release by chance, and who is in it stays secret.

    A unit that is added and one that is removed are two pairs.
    """

    condition = "hidden-sample"
    trusted_to = "draw who is in the sample, and to keep it secret"

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
        """Name and value of the inner mechanism's noise."""
        return self.mechanism.noise

    def with_noise(self, value: float) -> Self:
        """The mechanism with other noise in its inner mechanism."""
        return self.model_copy(update={"mechanism": self.mechanism.with_noise(value)})

    def with_sensitivity(self, sensitivity: Sensitivity) -> Self:
        """The mechanism with another sensitivity."""
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
    """`mechanism` on one sum over a secret sample of its rows, which the curator draws."""

    released_by = "release_sum"
    drawn_exactly = True

    @property
    def sampling(self) -> tuple[tuple[str, Any], ...]:
        """The fields that decide who is drawn, with their values: mechanisms on one draw have the same."""
        beside = {"mechanism", "contribution"}
        return tuple((name, getattr(self, name)) for name in type(self).model_fields if name not in beside)

    @abstractmethod
    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Which of so many rows are in a sample: [count]."""

    @abstractmethod
    def sizes(self, count: int) -> Array:
        """Log probability of each size of a sample of so many rows, [count + 1]; all of a size are alike."""

    @property
    def rows_of_one(self) -> int:
        """How many rows one unit has at most."""
        return 1

    def rows(self, contributions: Array, where: str) -> Array:
        """The rows [m, ...] of the units' contributions [n, ...]; raises `InvalidParameter`."""
        del where
        return contributions

    def require_units(self, count: int, where: str, *, known: bool) -> None:
        """Raise `InvalidParameter` for so many units; `known`: neighbours have the same number."""

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The distance of the sums over all rows, sampled or not, and that of the other units' rows."""
        found, declared = list(self.mechanism.moves(one, other)), self.sensitivity
        left, right = one[0].rows, other[0].rows
        if left is not None and right is not None:
            found.append(_of_others([(left, right)], declared, self.rows_of_one))
        return found

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Over all samples; None where no rows are known, or too many different sums."""
        rows = queries[0].rows
        found = None if rows is None else self.log_densities(answers[0].output[np.newaxis], rows)
        return None if found is None else float(found[0])

    def log_densities(self, outputs: Array, rows: Array) -> Array | None:
        """Log density of each of the outputs [k, ...] of a sample of the rows [n, ...]; None: not known."""
        if not isinstance(self.summed, ValueMechanism):
            return None
        return subsets.log_densities(self.summed, outputs, rows, self.sizes(len(rows)))

    def sample(self, rows: OnGrid, *chosen_before: Any) -> Array:
        """The noisy sum [...] of the sampled ones of the rows [m, ...].

        After the rows comes who is sampled [m], where that was drawn before, and then the randomness.
        """
        *before, randomness = chosen_before
        chosen = before[0] > 0.0 if before else self.chosen(len(rows.integers), randomness)
        return self.summed.answering()(part(rows, chosen), randomness)


class OnSample(SampledSum):
    """`mechanism` on a secret sample of the units.

    The inner sensitivity bounds the change of a sum when a sampled unit changes, and `contribution` that when
    one is taken out.
    """

    mechanism: Inner
    contribution: Annotated[Positive, Enlarged] | None = None

    def inner_pairs(self) -> tuple[dominating.Inner, dominating.Inner]:
        """The pairs of a replaced unit, by the sensitivity, and of one taken out, by `contribution`.

        Neither bounds the other: rows between 1 and 2 change by 1, and 2 are taken out. Where `contribution`
        is not stated, the sensitivity bounds both.
        """
        change: dominating.Inner = self.mechanism.dominating_pair()
        if self.contribution is None or not isinstance(self.mechanism, _Noise):
            return change, change
        own = self.mechanism.sensitivity.model_copy(update={"value": self.contribution})
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
        """The number of steps of the stream."""

    @property
    @abstractmethod
    def turns(self) -> int:
        """How many turns there are; they take the steps one after another, again and again."""

    @property
    def taking_part(self) -> float:
        """The probability with which a unit takes part in a step of its turn."""
        return 1.0

    def takes_part(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Which of so many units take part in their turn, by independent coins: [count]."""
        return (
            randomness.coins(count, self.taking_part) if self.taking_part < 1.0 else np.ones(count, np.bool_)
        )

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
        found = [Move(moved, declared.value, f"in {declared.norm}, in one step")]
        rows = [(a.rows, b.rows) for a, b in zip(one[1:], other[1:], strict=True)]
        known = [(a, b) for a, b in rows if a is not None and b is not None]
        return [*found, _of_others(known, declared, 1)] if known else found

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Over all turns; None where no rows are known, or there are too many turns of all units together."""
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
    """Log density of sums on one sample, one of each mechanism, had `queries` been asked; None: not known.

    With Gaussian noise, over its deviations, they are one sum of longer rows.
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
    """What other units' rows move: none, but for the rounding of rows that are computed together."""
    rounded = subsets.ROUNDED * declared.value
    most = max(subsets.others_moved(one, other, declared.norm, own, rounded) for one, other in sides)
    return Move(most, 0.0, f"in {declared.norm}, in rows of other units")


def part(rows: OnGrid, chosen: NDArray[np.bool_]) -> OnGrid:
    """The sum [...] of the chosen ones of the rows [n, ...]."""
    return total(OnGrid(rows.integers[chosen], rows.exponent))


class PoissonSampled(OnSample):
    """`mechanism` on a sum over units, each unit in it with probability `rate`, independently.

    Obligation: who was sampled stays secret. The inner sensitivity bounds the change of the sum when a
    sampled unit changes as the relation has it, and `contribution` that when one is taken out: the norm of a
    unit's own part of the sum, in the inner norm and on the sensitivity's basis. Neither bounds the other.
    Where `contribution` is left out, the sensitivity bounds both. Pure epsilon, the larger of both, becomes
    log(1 + rate (e^epsilon - 1)) (Balle, Barthe and Gaboardi 2018, Theorem 8 and section 4; the same holds
    under replace-one, as the sum without the unit is within epsilon of both). Under replace-one Gaussian
    noise is amplified only where `contribution` is stated: a unit whose part is far from every other shows
    that it was sampled. An inner mechanism that adds no noise to a sum keeps its guarantee when a sampled
    unit is taken out as well as when it changes.
    """

    example = fields(rate=0.01, mechanism={"kind": "laplace", "scale": 2.0, "sensitivity": ONE["l1"]})

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Share

    @property
    def most_likely(self) -> float:
        """The sampling rate."""
        return self.rate

    def dominating_pair(self) -> dominating.Sampled | dominating.Batch:
        """The inner mechanism's pair, sampled at the rate."""
        change, own = self.inner_pairs()
        if not isinstance(change, dominating.Gaussian | dominating.Laplace):
            return dominating.Batch(change, own, self.rate)
        _, scale = self.mechanism.noise or ("", 1.0)
        part = None if self.contribution is None else Fraction(self.contribution) / Fraction(scale)
        return dominating.Sampled(change, self.rate, part)

    def chosen(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """Which rows are in a sample, by an independent coin for each."""
        return randomness.coins(count, self.rate)

    def sizes(self, count: int) -> Array:
        """The logarithms of binomial probabilities."""
        return subsets.log_binomial(count, self.rate)
