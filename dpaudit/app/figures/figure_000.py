"""The data of figure 1 of Qiao and Wang (2023): suboptimality against the number of episodes K.

A cell is one run: an algorithm, a budget, a number of episodes and a seed. Cells are independent of one
another, run in parallel and are written one by one, so that an interrupted figure goes on where it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.linear_mdp import LinearMDP, appendix_f_behaviour, appendix_f_mdp
from dpaudit.algorithms.offline.dp_vapvi import DPVAPVI
from dpaudit.algorithms.offline.linear_calibration import CalibrationName
from dpaudit.algorithms.offline.vapvi import LinearConstants, pevi, theoretical_bonus, vapvi
from dpaudit.app.figures.run_cache import CellKind
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.running import run


@dataclass(frozen=True)
class Cell:
    """One run, and what came of it.

    Attributes:
        algorithm: ``pevi``, ``vapvi`` or ``dp-vapvi``.
        rho: the budget; infinite where there is none.
        calibration: of the noise; ``none`` where there is none.
        features: ``normalised`` or ``raw``.
        instance: which of the random processes of appendix F.
        bonus: C; PEVI's beta is C d H, the order of its analysis, as C sqrt(d) is that of VAPVI's.
        episodes: K.
        seed: of the episodes and of the noise.
        suboptimality: v* - v^policy, exact; NaN before the run.
    """

    algorithm: str
    rho: float
    calibration: str
    features: str
    instance: int
    bonus: float
    episodes: int
    seed: int
    suboptimality: float = float("nan")


@dataclass(frozen=True)
class Figure:
    """One panel of figure 1.

    Attributes:
        title: what it compares.
        rhos: the budgets of DP-VAPVI's curves.
        pevi: the constants C with which PEVI runs, the drawn one first; none where the panel has no PEVI.
        instance: which of the random processes of appendix F; the paper has two.
    """

    title: str
    rhos: tuple[float, ...]
    pevi: tuple[float, ...]
    instance: int


#: C of every algorithm. PEVI's curve hangs on it, so that PEVI also runs with another; the others hardly do.
BONUS = 0.04

#: The panels under the names of `dpaudit reproduce`.
FIGURES: Mapping[str, Figure] = {
    "000-figure-1a": Figure("PEVI, VAPVI and DP-VAPVI", (1.0, 25.0), (BONUS, 0.025), 0),
    "000-figure-1b": Figure("DP-VAPVI at four budgets", (0.1, 1.0, 5.0, 25.0), (), 1),
}

#: Published: 5 to 1000.
EPISODES = (5, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)


def figure_cells(
    figure: Figure,
    seeds: Sequence[int],
    ks: Sequence[int],
    *,
    calibration: CalibrationName = "sound",
    normalised: bool = True,
) -> list[Cell]:
    """The cells of a panel, not run yet: every algorithm, not split, on the same episodes.

    Args:
        figure: the panel.
        seeds: one run each.
        ks: numbers of episodes.
        calibration: of the noise.
        normalised: features; the paper's own experiment has the raw ones.

    Returns:
        In the order of algorithms, ks, seeds.
    """
    curves = [
        *(("pevi", math.inf, "none", bonus) for bonus in figure.pevi),
        ("vapvi", math.inf, "none", BONUS),
        *(("dp-vapvi", rho, str(calibration), BONUS) for rho in figure.rhos),
    ]
    features = "normalised" if normalised else "raw"
    return [
        Cell(algorithm, rho, noise, features, figure.instance, bonus, k, seed)
        for algorithm, rho, noise, bonus in curves
        for k in ks
        for seed in seeds
    ]


def finished_cells(
    wanted: Sequence[Cell],
    *,
    path: Path | None = None,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Cell]:
    """Run what is not finished yet.

    Args:
        wanted: cells as `figure_cells` makes them.
        path: a CSV file to which every finished cell is appended; cells it already holds are not run
            again.
        workers: processes.
        progress: told how many cells are finished, at the beginning and after each.

    Returns:
        The cells wanted, in their order.

    Raises:
        UsageError: the file is not one that this function wrote.
    """
    return _CELLS.finished(wanted, path=path, workers=workers, progress=progress)


def kept_cells(wanted: Sequence[Cell], path: Path) -> int:
    """How many of these cells a file holds; what an interruption cut short is not among them."""
    return _CELLS.kept(wanted, path)


def process_of(figure: Figure, *, normalised: bool = True) -> LinearMDP:
    """The process that a panel's episodes come from."""
    return _process(figure.instance, normalised=normalised)


def run_cell(cell: Cell) -> Cell:
    """The cell with its suboptimality; the same for the same cell."""
    mdp = _process(cell.instance, normalised=cell.features == "normalised")
    data = _episodes(cell.instance, cell.episodes, cell.seed)
    phi, constants = mdp.features, LinearConstants(bonus=cell.bonus)
    if cell.algorithm == "pevi":
        bonus = theoretical_bonus(mdp.dimension, mdp.horizon, cell.bonus)
        policy = pevi(data, phi, bonus=bonus, ridge=constants.ridge)
    elif cell.algorithm == "vapvi":
        policy = vapvi(data, phi, constants=constants)
    else:
        name: CalibrationName = "sound" if cell.calibration == "sound" else "as-published"
        algorithm = DPVAPVI(
            phi, mdp.horizon, ZCDP(rho=cell.rho), calibration=name, constants=constants, mdp=mdp
        )
        words = [cell.seed, cell.episodes, *np.array([cell.rho]).view(np.uint32).tolist()]
        seed = int(np.random.SeedSequence(words).generate_state(1)[0])
        policy = run(algorithm, data, seed=seed).output
    return replace(cell, suboptimality=mdp.suboptimality(policy.actions))


@cache
def _process(instance: int, *, normalised: bool) -> LinearMDP:
    return appendix_f_mdp(instance, normalised=normalised)


def _episodes(instance: int, n: int, seed: int) -> TrajectoryData:
    rng = np.random.default_rng([instance, n, seed])
    return _process(instance, normalised=True).sample_trajectories(n, appendix_f_behaviour(), rng)


def _run(cells: Sequence[Cell]) -> list[Cell]:
    return [run_cell(cell) for cell in cells]


# No two cells share their work: each is a group by itself.
_CELLS = CellKind(Cell, frozenset({"suboptimality"}), _run, lambda cell: cell)
