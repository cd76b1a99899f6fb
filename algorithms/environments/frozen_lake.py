"""FrozenLake-v1, the slippery 4x4 map of Gymnasium, with its dynamics written out.

The map reads SFFF / FHFH / FFFH / HFFG: start, frozen, hole, goal. Actions 0 left, 1 down, 2 right, 3 up; the
agent goes where it wanted or to either side of it, a third each, and stays where a wall is. Entering the goal
earns 1. Holes and the goal are left no more: each is its own absorbing state, as in Gymnasium's own table.
"""

from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.loaders import read_csv
from dpaudit.algorithms.environments.tabular import BuiltinData, TabularMDP

MAP = "SFFFFHFHFFFHHFFG"
HORIZON = 16


def _moves() -> NDArray[np.int64]:
    """Where each move leads from each state, [S, A]; holes and the goal are never left."""
    y, x = np.divmod(np.arange(16), 4)
    left, right = 4 * y + np.maximum(x - 1, 0), 4 * y + np.minimum(x + 1, 3)
    down, up = 4 * np.minimum(y + 1, 3) + x, 4 * np.maximum(y - 1, 0) + x
    ends = np.array([place in "GH" for place in MAP])
    return np.where(ends[:, None], np.arange(16)[:, None], np.stack([left, down, right, up], axis=1))


MOVES = _moves()


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
    return TabularMDP.steady(kernel, rewards, np.eye(16)[MAP.index("S")], horizon)


def recording_policy(horizon: int = HORIZON) -> NDArray[np.float64]:
    """The behaviour of the built-in recording, [H, S, A]: optimal with probability 0.75, else uniform."""
    return np.asarray(0.75 * np.eye(4)[frozen_lake_mdp(horizon).optimal_policy()] + 0.0625)


def frozen_lake_data() -> BuiltinData:
    """800 episodes recorded from Gymnasium's FrozenLake-v1; see ``data/README.md``."""
    mdp = frozen_lake_mdp()
    with as_file(files("dpaudit.algorithms") / "data" / "frozen-lake.csv") as path:
        data = read_csv(path, n_states=mdp.n_states, n_actions=mdp.n_actions, horizon=HORIZON)
    return BuiltinData(data, mdp)
