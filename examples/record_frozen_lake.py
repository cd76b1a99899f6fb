"""Record the built-in data set ``frozen-lake`` from Gymnasium, the same bytes every time.

python examples/record_frozen_lake.py algorithms/data/frozen-lake.csv
"""

from __future__ import annotations

import sys

import gymnasium
import numpy as np

from dpaudit.algorithms.data.loaders import write_csv
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.frozen_lake import HORIZON, recording_policy

EPISODES = 800
SEED = 20240229


def record(episodes: int = EPISODES, seed: int = SEED) -> TrajectoryData:
    """Run the recording policy; the behaviour's seed is ``seed``, the environment's ``seed + 1``."""
    # Sixteen steps are fewer than the environment's own limit, so episodes end in a hole, the goal or at H.
    environment = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    behaviour = np.random.default_rng(seed)
    policy = recording_policy()  # [H, S, A]
    states = np.zeros((episodes, HORIZON + 1), dtype=np.int64)
    actions = np.zeros((episodes, HORIZON), dtype=np.int64)
    rewards = np.zeros((episodes, HORIZON))
    for episode in range(episodes):
        # Only the first reset is seeded: the environment's generator then runs on.
        state, _ = environment.reset(seed=seed + 1 if episode == 0 else None)
        over = False
        states[episode, 0] = state
        for step in range(HORIZON):
            if not over:
                action = int(behaviour.choice(4, p=policy[step, state]))
                state, reward, over, _, _ = environment.step(action)
                actions[episode, step], rewards[episode, step] = action, float(reward)
            # Once over, the hole or the goal is its own absorbing state: action 0, reward 0.
            states[episode, step + 1] = state
    environment.close()
    return TrajectoryData(states, actions, rewards, n_states=16, n_actions=4)


if __name__ == "__main__":
    write_csv(record(), sys.argv[1])
