"""Exact divergences of small neighbouring data sets, by enumeration and by quadrature.

Nothing here is dpaudit's: samples are enumerated draw by draw, noise is integrated on a line or in a plane,
and a divergence is the sum of what one side has more than e^epsilon times the other. A bound is below the
truth where it is below any of these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
#: What is added to noise: each value with its probability.
Law: TypeAlias = Mapping[float, float]
#: Log density of noise.
Noise: TypeAlias = Callable[[Vector], Vector]

_PANELS, _NODES = 2000, 8


@dataclass(frozen=True, eq=False)
class Pair:
    """Two output distributions: log densities at the same places, and the places' weights."""

    first: Vector
    second: Vector
    weight: Vector

    def delta(self, epsilon: float) -> float:
        """The larger divergence of both orders at e^epsilon."""
        return max(
            self._delta(self.first, self.second, epsilon), self._delta(self.second, self.first, epsilon)
        )

    def epsilon(self, delta: float) -> float:
        """The least epsilon at which the larger divergence is at most delta; infinite if there is none."""
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2.0 * high
            if high > 1e4:
                return math.inf
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low

    def times(self, other: Pair) -> Pair:
        """Both pairs at once, independently."""

        def outer(one: Vector, two: Vector) -> Vector:
            return np.add.outer(one, two).ravel()

        weight = np.multiply.outer(self.weight, other.weight).ravel()
        return Pair(outer(self.first, other.first), outer(self.second, other.second), weight)

    def _delta(self, one: Vector, other: Vector, epsilon: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            lost = np.where(other > -np.inf, np.exp(np.minimum(epsilon + other - one, 0.0)), 0.0)
        return float((self.weight * np.where(one > -np.inf, np.exp(one) * (1.0 - lost), 0.0)).sum())


def atoms(first: Mapping[object, float], second: Mapping[object, float]) -> Pair:
    """Outcomes with their probabilities on either side."""
    names = list({**first, **second})
    with np.errstate(divide="ignore"):
        one, other = (np.log([side.get(name, 0.0) for name in names]) for side in (first, second))
    return Pair(one, other, np.ones(len(names)))


def on_a_line(first: Noise, second: Noise, knots: Iterable[float]) -> Pair:
    """Two log densities, smooth between the knots, of which the first and last are where they end."""
    z, w = nodes(sorted(set(knots)))
    return Pair(first(z), second(z), w)


def shifted(first: Law, second: Law, noise: Noise, reach: float) -> Pair:
    """Noise on a random shift, with its own law on either side."""
    places = sorted({*first, *second})
    knots = [places[0] - reach, *places, places[-1] + reach]
    return on_a_line(mixture(first, noise), mixture(second, noise), knots)


def mixture(law: Law, noise: Noise) -> Noise:
    """The log density of noise on a random shift."""

    def density(z: Vector) -> Vector:
        parts = [math.log(p) + noise(z - shift) for shift, p in law.items() if p > 0.0]
        return np.logaddexp.reduce(parts)

    return density


def gaussian(sigma: float) -> Noise:
    """Normal noise."""
    return lambda z: -0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))


def laplace(scale: float) -> Noise:
    """Laplace noise."""
    return lambda z: -np.abs(z / scale) - math.log(2.0 * scale)


def on_integers(first: Law, second: Law, log_weight: Callable[[int], float], reach: int) -> Pair:
    """Noise on integers, of these relative weights, on a random shift."""
    inside = range(-reach, reach + 1)
    total = math.fsum(math.exp(log_weight(k)) for k in inside)

    def side(law: Law) -> dict[object, float]:
        found: dict[object, float] = {}
        for shift, p in law.items():
            for k in inside:
                place = k + round(shift)
                found[place] = found.get(place, 0.0) + p * math.exp(log_weight(k)) / total
        return found

    return atoms(side(first), side(second))


def poisson(rows: Sequence[float], rate: float) -> Law:
    """The sum over a sample of independent coins."""
    return _law((sum(part), _coins(len(part), len(rows), rate)) for part in _subsets(rows))


def of_one_size(rows: Sequence[float], size: int) -> Law:
    """The sum over a subset of a fixed size."""
    some = list(itertools.combinations(rows, size))
    return _law((sum(part), 1.0 / len(some)) for part in some)


def cut(rows: Sequence[float], rate: float, most: int) -> Law:
    """The sum over a Poisson sample, or over a subset of it that has as many as may be."""
    found: list[tuple[float, float]] = []
    for part in _subsets(rows):
        kept = list(itertools.combinations(part, min(len(part), most)))
        found += [(sum(one), _coins(len(part), len(rows), rate) / len(kept)) for one in kept]
    return _law(found)


def in_turns(steps: int, shift: float) -> list[tuple[Vector, float]]:
    """One of the answers, as likely as any other, is moved."""
    return [(shift * np.eye(steps)[turn], 1.0 / steps) for turn in range(steps)]


def in_a_plane(
    first: Sequence[tuple[Vector, float]], second: Sequence[tuple[Vector, float]], sigma: float
) -> Pair:
    """Two answers with normal noise, on a random shift [2] with its own law on either side."""
    places = np.array([place for place, _ in (*first, *second)])
    low, high = float(places.min()) - 9.0 * sigma, float(places.max()) + 9.0 * sigma
    z, w = nodes(np.linspace(low, high, 60).tolist(), panels=1)
    x, y = (axis.ravel() for axis in np.meshgrid(z, z, indexing="ij"))
    noise = gaussian(sigma)

    def density(law: Sequence[tuple[Vector, float]]) -> Vector:
        return np.logaddexp.reduce([math.log(p) + noise(x - at[0]) + noise(y - at[1]) for at, p in law])

    return Pair(density(first), density(second), np.multiply.outer(w, w).ravel())


def nodes(knots: Sequence[float], panels: int | None = None) -> tuple[Vector, Vector]:
    """Gauss-Legendre's points and weights on panels between the knots."""
    x, weight = np.polynomial.legendre.leggauss(_NODES)
    each = panels or max(20, _PANELS // len(knots))
    edges = [np.linspace(a, b, each + 1) for a, b in itertools.pairwise(knots)]
    low = np.concatenate([edge[:-1] for edge in edges])
    half = 0.5 * (np.concatenate([edge[1:] for edge in edges]) - low)
    z = low[:, None] + half[:, None] * (1.0 + x)
    return z.ravel(), (half[:, None] * weight).ravel()


def _subsets(rows: Sequence[float]) -> Iterable[tuple[float, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(rows, n) for n in range(len(rows) + 1))


def _coins(heads: int, coins: int, rate: float) -> float:
    return float(rate**heads * (1.0 - rate) ** (coins - heads))


def _law(rows: Iterable[tuple[float, float]]) -> Law:
    found: dict[float, float] = {}
    for value, p in rows:
        found[value] = found.get(value, 0.0) + p
    return found
