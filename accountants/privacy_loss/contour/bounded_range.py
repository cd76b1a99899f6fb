"""Choices of bounded range on the contour: many parameters at once, each with its count.

The pair of `BoundedRangeTerm` at e has losses of density proportional to e^(L / 2) on [-e, e] under P: with
z = (s + 1/2) e

    M(s) = (sinh z / z) / (sinh(e / 2) / (e / 2)),

and with a = (c + 1/2) e, b = t e the characteristic function under the tilted law is

    phi = sinh(a + i b) / sinh a * a / (a + i b),    |phi|^2 = (1 + sin^2 b / sinh^2 a) / (1 + b^2 / a^2).

Where |z| <= 1, log(sinh z / z) is summed as a series in z^2, so that a small parameter keeps its relative
accuracy: by the product of Euler, sinh z / z = prod over m >= 1 of (1 + z^2 / (m pi)^2), it is the sum over k
>= 1 of (-1)^(k+1) zeta(2 k) / k * (z / pi)^(2 k).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import zeta

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Along, Cumulant, Vector
from dpaudit.accountants.privacy_loss.contour.families import ParameterFamily, accumulate

_ORDERS = np.arange(1, 23)
#: Coefficients of z^(2 k); what is left out for |z| <= 1 is below 1e-22 |z|^2.
_SERIES = (-1.0) ** (_ORDERS + 1) * zeta(2.0 * _ORDERS) / _ORDERS / np.pi ** (2.0 * _ORDERS)


@dataclass(frozen=True, eq=False)
class BoundedRangeFactor(ParameterFamily):
    """A choice of bounded range at every parameter, as often as its count says."""

    def cumulant(self, c: float) -> Cumulant:
        """Differences of log(sinh x / x), which is at most x^2 / 6 and x, hence so is its rounding."""
        e, a = self.parameters, (c + 0.5) * self.parameters
        logs = log_sinhc(a) - log_sinhc(0.5 * e)
        error = 64.0 * UNIT * np.minimum(a, a * a)
        square = np.minimum(a, 1.0) ** 2
        large = np.maximum(a, 1.0)
        falling = np.exp(-2.0 * large)
        slope = np.where(
            a <= 1.0,
            np.minimum(a, 1.0) * np.polyval((2.0 * _ORDERS * _SERIES)[::-1], square),
            (1.0 + falling) / (1.0 - falling) - 1.0 / large,
        )
        curvature = np.where(
            a <= 1.0,
            np.polyval((2.0 * _ORDERS * (2.0 * _ORDERS - 1.0) * _SERIES)[::-1], square),
            1.0 / large**2 - 4.0 * falling / (1.0 - falling) ** 2,
        )
        return Cumulant(
            float(self.counts @ logs),
            float(self.counts @ (e * slope)),
            float(self.counts @ (e * e * curvature)),
            float(self.counts @ (error + len(e) * UNIT * logs)),
        )

    def along(self, c: float, t: Vector) -> Along:
        """The series for |z| <= 1, else the closed form."""
        return accumulate(_block, c, t, self.parameters, self.counts)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """With sin^2 b <= b^2 and <= 1, |phi|^2 is below two functions that fall with b.

        The first is 1 - g b^2 / (a^2 + b^2), g = 1 - (a / sinh a)^2; it falls with e at a fixed c and t. The
        second, (1 + 1 / sinh^2 a) / (1 + b^2 / a^2), too. Both are taken at each group's least parameter.
        """
        del upper
        groups = self.buckets()
        a, b = (c + 0.5) * groups.lowest, groups.lowest * lower
        squared = _sinhc_excess(a)
        share = squared / (1.0 + squared) / ((a / b) ** 2 + 1.0) * (1.0 - 1e-9)
        near = np.log1p(-np.minimum(share, 1.0 - 1e-15))
        # 1 + 1 / sinh^2 a = coth^2 a
        far = -2.0 * np.log(np.tanh(a)) - np.log1p((b / a) ** 2) + 1e-12
        total: Vector = np.sum(0.5 * groups.counts * np.minimum(0.0, np.minimum(near, far)), axis=0)
        return total


def log_sinhc(x: Vector) -> Vector:
    """log(sinh x / x) for x > 0, to a few u relative."""
    square = np.minimum(x, 1.0) ** 2
    large = np.maximum(x, 1.0)
    logarithm: Vector = np.where(
        x <= 1.0,
        square * np.polyval(_SERIES[::-1], square),
        large + np.log1p(-np.exp(-2.0 * large)) - np.log(2.0 * large),
    )
    return logarithm


def _sinhc_excess(a: Vector) -> Vector:
    """(sinh a / a)^2 - 1."""
    excess: Vector = np.expm1(2.0 * np.minimum(log_sinhc(a), 300.0))
    return excess


def _block(c: float, t: Vector, e: Vector) -> tuple[Vector, Vector, Vector]:
    a, b = (c + 0.5) * e, e * t
    small = a * a + b * b <= 1.0
    ratio = b / a
    # The closed form, both parts divided by cosh a.
    real, imaginary = np.tanh(a) * np.cos(b), np.sin(b)
    modulus = np.maximum(np.hypot(real, imaginary), 1e-30)
    log_modulus = np.log(modulus / np.tanh(a)) - 0.5 * np.log1p(ratio * ratio)
    phase = np.arctan2(imaginary, real) - np.arctan2(b, a)
    error = np.log1p(32.0 * UNIT * (1.0 + b) / modulus) + 32.0 * UNIT * (1.0 + np.log1p(ratio))
    if np.any(small):
        square = np.where(small, (a + 1j * b) ** 2, 0.0)
        # h(z) - h(a) with h(z) = sum of c_k z^(2 k).
        start = np.broadcast_to(np.minimum(a, 1.0) ** 2, square.shape)
        difference = square * np.polyval(_SERIES[::-1], square) - start * np.polyval(_SERIES[::-1], start)
        log_modulus = np.where(small, difference.real, log_modulus)
        phase = np.where(small, difference.imag, phase)
        error = np.where(small, 64.0 * UNIT * (a * a + b * b), error)
    return np.minimum(log_modulus, 0.0), phase, error
