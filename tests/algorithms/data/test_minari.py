"""A real local Minari data set, recorded from FrozenLake-v1 and read back."""

import sys
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.data.loaders import read_minari
from dpaudit.errors import DataError, InvalidParameter, MissingExtra

gymnasium = import_module("gymnasium")
minari = import_module("minari")

# The libraries' own deprecations and advice are not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore")

ID = "frozen-lake/test-v0"
Episodes = list[tuple[list[int], list[int], list[float]]]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Episodes:
    """Record 20 episodes into a Minari data set on disk; the same, kept beside it, are the oracle."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    environment = gymnasium.make("FrozenLake-v1", is_slippery=True)
    rng = np.random.default_rng(3)
    episodes: Episodes = []
    buffers = []
    for seed in range(20):
        state, _ = environment.reset(seed=seed)
        states, actions, rewards = [int(state)], [], []
        ends: list[bool] = []
        cuts: list[bool] = []
        while not (ends and (ends[-1] or cuts[-1])):
            action = int(rng.integers(4))
            state, reward, terminated, truncated, _ = environment.step(action)
            states.append(int(state))
            actions.append(action)
            rewards.append(float(reward))
            ends.append(bool(terminated))
            cuts.append(bool(truncated))
        episodes.append((states, actions, rewards))
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=seed,
                observations=np.array(states),
                actions=np.array(actions),
                rewards=rewards,
                terminations=ends,
                truncations=cuts,
            )
        )
    # From buffers and not by minari.DataCollector, which needs jax.
    minari.create_dataset_from_buffers(
        dataset_id=ID,
        buffer=buffers,
        env=environment,
        algorithm_name="uniform",
        author="dpaudit",
        author_email="",
        code_permalink="",
        data_format="arrow",
    )
    environment.close()
    return episodes


def test_padding_with_the_absorbing_state(recorded: Episodes) -> None:
    horizon = 10
    data = read_minari(ID, horizon=horizon, absorbing=True)
    assert (len(data), data.horizon, data.n_states, data.n_actions) == (20, horizon, 17, 4)
    lengths = [len(actions) for _, actions, _ in recorded]
    assert min(lengths) < horizon < max(lengths)  # some are padded, some are cut
    for row, (states, actions, rewards) in zip(data, recorded, strict=True):
        missing = max(0, horizon - len(actions))
        assert row.states.tolist() == (states + [16] * missing)[: horizon + 1]
        assert row.actions.tolist() == (actions + [0] * missing)[:horizon]
        assert row.rewards.tolist() == (rewards + [0.0] * missing)[:horizon]
    n_sa, _ = data.visit_counts()
    assert n_sa.sum(axis=(1, 2)).tolist() == [20] * horizon  # one row counts once in each step


def test_without_padding_a_short_episode_is_refused_and_a_short_horizon_taken(recorded: Episodes) -> None:
    shortest = min(len(actions) for _, actions, _ in recorded)
    data = read_minari(minari.load_dataset(ID), horizon=shortest)
    assert data.n_states == 16
    assert [row.states.tolist() for row in data] == [states[: shortest + 1] for states, _, _ in recorded]
    with pytest.raises(DataError, match="absorbing=True"):
        read_minari(ID, horizon=shortest + 1)


def stub(**changes: Any) -> types.SimpleNamespace:
    """A data set of one episode of two steps over three states and two actions."""
    episode: dict[str, Any] = {
        "id": 0,
        "observations": np.array([0, 1, 2]),
        "actions": np.array([1, 0]),
        "rewards": np.array([0.0, 1.0]),
        "terminations": np.array([False, True]),
    }
    spaces: dict[str, Any] = {
        "observation_space": gymnasium.spaces.Discrete(3),
        "action_space": gymnasium.spaces.Discrete(2),
    }
    episode.update({key: value for key, value in changes.items() if key in episode})
    spaces.update({key: value for key, value in changes.items() if key in spaces})

    class Episode(types.SimpleNamespace):
        def __len__(self) -> int:
            return len(self.rewards)

    rows = changes.get("rows", 1)
    return types.SimpleNamespace(**spaces, iterate_episodes=lambda: [Episode(**episode)] * rows)


def test_spaces_that_do_not_start_at_zero_are_shifted() -> None:
    shifted = stub(observation_space=gymnasium.spaces.Discrete(3, start=5), observations=np.array([5, 6, 7]))
    assert read_minari(shifted, horizon=2) == read_minari(stub(), horizon=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 0}, "no episodes"),
        ({"terminations": np.array([False, False])}, "cut short"),
        ({"observation_space": "a box"}, "observation space"),
        ({"action_space": "a box"}, "action space"),
        ({"observations": np.array([0, 1, 3])}, "state 3"),
        ({"actions": np.array([1, 2])}, "action 2"),
        ({"rewards": np.array([0.0, -1.0])}, "reward -1"),
    ],
)
def test_defects(changes: dict[str, Any], message: str) -> None:
    assert read_minari(stub(), horizon=3, absorbing=True).states.tolist() == [
        [0, 1, 2, 3]
    ]  # the innocent twin
    with pytest.raises(DataError, match=message):
        read_minari(stub(**changes), horizon=3, absorbing=True)


def test_an_unknown_id_and_a_bad_horizon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(DataError, match="cannot be loaded"):
        read_minari("nobody/knows-v0", horizon=3)
    with pytest.raises(InvalidParameter, match="horizon"):
        read_minari(stub(), horizon=0)


def test_without_minari(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dpaudit\[minari\]'"):
        read_minari(ID, horizon=3)
