"""FrozenLake-v1, the slippery 4x4 map of Gymnasium, with its dynamics written out.

The map reads SFFF / FHFH / FFFH / HFFG: start, frozen, hole, goal. Actions 0 left, 1 down, 2 right, 3 up; the
agent goes where it wanted or to either side of it, a third each, and stays where a wall is. Entering the goal
earns 1. Holes and the goal are left no more: each is its own absorbing state, as in Gymnasium's own table.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.loaders import read_csv
from dpaudit.algorithms.environments.tabular import BuiltinData, TabularMDP

MAP = "SFFFFHFHFFFHHFFG"
HORIZON = 16

# Where each move leads from each state; holes (5, 7, 11, 12) and the goal (15) are never left.
MOVES: NDArray[np.int64] = np.array(
    [
        # left, down, right, up
        [0, 4, 1, 0],
        [0, 5, 2, 1],
        [1, 6, 3, 2],
        [2, 7, 3, 3],
        [4, 8, 5, 0],
        [5, 5, 5, 5],
        [5, 10, 7, 2],
        [7, 7, 7, 7],
        [8, 12, 9, 4],
        [8, 13, 10, 5],
        [9, 14, 11, 6],
        [11, 11, 11, 11],
        [12, 12, 12, 12],
        [12, 13, 14, 9],
        [13, 14, 15, 10],
        [15, 15, 15, 15],
    ]
)  # [S, A]


def frozen_lake_mdp(horizon: int = HORIZON) -> TabularMDP:
    """The process over ``horizon`` steps, S = 16, A = 4.

    The reward of (s, a) is the chance to enter the goal.
    """
    goal = MAP.index("G")
    kernel = np.zeros((16, 4, 16))
    for state in range(16):
        for action in range(4):
            for slip in (-1, 0, 1):
                kernel[state, action, MOVES[state, (action + slip) % 4]] += 1.0 / 3.0
    rewards = kernel[:, :, goal].copy()
    rewards[goal] = 0.0
    return TabularMDP(
        transitions=np.broadcast_to(kernel, (horizon, *kernel.shape)),
        rewards=np.broadcast_to(rewards, (horizon, *rewards.shape)),
        initial=np.eye(16)[MAP.index("S")],
    )


def recording_policy(horizon: int = HORIZON) -> NDArray[np.float64]:
    """The behaviour of the built-in recording, [H, S, A]: optimal with probability 0.75, else uniform."""
    mdp = frozen_lake_mdp(horizon)
    probabilities: NDArray[np.float64] = 0.75 * np.eye(4)[mdp.optimal_policy()] + 0.0625
    return probabilities


def frozen_lake_data() -> BuiltinData:
    """800 episodes recorded from Gymnasium's FrozenLake-v1; see ``data/README.md``."""
    mdp = frozen_lake_mdp()
    with as_file(files("dpaudit.algorithms") / "data" / "frozen-lake.csv") as path:
        return BuiltinData(
            read_csv(path, n_states=mdp.n_states, n_actions=mdp.n_actions, horizon=HORIZON), mdp
        )
