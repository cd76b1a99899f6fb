"""Neighbouring data sets of trajectories."""

import numpy as np
import pytest

from dpaudit.algorithms.data.trajectories import TrajectoryData, trajectory_pairs
from dpaudit.errors import InvalidParameter

GENERATOR = np.random.default_rng(0)
DATA = TrajectoryData(
    GENERATOR.integers(0, 5, (6, 4)), GENERATOR.integers(0, 2, (6, 3)), GENERATOR.random((6, 3)), 5, 2
)


@pytest.mark.parametrize("index", [-1, 2])
def test_replace_one_changes_that_trajectory_alone(index: int) -> None:
    pairs = list(trajectory_pairs(DATA, index=index))
    assert len(pairs) == 7
    moved = []
    for pair in pairs:
        same = [
            all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
            for one, other in zip(pair.data, pair.neighbour, strict=True)
        ]
        assert [i for i, equal in enumerate(same) if not equal] == [index % 6] == [pair.unit]
        difference = pair.data.visit_counts()[0] - pair.neighbour.visit_counts()[0]
        moved.append(float(np.linalg.norm(difference)))
    # The greatest change of the visit counts, sqrt(2 H), is among them.
    assert max(moved) == pytest.approx(np.sqrt(6.0))


def test_add_or_remove_one_adds_or_removes_one() -> None:
    for pair in trajectory_pairs(DATA, neighbouring="add-or-remove-one", index=0):
        larger, smaller = sorted((pair.data, pair.neighbour), key=len, reverse=True)
        assert np.array_equal(np.delete(larger.states, pair.unit, axis=0), smaller.states)
        assert len(larger) == len(smaller) + 1


def test_one_state_and_one_action_leave_only_rewards_to_differ() -> None:
    data = TrajectoryData(np.zeros((1, 3)), np.zeros((1, 2)), np.zeros((1, 2)), 1, 1)
    for pair in trajectory_pairs(data):
        assert pair.data != pair.neighbour
        assert np.array_equal(pair.data.states, pair.neighbour.states)


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        list(trajectory_pairs(DATA, index=6))
    with pytest.raises(InvalidParameter, match="zero-out"):
        list(trajectory_pairs(DATA, neighbouring="zero-out"))
