"""Neighbouring data sets of trajectories: the changes of one person's record that most often show a fault."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InvalidParameter


def trajectory_pairs(
    data: TrajectoryData,
    *,
    neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE,
    index: int = -1,
) -> Iterator[Pair]:
    """Pairs in which one trajectory is changed as the relation allows; those equal to the data are left out.

    Replace-one: the trajectory replaced by another one's duplicate, by those that stay in one corner of
    the state-action space, by one that visits as many cells as it can, by itself with the rewards
    reversed, and by itself with the last step alone changed. Add-or-remove-one: the trajectory
    dropped, doubled, and each of the corner trajectories added.

    Raises:
        InvalidParameter: there is no such trajectory, or the relation is zero-out, which has no meaning
            for trajectories.
    """
    if not -len(data) <= index < len(data):
        raise InvalidParameter(f"trajectory {index} of {len(data)}", where="trajectory_pairs")
    index %= len(data)
    relation = Neighbouring(neighbouring)
    if relation is Neighbouring.REPLACE_ONE:
        changes = {**_corners(data), **_variations(data, index)}
        pairs = [
            Pair(data, data.replace(index, changed), f"a trajectory replaced: {name}", unit=index)
            for name, changed in changes.items()
        ]
        low, high = (data.replace(index, corner) for corner in list(_corners(data).values())[:2])
        pairs.append(Pair(low, high, "one corner of the space, replaced by the opposite one", unit=index))
        yield from (pair for pair in pairs if pair.data != pair.neighbour)
    elif relation is Neighbouring.ADD_OR_REMOVE_ONE:
        rows = list(data)
        if len(rows) > 1:
            rest = TrajectoryData.of(rows[:index] + rows[index + 1 :], data.n_states, data.n_actions)
            yield Pair(data, rest, "a trajectory dropped", unit=index)
        yield Pair(
            data,
            TrajectoryData.of([*rows, rows[index]], data.n_states, data.n_actions),
            "a trajectory doubled",
            unit=len(rows),
        )
        for name, corner in _corners(data).items():
            added = TrajectoryData.of([*rows, corner], data.n_states, data.n_actions)
            yield Pair(data, added, f"a trajectory added: {name}", unit=len(rows))
    else:
        raise InvalidParameter(
            f"relation {relation}",
            where="trajectory_pairs",
            why="a trajectory of zeros is a record like any other",
            remedy="use replace-one or add-or-remove-one",
        )


def _corners(data: TrajectoryData) -> dict[str, Trajectory]:
    """Trajectories at the edges of what a record may be."""
    horizon, last_state, last_action = data.horizon, data.n_states - 1, data.n_actions - 1
    steps = np.arange(horizon + 1)
    return {
        "the first state and action, no reward": _constant(horizon, 0, 0, 0.0),
        "the last state and action, full reward": _constant(horizon, last_state, last_action, 1.0),
        "another state and action at each step": Trajectory(
            steps % data.n_states, steps[:-1] % data.n_actions, (steps[:-1] % 2).astype(float)
        ),
    }


def _variations(data: TrajectoryData, index: int) -> dict[str, Trajectory]:
    """The trajectory itself, changed a little, and another one's."""
    states, actions, rewards = data[index]
    last = states.copy()
    last[-1] = (last[-1] + 1) % data.n_states
    return {
        "another one's duplicate": data[(index + 1) % len(data)],
        "its rewards turned over": Trajectory(states, actions, 1.0 - rewards),
        "its last state alone": Trajectory(last, actions, rewards),
    }


def _constant(horizon: int, state: int, action: int, reward: float) -> Trajectory:
    return Trajectory(np.full(horizon + 1, state), np.full(horizon, action), np.full(horizon, reward))
