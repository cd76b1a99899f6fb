"""Replace many distinct parameters of one family by few: Chebyshev interpolation of log M in the parameter.

On a cell of parameters [b, 2^(1/2) b] and for one s, f(e) = log M(s; e) is interpolated at the 18 Chebyshev
points (of the second kind), so that the sum of n_i f(e_i) over the cell's members becomes a weighted sum of
18 values. If f is analytic and |f| <= B on the Bernstein ellipse with parameter 8, which lies in |e| <= 2.05
b, the interpolant is within 4 B 8^-17 / 7 (Trefethen 2013, Theorem 8.2). With z = |s + 1| 2.05 b:

* Laplace: M - 1 = sum over k >= 2 of e^k / k! * s (s + 1) (s^(k-1) + (-1)^k (s + 1)^(k-1)) / (2 s + 1), of
  modulus at most 2 (e^z - 1 - z) because |s| <= |s + 1| <= |2 s + 1|;
* randomized response: M = cosh((s + 1/2) e) / cosh(e / 2), and |cosh w - 1| <= cosh |w| - 1 <= e^|w| - 1 -
  |w|.

For z <= 0.8 the first is below 0.86 and the second below 0.43, so f is analytic there with |f| <=
-log(1 - 2 (e^z - 1 - z)); twice that bounds both parts of the second. Nodes with a larger z use all members.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Along, Cumulant, Factor, Vector
from dpaudit.accountants.privacy_loss.contour.families import LaplaceFactor, ResponseFactor

_POINTS, _REACH, _LARGEST = 18, 2.05, 0.8
_FEWEST, _CHUNK = 64, 8192  # a cell with fewer members is not interpolated


@dataclass(frozen=True, eq=False)
class CompressedFactor:
    """One cell: its members, and the points and weights that replace them."""

    members: LaplaceFactor | ResponseFactor
    points: LaplaceFactor | ResponseFactor
    total: float
    reach: float  # 2.05 b

    def cost(self, c: float, end: float) -> float:
        """Return eighteen formulas for a node, or all members' cost if the last node is out of reach."""
        return _POINTS if self._within(c, end) else self.members.cost(c, end)

    def cumulant(self, c: float) -> Cumulant:
        """Compute from the points within reach, from all members elsewhere."""
        if not self._within(c, 0.0):
            return self.members.cumulant(c)
        value, slope, curvature, _ = self.points.cumulant(c)
        # The points' own error, with weights of either sign, is below that of equally many members.
        worst = type(self.points)(self.points.parameters[-1:], np.array([3.0 * self.total])).cumulant(c)
        error = worst.error + 64.0 * UNIT * worst.value + self._error(c, 0.0)
        return Cumulant(value, slope, curvature, error)

    def along(self, c: float, t: Vector) -> Along:
        """Compute from the points up to the last node within reach, from all members beyond."""
        near = int(np.count_nonzero(np.hypot(c + 1.0, t) * self.reach <= _LARGEST))
        parts = []
        if near:
            log_modulus, phase, error = self.points.along(c, t[:near])
            error = error + 2.0 * self._error(c, float(t[near - 1]))  # the weights' own rounding
            error += 64.0 * UNIT * self.total * _bound(np.hypot(c + 1.0, t[:near]) * self.reach)
            parts.append(Along(log_modulus, phase, error))
        if near < len(t):
            parts.append(self.members.along(c, t[near:]))
        return Along(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """Return the decay bound of all members."""
        return self.members.decay(c, lower, upper)

    def _within(self, c: float, end: float) -> bool:
        return math.hypot(c + 1.0, end) * self.reach <= _LARGEST

    def _error(self, c: float, end: float) -> float:
        z = np.array([math.hypot(c + 1.0, end) * self.reach])
        return float(self.total * 4.0 / 7.0 * 8.0 ** -(_POINTS - 1) * _bound(z)[0] * 2.0)


def compressed(family: LaplaceFactor | ResponseFactor) -> list[Factor]:
    """Return a family's factors, compressed if enough parameters are close together."""
    parameters, counts, kind = family.parameters, family.counts, type(family)
    if len(parameters) < 2 * _FEWEST:
        return [family] if len(parameters) else []
    first = math.floor(2.0 * math.log2(float(parameters[0])))
    last = math.floor(2.0 * math.log2(float(parameters[-1]))) + 1
    edges = 2.0 ** (0.5 * np.arange(first, last + 1))
    ends = np.concatenate([[0], np.searchsorted(parameters, edges[1:-1]), [len(parameters)]])
    factors: list[Factor] = []
    left = np.ones(len(parameters), dtype=np.bool_)
    for lowest, start, stop in zip(edges[:-1].tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        if stop - start < _FEWEST or lowest * _REACH > _LARGEST:
            continue
        left[start:stop] = False
        members = kind(parameters[start:stop], counts[start:stop], groups=32)
        points, total = kind(*_interpolation(lowest, members)), float(members.counts.sum()) * (1.0 + 1e-12)
        factors.append(CompressedFactor(members, points, total, lowest * _REACH))
    if left.any():
        factors.append(kind(parameters[left], counts[left]))
    return factors


def _interpolation(lowest: float, members: LaplaceFactor | ResponseFactor) -> tuple[Vector, Vector]:
    """Return points in increasing order, and the sum over members of count times each Lagrange polynomial."""
    # The cell is slightly wider than its members, so that rounding cannot put one outside.
    centre = lowest * (math.sqrt(2.0) + 1.0) / 2.0
    half = lowest * (math.sqrt(2.0) - 1.0) / 2.0 * (1.0 + 1e-12)
    degree, moments = _POINTS - 1, np.zeros(_POINTS)  # sum of count * T_k(y)
    for start in range(0, len(members.counts), _CHUNK):
        some = slice(start, start + _CHUNK)
        y = (members.parameters[some] - centre) / half
        moments += members.counts[some] @ np.polynomial.chebyshev.chebvander(y, degree)
    index = np.arange(_POINTS)
    ends = np.where((index == 0) | (index == degree), 0.5, 1.0)
    cosines = np.cos(np.pi / degree * np.outer(index, index))
    weights = 2.0 / degree * ends * (cosines @ (ends * moments))
    points = centre + half * np.cos(np.pi / degree * index)
    return points[::-1].copy(), weights[::-1].copy()


def _bound(z: Vector) -> Vector:
    """Return -log(1 - 2 (e^z - 1 - z)), raised to cover rounding."""
    return -np.log1p(-2.0 * np.maximum(np.expm1(z) - z, 0.0)) * (1.0 + 1e-9) + 1e-30
