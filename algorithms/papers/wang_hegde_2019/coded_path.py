"""The noise that the code of Wang and Hegde (2019) draws, which is no path of its kernel.

Beyond the last point to the right the mean comes from the first point to the left instead of the last one.
However near the new point lies to the last, its noise is nearly that of the first: the difference of the
values at both ends of [0, 1] has nearly none, and what it reveals is without bound.
"""

import math

import numpy as np

from dpaudit.curator.noise import LiveNoise, Question
from dpaudit.mechanisms import Array, GaussianProcess
from dpaudit.noise.paths import FloatPath


class CodedPath(FloatPath):
    """A path as `dpql.py` draws it."""

    def _conditional(self, point: float) -> tuple[Array, float]:
        left, right = self._neighbours(point)
        if left is None or right is not None:
            return super()._conditional(point)
        gap = self._beta * (point - left)
        _, first = self._drawn.peekitem(0)
        return math.exp(-gap) * first, -math.expm1(-2.0 * gap)


def squared_cost(path: FloatPath, points: Array, moved: Array) -> float:
    """mu^2 sigma^2 of functions that differ by `moved` [n, ...] at points [n], drawn in this order.

    `path` has not been drawn from. For a path of the kernel this is the squared norm of the movement.
    """
    cost = 0.0
    for point, value in zip(points.tolist(), moved, strict=True):
        mean, variance = path._conditional(point)  # noqa: SLF001
        cost += float(np.square(value - mean).sum()) / variance
        path._drawn[point] = value  # noqa: SLF001
    return cost


class CodedNoise(LiveNoise):
    """Noise of a seed, in which functions get paths as the authors' code draws them; for figures only."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._generator = np.random.default_rng((seed, 1))
        self._paths: dict[int, CodedPath] = {}

    def answer(self, question: Question) -> Array:
        """As `LiveNoise.answer`."""
        mechanism = question.release.mechanism
        if not isinstance(mechanism, GaussianProcess) or question.at is None:
            return super().answer(question)
        if question.number not in self._paths:
            path = CodedPath(
                self._generator, mechanism.sigma, mechanism.kernel.beta, question.query.shape[1:]
            )
            self._paths[question.number] = path
        at = zip(question.at.tolist(), question.query, strict=True)
        return np.array([self._paths[question.number].at(point, value) for point, value in at])
