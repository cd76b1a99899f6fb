"""The contour's interface to each factor of the moment generating function, and the simplest factor.

A composition's moment generating function M(s) = E_P[e^(s L)], L = log dP/dQ, is a product of factors, one
for each family of releases. Three facts describe a factor on the line Re s = c > 0:

* `cumulant`: log M(c), its first two derivatives, and a bound on the rounding error of the value;
* `along`: log M(c + it) - log M(c) = log of the characteristic function of L under the law tilted by e^(c L),
  with a bound on its error, node by node;
* `decay`: a proved bound on the modulus of that characteristic function over whole intervals of t.

Error analysis, in units of u = 2^-53: numpy's exp, expm1, log, log1p, sin, cos, tanh and arctan2 are assumed
to be within 8 u of the truth, relative, and the constants in the bounds leave a factor of at least two.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

UNIT = 2.0**-53


class Cumulant(NamedTuple):
    """log M(c), its first and second derivative, and a bound on the absolute error of the value."""

    value: float
    slope: float
    curvature: float
    error: float


class Along(NamedTuple):
    """log M(c + it) - log M(c) at every node, and a bound on its error; each [nodes].

    Error e: the true characteristic function is within |computed| (exp(e) - 1) of the computed one. A product
    of factors a_i for b_i is off by at most prod(|b_i| + |a_i - b_i|) - prod |b_i|, so errors add up.
    """

    log_modulus: Vector
    phase: Vector
    error: Vector


class Factor(Protocol):
    """One factor of the moment generating function, on the half plane Re s > 0."""

    def cost(self, c: float, end: float, /) -> float:
        """Return the cost of one node, in elementary formulas, if the last is at t = `end`."""

    def cumulant(self, c: float) -> Cumulant:
        """Return log M and its derivatives at c > 0."""

    def along(self, c: float, t: Vector) -> Along:
        """Return log M(c + it) - log M(c) at t >= 0, increasing; shapes [nodes]."""

    def decay(self, c: float, lower: Vector, upper: Vector, /) -> Vector:
        """Bound log |M(c + it) / M(c)| for lower <= t <= upper; the last upper is inf; [intervals]."""


@dataclass(frozen=True)
class GaussianFactor:
    """All Gaussian releases at once: log M(s) = variance * s (s + 1) / 2, variance = sum of mu^2."""

    variance: float

    def cost(self, _c: float, _end: float) -> float:
        """Return the cost of a node: one formula."""
        return 1.0

    def cumulant(self, c: float) -> Cumulant:
        """Return log M(c) = variance c (c + 1) / 2; the variance itself is accurate to 50 u."""
        value = 0.5 * self.variance * c * (c + 1.0)
        return Cumulant(value, self.variance * (c + 0.5), self.variance, 64.0 * UNIT * value)

    def along(self, c: float, t: Vector) -> Along:
        """Return the factor at s = c + i t, by s (s + 1) = c (c + 1) - t^2 + i t (2 c + 1)."""
        log_modulus, phase = -0.5 * self.variance * t * t, self.variance * (c + 0.5) * t
        return Along(log_modulus, phase, 64.0 * UNIT * (phase - log_modulus))

    def decay(self, _c: float, lower: Vector, _upper: Vector) -> Vector:
        """Return the modulus exp(-variance t^2 / 2) at `lower`, where it is largest."""
        return -0.5 * (1.0 - 64.0 * UNIT) * self.variance * np.minimum(lower, 1e150) ** 2


def polar(x: Vector, y: Vector, absolute_error: Vector) -> tuple[Vector, Vector, Vector]:
    """Return log modulus, phase and error of 1 + x + i y, which is off by at most `absolute_error`."""
    growth = x * (2.0 + x) + y * y
    small = growth < -0.5
    modulus = np.maximum(np.hypot(1.0 + x, y), 1e-30)
    log_modulus = np.where(small, np.log(modulus), 0.5 * np.log1p(np.maximum(growth, -0.6)))
    return np.minimum(log_modulus, 0.0), np.arctan2(y, 1.0 + x), np.log1p((absolute_error + 1e-30) / modulus)


def least_versine(lower: Vector, upper: Vector) -> Vector:
    """Return the least 1 - cos x on [lower, upper], rounded down; 0 if a multiple of 2 pi may lie inside."""
    turn = 2.0 * np.pi
    with np.errstate(invalid="ignore", over="ignore"):
        crosses = ~(np.floor(upper / turn * (1.0 + 1e-12)) <= np.floor(lower / turn * (1.0 - 1e-12)))
        crosses |= ~(upper < 1e6)
        safe = np.where(crosses, 0.0, upper)
        ends = np.minimum(np.sin(0.5 * np.minimum(lower, safe)) ** 2, np.sin(0.5 * safe) ** 2)
    return np.where(crosses, 0.0, np.maximum(0.0, 2.0 * ends * (1.0 - 1e-9) - 1e-20))


def log_rest(gained: Vector) -> Vector:
    """Return log of the modulus sqrt(1 - gained), or a larger value if almost nothing remains."""
    return 0.5 * np.log1p(-np.minimum(gained, 1.0 - 1e-12))


def safe_log(x: float) -> float:
    """Return log x; minus infinity for x <= 0."""
    return math.log(x) if x > 0.0 else -math.inf
