"""Regret of online algorithms over many runs: what figures of it are judged by.

A difference over the runs, on the same users, counts where its 95% interval excludes 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.figures.published_claims import Estimate, Sentence, above_zero, estimate

K = TypeVar("K", bound=Hashable)
K_co = TypeVar("K_co", bound=Hashable, covariant=True)


class RegretCell(Protocol[K_co]):
    """One run up to one of its users."""

    @property
    def curve(self) -> K_co:
        """The line that it belongs to."""

    @property
    def seed(self) -> int:
        """Which run."""

    @property
    def episode(self) -> int:
        """Up to which user."""

    @property
    def bonus(self) -> float:
        """The scale of the confidence widths."""

    @property
    def regret(self) -> float:
        """The sum of v* - v^policy up to that user."""


class Regrets(Generic[K]):
    """The finished runs of a figure.

    Args:
        cells: of every curve, seed and point.
    """

    def __init__(self, cells: Sequence[RegretCell[K]]) -> None:
        self.curves = list(dict.fromkeys(cell.curve for cell in cells))
        self.seeds = sorted({cell.seed for cell in cells})
        self.points = sorted({cell.episode for cell in cells})
        self.bonus = {cell.curve: cell.bonus for cell in cells}
        self._found = {(cell.curve, cell.seed, cell.episode): cell.regret for cell in cells}

    def at(self, curve: K, episode: int) -> NDArray[np.float64]:
        """Regret up to an episode, one entry a run."""
        return np.array([self._found[curve, seed, episode] for seed in self.seeds])

    def estimate(self, curve: K, episode: int) -> Estimate:
        """Its mean over the runs, with a 95% interval."""
        return estimate(self.at(curve, episode))

    def sublinear(self, curve: K, about: str) -> Sentence:
        """Whether a user of the second half costs less than one of the first."""
        end, middle = self.points[-1], self.points[len(self.points) // 2 - 1]
        halves = self.at(curve, middle), self.at(curve, end) - self.at(curve, middle)
        rates = estimate(halves[0] / middle - halves[1] / (end - middle))
        first, second = float(halves[0].mean()) / middle, float(halves[1].mean()) / (end - middle)
        numbers = f"regret per user {first:.3g} up to {middle}, then {second:.3g}"
        return Sentence("sublinear in K", about, above_zero(rates), numbers)

    def more(self, curve: K, other: K) -> Estimate:
        """By how much the regret of one is larger than the other's at the end."""
        end = self.points[-1]
        return estimate(self.at(curve, end) - self.at(other, end))


def best_bonus(cells: Sequence[RegretCell[K]]) -> float:
    """The scale with the least mean regret; the smallest of several."""
    regrets: dict[float, list[float]] = {}
    for cell in cells:
        regrets.setdefault(cell.bonus, []).append(cell.regret)
    return min(regrets, key=lambda bonus: (float(np.mean(regrets[bonus])), bonus))


def points_of(users: int, most: int) -> list[int]:
    """At most so many users, evenly apart, at which regret is kept; the last one is always among them."""
    marks: list[int] = np.unique(np.linspace(0, users, min(most, users) + 1).round().astype(int))[1:].tolist()
    return marks
