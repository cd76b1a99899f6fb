"""Recordings of sums over secret samples, drawn where the loss is large.

Along the line on which the changed unit moves a sum, one side's density is p(x) = (1 - q) phi(x) + q phi(x -
a) in units of the noise; the other side's density is p' with b in place of a. For a loss of order 1 + s the
best sampling density is p^(1 + s) / p'^s. Here outputs are moved along that line by steps from a law close
to it. The law decides only how informative a recording is: the likelihood of the recording under it is known
exactly.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from dpaudit.curator.noise import Entry, Question
from dpaudit.mechanisms import Array, GaussianNoise, SampledSum
from dpaudit.mechanisms.samples.subsets import moved_rows

#: The Renyi orders, minus 1, that are tried.
_EXCESS = np.geomspace(0.25, 256.0, 31)
#: The number of steps of a law, the iterations of its fit, and the least probability of a step that is kept.
_STEPS, _ITERATIONS, _RAREST = 49, 60, 1e-4


class Shape(NamedTuple):
    """The shape of the line: q, a and b."""

    rate: float
    own: float
    other: float


@dataclass(frozen=True)
class Unit:
    """The changed unit in one question, from the first recording and its replay.

    `place` is the position of the unit's row among the data's rows, if it has one there; `own` and `other`
    are its rows on both sides, zeros if it has none.
    """

    place: int | None
    own: Array
    other: Array

    @classmethod
    def of(cls, entry: Entry, twin: Entry) -> Self | None:
        """None where nothing was sampled, or noise is not moved along a line."""
        if _sigma(entry) is None or entry.rows is None or twin.rows is None:
            return None
        own, other = moved_rows(entry.rows, twin.rows)
        places = [i for i, row in enumerate(entry.rows) if len(own) == 1 and np.array_equal(row, own[0])]
        return cls(next(iter(places), None), own.sum(axis=0), other.sum(axis=0))

    def line(self, asked: Entry | Question) -> tuple[Shape, Array] | None:
        """Return the line's shape, and the noise's standard deviation along it, in a query's coordinates."""
        mechanism, sigma, rows, own = asked.release.mechanism, _sigma(asked), asked.rows, self.own
        if sigma is None or rows is None or not isinstance(mechanism, SampledSum):
            return None
        if asked.release.sample is not None:
            return None  # a step would change the density of all releases on the sample together
        if self.place is not None and self.place < len(rows):
            own = rows[self.place]  # as earlier outputs of this recording have moved it
        if own.shape != asked.query.shape or own.shape != self.other.shape:
            return None
        apart = own - self.other
        length = float(np.linalg.norm(apart))
        if not 1e-6 * sigma < length < 1e6 * sigma:
            return None
        unit = apart / length
        sizes = (_coarse(float((row * unit).sum()) / sigma) for row in (own, self.other))
        return Shape(mechanism.most_likely, *sizes), sigma * unit


@dataclass(frozen=True)
class Steps:
    """The possible steps [k, ...] of an output, and their probabilities [k]."""

    moves: Array
    probabilities: Array

    @classmethod
    def of(cls, asked: Entry | Question, unit: Unit | None, excess: float) -> Self | None:
        """Return the steps for recordings of an order; None if the output stays."""
        line = None if unit is None or excess <= 0.0 else unit.line(asked)
        if line is None:
            return None
        steps, probabilities = _law(line[0], excess)
        return cls(steps.reshape(-1, *[1] * line[1].ndim) * line[1], probabilities)

    def draw(self, generator: np.random.Generator) -> Array:
        """Draw one of the steps."""
        return np.asarray(self.moves[generator.choice(len(self.moves), p=self.probabilities)])

    def log_ratio(self, entry: Entry) -> float:
        """Return the log density of the recorded output with moves, minus the log density without."""
        mechanism, rows = entry.release.mechanism, entry.rows
        if rows is None or not isinstance(mechanism, SampledSum):
            return 0.0
        outputs = np.concatenate([entry.output[np.newaxis], entry.output - self.moves])
        found = mechanism.log_densities(outputs, rows)
        if found is None:
            return 0.0  # without a density the loss is unknown
        return float(np.logaddexp.reduce(found[1:] + np.log(self.probabilities)) - found[0])


def best_excess(shapes: Iterable[Shape], rest: float, delta: float) -> float:
    """Return the order, minus 1, that gives the least epsilon at `delta` for lines of these shapes.

    The epsilon is converted from the Renyi divergence. `rest` is the mu^2 of all releases without a sample.
    """
    numbers = Counter(shapes)

    def epsilon(excess: float) -> float:
        moments = [times * _log_moment(shape, excess) for shape, times in numbers.items()]
        return (sum(moments) + 0.5 * rest * excess * (1.0 + excess) - math.log(delta)) / excess

    return min(map(float, _EXCESS), key=epsilon)


def _sigma(asked: Entry | Question) -> float | None:
    mechanism = asked.release.mechanism
    inner = mechanism.mechanism if isinstance(mechanism, SampledSum) else None
    return inner.sigma if isinstance(inner, GaussianNoise) else None


def _coarse(size: float) -> float:
    """Round to 5%, so that questions with nearly the same line share one law."""
    return math.copysign(1.05 ** round(math.log(abs(size), 1.05)), size) if abs(size) > 1e-6 else 0.0


@lru_cache(maxsize=4096)
def _log_moment(shape: Shape, excess: float) -> float:
    points, tilted = _tilted(shape, excess)
    return float(np.logaddexp.reduce(tilted) + math.log(points[1] - points[0]))


@lru_cache(maxsize=512)
def _law(shape: Shape, excess: float) -> tuple[Array, Array]:
    """Return steps and probabilities: the closest mixture of moved densities, by maximum likelihood."""
    points, tilted = _tilted(shape, excess)
    target = np.exp(tilted - np.logaddexp.reduce(tilted))
    seen = points[target > 1e-9 * target.max()]
    steps = np.append(0.0, np.linspace(seen[0], seen[-1], _STEPS))
    table = np.exp(_log_line(points[:, np.newaxis] - steps, shape.rate, shape.own))
    weights = np.full(len(steps), 1.0 / len(steps))
    for _ in range(_ITERATIONS):
        weights = weights * ((target / np.maximum(table @ weights, 1e-300)) @ table)
        weights = weights / weights.sum()
    kept = weights > _RAREST
    return steps[kept], weights[kept] / weights[kept].sum()


def _tilted(shape: Shape, excess: float) -> tuple[Array, Array]:
    """Return points on the line, and the log of p^(1 + s) / p'^s at them."""
    reach = 8.0 + (1.0 + excess) * max(abs(shape.own), abs(shape.other))
    points = np.linspace(-reach, reach, min(20_001, 2 * math.ceil(10.0 * reach) + 1))
    own, other = (_log_line(points, shape.rate, at) for at in (shape.own, shape.other))
    return points, (1.0 + excess) * own - excess * other


def _log_line(points: Array, rate: float, at: float) -> Array:
    """Return the log density of p, up to a constant."""
    inside = math.log(rate) - 0.5 * (points - at) ** 2
    outside = (math.log1p(-rate) if rate < 1.0 else -math.inf) - 0.5 * points**2
    return np.asarray(np.logaddexp(inside, outside) - 0.5 * math.log(2.0 * math.pi))
