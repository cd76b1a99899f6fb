"""Noisy values of a function: the function plus a Gaussian-process path, drawn at the requested points.

The path is sigma times an Ornstein-Uhlenbeck process with covariance exp(-beta |x - y|). It is a Markov
process: given the earlier points, a new value depends only on its two neighbours and follows a bridge.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
from sortedcontainers import SortedDict

from dpaudit.noise.bits import Bits
from dpaudit.noise.continuous import NORMAL, Position
from dpaudit.noise.grid import Array, OnGrid, grid
from dpaudit.noise.reals import GUARD, WORD, Ball, Uniform, exact, flint, floor

_Value = TypeVar("_Value")


class Path(ABC, Generic[_Value]):
    """A path with independent components of `shape`; the noise at a point is drawn once."""

    def __init__(self, sigma: float, beta: float, shape: tuple[int, ...]) -> None:
        self._sigma = sigma
        self._beta = beta
        self._shape = shape
        self._drawn: SortedDict[float, _Value] = SortedDict()

    @abstractmethod
    def at(self, point: float, value: Array) -> Array:
        """Return the function's value [...] at a point plus the path."""

    def _neighbours(self, point: float) -> tuple[float | None, float | None]:
        """Return the nearest drawn points to the left and to the right, or None."""
        position = self._drawn.bisect_left(point)
        keys = self._drawn.keys()
        left = keys[position - 1] if position > 0 else None
        right = keys[position] if position < len(keys) else None
        return left, right


class FloatPath(Path[Array]):
    """A path in floating point."""

    def __init__(
        self, generator: np.random.Generator, sigma: float, beta: float, shape: tuple[int, ...]
    ) -> None:
        super().__init__(sigma, beta, shape)
        self._generator = generator

    def at(self, point: float, value: Array) -> Array:
        """As `Path.at`."""
        if point not in self._drawn:
            mean, variance = self._conditional(point)
            drawn = self._generator.standard_normal(self._shape)
            self._drawn[point] = np.asarray(mean + self._sigma * math.sqrt(variance) * drawn)
        return np.asarray(value + self._drawn[point])

    def _conditional(self, point: float) -> tuple[Array, float]:
        """Return the mean and the variance (at sigma = 1) of the path at a new point, given drawn points."""
        left, right = self._neighbours(point)
        if left is not None and right is not None:
            weight_left, weight_right, variance = bridge(self._beta, left, point, right)
            return weight_left * self._drawn[left] + weight_right * self._drawn[right], variance
        neighbour = left if left is not None else right
        if neighbour is None:
            return np.zeros(self._shape), 1.0
        gap = self._beta * abs(point - neighbour)
        return math.exp(-gap) * self._drawn[neighbour], -math.expm1(-2.0 * gap)


def bridge(beta: float, left: float, point: float, right: float) -> tuple[float, float, float]:
    """Return the weights of the left and right values, and the variance, of an Ornstein-Uhlenbeck bridge.

    Let a, b be beta times the distances to the left and to the right. The results are sinh(b)/sinh(a + b),
    sinh(a)/sinh(a + b) and (1 - e^-2a)(1 - e^-2b)/(1 - e^-2(a+b)), in a form that neither overflows nor
    cancels.
    """
    a, b = beta * (point - left), beta * (right - point)
    whole = -math.expm1(-2.0 * (a + b))
    if whole == 0.0:  # for very near points the bridge is a straight line in doubles
        return (right - point) / (right - left), (point - left) / (right - left), 0.0
    to_left, to_right = -math.expm1(-2.0 * a), -math.expm1(-2.0 * b)
    return (math.exp(-a) * to_right / whole, math.exp(-b) * to_left / whole, to_left * to_right / whole)


class ExactPath(Path[int]):
    """A path of real numbers; its noisy values are rounded to the grid of sigma.

    A new value is drawn given the real earlier values, not their rounded outputs. Each value is a sum of
    normal numbers; their bits are kept, and extended whenever the rounding is undecided.
    """

    def __init__(
        self, bits: Bits, sigma: float, beta: float, shape: tuple[int, ...], where: str = "function"
    ) -> None:
        super().__init__(sigma, beta, shape)
        self._bits = bits
        self._where = where
        self._grid = grid(sigma, where)
        self._digits = 2 * WORD
        #: For every point, in the order of drawing: the point, its neighbours then, and its uniform numbers.
        self._points: list[tuple[float, float | None, float | None, list[tuple[int, Uniform]]]] = []
        #: The path at these points for sigma = 1, component by component.
        self._values: list[list[Ball]] = []

    def at(self, point: float, value: Array) -> Array:
        """As `Path.at`."""
        placed = Position.of(value, self._grid, self._where)
        if point not in self._drawn:
            left, right = self._neighbours(point)
            self._drawn[point] = len(self._points)
            # A sign and a number in [0, 1/2).
            uniforms = [
                (1 - 2 * self._bits.take(1), Uniform(self._bits, 0, 1)) for _ in range(math.prod(self._shape))
            ]
            self._points.append((point, left, right, uniforms))
        while True:
            moved = [self._rounded(placed, place, self._drawn[point]) for place in range(value.size)]
            if None not in moved:
                break
            self._digits *= 2
            self._values.clear()
        noisy = placed.whole + np.array(moved, dtype=np.int64).reshape(value.shape)
        return OnGrid(noisy, self._grid).to_doubles()

    def _rounded(self, placed: Position, place: int, number: int) -> int | None:
        with flint().ctx.workprec(self._digits + GUARD):
            for known in range(len(self._values), number + 1):
                self._values.append(self._draw(*self._points[known]))
            steps = exact(float(np.ldexp(self._sigma, -self._grid)))
            noise = steps * self._values[number][place]
            return floor(placed.offset(place) + noise)

    def _draw(
        self, point: float, left: float | None, right: float | None, uniforms: list[tuple[int, Uniform]]
    ) -> list[Ball]:
        """Return the path at a point for sigma = 1, given its neighbours, at the current precision."""
        weights, variance = self._bridge(point, left, right)
        mean: list[Any] = [flint().arb(0)] * len(uniforms)
        for weight, neighbour in zip(weights, (left, right), strict=True):
            if neighbour is not None:
                known = self._values[self._drawn[neighbour]]
                mean = [m + weight * value for m, value in zip(mean, known, strict=True)]
        spread = variance.sqrt()
        drawn = []
        for m, (sign, uniform) in zip(mean, uniforms, strict=True):
            uniform.extend(self._digits)
            drawn.append(m - sign * spread * NORMAL.ball(uniform.ball()))
        return drawn

    def _bridge(
        self, point: float, left: float | None, right: float | None
    ) -> tuple[tuple[Ball, Ball], Ball]:
        """Return `bridge` in balls; a missing neighbour is infinitely far away."""
        a, b = (
            flint().arb.pos_inf() if at is None else exact(self._beta) * abs(exact(point) - exact(at))
            for at in (left, right)
        )
        whole, to_left, to_right = ((-2 * gap).expm1() for gap in (a + b, a, b))
        weights = (-a).exp() * to_right / whole, (-b).exp() * to_left / whole
        return weights, -to_left * to_right / whole
