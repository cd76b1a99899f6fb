"""Laplace noise, randomized response and choices of bounded range: many parameters at once, with counts.

Below, x = (2 c + 1) e for a parameter e.

Randomized response has log M(c) = log cosh(x / 2) - log cosh(e / 2). Under the tilted law it is two atoms at
+-e with weights that differ by tanh(x / 2): the characteristic function is cos(t e) + i tanh(x / 2) sin(t e).

Laplace noise has M(s) = ((s + 1) e^(s e) + s e^(-(s + 1) e)) / (2 s + 1) (Mironov 2017, Table II), that is

    M(s) - 1 = ((s + 1) (e^(s e) - 1) + s (e^(-(s + 1) e) - 1)) / (2 s + 1),
    M(s) = e^(s e) (s + 1) / (2 s + 1) * (1 + z),    z = s / (s + 1) * e^(-(2 s + 1) e).

The first form keeps its relative accuracy when x <= 1; the second when x > 1, where |1 + z| > 0.6 and nothing
vanishes. Note |s| <= |s + 1| <= |2 s + 1| for Re s > 0.

The pair of `BoundedRangeTerm` has losses of density proportional to e^(L / 2) on [-e, e] under P: with
z = (s + 1/2) e

    M(s) = (sinh z / z) / (sinh(e / 2) / (e / 2)),

and with a = (c + 1/2) e, b = t e the characteristic function under the tilted law is

    phi = sinh(a + i b) / sinh a * a / (a + i b),    |phi|^2 = (1 + sin^2 b / sinh^2 a) / (1 + b^2 / a^2).

If |z| <= 1, log(sinh z / z) is summed as a series in z^2, so that a small parameter keeps its relative
accuracy: by Euler's product, sinh z / z = prod over m >= 1 of (1 + z^2 / (m pi)^2), it is the sum over k >= 1
of (-1)^(k+1) zeta(2 k) / k * (z / pi)^(2 k).
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from dpaudit.accountants.privacy_loss.contour.factors import (
    UNIT,
    Along,
    Cumulant,
    Vector,
    least_versine,
    log_rest,
    polar,
)

_NODES, _CELLS, _ROWS = 16384, 65536, 256


@functools.cache
def _series(derivative: int = 0) -> Vector:
    """Return coefficients of z^44 down to z^2 in log(sinh z / z), or in z or z^2 times its derivatives.

    The omitted rest for |z| <= 1 is below 1e-22 |z|^2.
    """
    k = np.arange(22.0, 0.0, -1.0)
    coefficients = (-1.0) ** (k + 1.0) * scipy.special.zeta(2.0 * k) / k / np.pi ** (2.0 * k)
    return np.asarray(coefficients * (1.0, 2.0 * k, 2.0 * k * (2.0 * k - 1.0))[derivative])


@dataclass(frozen=True, eq=False)
class ParameterFamily(ABC):
    """Parameters e > 0 in increasing order, with counts; both [parameters]."""

    parameters: Vector
    counts: Vector
    groups: int = 256  # for `decay`, whose bound must hold for each member of a group

    def cost(self, _c: float, _end: float) -> float:
        """Return the cost of a node: one formula for each parameter."""
        return float(len(self.parameters))

    def cumulant(self, c: float) -> Cumulant:
        """Return the sum over all parameters."""
        logs, slope, curvature, error = self._cumulants(c)
        error = error + len(logs) * UNIT * logs
        return Cumulant(*(float(self.counts @ each) for each in (logs, slope, curvature, error)))

    def along(self, c: float, t: Vector) -> Along:
        """Return the sum over all parameters, node by node."""
        return accumulate(lambda rows, t: self._block(c, t, self.parameters[rows, None]), self.counts, t)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """Return the sum of the groups' bounds, each times its count."""
        groups = min(self.groups, len(self.parameters))
        starts = np.linspace(0, len(self.parameters), groups + 1).astype(np.intp)
        least, most = self.parameters[starts[:-1]][:, None], self.parameters[starts[1:] - 1][:, None]
        counts = np.add.reduceat(self.counts, starts[:-1])[:, None] * (1.0 - 1e-10)
        return np.asarray(np.sum(counts * self._log_decay(c, least, most, lower, upper), axis=0))

    @abstractmethod
    def _cumulants(self, c: float) -> tuple[Vector, Vector, Vector, Vector]:
        """Return log M(c), its first two derivatives and a bound on the error of log M(c); [parameters]."""

    @abstractmethod
    def _block(self, c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
        """Return log modulus, phase, error of phi(t) at parameters e [parameters, 1]; [parameters, nodes]."""

    @abstractmethod
    def _log_decay(self, c: float, least: Vector, most: Vector, lower: Vector, upper: Vector) -> Vector:
        """Bound log |phi|, lower <= t <= upper, e from least [groups, 1] to most; [groups, intervals]."""


class ResponseFactor(ParameterFamily):
    """Randomized response at every parameter."""

    def _cumulants(self, c: float) -> tuple[Vector, Vector, Vector, Vector]:
        # Each log cosh difference is below x / 2 and below x^2 / 8, and so is its rounding.
        e, half = self.parameters, (c + 0.5) * self.parameters
        logs, error = _log_cosh(half) - _log_cosh(0.5 * e), 32.0 * UNIT * np.minimum(half, half * half)
        return logs, e * np.tanh(half), e * e * _sech_squared(half), error

    def _block(self, c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
        # |phi|^2 = 1 - sin^2(t e) / cosh^2(x / 2). Error: t e rounds, then a few roundings.
        theta, half = e * t, (c + 0.5) * e
        sine, cosine = np.sin(theta), np.cos(theta)
        squared, tangent = _sech_squared(half) * sine * sine, np.tanh(half) * sine
        modulus = np.maximum(np.hypot(cosine, tangent), 1e-30)
        log_modulus = np.where(squared > 0.5, np.log(modulus), 0.5 * np.log1p(-np.minimum(squared, 0.6)))
        error = np.log1p((32.0 * UNIT * theta * (1.0 + np.minimum(half, 20.0)) + 1e-30) / modulus)
        return np.minimum(log_modulus, 0.0), np.arctan2(tangent, cosine), error

    def _log_decay(self, c: float, least: Vector, most: Vector, lower: Vector, upper: Vector) -> Vector:
        # |phi|^2 = 1 - (1 - cos 2 t e) / (2 cosh^2(x / 2)); 1 / cosh^2 falls with e.
        versine = least_versine(2.0 * least * lower, 2.0 * most * upper)
        return log_rest(0.5 * (1.0 - 1e-9) * _sech_squared((c + 0.5) * most) * versine)


class LaplaceFactor(ParameterFamily):
    """Laplace noise at every parameter."""

    def _cumulants(self, c: float) -> tuple[Vector, Vector, Vector, Vector]:
        # Both forms are in the module's docstring. A series in e replaces differences that would cancel.
        e = self.parameters
        logs, errors = _laplace_cumulant(c, e)
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
        slope = np.where(x <= 0.05, slope_small, slope_large)
        return logs, slope, np.where(x <= 0.05, curve_small, np.maximum(curve_large, 0.0)), errors

    def _block(self, c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
        # The first form for x <= 1, the second beyond.
        split = int(np.searchsorted(e[:, 0], 1.0 / (2.0 * c + 1.0), side="right"))
        if split in {0, len(e)}:
            return (_laplace_small if split else _laplace_large)(c, t, e)
        small, large = _laplace_small(c, t, e[:split]), _laplace_large(c, t, e[split:])
        return Along(*(np.concatenate(each) for each in zip(small, large, strict=True)))

    def _log_decay(self, c: float, least: Vector, most: Vector, lower: Vector, upper: Vector) -> Vector:
        # Two bounds; the smaller one holds for each group of parameters. With A = (e^(c e) + e^(-(c + 1) e))
        # / 2, M = A' + D / (2 s + 1) where |A'|, |D| <= A: so |M(s)| <= A (1 + 1 / |2 s + 1|), and A / M(c) =
        # 1 - (1 - y) / (2 (c + 1 + c y)), y = e^-x, falls with e. Second, the tilted law has atoms of weights
        # p, q at +-e with p q = e^-e / (4 M(c)^2), falling with e, so for two independent copies of the loss
        # |phi|^2 = E cos(t (L - L')) <= 1 - 2 p q (1 - cos 2 t e).
        x = (2.0 * c + 1.0) * least
        gap = -np.expm1(-x) / (2.0 * (c + 1.0 + c * np.exp(-x))) * (1.0 - 1e-12)
        uniform = np.log1p(-gap) + np.log1p(1.0 / np.hypot(2.0 * c + 1.0, 2.0 * lower)) + 64.0 * UNIT
        weights = 0.25 * (1.0 - 1e-9) * np.exp(-most - 2.0 * _laplace_cumulant(c, most)[0])
        versine = least_versine(2.0 * least * lower, 2.0 * most * upper)
        return np.minimum(0.0, np.minimum(uniform, log_rest(2.0 * weights * versine)))


class BoundedRangeFactor(ParameterFamily):
    """A choice of bounded range at every parameter."""

    def _cumulants(self, c: float) -> tuple[Vector, Vector, Vector, Vector]:
        # Differences of log(sinh x / x), which is at most x^2 / 6 and x; so is its rounding.
        e, a = self.parameters, (c + 0.5) * self.parameters
        small, large = np.minimum(a, 1.0), np.maximum(a, 1.0)
        falling = np.exp(-2.0 * large)
        near = small * np.polyval(_series(1), small**2)
        slope = np.where(a <= 1.0, near, (1.0 + falling) / (1.0 - falling) - 1.0 / large)
        near = np.polyval(_series(2), small**2)
        curvature = np.where(a <= 1.0, near, 1.0 / large**2 - 4.0 * falling / (1.0 - falling) ** 2)
        error = 64.0 * UNIT * np.minimum(a, a * a)
        return _log_sinhc(a) - _log_sinhc(0.5 * e), e * slope, e * e * curvature, error

    def _block(self, c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
        # The series for |z| <= 1, otherwise the closed form with both parts divided by cosh a.
        a, b = (c + 0.5) * e, e * t
        ratio, small = b / a, a * a + b * b <= 1.0
        real, imaginary = np.tanh(a) * np.cos(b), np.sin(b)
        modulus = np.maximum(np.hypot(real, imaginary), 1e-30)
        log_modulus = np.log(modulus / np.tanh(a)) - 0.5 * np.log1p(ratio * ratio)
        phase = np.arctan2(imaginary, real) - np.arctan2(b, a)
        error = np.log1p(32.0 * UNIT * (1.0 + b) / modulus) + 32.0 * UNIT * (1.0 + np.log1p(ratio))
        if np.any(small):
            square = np.where(small, (a + 1j * b) ** 2, 0.0)
            # h(z) - h(a) with h(z) = sum of c_k z^(2 k).
            start = np.broadcast_to(np.minimum(a, 1.0) ** 2, square.shape)
            difference = square * np.polyval(_series(), square) - start * np.polyval(_series(), start)
            log_modulus = np.where(small, difference.real, log_modulus)
            phase = np.where(small, difference.imag, phase)
            error = np.where(small, 64.0 * UNIT * (a * a + b * b), error)
        return np.minimum(log_modulus, 0.0), phase, error

    def _log_decay(self, c: float, least: Vector, most: Vector, lower: Vector, upper: Vector) -> Vector:
        # With sin^2 b <= b^2 and <= 1, |phi|^2 is below two functions that fall with b. The first is 1 - g
        # b^2 / (a^2 + b^2), g = 1 - (a / sinh a)^2; it falls with e at a fixed c and t. So does the second,
        # (1 + 1 / sinh^2 a) / (1 + b^2 / a^2). Both are evaluated at each group's least parameter.
        del most, upper
        a, b = (c + 0.5) * least, least * lower
        squared = np.expm1(2.0 * np.minimum(_log_sinhc(a), 300.0))  # (sinh a / a)^2 - 1
        share = squared / (1.0 + squared) / ((a / b) ** 2 + 1.0) * (1.0 - 1e-9)
        near = np.log1p(-np.minimum(share, 1.0 - 1e-15))
        far = -2.0 * np.log(np.tanh(a)) - np.log1p((b / a) ** 2) + 1e-12  # 1 + 1 / sinh^2 a = coth^2 a
        return 0.5 * np.minimum(0.0, np.minimum(near, far))


def accumulate(
    block: Callable[[slice, Vector], tuple[Vector, Vector, Vector]], counts: Vector, t: Vector, width: int = 1
) -> Along:
    """Sum log modulus, phase and error over rows, each times its count [rows], of either sign, at t [nodes].

    `block` computes the three, [rows, nodes], for some rows at some nodes, with `width` numbers for each.
    """
    total = np.zeros((3, len(t)))
    nodes = max(1, min(_NODES, len(t), _CELLS // width))
    rows = max(1, min(_ROWS, _CELLS // (width * nodes)))
    # A sum of r rows is within r u of itself, relative to the sum of moduli; the blocks add up likewise.
    summing = (min(len(counts), _ROWS) - (-len(counts) // rows) + 8.0) * UNIT
    for start in range(0, len(t), nodes):
        here = slice(start, start + nodes)
        for first in range(0, len(counts), rows):
            some = slice(first, first + rows)
            (log_modulus, phase, error), weights = block(some, t[here]), counts[some]
            total[0, here] += weights @ log_modulus
            total[1, here] += weights @ phase
            total[2, here] += np.abs(weights) @ (error + summing * (np.abs(phase) - log_modulus))
    return Along(total[0], total[1], total[2])


def _log_cosh(x: Vector) -> Vector:
    """Return log cosh x for x >= 0, to a few u relative."""
    with np.errstate(over="ignore"):
        small = 0.5 * np.log1p(np.sinh(np.minimum(x, 1.0)) ** 2)
        large = x + np.log1p(np.exp(-2.0 * x)) - np.log(2.0)
    return np.asarray(np.where(x < 1.0, small, large))


def _log_sinhc(x: Vector) -> Vector:
    """Return log(sinh x / x) for x > 0, to a few u relative."""
    square, large = np.minimum(x, 1.0) ** 2, np.maximum(x, 1.0)
    closed = large + np.log1p(-np.exp(-2.0 * large)) - np.log(2.0 * large)
    return np.where(x <= 1.0, square * np.polyval(_series(), square), closed)


def _sech_squared(x: Vector) -> Vector:
    falling = np.exp(-2.0 * x)
    return 4.0 * falling / (1.0 + falling) ** 2


def _laplace_cumulant(c: float, e: Vector) -> tuple[Vector, Vector]:
    """Return log M(c) of each Laplace parameter, and a bound on its absolute error."""
    x = (2.0 * c + 1.0) * e
    with np.errstate(over="ignore"):
        rise, fall = np.expm1(np.minimum(c * e, 1.0)), np.expm1(-(c + 1.0) * e)
    small = np.log1p(np.maximum(((c + 1.0) * rise + c * fall) / (2.0 * c + 1.0), 0.0))
    large = c * e + np.log1p(-c / (2.0 * c + 1.0)) + np.log1p(c / (c + 1.0) * np.exp(-x))
    errors = np.where(x <= 1.0, 64.0 * UNIT * np.minimum(1.0, c) * (c + 1.0) * e, 32.0 * UNIT * (c * e + 1.0))
    return np.where(x <= 1.0, small, large), errors


def _laplace_small(c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
    # The rounding of M(s) - 1 is within 64 u |s + 1| e (each exponential within 8 u of its distance from 1,
    # which is at most e^(1/2) |s + 1| e), and M(c) >= 1; the modulus' square doubles it.
    theta = e * t
    rise, fall = np.exp(c * e), np.exp(-(c + 1.0) * e)
    sine, versine = np.sin(theta), 2.0 * np.sin(0.5 * theta) ** 2
    x1, y1 = np.expm1(c * e) - rise * versine, rise * sine
    x2, y2 = np.expm1(-(c + 1.0) * e) - fall * versine, -fall * sine
    real = (c + 1.0) * x1 + c * x2 - t * (y1 + y2)
    imaginary, two = (c + 1.0) * y1 + c * y2 + t * (x1 + x2), 2.0 * c + 1.0
    norm = two * two + 4.0 * t * t
    base = ((c + 1.0) * np.expm1(c * e) + c * np.expm1(-(c + 1.0) * e)) / two
    x = ((real * two + imaginary * (2.0 * t)) / norm - base) / (1.0 + base)
    y = (imaginary * two - real * (2.0 * t)) / norm / (1.0 + base)
    return polar(x, y, 128.0 * UNIT * np.hypot(c + 1.0, t) * e)


def _laplace_large(c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
    theta, s, two = e * t, c + 1j * t, 2.0 * c + 1.0
    ratio = (s + 1.0) / (2.0 * s + 1.0) * (two / (c + 1.0))
    decay = np.exp(-two * e)
    z = 1.0 + s / (s + 1.0) * decay * np.exp(-2j * theta)
    log_modulus = np.log(np.abs(ratio)) + np.log(np.abs(z)) - np.log1p(c / (c + 1.0) * decay)
    phase = theta + np.angle(ratio) + np.angle(z)
    return np.minimum(log_modulus, 0.0), phase, 32.0 * UNIT * (np.hypot(c, t) * e + 1.0)
