"""Episodes of any length, and first-visit returns against a loop over every step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.algorithms.data.episodes import Episodes, first_visits
from dpaudit.algorithms.data.loaders import read_episodes, write_csv
from dpaudit.algorithms.data.tables import read_matrix
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.chain import Chain
from dpaudit.errors import DataError, InvalidParameter, UsageError


def by_loops(data: Episodes, discount: float, largest: float) -> tuple[list[int], list[float]]:
    counts, sums = [0] * data.n_states, [0.0] * data.n_states
    for states, rewards in data:
        seen: set[int] = set()
        for t, s in enumerate(states.tolist()):
            if s in seen:
                continue
            seen.add(s)
            value = sum(r * discount**i for i, r in enumerate(rewards[t:].tolist()))
            counts[s] += 1
            sums[s] += min(max(value, 0.0), largest)
    return counts, [total / max(count, 1) for total, count in zip(sums, counts, strict=True)]


def random_episodes(rng: np.random.Generator, m: int, n_states: int) -> Episodes:
    lengths = rng.integers(1, 8, m)
    total = int(lengths.sum())
    return Episodes(rng.integers(0, n_states, total), rng.random(total) * 2 - 0.3, lengths, n_states)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5), st.floats(0.0, 1.0))
def test_first_visits_against_a_loop(seed: int, m: int, n_states: int, discount: float) -> None:
    data = random_episodes(np.random.default_rng(seed), m, n_states)
    counts, means = by_loops(data, discount, 1.5)
    found = first_visits(data, discount, 1.5)
    assert found.counts.tolist() == counts
    assert found.means == pytest.approx(means, abs=1e-12)
    assert found.episodes == m


def test_rewards_past_every_double_are_clipped_like_others() -> None:
    huge = np.full(3, 1.7e308)
    data = Episodes.of([(np.arange(3), huge), (np.arange(3), -huge), ([0, 1, 2], [1e308, -1.7e308, 1])], 3)
    found = first_visits(data, 1.0, 2.0)
    assert ((found.means >= 0.0) & (found.means <= 2.0)).all()


def test_the_chain_step_by_step_gives_the_visits_that_are_sampled_without_steps() -> None:
    chain = Chain(6, 0.3, 0.9)
    stays = chain.stays(500, np.random.default_rng(0))
    short, long = chain.visits(stays), first_visits(chain.episodes(stays), 0.9, 1.0)
    assert short.counts.tolist() == long.counts.tolist()
    assert short.means == pytest.approx(long.means, rel=1e-12)


def test_a_neighbour_differs_in_one_episode() -> None:
    data = random_episodes(np.random.default_rng(1), 5, 3)
    other = data.replace(2, ([0, 1, 2, 0], [0.0, 0.0, 0.0, 1.0]))
    assert len(other) == 5
    assert other != data
    assert other[2].states.tolist() == [0, 1, 2, 0]
    for i in (0, 1, 3, 4):
        assert np.array_equal(other[i].rewards, data[i].rewards)
    assert other.replace(2, data[2]) == data
    assert "length" not in repr(data)
    for index in (-1, 5):
        with pytest.raises(InvalidParameter):
            data.replace(index, data[0])


def test_whole_trajectories_are_episodes_without_their_last_state() -> None:
    data = TrajectoryData(np.array([[0, 1, 2]]), np.zeros((1, 2), int), np.array([[0.0, 1.0]]), 3, 1)
    (episode,) = Episodes.of_trajectories(data)
    assert episode.states.tolist() == [0, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        ([0, 1], [0.0], [2], 2),
        ([0, 1], [0.0, 1.0], [1], 2),
        ([0, 1], [0.0, 1.0], [2, 0], 2),
        ([0, 1], [0.0, 1.0], [3, -1], 2),
        ([], [], [], 2),
        ([0, 2], [0.0, 1.0], [2], 2),
        ([0, -1], [0.0, 1.0], [2], 2),
        ([0.5, 1.0], [0.0, 1.0], [2], 2),
        ([0, 1], [0.0, np.nan], [2], 2),
        ([0, 1], [0.0, np.inf], [2], 2),
        ([[0], [1]], [[0.0], [1.0]], [2], 2),
        ([0, 1], ["a", "b"], [2], 2),
    ],
)
def test_what_is_no_set_of_episodes_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(DataError):
        Episodes(*arguments)


def test_sizes_are_public() -> None:
    for bad in (0, -1, None, 2.5):
        with pytest.raises(InvalidParameter):
            Episodes(np.array([0]), np.array([0.0]), np.array([1]), bad)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        Episodes.of([], 2)
    with pytest.raises(DataError):
        Episodes.of([([0, 1], [0.0])], 2)


# ---- Files.


def test_episodes_of_any_length_are_read_in_any_order_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("step,episode,reward,state\n1,7,1.0,2\n0,7,0.5,0\n0,-3,2,1\n")
    data = read_episodes(path, 3)
    assert [episode.states.tolist() for episode in data] == [[1], [0, 2]]
    assert data[1].rewards.tolist() == [0.5, 1.0]


def test_a_file_of_whole_trajectories_is_read_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = TrajectoryData(rng.integers(0, 3, (4, 6)), rng.integers(0, 2, (4, 5)), rng.random((4, 5)), 3, 2)
    write_csv(whole, tmp_path / "whole.csv")
    assert read_episodes(tmp_path / "whole.csv", 3) == Episodes.of_trajectories(whole)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "episode,step,state\n0,0,0\n",
        "episode,step,state,reward\n",
        "episode,step,state,reward\n0,1,0,0\n",
        "episode,step,state,reward\n0,0,0,0\n0,0,0,0\n",
        "episode,step,state,reward\n0,0,5,0\n",
        "episode,step,state,reward\n0,0,-1,0\n",
        "episode,step,state,reward\n0,0,0.5,0\n",
        "episode,step,state,reward\n0,0,nan,0\n",
        "episode,step,state,reward\n0,0,0,nan\n",
        "episode,step,state,reward\n0,0,0,x\n",
        "episode,step,state,reward\n0,0,0\n",
    ],
)
def test_a_file_with_a_fault_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(DataError):
        read_episodes(path, 3)


def test_features_are_read_as_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "features.csv"
    path.write_text("1,0\n0,2.5\n")
    assert read_matrix(path).tolist() == [[1.0, 0.0], [0.0, 2.5]]
    path.write_text("a,b\n0,2.5\n")
    with pytest.raises(InvalidParameter):
        read_matrix(path)
    with pytest.raises(UsageError):
        read_matrix(tmp_path / "none.csv")
