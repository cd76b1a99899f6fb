"""A Minari data set of FrozenLake-v1, recorded here and read back from disk: nothing is downloaded.

python examples/minari_frozen_lake.py lake     # writes lake/trajectories.csv and lake/rewards.csv
dpaudit certify dp-apvi --data lake/trajectories.csv -P rewards=lake/rewards.csv
dpaudit audit examples/minari_frozen_lake.py:planner

Needs ``pip install 'dpaudit[minari]'``. `record_frozen_lake.py` makes the built-in data set instead.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit import ZCDP
from dpaudit.algorithms.data.loaders import read_minari, write_csv
from dpaudit.algorithms.data.tables import write_rewards
from dpaudit.algorithms.environments.frozen_lake import HORIZON, frozen_lake_mdp, recording_policy
from dpaudit.algorithms.offline.dp_apvi import DPAPVI

NAME = "frozen-lake/recorded-v0"
EPISODES = 300
SEED = 20240229


def rewards() -> NDArray[np.float64]:
    """The public reward function, [H, S, A]; the state that short episodes are padded with earns nothing."""
    known = frozen_lake_mdp().rewards
    return np.concatenate([known, np.zeros((HORIZON, 1, known.shape[2]))], axis=1)


#: What is certified and audited.
planner = DPAPVI(rewards(), guarantee=ZCDP(rho=1.0))


def record(episodes: int = EPISODES, seed: int = SEED) -> None:
    """Record episodes into the local Minari data set `NAME`, in the folder MINARI_DATASETS_PATH."""
    # Slow to load, and only needed here: an audit of `planner` needs neither.
    import gymnasium
    import minari
    from minari.data_collector import EpisodeBuffer

    environment = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    behaviour, policy = np.random.default_rng(seed), recording_policy()  # [H, S, A]
    buffers = []
    for episode in range(episodes):
        state, _ = environment.reset(seed=seed + 1 if episode == 0 else None)
        states, actions, earned, ends = [int(state)], [], [], []
        while len(actions) < HORIZON and not any(ends):
            actions.append(int(behaviour.choice(4, p=policy[len(actions), states[-1]])))
            state, reward, over, _, _ = environment.step(actions[-1])
            states.append(int(state))
            earned.append(float(reward))
            ends.append(bool(over))
        buffers.append(
            EpisodeBuffer(
                id=episode,
                observations=np.array(states),
                actions=np.array(actions),
                rewards=earned,
                terminations=ends,
                truncations=[False] * len(ends),
            )
        )
    minari.create_dataset_from_buffers(
        dataset_id=NAME,
        buffer=buffers,
        env=environment,
        eval_env=environment,
        description="FrozenLake-v1, slippery, up to 16 steps an episode",
        algorithm_name="optimal with probability 0.75, else uniform",
        author="dpaudit",
        author_email="",
        code_permalink="",
        data_format="arrow",
    )
    environment.close()


def main(folder: Path) -> None:
    """Record, read back as trajectories of `HORIZON` steps, and write what the command line takes."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str((folder / "minari").absolute())
    record()
    # An episode that ends early goes to a public state of its own, so that every row has H steps.
    data = read_minari(NAME, horizon=HORIZON, absorbing=True)
    write_csv(data, folder / "trajectories.csv")
    write_rewards(rewards(), folder / "rewards.csv")
    print(f"{len(data)} episodes, H={data.horizon}, S={data.n_states}, A={data.n_actions}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
