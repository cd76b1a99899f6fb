"""What Liao, He and Gu (2023) say of their figure 2, judged from runs.

Three sentences: regret is sublinear in K; LDP-UCRL-VTR incurs more than UCRL-VTR; the larger epsilon, the
closer. A difference over the runs, on the same users, counts where its 95% interval excludes 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.figure_003 import Cell, Curve
from dpaudit.algorithms.figure_1_shape import Appears, Estimate, Sentence, estimate


class Regrets:
    """The finished runs of a figure.

    Args:
        cells: of every curve, seed and point.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.curves = list(dict.fromkeys(cell.curve for cell in cells))
        self.seeds = sorted({cell.seed for cell in cells})
        self.points = sorted({cell.episode for cell in cells})
        self.bonus = {cell.curve: cell.bonus for cell in cells}
        self._found = {(cell.curve, cell.seed, cell.episode): cell.regret for cell in cells}

    def at(self, curve: Curve, episode: int) -> NDArray[np.float64]:
        """Regret up to an episode, one entry a run."""
        return np.array([self._found[curve, seed, episode] for seed in self.seeds])

    def estimate(self, curve: Curve, episode: int) -> Estimate:
        """Its mean over the runs, with a 95% interval."""
        return estimate(self.at(curve, episode))


def sentences(regrets: Regrets) -> list[Sentence]:
    """The paper's sentences, each about one curve, or a curve and the one that it is compared with."""
    found = []
    end, middle = regrets.points[-1], regrets.points[len(regrets.points) // 2 - 1]
    for curve in regrets.curves:
        halves = regrets.at(curve, middle), regrets.at(curve, end) - regrets.at(curve, middle)
        # Regret per user, first part less second: above 0 where the algorithm learns.
        rates = estimate(halves[0] / middle - halves[1] / (end - middle))
        first, second = float(halves[0].mean()) / middle, float(halves[1].mean()) / (end - middle)
        numbers = f"regret per user {first:.3g} up to {middle}, then {second:.3g}"
        found.append(Sentence("sublinear in K", f"{curve.river}, {curve}", above_zero(rates), numbers))
    panels = [
        [curve for curve in regrets.curves if curve.river == river]
        for river in dict.fromkeys(curve.river for curve in regrets.curves)
    ]
    for plain, *private in panels:
        for curve in private:
            more = estimate(regrets.at(curve, end) - regrets.at(plain, end))
            words = f"{plain.river}, {curve} against {plain}"
            found.append(Sentence("a larger regret than UCRL-VTR", words, above_zero(more), f"{more} more"))
    for _, *private in panels:
        for small, large in pairwise(private):
            less = estimate(regrets.at(small, end) - regrets.at(large, end))
            words = f"{small.river}, epsilon={large.epsilon:g} against {small.epsilon:g}"
            found.append(Sentence("closer as epsilon grows", words, above_zero(less), f"{less} less"))
    return found


def above_zero(difference: Estimate) -> Appears:
    """Whether a difference is above 0; of a single run nobody can tell."""
    if abs(difference.mean) > difference.half_width:
        return "yes" if difference.mean > 0.0 else "no"
    return "not told apart"
