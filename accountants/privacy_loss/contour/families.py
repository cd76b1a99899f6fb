"""Laplace noise and randomized response on the contour: many parameters at once, each with its count.

Randomized response at e has, with x = (2c + 1) e, log M(c) = log cosh(x / 2) - log cosh(e / 2), and under the
tilted law it is two atoms at +-e whose weights differ by tanh(x / 2): the characteristic function is cos(t
e) + i
tanh(x / 2) sin(t e).

Laplace noise has M(s) = ((s + 1) e^(s e) + s e^(-(s + 1) e)) / (2 s + 1) (Mironov 2017, Table II), that is

    M(s) - 1 = ((s + 1) (e^(s e) - 1) + s (e^(-(s + 1) e) - 1)) / (2 s + 1),
    M(s) = e^(s e) (s + 1) / (2 s + 1) * (1 + z),    z = s / (s + 1) * e^(-(2 s + 1) e).

The first form keeps its relative accuracy when x <= 1; the second when x > 1, where |1 + z| > 0.6 and nothing
vanishes. Note |s| <= |s + 1| <= |2 s + 1| for Re s > 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import (
    UNIT,
    Along,
    Cumulant,
    Vector,
    least_versine,
    polar,
)

_NODES, _CELLS, _ROWS = 16384, 65536, 256


@dataclass(frozen=True)
class _Buckets:
    """Parameters in increasing order, in groups: range and total count of each; [groups, 1]."""

    lowest: Vector
    highest: Vector
    counts: Vector


@dataclass(frozen=True, eq=False)
class ParameterFamily:
    """Parameters e > 0 in increasing order, and how often each occurs; both [parameters]."""

    parameters: Vector
    counts: Vector
    groups: int = 256

    def cost(self, c: float, end: float) -> float:
        """One formula for each parameter."""
        del c, end
        return float(len(self.parameters))

    def buckets(self) -> _Buckets:
        """Groups for a bound that has to hold for each member."""
        groups = min(self.groups, len(self.parameters))
        starts = np.linspace(0, len(self.parameters), groups + 1).astype(np.intp)
        return _Buckets(
            self.parameters[starts[:-1]][:, None],
            self.parameters[starts[1:] - 1][:, None],
            np.add.reduceat(self.counts, starts[:-1])[:, None] * (1.0 - 1e-10),
        )


@dataclass(frozen=True, eq=False)
class ResponseFactor(ParameterFamily):
    """Randomized response at every parameter, as often as its count says."""

    def cumulant(self, c: float) -> Cumulant:
        """Log cosh differences; each is below x / 2 and below x^2 / 8, hence so is its rounding."""
        e, half = self.parameters, (c + 0.5) * self.parameters
        logs = log_cosh(half) - log_cosh(0.5 * e)
        tanh = np.tanh(half)
        error = 32.0 * UNIT * np.minimum(half, half * half)
        return Cumulant(
            float(self.counts @ logs),
            float(self.counts @ (e * tanh)),
            float(self.counts @ (e * e * _sech_squared(half))),
            float(self.counts @ (error + len(e) * UNIT * logs)),
        )

    def along(self, c: float, t: Vector) -> Along:
        """|phi|^2 = 1 - sin^2(t e) / cosh^2(x / 2). Error: t e rounds, then a few roundings."""
        return accumulate(_response_block, c, t, self.parameters, self.counts)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """|phi|^2 = 1 - (1 - cos 2 t e) / (2 cosh^2(x / 2)); 1 / cosh^2 falls with e."""
        groups = self.buckets()
        sech_squared = _sech_squared((c + 0.5) * groups.highest)
        versine = least_versine(2.0 * groups.lowest * lower, 2.0 * groups.highest * upper)
        log_squared = np.log1p(-np.minimum(0.5 * (1.0 - 1e-9) * sech_squared * versine, 1.0 - 1e-12))
        total: Vector = np.sum(0.5 * groups.counts * log_squared, axis=0)
        return total


@dataclass(frozen=True, eq=False)
class LaplaceFactor(ParameterFamily):
    """Laplace noise at every parameter, as often as its count says."""

    def cumulant(self, c: float) -> Cumulant:
        """Both forms of the module's docstring; derivatives by series in e where differences would cancel."""
        e = self.parameters
        logs, errors = laplace_cumulant(c, e)
        p, x = c * (c + 1.0), (2.0 * c + 1.0) * e
        # M = 1 + p G with p = s (s + 1); G = e^2/2 - e^3/6 + e^4 (p + 1)/24 - e^5 (2 p + 1)/120 + ...
        first = e**2 / 2 - e**3 / 6 + e**4 * (2 * p + 1) / 24 - e**5 * (4 * p + 1) / 120
        second = e**4 / 12 - e**5 / 30
        with np.errstate(all="ignore"):
            moment = np.exp(logs)
            slope_small = first * (2 * c + 1) / moment
            curve_small = (second * (2 * c + 1) ** 2 + 2 * first) / moment - slope_small**2
            # With both parts divided by e^(c e): y = e^-x.
            y = np.exp(-x)
            numerator = (c + 1.0) + c * y
            slope_n = ((1.0 + (c + 1.0) * e) + y * (1.0 - c * e)) / numerator
            curve_n = (e * (2.0 + (c + 1.0) * e) - y * e * (2.0 - c * e)) / numerator
            slope_large = slope_n - 2.0 / (2.0 * c + 1.0)
            curve_large = curve_n - slope_n**2 + 4.0 / (2.0 * c + 1.0) ** 2
        small = x <= 0.05
        return Cumulant(
            float(self.counts @ logs),
            float(self.counts @ np.where(small, slope_small, slope_large)),
            float(self.counts @ np.where(small, curve_small, np.maximum(curve_large, 0.0))),
            float(self.counts @ (errors + len(e) * UNIT * logs)),
        )

    def along(self, c: float, t: Vector) -> Along:
        """The first form for x <= 1, the second beyond."""
        split = int(np.searchsorted(self.parameters, 1.0 / (2.0 * c + 1.0), side="right"))
        parts = []
        if split:
            parts.append(accumulate(_laplace_small, c, t, self.parameters[:split], self.counts[:split]))
        if split < len(self.parameters):
            parts.append(accumulate(_laplace_large, c, t, self.parameters[split:], self.counts[split:]))
        return Along(*(np.sum(list(field), axis=0) for field in zip(*parts, strict=True)))

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """Two bounds, the smaller of which holds for each group of parameters.

        With A = (e^(c e) + e^(-(c + 1) e)) / 2, M = A' + D / (2 s + 1) where |A'|, |D| <= A: so |M(s)| <= A
        (1 + 1 /
        |2 s + 1|), and A / M(c) = 1 - (1 - y) / (2 (c + 1 + c y)), y = e^-x, falls with e. And the tilted
        law has
        atoms of weights p, q at +-e with p q = e^-e / (4 M(c)^2), falling with e, so that for two
        independent copies
        of the loss |phi|^2 = E cos(t (L - L')) <= 1 - 2 p q (1 - cos 2 t e).
        """
        groups = self.buckets()
        x = (2.0 * c + 1.0) * groups.lowest
        gap = -np.expm1(-x) / (2.0 * (c + 1.0 + c * np.exp(-x))) * (1.0 - 1e-12)
        uniform = np.log1p(-gap) + np.log1p(1.0 / np.hypot(2.0 * c + 1.0, 2.0 * lower)) + 64.0 * UNIT
        logs, _ = laplace_cumulant(c, groups.highest)
        weights = 0.25 * (1.0 - 1e-9) * np.exp(-groups.highest - 2.0 * logs)
        versine = least_versine(2.0 * groups.lowest * lower, 2.0 * groups.highest * upper)
        atoms = 0.5 * np.log1p(-np.minimum(2.0 * weights * versine, 1.0 - 1e-12))
        total: Vector = np.sum(groups.counts * np.minimum(0.0, np.minimum(uniform, atoms)), axis=0)
        return total


def log_cosh(x: Vector) -> Vector:
    """Log cosh x for x >= 0, to a few u relative."""
    with np.errstate(over="ignore"):
        small = 0.5 * np.log1p(np.sinh(np.minimum(x, 1.0)) ** 2)
        large = x + np.log1p(np.exp(-2.0 * x)) - np.log(2.0)
    logarithm: Vector = np.where(x < 1.0, small, large)
    return logarithm


def laplace_cumulant(c: float, e: Vector) -> tuple[Vector, Vector]:
    """Log M(c) of each Laplace parameter, and a bound on its absolute error."""
    x = (2.0 * c + 1.0) * e
    with np.errstate(over="ignore"):
        rise, fall = np.expm1(np.minimum(c * e, 1.0)), np.expm1(-(c + 1.0) * e)
    small = np.log1p(np.maximum(((c + 1.0) * rise + c * fall) / (2.0 * c + 1.0), 0.0))
    large = c * e + np.log1p(-c / (2.0 * c + 1.0)) + np.log1p(c / (c + 1.0) * np.exp(-x))
    errors = np.where(x <= 1.0, 64.0 * UNIT * np.minimum(1.0, c) * (c + 1.0) * e, 32.0 * UNIT * (c * e + 1.0))
    return np.where(x <= 1.0, small, large), errors


_Block = Callable[[float, Vector, Vector], tuple[Vector, Vector, Vector]]


def _blocks(parameters: int, nodes: int) -> Iterator[tuple[slice, slice]]:
    for start in range(0, nodes, _NODES):
        columns = slice(start, min(start + _NODES, nodes))
        rows = max(1, min(_ROWS, _CELLS // (columns.stop - start)))
        for first in range(0, parameters, rows):
            yield slice(first, min(first + rows, parameters)), columns


def accumulate(block: _Block, c: float, t: Vector, parameters: Vector, counts: Vector) -> Along:
    """Sum a block's log modulus, phase and error over all parameters, each as often as it counts."""
    # Counts are weights here, which an interpolation may make negative.
    total = np.zeros((3, len(t)))
    # A sum of r rows is within r u of itself, relative to the sum of moduli; the blocks add up likewise.
    blocks = -(-len(parameters) // max(1, min(_ROWS, _CELLS // min(len(t), _NODES))))
    summing = (min(len(parameters), _ROWS) + blocks + 8.0) * UNIT
    for rows, columns in _blocks(len(parameters), len(t)):
        log_modulus, phase, error = block(c, t[columns], parameters[rows, None])
        error += summing * (np.abs(phase) - log_modulus)
        weights = counts[rows]
        total[0, columns] += weights @ log_modulus
        total[1, columns] += weights @ phase
        total[2, columns] += np.abs(weights) @ error
    return Along(total[0], total[1], total[2])


def _response_block(c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
    theta = e * t
    half, sine = (c + 0.5) * e, np.sin(theta)
    squared = _sech_squared(half) * sine * sine
    tangent, cosine = np.tanh(half) * sine, np.cos(theta)
    modulus = np.maximum(np.hypot(cosine, tangent), 1e-30)
    log_modulus = np.where(squared > 0.5, np.log(modulus), 0.5 * np.log1p(-np.minimum(squared, 0.6)))
    error = np.log1p((32.0 * UNIT * theta * (1.0 + np.minimum(half, 20.0)) + 1e-30) / modulus)
    return np.minimum(log_modulus, 0.0), np.arctan2(tangent, cosine), error


def _laplace_small(c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
    # The rounding of M(s) - 1 is within 64 u |s + 1| e (each exponential within 8 u of its distance from 1,
    # which is
    # at most e^(1/2) |s + 1| e), and M(c) >= 1; the modulus' square doubles it.
    theta = e * t
    rise, fall = np.exp(c * e), np.exp(-(c + 1.0) * e)
    sine, versine = np.sin(theta), 2.0 * np.sin(0.5 * theta) ** 2
    x1, y1 = np.expm1(c * e) - rise * versine, rise * sine
    x2, y2 = np.expm1(-(c + 1.0) * e) - fall * versine, -fall * sine
    real = (c + 1.0) * x1 + c * x2 - t * (y1 + y2)
    imaginary = (c + 1.0) * y1 + c * y2 + t * (x1 + x2)
    two = 2.0 * c + 1.0
    norm = two * two + 4.0 * t * t
    base = ((c + 1.0) * np.expm1(c * e) + c * np.expm1(-(c + 1.0) * e)) / two
    x = ((real * two + imaginary * (2.0 * t)) / norm - base) / (1.0 + base)
    y = (imaginary * two - real * (2.0 * t)) / norm / (1.0 + base)
    return polar(x, y, 128.0 * UNIT * np.hypot(c + 1.0, t) * e)


def _laplace_large(c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
    theta = e * t
    s, two = c + 1j * t, 2.0 * c + 1.0
    ratio = (s + 1.0) / (2.0 * s + 1.0) * (two / (c + 1.0))
    decay = np.exp(-two * e)
    z = 1.0 + s / (s + 1.0) * decay * np.exp(-2j * theta)
    log_modulus = np.log(np.abs(ratio)) + np.log(np.abs(z)) - np.log1p(c / (c + 1.0) * decay)
    phase = theta + np.angle(ratio) + np.angle(z)
    error = 32.0 * UNIT * (np.hypot(c, t) * e + 1.0)
    return np.minimum(log_modulus, 0.0), phase, error


def _sech_squared(x: Vector) -> Vector:
    falling = np.exp(-2.0 * x)
    squared: Vector = 4.0 * falling / (1.0 + falling) ** 2
    return squared
