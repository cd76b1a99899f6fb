"""The data of figure 1 of Qiao and Wang (2023): suboptimality against the number of episodes.

A cell is one run: an algorithm, a budget, a number of episodes and a seed. Cells are independent of one
another, run in parallel and are written one by one, so that an interrupted figure goes on where it stopped.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

from dpaudit.algorithms.dp_vapvi import DPVAPVI
from dpaudit.algorithms.linear_calibration import CalibrationName
from dpaudit.algorithms.linear_mdp import LinearMDP, appendix_f_behaviour, appendix_f_mdp
from dpaudit.algorithms.pevi import pevi, theoretical_bonus
from dpaudit.algorithms.trajectories import TrajectoryData
from dpaudit.algorithms.vapvi import LinearConstants, vapvi
from dpaudit.errors import UsageError
from dpaudit.guarantees import ZCDP
from dpaudit.running import run


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


def figure_1a(
    seeds: Sequence[int],
    ks: Sequence[int],
    rhos: Sequence[float],
    *,
    path: Path | None = None,
    workers: int = 2,
    calibration: CalibrationName = "sound",
    normalised: bool = True,
    instance: int = 0,
    bonus: float = 0.04,
) -> list[Cell]:
    """PEVI, VAPVI and DP-VAPVI at each budget, not split, on the same episodes.

    Args:
        seeds: one run each.
        ks: numbers of episodes; published 5 to 1000.
        rhos: budgets; figure 1(a) has 1 and 25, figure 1(b) 0.1, 1, 5 and 25.
        path: a CSV file to which every finished cell is appended; cells it already holds are not run
            again. Needs an extra library, joblib, for more than one worker.
        workers: processes.
        calibration: of the noise.
        normalised: features; the paper's own experiment has the raw ones.
        instance: of the process.
        bonus: C. PEVI's curve hangs on it (docs/vapvi.md); the others hardly do.

    Returns:
        Every cell asked for, in the order of algorithms, ks, seeds.

    Raises:
        UsageError: the file is not one that this function wrote.
    """
    private = [("dp-vapvi", float(rho), str(calibration)) for rho in rhos]
    wanted = [
        Cell(algorithm, rho, noise, "normalised" if normalised else "raw", instance, bonus, k, seed)
        for algorithm, rho, noise in [
            ("pevi", float("inf"), "none"),
            ("vapvi", float("inf"), "none"),
            *private,
        ]
        for k in ks
        for seed in seeds
    ]
    finished = {} if path is None else {_key(cell): cell for cell in _read(path)}
    for cell in _run_all([cell for cell in wanted if _key(cell) not in finished], workers):
        finished[_key(cell)] = cell
        if path is not None:
            _append(path, cell)
    return [finished[_key(cell)] for cell in wanted]


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


def _run_all(cells: Sequence[Cell], workers: int) -> Iterable[Cell]:
    if workers == 1:
        return map(run_cell, cells)
    from joblib import Parallel, delayed

    results: Iterable[Cell] = Parallel(n_jobs=workers, return_as="generator")(
        delayed(run_cell)(cell) for cell in cells
    )
    return results


@cache
def _process(instance: int, *, normalised: bool) -> LinearMDP:
    return appendix_f_mdp(instance, normalised=normalised)


def _episodes(instance: int, n: int, seed: int) -> TrajectoryData:
    rng = np.random.default_rng([instance, n, seed])
    return _process(instance, normalised=True).sample_trajectories(n, appendix_f_behaviour(), rng)


def _key(cell: Cell) -> tuple[str, ...]:
    return tuple(str(value) for name, value in asdict(cell).items() if name != "suboptimality")


def _read(path: Path) -> list[Cell]:
    """The finished cells of a file; a last line that an interruption cut short is dropped from it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    cells = []
    try:
        for row in csv.DictReader(whole.splitlines()):
            values = {field.name: _TYPES[str(field.type)](row[field.name]) for field in fields(Cell)}
            cells.append(Cell(**values))
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "not the cells of a figure",
            where=str(path),
            why="finished cells are read back from it",
            remedy="name a new file, or one that a figure was written to",
        ) from None
    return cells


_TYPES = {"str": str, "int": int, "float": float}


def _append(path: Path, cell: Cell) -> None:
    new = not path.exists() or path.stat().st_size == 0
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cell)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(cell))
