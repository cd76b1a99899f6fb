"""Releases that answer many queries: streams and functions.

Each is one line of the ledger, written before its first query; every item and every point is recorded and
replayed separately.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.admission import Admission, as_query
from dpaudit.curator.clipping import doubles
from dpaudit.curator.noise import Question
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Array, GaussianProcess, StreamMechanism
from dpaudit.mechanisms.additive import require_symmetric
from dpaudit.noise.bits import NeverCopied
from dpaudit.noise.contributions import clip_rows
from dpaudit.noise.grid import OnGrid, grid_of_bound
from dpaudit.noise.sums import total


class Stream(NeverCopied):
    """The noisy prefix sums of a stream of items of one shape; made by `Curator.stream`."""

    def __init__(
        self,
        admission: Admission,
        release: Release,
        mechanism: StreamMechanism,
        shape: tuple[int, ...],
        bound: float | None = None,
    ) -> None:
        self._admission = admission
        self._release = release
        self._mechanism = mechanism
        self._shape = shape
        self._bound = bound
        self._sums = mechanism.running(shape)  # of the items without noise
        self._answering = mechanism.answering()
        self._number = admitted(admission, release)

    def add(self, item: ArrayLike) -> Array:
        """Add one item, and return the noisy sum of all items so far; both have the stream's shape.

        Args:
            item: an array of the stream's shape. In a stream with a bound: contributions [n, *shape], one row
                per unit of privacy; each is clipped, and the item is their sum.

        Raises:
            InvalidParameter: the item is not an array of finite numbers of the stream's shape, or is not
                symmetric under a ``frobenius`` sensitivity.
            ScheduleBroken: all steps of the mechanism are used.
        """
        where = f"release {self._release.label!r}"
        exactly = None if self._bound is None else self._summed(item, self._bound)
        query = as_query(item if exactly is None else exactly.to_doubles(), self._release.label)
        if query.shape != self._shape:
            what = f"an item of shape {query.shape} in a stream of {self._shape}"
            remedy = "give every item the shape that the stream was made for"
            raise InvalidParameter(what, where=where, remedy=remedy)
        if self._mechanism.norm == "frobenius":
            require_symmetric(query, where)
        with self._admission.lock:
            if self._sums.taken == self._mechanism.steps:
                what = f"item {self._sums.taken + 1} of a stream of {self._mechanism.steps} steps"
                why = "in a longer stream an item would cost more than the ledger says"
                remedy = "give the mechanism as many steps as the stream may take"
                raise ScheduleBroken(what, where=where, why=why, remedy=remedy)
            self._sums.push(query)
            question = Question(
                self._release,
                self._number,
                query,
                self._sums.exact(),
                self._answering,
                (query if exactly is None else exactly,),
                at=np.array(float(self._sums.taken)),
            )
            return self._admission.ask(question)

    def _summed(self, contributions: ArrayLike, bound: float) -> OnGrid:
        """Return the exact sum of the contributions, each clipped to the bound on a public grid."""
        where = f"release {self._release.label!r}"
        rows = doubles(contributions, where)
        if rows.ndim == 0 or rows.shape[1:] != self._shape:
            what = f"contributions of shape {rows.shape} in a stream of {self._shape}"
            remedy = "give one row per unit of privacy, each of the shape that the stream was made for"
            raise InvalidParameter(what, where=where, remedy=remedy)
        self._admission.require_one_unit(len(rows), where)
        exponent = grid_of_bound(bound, self._mechanism.grid, where)
        return total(clip_rows(rows, bound, self._mechanism.norm, exponent))


class NoisyFunction(NeverCopied):
    """A private function plus a Gaussian-process path, drawn at the requested points.

    `Curator.function` makes it. The private function `mean` of one point must not change while this object
    lives. Every component of its value has an independent path.
    """

    def __init__(
        self,
        admission: Admission,
        release: Release,
        mechanism: GaussianProcess,
        mean: Callable[[float], ArrayLike],
        shape: tuple[int, ...],
    ) -> None:
        self._admission = admission
        self._release = release
        self._mean = mean
        self._shape = shape
        self._answering = mechanism.answering()
        self._number = admitted(admission, release)
        self._answers: dict[float, Array] = {}

    def __call__(self, points: ArrayLike) -> Array:
        """Return the noisy values [..., *shape] at points of any shape [...].

        A repeated point gets its earlier answer, without a new question.

        Raises:
            InvalidParameter: a point or a value is not a finite number, or a value has another shape.
        """
        asked = as_query(points, self._release.label)
        flat = [float(point) for point in asked.ravel().tolist()]
        with self._admission.lock:
            new = list(dict.fromkeys(point for point in flat if point not in self._answers))
            if new:
                self._answers.update(zip(new, self._draw(new), strict=True))
        values = [self._answers[point] for point in flat]
        return np.array(values, dtype=np.float64).reshape(asked.shape + self._shape)

    def _draw(self, points: list[float]) -> Array:
        """Return the answers at new points: [n, *shape]."""
        query = np.array([self._value(point) for point in points])
        at = np.array(points)
        question = Question(self._release, self._number, query, query, self._answering, (at, query), at=at)
        return self._admission.ask(question)

    def _value(self, point: float) -> Array:
        """Return the private value at one point."""
        value = as_query(self._mean(point), self._release.label)
        if value.shape != self._shape:
            what = f"a value of shape {value.shape} from a function of shape {self._shape}"
            remedy = "give curator.function the shape of the function's values"
            raise InvalidParameter(what, where=f"release {self._release.label!r}", remedy=remedy)
        return value


def admitted(admission: Admission, release: Release) -> int:
    """Internal: admit a release and record an empty answer, so a stream without queries is replayed too."""
    number = admission.admit(release)
    nothing = np.empty(0)
    admission.ask(Question(release, number, nothing, nothing, release.mechanism.answering()))
    return number
