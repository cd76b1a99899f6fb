"""Choices among finitely many candidates: randomized response and the exponential mechanism."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import (
    Answer,
    Array,
    BaseMechanism,
    Move,
    Queries,
    Times,
    ValueMechanism,
    fields,
    residual,
)
from dpaudit.models import Count, Positive
from dpaudit.noise.grid import OnGrid, to_doubles
from dpaudit.noise.randomness import Randomness


class RandomizedResponse(ValueMechanism):
    """Each entry, a category 0 .. categories-1, is kept or replaced by a uniform other category.

    It is kept with probability e^epsilon/(e^epsilon + categories - 1).

    Obligation: between neighbouring data sets at most one entry of the value differs; then the release
    is epsilon-DP (Warner 1965; Kairouz, Oh and Viswanath 2016, k-ary randomized response).
    """

    noise_field = "epsilon"
    condition = "one-answer-per-unit"
    drawn_exactly = True

    example = fields(epsilon=0.5, categories=2)

    kind: Literal["randomized-response"] = "randomized-response"
    epsilon: Positive
    categories: Annotated[Count, Field(ge=2)] = 2

    def dominating_pair(self) -> dominating.Response:
        """Return the pair of randomized response, the same for any two inputs."""
        return dominating.Response(self.epsilon, self.categories)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return `size` independent runs: each unit of a group has its own entry."""
        del times
        return self, size

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the number of answers that differ."""
        changed = float(np.count_nonzero(one[0].query - other[0].query))
        return [Move(changed, 1.0, "in changed answers")]

    def nearest_output(self, value: Array, query: Array) -> Array:
        """Return the category nearest to a value."""
        del query
        return np.clip(value, 0, self.categories - 1)

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """Return `value`, categories of any shape, each randomized independently."""
        return randomness.responses(to_doubles(value), self.epsilon, self.categories)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        changed = int(np.count_nonzero(residual(output, query)))
        if not self._holds(output):
            return -math.inf
        return -changed * self.epsilon - query.size * math.log1p(
            (self.categories - 1) * math.exp(-self.epsilon)
        )

    def require_fits(self, query: Array, where: str) -> None:
        """Raise `InvalidParameter` unless every entry is an integer in [0, categories)."""
        if not self._holds(query):
            what = f"a value outside the categories 0 .. {self.categories - 1}"
            why = "only answers in these categories are randomized"
            remedy = "map every record to a category before the release"
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)

    def require_single(self, query: Array, count: int, where: str) -> None:
        """Raise `InvalidParameter` if one user's value has more entries than repetitions."""
        if query.size > count:
            what = f"{query.size} answers of one user in {count} repetition(s)"
            why = "each answer costs epsilon, so the ledger would account for too few"
            raise InvalidParameter(what, where=where, why=why, remedy=f"release them with count={query.size}")

    def _holds(self, value: Array) -> bool:
        return bool(((value == np.rint(value)) & (value >= 0) & (value < self.categories)).all())


class Choice(BaseMechanism):
    """A choice of one candidate by noise on log weights; `epsilon` bounds the range of their changes."""

    released_by = "select"
    noise_field = "epsilon"
    condition = "score-sensitivity"
    drawn_exactly = True

    epsilon: Positive

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return the mechanism with `size` times the range epsilon."""
        return self.model_copy(update={"epsilon": times(self.epsilon, size)}), 1

    def log_weights(self, scores: Array, score_sensitivity: float, *, monotone: bool = False) -> Array:
        """Return epsilon score/(2 score_sensitivity) for each candidate: [k]; larger scores are better.

        If `monotone`, return twice as much: if all scores change in one direction, the range of their changes
        is at most one score's largest change.

        Raises:
            InvalidParameter: there are no candidates, the shape is not [k], or a quotient is not finite.
        """
        if scores.ndim != 1 or scores.size == 0:
            raise InvalidParameter(
                f"scores of shape {scores.shape}", where="scores", remedy="give one score per candidate: [k]"
            )
        if not 0.0 < score_sensitivity < math.inf:
            raise InvalidParameter(f"score_sensitivity = {score_sensitivity}", where="score_sensitivity")
        with np.errstate(over="ignore", invalid="ignore"):
            weights = scores * ((1.0 if monotone else 0.5) * self.epsilon / score_sensitivity)
        if not np.isfinite(weights).all():
            raise InvalidParameter("a score that is not finite, or too large", where="scores")
        return np.asarray(weights, dtype=np.float64)

    def factor(self, score_sensitivity: float, *, monotone: bool = False) -> Fraction:
        """Return the exact factor of `log_weights`."""
        return Fraction(self.epsilon) / ((1 if monotone else 2) * Fraction(score_sensitivity))

    @abstractmethod
    def sample(
        self, log_weights: Array, randomness: Randomness, exactly: tuple[Array, Fraction] | None = None
    ) -> Array:
        """Return the chosen index, of shape (); `exactly` is as in `Randomness.choose`."""

    def answering(self) -> Callable[..., Array]:
        """Return a sampler that chooses by the weights, or exactly by the scores and their factor."""
        return lambda weights, scores, factor, randomness: self.sample(weights, randomness, (scores, factor))

    @abstractmethod
    def log_probability(self, index: int, log_weights: Array) -> float | None:
        """Return the log probability of a candidate's index, or None if it cannot be computed."""

    def log_density(self, output: Array, log_weights: Array) -> float | None:
        """Return the log probability of the index `output` given log weights [k], or None if unknown."""
        index = float(output)
        if not (index.is_integer() and 0 <= index < log_weights.size):
            return -math.inf
        return self.log_probability(int(index), log_weights)

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the range of the changes of the log weights."""
        spread = float(np.ptp(one[0].query - other[0].query))
        return [Move(spread, self.epsilon, "in the range of log weights")]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return `log_density` of the chosen index."""
        return self.log_density(answers[0].output, queries[0].query)

    def nearest_output(self, value: Array, query: Array) -> Array:
        """Return the index nearest to a value."""
        return np.clip(value, 0, query.size - 1)


class Exponential(Choice):
    """An index i drawn with probability proportional to exp(w_i), w the candidates' log weights.

    Equivalently, i maximizes w_i plus independent Gumbel noise of scale 1.

    Obligation: between neighbouring data sets the changes of the log weights have a range of at most epsilon
    over the candidates; then the choice has bounded range epsilon, is epsilon-DP, and
    epsilon^2/8-zCDP (McSherry and Talwar 2007; Durfee and Rogers 2019; Cesar and Rogers 2021). Scores
    of sensitivity s satisfy this with w = epsilon score/(2 s), and with w = epsilon score/s if one unit moves
    all scores in one direction.
    """

    example = fields(epsilon=0.5)

    kind: Literal["exponential"] = "exponential"

    def dominating_pair(self) -> dominating.BoundedRange:
        """Return the pair that dominates all losses in a range of length epsilon."""
        return dominating.BoundedRange(self.epsilon)

    def sample(
        self, log_weights: Array, randomness: Randomness, exactly: tuple[Array, Fraction] | None = None
    ) -> Array:
        """As `Choice.sample`."""
        return np.array(float(randomness.choose(log_weights, exactly)))

    def log_probability(self, index: int, log_weights: Array) -> float:
        """As `Choice.log_probability`."""
        shifted = log_weights - log_weights.max()
        return float(shifted[index] - np.log(np.exp(shifted).sum()))
