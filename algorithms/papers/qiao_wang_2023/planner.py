"""What offline reinforcement learning algorithms have in common: their output."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.errors import DataError


class Policy(NamedTuple):
    """What leaves the algorithm."""

    actions: NDArray[np.int64]  # [H, S] int, the action of each state at each step
    values: NDArray[np.float64]  # [H+1, S], pessimistic values


class Planner:
    """An offline algorithm, with the exact process where that is known."""

    mdp: TabularMDP | None

    def utility(self, output: Policy) -> dict[str, float]:
        """The policy's suboptimality against the exact optimum, where the process is known; else empty."""
        return {} if self.mdp is None else self.mdp.utility(output.actions)


def require_sizes(data: TrajectoryData, sizes: tuple[int, ...]) -> None:
    """Raise `DataError` (for the data's holder) unless the data have these H, S and A."""
    found = (data.horizon, data.n_states, data.n_actions)
    if found != sizes or not math.prod(sizes):
        remedy = "declare the sizes that the public reward function or feature map has"
        what = f"H, S, A = {found}, the public parameters have {sizes}"
        raise DataError(what, where="trajectories", remedy=remedy)
