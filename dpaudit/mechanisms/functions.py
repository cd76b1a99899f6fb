"""Noise for a whole function: a Gaussian-process path, drawn only at the requested points."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms.additive import normal_log_density
from dpaudit.mechanisms.base import ONE, Answer, Array, GaussianNoise, Move, Queries, fields, residual
from dpaudit.models import Model, Positive
from dpaudit.noise.paths import Path
from dpaudit.noise.randomness import Randomness


class ExponentialKernel(Model):
    """The kernel K(x, y) = exp(-beta |x - y|) on the real line, of the Ornstein-Uhlenbeck process.

    On [0, 1] the squared norm of its function space is (f(0)^2 + f(1)^2)/2 + (1/(2 beta)) integral f'^2 +
    beta^2 f^2.
    """

    kind: Literal["exponential"] = "exponential"
    beta: Positive

    def covariance(self, points: Array) -> Array:
        """Return the kernel matrix [n, n] of points [n]."""
        return np.asarray(np.exp(-self.beta * np.abs(points[:, None] - points[None, :])), dtype=np.float64)

    def squared_norm(self, points: Array, values: Array) -> float:
        """Return the least squared norm of a function with values [n, ...] at distinct points [n].

        The squared norms of several components are added.
        """
        innovations, variances = self._innovations(points, values)
        scaled = innovations.reshape(len(points), -1) / np.sqrt(variances)[:, None]
        return float(np.square(scaled).sum())

    def log_density(self, points: Array, noise: Array, sigma: float) -> float:
        """Return the log density of the path sigma G [n, ...] at distinct points [n].

        Its components are independent.
        """
        innovations, variances = self._innovations(points, noise)
        flat = innovations.reshape(len(points), -1)
        return sum(
            normal_log_density(row, sigma * math.sqrt(variance))
            for row, variance in zip(flat, variances.tolist(), strict=True)
        )

    def _innovations(self, points: Array, values: Array) -> tuple[Array, Array]:
        """Return the innovation of each value after its left neighbour, and the variances for sigma = 1."""
        order = np.argsort(points)
        gaps = self.beta * np.diff(points[order])
        if points.ndim != 1 or not (gaps > 0).all():
            raise InvalidParameter(
                "points that are not distinct", where="points", remedy="give each point once: [n]"
            )
        ordered = values[order].reshape(len(points), -1)
        innovations = ordered.copy()
        innovations[1:] -= np.exp(-gaps)[:, None] * ordered[:-1]
        variances = np.concatenate([[1.0], -np.expm1(-2.0 * gaps)]) if len(points) else np.empty(0)
        return innovations, variances


class GaussianProcess(GaussianNoise):
    """A function plus `sigma` times a path of the Gaussian process with covariance `kernel`.

    Obligation: the function's distance between neighbouring data sets, in the norm of the kernel's
    reproducing kernel Hilbert space (for several components: the root of the sum of their squares), is
    at most the sensitivity, and the function stays the same during the release; then its noisy values at any
    points, also points chosen from earlier outputs, are (sensitivity/sigma)-GDP (Hall, Rinaldo and
    Wasserman 2013, section 4; on finitely many points it is the Gaussian mechanism).
    """

    released_by = "function"
    norms: ClassVar[tuple[Norm, ...]] = ("rkhs",)
    beside_cost: ClassVar[Mapping[str, Any]] = {"beta": 1.0}
    drawn_exactly = True

    example = fields(sigma=2.0, kernel={"kind": "exponential", "beta": 3.0}, sensitivity=ONE["rkhs"])

    kind: Literal["gaussian-process"] = "gaussian-process"
    kernel: ExponentialKernel

    def path(self, shape: tuple[int, ...], randomness: Randomness) -> Path[Any]:
        """Return a path with independent components of `shape`, drawn at the requested points."""
        return randomness.path(self.sigma, self.kernel.beta, shape)

    def answering(self) -> Callable[..., Array]:
        """Return the sampler of one release; it keeps and extends one path."""
        paths: list[Path[Any]] = []

        def answer(points: Array, values: Array, randomness: Randomness) -> Array:
            path = paths[0] if paths else self.path(values.shape[1:], randomness)
            paths[:] = [path]
            at = zip(points.tolist(), values, strict=True)
            return np.array([path.at(point, value) for point, value in at])

        return answer

    def log_density(self, outputs: Array, means: Array, points: Array) -> float:
        """Return the log density of noisy values [n, ...] at distinct points [n], given the true values."""
        return self.kernel.log_density(points, residual(outputs, means), self.sigma)

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the least norm of a function with the observed differences at the requested points."""
        differences = [a.query - b.query for a, b in zip(one, other, strict=True)]
        moved = math.sqrt(self._squared_norm(one, differences))
        return [Move(moved, self.sensitivity.value, "in rkhs")]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float:
        """Return the joint log density of the values at all points."""
        points = _points(answers)
        if points is None:
            return 0.0
        outputs = np.concatenate([answer.output for answer in answers[1:]])
        return self.log_density(outputs, np.concatenate([asked.query for asked in queries[1:]]), points)

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return the squared norm of the differences divided by sigma squared."""
        return self._squared_norm(answers, differences) / self.sigma**2

    def _squared_norm(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        points = _points(answers)
        return 0.0 if points is None else self.kernel.squared_norm(points, np.concatenate(differences[1:]))


def _points(answers: Sequence[Answer]) -> Array | None:
    """Return all requested points, or None; a function's first answer is empty."""
    asked = [answer.at for answer in answers[1:] if answer.at is not None]
    return np.concatenate(asked) if asked else None
