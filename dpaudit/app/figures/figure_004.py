"""Regret and updates of Private LSVI-UCB, LSVI-UCB and a fixed schedule on a small linear process.

Ngo, Vietri and Wu (2022) have no experiments: process, budgets, numbers of users and the grids of beta are
chosen here. A group of cells is one run, a sequence of K users, and a cell is its regret up to one of them.

A fixed schedule follows Luyo, Garcelon, Lazaric and Pirotta (2021) in that its times do not hang on the data.
It has ceil(K^(2/5)) updates: what a batch of K/U users costs, and what noise for U updates costs, which grows
as K^(1/2) U^(1/4), are then of one order, their K^(3/5). All else about it is as in Private LSVI-UCB.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from dpaudit.algorithms.environments.linear_mdp import LinearMDP, random_linear_mdp
from dpaudit.algorithms.online.lsvi import LinearModel, lsvi_ucb, views_regret
from dpaudit.algorithms.online.online import online_users
from dpaudit.algorithms.online.private_lsvi_ucb import LSVIConstants, PrivateLSVIUCB
from dpaudit.app.figures.regrets import points_of
from dpaudit.app.figures.run_cache import CellKind
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.running import run

N_STATES, N_ACTIONS, HORIZON, DIMENSION = 6, 4, 5, 5
FAILURE_PROBABILITY, RIDGE = 0.05, 1.0
USERS, RUNS = 20_000, 10
#: At how many points of a run its regret is kept.
POINTS = 50
#: The users on whom beta is chosen are others than those that are drawn.
TUNING_SEEDS = (1_000_000, 1_000_001)

#: The factors by which the published beta is multiplied, by schedule and budget; an infinite one is none.
GRIDS: Mapping[tuple[str, float], tuple[float, ...]] = {
    ("none", math.inf): (0.003, 0.01, 0.03, 0.1),
    ("doubling", 10.0): (1e-5, 1e-4, 1e-3),
    ("doubling", 1.0): (1e-5, 1e-4, 1e-3),
    ("doubling", 0.1): (1e-5, 1e-4, 1e-3),
    ("fixed", 10.0): (1e-5, 1e-4, 1e-3),
    ("fixed", 1.0): (1e-5, 1e-4, 1e-3),
    ("published beta", 1.0): (1.0,),
}


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        schedule: ``doubling``, ``fixed``, ``published beta`` (doubling, factor 1) or ``none`` (LSVI-UCB).
        rho: the budget; infinite where there is none.
    """

    schedule: str
    rho: float

    def __str__(self) -> str:
        kinds = {"doubling": "private", "fixed": "private, fixed schedule"}
        kind = kinds.get(self.schedule, f"private, {self.schedule}")
        return "LSVI-UCB" if math.isinf(self.rho) else f"{kind}, rho={self.rho:g}"


@dataclass(frozen=True)
class Cell:
    """One run up to one user.

    Attributes:
        schedule: of the `Curve`, like the next.
        rho: see there.
        bonus: the factor of beta.
        users: K, of the whole run.
        seed: of the users and of the noise.
        episode: k, up to which regret is summed.
        regret: the sum of v* - v^policy over users 1 to k, exact; NaN before the run.
        updates: how many came before user k; NaN before the run.
    """

    schedule: str
    rho: float
    bonus: float
    users: int
    seed: int
    episode: int
    regret: float = float("nan")
    updates: float = float("nan")

    @property
    def curve(self) -> Curve:
        """The line that it belongs to."""
        return Curve(self.schedule, self.rho)


def curves() -> list[Curve]:
    """All lines, the non-private one first."""
    return [Curve(*key) for key in GRIDS]


def grid_cells(curve: Curve, users: int) -> list[Cell]:
    """The runs from which beta is chosen: their regret at the end alone."""
    return [
        Cell(curve.schedule, curve.rho, bonus, users, seed, users)
        for bonus in GRIDS[curve.schedule, curve.rho]
        for seed in TUNING_SEEDS
    ]


def curve_cells(curve: Curve, bonus: float, users: int, seeds: Sequence[int]) -> list[Cell]:
    """A line's runs, not run yet, at `POINTS` points each."""
    marks = points_of(users, POINTS)
    return [Cell(curve.schedule, curve.rho, bonus, users, seed, k) for seed in seeds for k in marks]


def finished_cells(
    wanted: Sequence[Cell],
    *,
    path: Path | None = None,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Cell]:
    """Run what is not finished yet; arguments, result and errors are those of `CellKind.finished`."""
    return _CELLS.finished(wanted, path=path, workers=workers, progress=progress)


@cache
def process() -> LinearMDP:
    """The process: 6 states, 4 actions, 5 steps, features that are mixtures of 5 anchors."""
    return random_linear_mdp(N_STATES, N_ACTIONS, HORIZON, DIMENSION, seed=0)


def fixed_updates(users: int) -> int:
    """ceil(K^(2/5)), fewer than users."""
    # A power that is whole may come out a rounding above.
    return min(users - 1, math.ceil(math.pow(users, 0.4) - 1e-9))


def algorithm_of(curve: Curve, bonus: float, users: int) -> PrivateLSVIUCB:
    """The private algorithm of a line."""
    return PrivateLSVIUCB(
        LinearModel(process().features, HORIZON),
        users,
        ZCDP(rho=curve.rho),
        constants=LSVIConstants(bonus=bonus, failure_probability=FAILURE_PROBABILITY),
        fixed_updates=fixed_updates(users) if curve.schedule == "fixed" else None,
        mdp=process().tabular,
    )


def jin_bonus(users: int) -> float:
    """The beta d H sqrt(log(2 d T / p)), T = K H, of Jin et al. (2020), Theorem 3.1, without its constant."""
    logarithm = math.log(2.0 * DIMENSION * users * HORIZON / FAILURE_PROBABILITY)
    return DIMENSION * HORIZON * math.sqrt(logarithm)


def _run(cells: Sequence[Cell]) -> list[Cell]:
    """One run, for all of its points."""
    asked = cells[0]
    users = online_users(process().tabular, asked.users, asked.seed, random_rewards=True)
    if math.isinf(asked.rho):
        model = LinearModel(process().features, HORIZON)
        # The matrices begin at 2 lambda I, which is the identity then, as there.
        views = lsvi_ucb(users, model, ridge=RIDGE / 2.0, bonus=asked.bonus * jin_bonus(asked.users))
    else:
        algorithm = algorithm_of(asked.curve, asked.bonus, asked.users)
        words = [asked.seed, *np.array([asked.rho, asked.bonus]).view(np.uint32).tolist()]
        seed = int(np.random.SeedSequence([*words, asked.schedule == "fixed"]).generate_state(1)[0])
        views = run(algorithm, users, seed=seed).output
    regret = views_regret(process().tabular, views)
    return [
        replace(
            cell,
            regret=float(regret[cell.episode - 1]),
            updates=float(views.views[cell.episode - 1].updates),
        )
        for cell in cells
    ]


_CELLS = CellKind(Cell, frozenset({"regret", "updates"}), _run, lambda cell: replace(cell, episode=0))
