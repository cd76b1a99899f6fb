"""The data of figures 1 and 2 of Wang and Hegde (2019): the return of what private Q-learning has learnt.

A group of cells is one run, and a cell is how well the greedy policy of the function that was learnt up to
some sample does: the network (line 24) of the published algorithm and of the baselines, z of the corrected
one.

The paper does not state gamma and exploration. With its alpha = 3e-4, 78 steps of plain gradient descent
learn nothing, and a greedy agent stays at one end. Chosen here: gamma = 1/2, alpha = 1/2 (`STEP_SIZE`),
exploration falling from 1 to 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpaudit.algorithms.environments.line_world import HORIZON, episode_returns, greedy_return, middle_rewards
from dpaudit.algorithms.q_learning.dp_q_learning import DPQLearning
from dpaudit.algorithms.q_learning.evaluated_policy import EvaluatedPolicy
from dpaudit.algorithms.q_learning.functional_q import FunctionalCalibration, FunctionalQLearning
from dpaudit.algorithms.q_learning.perturbed_q import Perturbed, PerturbedQLearning
from dpaudit.algorithms.q_learning.q_learning import NodeValues, QLearning
from dpaudit.app.figures.run_cache import CellKind
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.noise import LiveNoise, NoiseSource, NoNoise
from dpaudit.curator.running import run

#: Of the paper: runs, noise levels, T and B of every run, delta, and sigma by claimed epsilon.
RUNS = 10
SIGMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SAMPLES, BATCH, DELTA = 5000, 64, 1e-4
CLAIMED = {0.9: 0.32, 0.45: 0.74}
#: Budgets of the corrected algorithm in figure 1, from no noise to the paper's.
EPSILONS = (math.inf, 1024.0, 256.0, 64.0, 16.0, 0.9)
STEP_SIZE = 0.5
#: At how many points of a run it is looked at, and on how many episodes of which seed.
POINTS, EPISODES, EVALUATION_SEED = 10, 200, 20191208


_NAMES = {
    "corrected": "corrected",
    "rewards": "noise on rewards",
    "gradients": "noise on gradients",
    "evaluation": "Balle et al.",
}


@dataclass(frozen=True)
class Curve:
    """One line of a panel.

    Attributes:
        panel: its heading.
        algorithm: ``published``, ``corrected``, ``rewards``, ``gradients`` or ``evaluation``.
        sigma: of the published noise; 0 for none, and of no meaning to the others.
        resets: J; 0 for T/B.
        epsilon: that is claimed; infinite for no noise.
    """

    panel: str
    algorithm: str
    sigma: float = 0.0
    resets: int = 0
    epsilon: float = math.inf

    def __str__(self) -> str:
        """As the legend has it."""
        if self.algorithm == "published":
            return "no noise" if self.sigma == 0.0 else f"published, sigma={self.sigma:g}"
        name = _NAMES[self.algorithm]
        return f"{name}, " + ("no noise" if math.isinf(self.epsilon) else f"epsilon={self.epsilon:g}")


@dataclass(frozen=True)
class Cell:
    """One run up to one sample.

    Attributes:
        panel: of the `Curve`, like the next four.
        algorithm: see there.
        sigma: see there.
        resets: see there.
        epsilon: see there.
        seed: of the network, the walk and the noise.
        total: T, of the whole run.
        samples: up to which the run went.
        learnt: the mean return of the greedy policy; NaN before the run.
        trained: the mean return of the whole episodes since the point before, explored and noised.
    """

    panel: str
    algorithm: str
    sigma: float
    resets: int
    epsilon: float
    seed: int
    total: int
    samples: int
    learnt: float = math.nan
    trained: float = math.nan

    @property
    def curve(self) -> Curve:
        """The line that it belongs to."""
        return Curve(self.panel, self.algorithm, self.sigma, self.resets, self.epsilon)


def noise_curves() -> list[Curve]:
    """Figure 1: the published one by sigma, paths reset or kept; the corrected one by epsilon."""
    published = [
        Curve(panel, "published", sigma, resets)
        for panel, resets in (("published, J = T/B", 0), ("published, J = 1", 1))
        for sigma in SIGMAS
    ]
    return published + [Curve("corrected", "corrected", epsilon=epsilon) for epsilon in EPSILONS]


def compared_curves() -> list[Curve]:
    """Figure 2: a panel for each claim; the published algorithm with the noise that the paper has for it."""
    curves = []
    for epsilon, sigma in CLAIMED.items():
        panel = f"claimed: epsilon = {epsilon:g}"
        curves += [Curve(panel, "published"), Curve(panel, "published", sigma, epsilon=epsilon)]
        curves += [Curve(panel, name, epsilon=epsilon) for name in _NAMES]
    return curves


def curve_cells(curve: Curve, seeds: Sequence[int], total: int = SAMPLES) -> list[Cell]:
    """A line's runs, not run yet, at `POINTS` points each."""
    points = [round(total * i / POINTS) for i in range(1, POINTS + 1)]
    return [
        Cell(curve.panel, curve.algorithm, curve.sigma, curve.resets, curve.epsilon, seed, total, samples)
        for seed in seeds
        for samples in points
    ]


def finished_cells(
    wanted: Sequence[Cell],
    *,
    path: Path | None = None,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Cell]:
    """Run what is not finished yet; arguments, result and errors are those of `CellKind.finished`."""
    return _CELLS.finished(wanted, path=path, workers=workers, progress=progress)


def algorithm_of(curve: Curve, total: int = SAMPLES) -> QLearning | EvaluatedPolicy:
    """The algorithm of a line; where there is no noise, with some that is left out when it runs."""
    claim = ApproxDP(epsilon=curve.epsilon if math.isfinite(curve.epsilon) else 0.9, delta=DELTA)
    batch = min(BATCH, total // POINTS)
    if curve.algorithm == "published":
        noise = FunctionalCalibration(claim, curve.sigma or 1.0, STEP_SIZE, total, batch)
        return FunctionalQLearning(noise, curve.resets or None, exploration=1.0)
    if curve.algorithm == "corrected":
        updates = 2 * POINTS
        return DPQLearning(claim, updates=updates, batch=total // updates)
    if curve.algorithm == "evaluation":
        return EvaluatedPolicy(claim, max(1, total // HORIZON))
    perturbed: Perturbed = "rewards" if curve.algorithm == "rewards" else "gradients"
    return PerturbedQLearning(perturbed, claim, total, batch, STEP_SIZE)


def noiseless(curve: Curve) -> bool:
    """Whether a line has no noise."""
    return curve.sigma == 0.0 if curve.algorithm == "published" else math.isinf(curve.epsilon)


def _run(cells: Sequence[Cell]) -> list[Cell]:
    """One run, for all of its points."""
    asked = cells[0]
    algorithm, rewards = algorithm_of(asked.curve, asked.total), middle_rewards()
    noise: NoiseSource = NoNoise() if noiseless(asked.curve) else LiveNoise(_noise_seed(asked))
    if isinstance(algorithm, EvaluatedPolicy):
        return [_evaluated(cell) for cell in cells]
    # Runs of one seed share network and walk, whatever their noise.
    updates = run(
        lambda data, curator: list(algorithm.learning(data, curator)),
        rewards,
        noise=noise,
        public_seed=asked.seed,
    ).output
    finished = []
    first = 0
    for cell in cells:
        last = max(1, round(len(updates) * cell.samples / cell.total))
        learnt = greedy_return(updates[last - 1].learnt, rewards, EPISODES, EVALUATION_SEED)
        reached = np.concatenate([update.reached for update in updates[:last]])
        returns = episode_returns(reached, rewards)
        trained = float(returns[first:].mean()) if len(returns) > first else math.nan
        finished.append(replace(cell, learnt=learnt, trained=trained))
        first = len(returns)
    return finished


def _evaluated(cell: Cell) -> Cell:
    """A run of its own, with the whole budget, for as many episodes as the point has."""
    algorithm, rewards = algorithm_of(cell.curve, cell.samples), middle_rewards()
    seed = _noise_seed(cell) + cell.samples
    output = run(algorithm, rewards, seed=seed, public_seed=cell.seed).output
    learnt = greedy_return(NodeValues(output.released), rewards, EPISODES, EVALUATION_SEED)
    return replace(cell, learnt=learnt, trained=float(episode_returns(output.reached, rewards).mean()))


def _noise_seed(cell: Cell) -> int:
    words = np.array([cell.sigma, cell.resets, cell.epsilon], dtype=np.float64).view(np.uint32).tolist()
    return int(np.random.SeedSequence([cell.seed, len(cell.algorithm), *words]).generate_state(1)[0])


_CELLS = CellKind(
    Cell,
    frozenset({"learnt", "trained"}),
    _run,
    lambda cell: replace(cell, samples=0, learnt=0.0, trained=0.0),
)
