"""The losses of one release, integrated over lattice cells and split to the cells' ends (`splitting`).

Quadrature. Losses are l = log(1 - q + q e^u), or -l, with u = mu x - mu^2 / 2 of a normal x, or of the
Laplace or the randomized-response pair. On each interval between lattice points, cut to a width of at most
1/16 (and 1/16 mu), six Gauss-Legendre nodes integrate densities that are analytic within several times that
width: relative errors below 1e-12. Weights are raised by 1e-11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Vector

_NODE, _WEIGHT = np.polynomial.legendre.leggauss(6)
_FURTHEST = 38.0  # beyond so many standard deviations there is less than 1e-300


Family = Literal["gaussian", "laplace", "response"]


@dataclass(frozen=True)
class Part:
    """`count` runs of one release: its family and parameter, sampled at `rate` (1: always)."""

    family: Family
    parameter: float
    rate: float
    count: float  # a whole number


class Law(NamedTuple):
    """Split losses, untilted: losses (first + i) step with weights; [points]. What was made infinite."""

    step: float
    first: int
    weight: Vector
    infinite: float

    def cumulant(self, tilt: float) -> float:
        """log E e^(tilt L)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight) + tilt * self.step * (self.first + np.arange(len(self.weight)))
        peak = float(logs.max())
        return peak + math.log(float(np.exp(logs - peak).sum()))


def ends_of(part: Part, log_share: float, *, mixture_first: bool) -> tuple[float, float]:
    """The least and the largest loss, or losses past which P has a probability of exp(log_share)."""
    e, rate = part.parameter, part.rate
    first = mixture_first or rate == 1.0
    if part.family == "gaussian":
        # Of a standard normal beyond x there is less than e^(-x^2 / 2); under P it has moved by e at most.
        x = math.sqrt(2.0 * max(1.0, -log_share))
        low, high = -e * x - 0.5 * e * e, e * (x + e) - 0.5 * e * e
        if first:
            likely = math.log(rate) - log_share  # the mixture's moved part has probability `rate`
            high = e * (math.sqrt(2.0 * max(1.0, likely)) + e) - 0.5 * e * e
            high = max(high, e * x - 0.5 * e * e)
        else:
            high = e * x - 0.5 * e * e
    else:
        low, high = -e, e
    ends = (_loss(np.array([low, high]), rate) if first else -_loss(np.array([high, low]), rate)).tolist()
    return ends[0], ends[1]


def _loss(u: Vector, rate: float) -> Vector:
    """log(1 - rate + rate e^u), without cancellation or overflow."""
    if rate == 1.0:
        return u
    small = np.log1p(rate * np.expm1(np.minimum(u, 30.0)))
    large = u + math.log(rate) + np.log1p((1.0 / rate - 1.0) * np.exp(-np.maximum(u, 30.0)))
    loss: Vector = np.where(u < 30.0, small, large)
    return loss


def law_of(part: Part, step: float, ends: tuple[float, float], *, mixture_first: bool) -> Law:
    """One run's losses split onto the lattice of this step between `ends`: raised below, infinite above."""
    first_order = mixture_first or part.rate == 1.0
    u, log_base = _nodes(part, step, ends, mixture_first=first_order)
    loss = _loss(u, part.rate)
    weight = np.exp(log_base + 1e-11 + (loss if first_order else 0.0))
    loss = loss if first_order else -loss
    first, last = math.floor(ends[0] / step) - 1, math.ceil(ends[1] / step) + 1
    beyond = loss > last * step
    infinite = float(weight[beyond].sum()) + 1e-290
    loss, weight = np.maximum(loss[~beyond], first * step), weight[~beyond]
    cell = np.clip(np.floor(loss / step), first, last - 1.0)
    share = np.expm1(cell * step - loss) / math.expm1(-step) + 8.0 * UNIT * (1.0 + np.abs(loss) / step)
    share = np.clip(share, 0.0, 1.0)
    index = (cell - first).astype(np.intp)
    size = last - first + 1
    split_up = np.bincount(index, weight * (1.0 - share), size).astype(np.float64)
    split_up += np.bincount(index + 1, weight * share, size)
    return Law(step, first, split_up, infinite)


def _nodes(
    part: Part, step: float, ends: tuple[float, float], *, mixture_first: bool
) -> tuple[Vector, Vector]:
    """Points u, and the logarithms of their weights under the law of the pair's second distribution."""
    e = part.parameter
    if part.family == "response":
        u = np.array([-e, e])
        return u, -np.logaddexp(0.0, u)
    inner, outer = ends if mixture_first else (-ends[1], -ends[0])
    points = np.arange(math.floor(inner / step), math.ceil(outer / step) + 1, dtype=np.float64)
    lattice: Vector = step * points
    edges = _unsampled(lattice, part.rate) if part.rate < 1.0 else lattice
    if part.family == "laplace":
        cuts = np.linspace(-e, e, math.ceil(32.0 * e) + 2)
        edges = _between(np.concatenate([edges, cuts]), -e, e)
        u, log_length = _legendre(edges)
        u = np.concatenate([u, [-e, e]])
        atoms = [-math.log(2.0), -math.log(2.0) - e]
        return u, np.concatenate([log_length - 0.5 * (u[:-2] + e) - math.log(4.0), atoms])
    furthest = _FURTHEST + e
    cuts = np.linspace(-furthest, furthest, math.ceil(32.0 * furthest * max(1.0, e)))
    x, log_length = _legendre(_between(np.concatenate([edges / e + 0.5 * e, cuts]), -furthest, furthest))
    return e * x - 0.5 * e * e, log_length - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def _unsampled(loss: Vector, rate: float) -> Vector:
    """The u of which `_loss` is each loss: log(1 + (e^loss - 1) / rate), where there is one."""
    far = loss[loss >= 30.0]
    odds = 1.0 + np.expm1(loss[loss < 30.0]) / rate
    return np.concatenate(
        [np.log(odds[odds > 0.0]), far - math.log(rate) + np.log1p((rate - 1.0) * np.exp(-far))]
    )


def _between(edges: Vector, low: float, high: float) -> Vector:
    return np.unique(edges[(edges >= low) & (edges <= high)])


def _legendre(edges: Vector) -> tuple[Vector, Vector]:
    """Nodes in every interval between neighbouring edges, and the logarithms of their weights."""
    half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    nodes = middle[:, None] + half[:, None] * _NODE
    return nodes.ravel(), (np.log(half)[:, None] + np.log(_WEIGHT)).ravel()
