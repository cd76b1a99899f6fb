"""Prefix sums of a stream with correlated noise from a strategy matrix."""

import itertools
import math
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import normal_log_density
from dpaudit.mechanisms.base import ONE, Answer, Array, Move, distance, fields, residual, sum_of_squares
from dpaudit.mechanisms.correlated.sensitivity import Reach, reach
from dpaudit.mechanisms.correlated.strategies import Strategy
from dpaudit.mechanisms.streams import StreamMechanism
from dpaudit.models import Count
from dpaudit.noise.grid import OnGrid, to_doubles
from dpaudit.noise.randomness import OF_NOISE, Randomness

#: A change of an item below this fraction of the sensitivity does not count as a participation.
_UNMOVED = 1e-9


class MatrixMechanism(StreamMechanism):
    """Every prefix sum of `steps` items, from noisy answers y = C x + z with a strategy matrix C.

    z has independent Gaussian entries of standard deviation `sigma`. The items' estimates are C^-1 y. With
    the matrix A of prefix sums, the output is A C^-1 y = A x + A C^-1 z, a function of y only.

    Obligation: between neighbouring data sets only items with the changed unit differ, at most
    `participations` items, any two at least `separation` steps apart, each by at most the sensitivity in L2.
    Let s be the largest |C u| over all such changes u of norm 1 per item (`reach`). The release is then
    (s sensitivity / sigma)-GDP, also if items depend on earlier outputs, as C is lower triangular (Denisov,
    McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1; Choquette-Choo, McMahan, Rush and Thakurta 2023). s
    is exact for one participation, for at most `separation` bands, and for Toeplitz strategies with
    non-negative decreasing coefficients; otherwise it may be an upper bound.
    """

    condition = "stream-participations"
    norms: ClassVar[tuple[Norm, ...]] = ("l2",)

    example = fields(
        sigma=2.0,
        steps=100,
        strategy={"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125]},
        participations=4,
        separation=25,
        sensitivity=ONE["l2"],
    )

    kind: Literal["matrix"] = "matrix"
    strategy: Strategy
    participations: Count = 1
    separation: Count = 1

    @model_validator(mode="after")
    def _strategy_has_the_steps(self) -> Self:
        self.strategy.require_steps(self.steps)
        return self

    @property
    def reach(self) -> Reach:
        """The largest |C u|; raises `CannotBound` if no bound can be computed."""
        return reach(self.strategy, self.steps, self.participations, self.separation)

    def dominating_pair(self) -> dominating.Gaussian:
        """Return one Gaussian pair for all participations together."""
        return dominating.Gaussian(Fraction(self.reach.value) * self.ratio(self.sigma))

    def running(self, shape: tuple[int, ...]) -> "CorrelatedSums":
        """Return an empty stream for items of this shape."""
        return CorrelatedSums(self, shape)

    def noise_in(self, outputs: Array, items: Array) -> Array:
        """Return the noise z in the noisy prefix sums [t, ...], given the items [t, ...]."""
        off = residual(outputs, np.cumsum(items, axis=0))
        return self._answers(np.diff(off, axis=0, prepend=np.zeros_like(off[:1])))

    def log_density(self, outputs: Array, items: Array) -> float:
        """Return the log density of z plus the log determinant of C, for each entry."""
        diagonal = [float(self.strategy.row(step)[-1]) for step in range(1, len(outputs) + 1)]
        scaled = sum(map(math.log, diagonal)) * (outputs.size // len(outputs))
        return normal_log_density(self.noise_in(outputs, items), self.sigma) + scaled

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the largest change of an item, the number of changed items, and their number per window.

        A window is `separation` steps long.
        """
        value, each, moved = self.sensitivity.value, [], []
        for step, (a, b) in enumerate(zip(one[1:], other[1:], strict=True)):
            each.append(distance(self.norm, a.query - b.query))
            size = float(np.abs(a.query).sum() + np.abs(b.query).sum())
            if each[-1] > _UNMOVED * value + 2.0**-50 * size:  # more than a rounding error
                moved.append(step)
        near = max((sum(s <= later < s + self.separation for later in moved) for s in moved), default=0)
        return [
            Move(max(each, default=0.0), value, f"in {self.norm}, in one item"),
            Move(float(len(moved)), float(self.participations), "items"),
            Move(float(near), 1.0, f"items in {self.separation} steps"),
        ]

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return the squared norm of C times the differences, divided by sigma squared."""
        if len(answers) == 1:
            return 0.0
        return sum_of_squares(self._answers(np.stack(differences[1:])) / self.sigma)

    def _answers(self, items: Array) -> Array:
        """Return C x for the items [t, ...]."""
        found = np.empty_like(items)
        for step in range(1, len(items) + 1):
            row = self.strategy.row(step)
            found[step - 1] = np.tensordot(row, items[step - len(row) : step], axes=1)
        return found


class CorrelatedSums:
    """The state of the next prefix sum: the latest items and estimates, one fewer than the bands."""

    def __init__(self, mechanism: MatrixMechanism, shape: tuple[int, ...]) -> None:
        earlier = mechanism.strategy.bands(mechanism.steps) - 1
        self._mechanism = mechanism
        self._items: deque[Array | OnGrid] = deque(maxlen=earlier + 1)  # exact after their first row
        self._estimates: deque[Array] = deque(maxlen=earlier)
        self._exact = np.zeros(shape)
        self._noisy = np.zeros(shape)
        self._answered = 0
        self.taken = 0

    def push(self, item: Array | OnGrid) -> None:
        """Add the next item.

        Raises:
            InvalidParameter: all steps are used.
        """
        if self.taken == self._mechanism.steps:
            raise InvalidParameter(f"item {self.taken + 1} of {self.taken}", where="steps")
        self.taken += 1
        self._items.append(item)
        self._exact = self._exact + to_doubles(item)

    def exact(self) -> Array:
        """Return the sum of the items so far."""
        return self._exact.copy()

    def noisy(self, randomness: Randomness) -> Array:
        """Return the noisy sum of the items so far; call it once after each `push`.

        The row of C x is summed exactly and gets new noise; the output is a function of such answers.

        Raises:
            InvalidParameter: the row is too large for the noise, an earlier item got no noise, or the
                estimates exceed every double.
        """
        if self._answered != self.taken - 1:
            why = "its estimate needs an answer that was never drawn"
            what, remedy = f"item {self.taken} after one without an answer", "start another stream"
            raise InvalidParameter(what, where=OF_NOISE, why=why, remedy=remedy)
        self._items[-1] = randomness.total(self._items[-1])
        row = self._mechanism.strategy.row(self.taken).tolist()
        items = itertools.islice(self._items, len(self._items) - len(row), None)
        query = randomness.weighted(row, list(items))
        answer = randomness.gaussian(query, self._mechanism.sigma)
        self._answered += 1
        with np.errstate(over="ignore", invalid="ignore"):
            earlier = itertools.islice(self._estimates, len(self._estimates) - len(row) + 1, None)
            known = sum((c * x for c, x in zip(row[:-1], earlier, strict=True)), np.zeros(self._exact.shape))
            estimate = (answer - known) / row[-1]
            self._noisy = self._noisy + estimate
        if not np.isfinite(self._noisy).all():
            why = "the inverse of the strategy grows from step to step"
            what, remedy = f"noise of item {self.taken} beyond every double", "use another strategy"
            raise InvalidParameter(what, where=OF_NOISE, why=why, remedy=remedy)
        self._estimates.append(estimate)
        return self._noisy.copy()
