"""The data of figure 1 of Balle, Gomrokchi and Precup (2016): errors of value estimates on the chain.

A cell is one algorithm on one batch of episodes. All algorithms of one batch size and seed run on the same
batch, so that they are computed together; see `cells` for how they are kept.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import FirstVisits
from dpaudit.algorithms.environments.chain import LARGEST_RETURN, Chain
from dpaudit.algorithms.evaluation.least_squares import DPLSL, DPLSW, lsl, lsl_excess, lsw, lsw_excess
from dpaudit.algorithms.evaluation.smooth import CalibrationName
from dpaudit.app.figures.run_cache import CellKind
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.running import run

_Vector = NDArray[np.float64]

#: Section 6.
CHAIN = Chain(40, 0.5, 0.99)
GUARANTEE = ApproxDP(epsilon=0.1, delta=0.1)
RUNS = 20

#: Batch sizes, which the text does not give: as far as the published noise needs to fall to nothing.
BATCHES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)

#: Batch sizes of the panel over lambda, and its lambdas.
SWEPT = (10_000, 1_000_000)
RIDGES = tuple(factor * 10.0**power for power in range(1, 6) for factor in (1.0, 3.0))

#: Elsewhere lambda is so many times the root of the batch size: what is best in the panel over lambda for
#: either noise. Such a choice may be made where the process is public, as here; on private data it would have
#: to be accounted for.
SCHEDULES = {"lemma": 100.0, "exact": 10.0}

NAMES = ("lsw", "lsl", "dp-lsw", "dp-lsl")


@dataclass(frozen=True)
class Cell:
    """One algorithm on one batch.

    Attributes:
        algorithm: ``lsw``, ``lsl``, ``dp-lsw`` or ``dp-lsl``.
        calibration: of the noise: ``none``, ``lemma`` or ``exact``.
        aggregate: how many adjacent states share one value; 1 is tabular.
        ridge: lambda; 0 for LSW.
        episodes: m.
        seed: of the batch and of the noise.
        error: root mean square error over states, against the exact values; NaN before the run.
        excess: by how much the algorithm's own empirical risk is above its minimum; NaN before the run.
    """

    algorithm: str
    calibration: str
    aggregate: int
    ridge: float
    episodes: int
    seed: int
    error: float = math.nan
    excess: float = math.nan


def figure_cells(
    seeds: Sequence[int], batches: Sequence[int] = BATCHES, swept: Sequence[int] = SWEPT
) -> list[Cell]:
    """The cells of all panels, not run yet.

    Args:
        seeds: one run each.
        batches: m of the panels over the batch size.
        swept: m of the panel over lambda.
    """
    cells = [
        cell
        for m in batches
        for seed in seeds
        for aggregate in (1, 2)
        for algorithm in NAMES
        for cell in _cells(algorithm, aggregate, m, seed)
    ]
    cells += [
        cell
        for m in swept
        for seed in seeds
        for algorithm in NAMES
        for cell in _cells(algorithm, 1, m, seed, RIDGES)
    ]
    return list(dict.fromkeys(cells))


def finished_cells(
    wanted: Sequence[Cell],
    *,
    path: Path | None = None,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Cell]:
    """Run what is not finished yet; arguments, result and errors as of `CellKind.finished`."""
    return _CELLS.finished(wanted, path=path, workers=workers, progress=progress)


def kept_cells(wanted: Sequence[Cell], path: Path) -> int:
    """How many of these cells a file holds; what an interruption cut short is not among them."""
    return _CELLS.kept(wanted, path)


def run_batch(cells: Sequence[Cell]) -> list[Cell]:
    """Cells of one batch size and seed, with their results; each the same whatever the others."""
    m, seed = cells[0].episodes, cells[0].seed
    visits = CHAIN.sampled_visits(m, np.random.default_rng([m, seed]))
    return [_run(cell, visits) for cell in cells]


def algorithm_of(cell: Cell) -> DPLSW | DPLSL:
    """The private algorithm of a cell, on the chain's first visits as its data."""
    name: CalibrationName = "exact" if cell.calibration == "exact" else "lemma"
    options: dict[str, Any] = {
        "features": CHAIN.features(cell.aggregate),
        "discount": CHAIN.discount,
        "largest_return": LARGEST_RETURN,
        "guarantee": GUARANTEE,
        "calibration": name,
        "values": CHAIN.values(),
    }
    return _LSL(**options, ridge=cell.ridge) if cell.algorithm == "dp-lsl" else _LSW(**options)


def _run(cell: Cell, visits: FirstVisits) -> Cell:
    features, weights = CHAIN.features(cell.aggregate), np.ones(CHAIN.n_states)
    with_ridge = cell.algorithm.endswith("lsl")
    best = lsl(visits, features, weights, cell.ridge) if with_ridge else lsw(visits, features, weights)
    theta = best
    if cell.calibration != "none":
        theta = run(algorithm_of(cell), visits, seed=_noise_seed(cell)).output.theta
    excess = (
        lsl_excess(theta, best, visits, features, weights, cell.ridge)
        if with_ridge
        else lsw_excess(theta, best, features, weights)
    )
    error = float(np.sqrt(np.square(features @ theta - CHAIN.values()).mean()))
    return replace(cell, error=error, excess=excess)


def _noise_seed(cell: Cell) -> int:
    words = hashlib.sha256(repr(replace(cell, error=0.0, excess=0.0)).encode()).digest()
    return int.from_bytes(words[:8], "big")


class _LSW(DPLSW):
    """On first visits that were sampled as such: the steps of a million episodes need not be held."""

    def visits(self, data: Any) -> FirstVisits:
        """What was given."""
        return _clipped(data)


class _LSL(DPLSL):
    """The same with a ridge."""

    def visits(self, data: Any) -> FirstVisits:
        """What was given."""
        return _clipped(data)


def _clipped(visits: FirstVisits) -> FirstVisits:
    """Means of returns on the chain, which are at most 1 but for rounding."""
    return visits._replace(means=np.clip(visits.means, 0.0, LARGEST_RETURN))


def scheduled(calibration: str, m: int) -> float:
    """Lambda for a batch of m episodes and noise of a calibration."""
    return SCHEDULES[calibration] * math.sqrt(m)


def _cells(
    algorithm: str, aggregate: int, m: int, seed: int, ridges: Sequence[float] | None = None
) -> list[Cell]:
    """With the lambdas given, else with those of the schedules: one for each noise, without noise both."""
    noises = ("lemma", "exact") if algorithm.startswith("dp-") else ("none",)
    if algorithm.endswith("lsw"):
        return [Cell(algorithm, noise, aggregate, 0.0, m, seed) for noise in noises]
    return [
        Cell(algorithm, noise, aggregate, ridge, m, seed)
        for noise in noises
        for ridge in ridges or [scheduled(of, m) for of in SCHEDULES if noise in {of, "none"}]
    ]


_CELLS = CellKind(Cell, frozenset({"error", "excess"}), run_batch, lambda cell: (cell.episodes, cell.seed))
