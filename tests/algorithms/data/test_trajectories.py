from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.errors import DataError, InvalidParameter


def small() -> TrajectoryData:
    states = np.array([[0, 1, 2], [2, 2, 0], [1, 0, 0]])
    actions = np.array([[0, 1], [1, 1], [0, 0]])
    rewards = np.array([[0.0, 0.5], [1.0, 0.25], [0.0, 0.0]])
    return TrajectoryData(states, actions, rewards, n_states=3, n_actions=2)


def test_shape_iteration_and_equality() -> None:
    data = small()
    assert (len(data), data.horizon, data.n_states, data.n_actions) == (3, 2, 3, 2)
    assert [row.states.tolist() for row in data] == [[0, 1, 2], [2, 2, 0], [1, 0, 0]]
    assert data[1].rewards.tolist() == [1.0, 0.25]
    assert data == small()
    assert data != TrajectoryData(data.states, data.actions, data.rewards, n_states=4, n_actions=2)
    assert data != "trajectories"
    with pytest.raises(TypeError):
        hash(data)


def test_read_only_and_detached_from_what_it_was_built_from() -> None:
    states = np.array([[0, 1]])
    data = TrajectoryData(states, np.array([[0]]), np.array([[0.0]]), n_states=2, n_actions=1)
    states[0, 0] = 1
    assert data.states[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.states[0, 0] = 1


def test_printing_shows_no_record() -> None:
    assert repr(small()) == "TrajectoryData(n=3, horizon=2, n_states=3, n_actions=2)"


def test_replace_changes_one_row() -> None:
    data = small()
    other = data.replace(1, Trajectory(np.array([0, 0, 0]), np.array([0, 0]), np.array([0.0, 1.0])))
    assert other[1].states.tolist() == [0, 0, 0]
    assert other[1].rewards.tolist() == [0.0, 1.0]
    for index in (0, 2):
        assert other[index].states.tolist() == data[index].states.tolist()
    assert other.replace(1, data[1]) == data
    assert data == small()


@pytest.mark.parametrize("index", [-1, 3])
def test_replace_refuses_a_row_that_is_not_there(index: int) -> None:
    with pytest.raises(InvalidParameter, match="of 3 trajectories"):
        small().replace(index, small()[0])


@pytest.mark.parametrize(
    ("trajectory", "message"),
    [
        (([0, 0], [0, 0], [0.0, 0.0]), "shapes"),
        (([0, 0, 3], [0, 0], [0.0, 0.0]), "state 3"),
        (([0, 0, 0.5], [0, 0], [0.0, 0.0]), "state 0.5"),
        (([0, 0, 0], [0, 2], [0.0, 0.0]), "action 2"),
        (([0, 0, 0], [0, 1], [0.0, float("nan")]), "reward nan"),
    ],
)
def test_replace_refuses_a_trajectory_of_another_shape(
    trajectory: tuple[list[float], list[float], list[float]], message: str
) -> None:
    parts = Trajectory(*(np.array(part) for part in trajectory))
    with pytest.raises(DataError, match=message):
        small().replace(0, parts)


@pytest.mark.parametrize(
    ("field", "position", "value", "place"),
    [
        ("states", (2, 1), 3, "episode 2, step 1"),
        ("states", (0, 2), -1, "episode 0, step 2"),
        ("states", (0, 0), 0.5, "episode 0, step 0"),
        ("states", (0, 0), np.nan, "episode 0, step 0"),
        ("actions", (1, 0), 2, "episode 1, step 0"),
        ("actions", (1, 1), np.inf, "episode 1, step 1"),
        ("rewards", (1, 1), 1.5, "episode 1, step 1"),
        ("rewards", (1, 1), -1e-9, "episode 1, step 1"),
        ("rewards", (2, 0), np.nan, "episode 2, step 0"),
    ],
)
def test_a_bad_cell_is_named(field: str, position: tuple[int, int], value: float, place: str) -> None:
    data = small()
    arrays = {name: getattr(data, name).astype(float) for name in ("states", "actions", "rewards")}
    # The innocent twin: whole numbers held as floats are taken.
    assert TrajectoryData(**arrays, n_states=3, n_actions=2) == data
    arrays[field][position] = value
    with pytest.raises(DataError) as caught:
        TrajectoryData(**arrays, n_states=3, n_actions=2)
    assert caught.value.where == place
    assert caught.value.why
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("states", "actions", "rewards", "message"),
    [
        (np.zeros((0, 3), int), np.zeros((0, 2), int), np.zeros((0, 2)), "no episodes"),
        (np.zeros((2, 1), int), np.zeros((2, 0), int), np.zeros((2, 0)), "without steps"),
        (np.zeros((2, 2), int), np.zeros((2, 2), int), np.zeros((2, 2)), "states"),
        (np.zeros((2, 3), int), np.zeros((2, 2), int), np.zeros((3, 2)), "rewards"),
        (np.zeros(3, int), np.zeros((1, 2), int), np.zeros((1, 2)), "not a matrix"),
        ([[0, 0, 0], [0, 0]], np.zeros((2, 2), int), np.zeros((2, 2)), "not a matrix"),
        (np.full((1, 3), "a"), np.zeros((1, 2), int), np.zeros((1, 2)), "not a matrix"),
    ],
)
def test_arrays_that_do_not_fit(
    states: np.ndarray, actions: np.ndarray, rewards: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        TrajectoryData(states, actions, rewards, n_states=2, n_actions=2)


@pytest.mark.parametrize("size", [0, -1, 2.0, True, None])
def test_sizes_are_declared_positive_integers(size: object) -> None:
    data = small()
    with pytest.raises(InvalidParameter, match="n_states"):
        TrajectoryData(data.states, data.actions, data.rewards, size, 2)  # type: ignore[arg-type]


def test_visit_counts_against_a_loop_and_their_sensitivity() -> None:
    data = small()
    n_sa, n_sas = data.visit_counts()
    by_hand = np.zeros((2, 3, 2, 3), dtype=int)
    for row in data:
        for h in range(2):
            by_hand[h, row.states[h], row.actions[h], row.states[h + 1]] += 1
    assert np.array_equal(n_sas, by_hand)
    assert np.array_equal(n_sa, by_hand.sum(axis=3))
    # A replaced row that shares no cell attains the sensitivity sqrt(2 H), in both tables.
    other = data.replace(0, Trajectory(np.array([1, 2, 0]), np.array([1, 0]), np.zeros(2)))
    for before, after in zip((n_sa, n_sas), other.visit_counts(), strict=True):
        assert ((before - after) ** 2).sum() == 2 * data.horizon


def test_iteration_is_cheap(python_calls: Any) -> None:
    rng = np.random.default_rng(0)
    data = TrajectoryData(
        rng.integers(0, 5, (100_000, 6)), rng.integers(0, 2, (100_000, 5)), np.zeros((100_000, 5)), 5, 2
    )
    assert python_calls(lambda: sum(1 for _ in data)) < 10 * 100_000
