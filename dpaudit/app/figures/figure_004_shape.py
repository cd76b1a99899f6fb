"""What Ngo, Vietri and Wu (2022) promise of Private LSVI-UCB, judged from runs.

Regret is sublinear in K; privacy costs less the larger the budget; updates are few, no more than N_max; a
schedule that follows the data costs less than a fixed one. And, which is not theirs, that with the published
beta nothing is learnt at these sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.figures.figure_004 import Cell, Curve, algorithm_of
from dpaudit.app.figures.published_claims import Sentence, above_zero, estimate
from dpaudit.app.figures.regrets import Regrets

LEARNT, PUBLISHED = "doubling", "published beta"


class Switches:
    """The finished runs of the figure.

    Args:
        cells: of every curve, seed and point.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.regret: Regrets[Curve] = Regrets(cells)
        # The same table, of updates.
        self.updates: Regrets[Curve] = Regrets([replace(cell, regret=cell.updates) for cell in cells])
        self.users = cells[0].users


def sentences(runs: Switches) -> list[Sentence]:
    """Each about one curve, or a curve and the one that it is compared with."""
    regret = runs.regret
    of = {(curve.schedule, curve.rho): curve for curve in regret.curves}
    plain = of["none", float("inf")]
    private = [curve for curve in regret.curves if curve.schedule == LEARNT]
    found = [regret.sublinear(curve, str(curve)) for curve in regret.curves if curve.schedule != PUBLISHED]
    for curve in private:
        more = regret.more(curve, plain)
        found.append(
            Sentence("privacy costs regret", f"{curve} against {plain}", above_zero(more), f"{more} more")
        )
    by_budget = sorted(private, key=lambda curve: -curve.rho)
    for large, small in pairwise(by_budget):
        less = regret.more(small, large)
        words = f"rho={large.rho:g} against {small.rho:g}"
        found.append(Sentence("less the larger the budget", words, above_zero(less), f"{less} less"))
    found += [_few_updates(runs, curve) for curve in private]
    for curve in private:
        if ("fixed", curve.rho) in of:
            fixed = of["fixed", curve.rho]
            less = regret.more(fixed, curve)
            words = f"{curve} against {fixed}"
            found.append(
                Sentence("less regret than a fixed schedule", words, above_zero(less), f"{less} less")
            )
    found.append(_nothing_learnt(regret, of[PUBLISHED, 1.0]))
    return found


def _few_updates(runs: Switches, curve: Curve) -> Sentence:
    made = runs.updates.at(curve, runs.users)
    cap = algorithm_of(curve, runs.regret.bonus[curve], runs.users).noise.updates
    return Sentence(
        "at most N_max updates",
        str(curve),
        "yes" if made.max() <= cap else "no",
        f"{made.min():.0f} to {made.max():.0f} of at most {cap}",
    )


def _nothing_learnt(regret: Regrets[Curve], curve: Curve) -> Sentence:
    """Whether all users lose the same: the first policy is never left for a better one."""
    losses: NDArray[np.float64] = np.array([regret.at(curve, k) / k for k in regret.points])  # [points, runs]
    spread = float(losses.max() - losses.min())
    return Sentence(
        "(not the paper's) with the published beta nothing is learnt",
        str(curve),
        "yes" if spread <= 1e-9 * float(losses.max()) else "no",
        f"every user loses {estimate(losses[-1]).mean:.4g}"
        if spread <= 1e-9 * float(losses.max())
        else f"a user loses {losses.min():.4g} to {losses.max():.4g}",
    )
