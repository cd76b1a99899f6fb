"""The data of figure 2 of Liao, He and Gu (2023): regret of LDP-UCRL-VTR and UCRL-VTR on two rivers.

A group of cells is one run, a sequence of K users, and a cell is its regret up to one of them. Groups are
independent of one another, run in parallel and are kept when they are finished.

The paper does not state S, the budgets, the homogeneous kernel or the grid of c. Chosen here: S = 3, H = 6,
rivers as in `figure_river`, and budgets from hardly any learning to nearly that of UCRL-VTR.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from dpaudit.algorithms.environments.linear_mixture import one_hot_mixture
from dpaudit.algorithms.environments.riverswim import figure_river
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.online.ldp_ucrl_vtr import LDPUCRLVTR, MixtureConstants
from dpaudit.algorithms.online.mixture_calibration import MixtureCalibrationName
from dpaudit.algorithms.online.online import online_users
from dpaudit.algorithms.online.optimism import cumulative_regret
from dpaudit.algorithms.online.value_targeted import MixtureModel, jia_widths, ucrl_vtr
from dpaudit.app.figures.regrets import points_of
from dpaudit.app.figures.run_cache import CellKind
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.running import run

N_STATES = 3
RIVERS = ("homogeneous", "inhomogeneous")
#: delta and alpha of section 6.2, and its number of users and of runs.
DELTA, ALPHA, USERS, RUNS = 0.1, 0.01, 10_000, 10
#: At how many points of a run its regret is kept.
POINTS = 50
#: The users on whom c is chosen are others than those that are drawn.
TUNING_SEEDS = (1_000_000, 1_000_001)


@dataclass(frozen=True)
class Curve:
    """One line of a panel.

    Attributes:
        river: which of `RIVERS`.
        algorithm: ``ucrl-vtr`` or ``ldp-ucrl-vtr``.
        epsilon: the budget; infinite where there is none.
        calibration: of the noise; ``none`` where there is none.
    """

    river: str
    algorithm: str
    epsilon: float
    calibration: str

    def __str__(self) -> str:
        return "UCRL-VTR" if math.isinf(self.epsilon) else f"LDP-UCRL-VTR, epsilon={self.epsilon:g}"


@dataclass(frozen=True)
class Cell:
    """The regret of one run up to one user.

    Attributes:
        river: of the `Curve`, like the next three.
        algorithm: see there.
        epsilon: see there.
        calibration: see there.
        bonus: c.
        users: K, of the whole run.
        seed: of the users and of the noise.
        episode: k, up to which regret is summed.
        regret: the sum of v* - v^policy over users 1 to k, exact; NaN before the run.
    """

    river: str
    algorithm: str
    epsilon: float
    calibration: str
    bonus: float
    users: int
    seed: int
    episode: int
    regret: float = float("nan")

    @property
    def curve(self) -> Curve:
        """The line that it belongs to."""
        return Curve(self.river, self.algorithm, self.epsilon, self.calibration)


#: Budgets under each noise, each with the grid of c. Past some 590 the published noise, which falls as
#: 1/epsilon, no longer meets its claim on these rivers: what is needed falls as 1/sqrt(epsilon).
GRIDS: Mapping[str, Mapping[float, tuple[float, ...]]] = {
    "none": {math.inf: (0.05, 0.1, 0.2, 0.4)},
    "published-noise": {10.0: (0.01, 0.03, 0.1), 100.0: (0.003, 0.01, 0.03), 500.0: (0.001, 0.003, 0.01)},
    "exact": {10.0: (0.003, 0.01, 0.03), 100.0: (0.001, 0.003, 0.01), 500.0: (0.0003, 0.001, 0.003)},
}


def curves(calibration: MixtureCalibrationName) -> list[Curve]:
    """The lines of both panels, the non-private one first."""
    return [
        Curve(river, "ucrl-vtr" if noise == "none" else "ldp-ucrl-vtr", epsilon, noise)
        for river in RIVERS
        for noise in ("none", calibration)
        for epsilon in GRIDS[noise]
    ]


def grid_cells(curve: Curve, users: int) -> list[Cell]:
    """The runs from which c is chosen: their regret at the end alone."""
    return [
        Cell(*_fields(curve), bonus, users, seed, users)
        for bonus in GRIDS[curve.calibration][curve.epsilon]
        for seed in TUNING_SEEDS
    ]


def curve_cells(curve: Curve, bonus: float, users: int, seeds: Sequence[int]) -> list[Cell]:
    """A line's runs, not run yet, at `POINTS` points each."""
    return [Cell(*_fields(curve), bonus, users, seed, k) for seed in seeds for k in points_of(users, POINTS)]


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
def river(name: str) -> TabularMDP:
    """A panel's process."""
    return figure_river(name, N_STATES)


def algorithm_of(curve: Curve, bonus: float) -> LDPUCRLVTR:
    """The private algorithm of a line."""
    mdp = river(curve.river)
    names: dict[str, MixtureCalibrationName] = {"exact": "exact", "published-noise": "published-noise"}
    return LDPUCRLVTR(
        MixtureModel(one_hot_mixture(mdp).features, mdp.rewards),
        ApproxDP(epsilon=curve.epsilon, delta=DELTA),
        names[curve.calibration],
        MixtureConstants(bonus=bonus, failure_probability=ALPHA),
        mdp=mdp,
    )


def _run(cells: Sequence[Cell]) -> list[Cell]:
    """One run, for all of its points."""
    asked = cells[0]
    mdp = river(asked.river)
    users = online_users(mdp, asked.users, asked.seed)
    if asked.algorithm == "ucrl-vtr":
        model = MixtureModel(one_hot_mixture(mdp).features, mdp.rewards)
        output = ucrl_vtr(users, model, widths=jia_widths(model, asked.users, asked.bonus))
    else:
        words = [asked.seed, *np.array([asked.epsilon, asked.bonus]).view(np.uint32).tolist()]
        seed = int(np.random.SeedSequence(words).generate_state(1)[0])
        output = run(algorithm_of(asked.curve, asked.bonus), users, seed=seed).output
    regret = cumulative_regret(mdp, output.policies)
    return [replace(cell, regret=float(regret[cell.episode - 1])) for cell in cells]


def _fields(curve: Curve) -> tuple[str, str, float, str]:
    return curve.river, curve.algorithm, curve.epsilon, curve.calibration


_CELLS = CellKind(Cell, frozenset({"regret"}), _run, lambda cell: replace(cell, episode=0))
