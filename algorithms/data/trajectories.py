"""A data set of whole trajectories: one row, one person, one unit of privacy.

The neighbouring relation is replace-one with unit ``trajectory``: two data sets are neighbours when they
have the same number of trajectories, the same horizon H, the same numbers of states S and actions A, and
differ in at most one row. S and A are public parameters and are never read off the records: the largest
state that occurs is a fact about one person.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms.public_parameters import public_size, set_read_only
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import DataError, InvalidParameter

#: Whom a claim on such data protects.
TERMS = {"unit": "trajectory", "neighbouring": "replace-one", "trust_model": "central"}


class Trajectory(NamedTuple):
    """The record of one person."""

    states: NDArray[np.int64]  # [H+1] int, the last one being the state after the last action
    actions: NDArray[np.int64]  # [H] int
    rewards: NDArray[np.float64]  # [H] float in [0, 1]


class Records:
    """Base of data sets: compared by content, like the arrays they hold, and so without a hash."""

    def __eq__(self, other: object) -> bool:
        same = (np.array_equal(value, getattr(other, name)) for name, value in vars(self).items())
        return type(self) is type(other) and all(same)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class TrajectoryData(Records):
    """n trajectories of H steps over S states and A actions; read-only once built.

    Raises `DataError` if the records are not of that shape. The message names records: it is for the data's
    holder, and must not be published.
    """

    states: NDArray[np.int64]  # [n, H+1] int in 0..S-1; ``states[:, h + 1]`` is where step h led
    actions: NDArray[np.int64]  # [n, H] int in 0..A-1
    rewards: NDArray[np.float64]  # [n, H] float in [0, 1]
    n_states: int  # S, public
    n_actions: int  # A, public

    def __post_init__(self) -> None:
        n_states, n_actions = public_size(self.n_states, "n_states"), public_size(self.n_actions, "n_actions")
        states = _table(self.states, "states")  # [n, H+1]
        actions = _table(self.actions, "actions")  # [n, H]
        rewards = _table(self.rewards, "rewards")  # [n, H]
        if 0 in actions.shape:
            what = "no episodes, or episodes without steps"
            raise DataError(what, where="actions", remedy="give at least one step")
        n, horizon = actions.shape
        if states.shape != (n, horizon + 1) or rewards.shape != (n, horizon):
            what = f"states {states.shape}, actions {actions.shape}, rewards {rewards.shape}"
            remedy = "give states [n, H+1], actions [n, H], rewards [n, H]"
            raise DataError(what, where="trajectories", remedy=remedy)
        _check_cells(_outside(states, n_states), states, "state", f"an integer in 0..{n_states - 1}")
        _check_cells(_outside(actions, n_actions), actions, "action", f"an integer in 0..{n_actions - 1}")
        # Written so that NaN, which compares false with everything, is caught too.
        _check_cells(~((rewards >= 0.0) & (rewards <= 1.0)), rewards, "reward", "a number in [0, 1]")
        whole = {"states": states, "actions": actions}
        set_read_only(self, **{name: np.array(table, np.int64, order="C") for name, table in whole.items()})
        set_read_only(self, rewards=np.array(rewards, np.float64, order="C"))
        object.__setattr__(self, "n_states", n_states)
        object.__setattr__(self, "n_actions", n_actions)

    @classmethod
    def of(cls, rows: Sequence[Trajectory], n_states: int, n_actions: int) -> TrajectoryData:
        """From a list of trajectories of one length."""
        states, actions, rewards = (np.stack(column) for column in zip(*rows, strict=True))
        return cls(states, actions, rewards, n_states, n_actions)

    @property
    def horizon(self) -> int:
        """H, the number of steps of every trajectory."""
        return int(self.actions.shape[1])

    def __len__(self) -> int:
        return int(self.actions.shape[0])

    def __getitem__(self, index: int) -> Trajectory:
        return Trajectory(self.states[index], self.actions[index], self.rewards[index])

    def __iter__(self) -> Iterator[Trajectory]:
        return map(Trajectory, self.states, self.actions, self.rewards)

    def __repr__(self) -> str:
        # Shape only: a record printed by accident would be a release outside the ledger.
        sizes = f"n_states={self.n_states}, n_actions={self.n_actions}"
        return f"TrajectoryData(n={len(self)}, horizon={self.horizon}, {sizes})"

    def replace(self, index: int, trajectory: Trajectory) -> TrajectoryData:
        """Return the neighbouring data set with ``trajectory`` as row ``index``.

        Raises `InvalidParameter` if ``index`` is not in 0..n-1, `DataError` if the trajectory is not of this
        data set's shape.
        """
        if not 0 <= index < len(self):
            what, remedy = f"row {index} of {len(self)} trajectories", f"give an index in 0..{len(self) - 1}"
            why = "a neighbour differs in one row that both data sets have"
            raise InvalidParameter(what, where="replace", why=why, remedy=remedy)
        row: list[NDArray[Any]] = [np.asarray(part) for part in trajectory]
        lengths = [part.shape for part in row]
        if lengths != [(self.horizon + 1,), (self.horizon,), (self.horizon,)]:
            what = f"states, actions, rewards of shapes {lengths}; this data set has H = {self.horizon}"
            raise DataError(what, where="replace", remedy="give states [H+1], actions [H], rewards [H]")
        tables: list[NDArray[Any]] = []
        for table, part in zip((self.states, self.actions, self.rewards), row, strict=True):
            # Promotion keeps a fractional state fractional, so that the constructor can refuse it.
            tables.append(table.astype(np.result_type(table, part)))
            tables[-1][index] = part
        states, actions, rewards = tables
        return TrajectoryData(states, actions, rewards, self.n_states, self.n_actions)

    def visits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cell (h, s, a) and the cell (h, s, a, s') of each step, as flat positions; [n, H] both."""
        steps = np.broadcast_to(np.arange(self.horizon), self.actions.shape)
        cells = (steps * self.n_states + self.states[:, :-1]) * self.n_actions + self.actions
        return cells, cells * self.n_states + self.states[:, 1:]

    def visit_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each (h, s, a) and each (h, s, a, s') occurs: [H, S, A] and [H, S, A, S]. Not private.

        Each trajectory adds 1 to one cell per step in either table, so under replace-one each table has
        L2 sensitivity sqrt(2 H) and L1 sensitivity 2 H.
        """
        shape = (self.horizon, self.n_states, self.n_actions, self.n_states)
        counts = np.bincount(self.visits()[1].ravel(), minlength=math.prod(shape)).reshape(shape)
        return counts.sum(axis=3), counts


def trajectory_pairs(
    data: TrajectoryData, *, neighbouring: Neighbouring | str = Neighbouring.REPLACE_ONE, index: int = -1
) -> Iterator[Pair]:
    """Pairs in which one trajectory is changed as the relation allows; those equal to the data are left out.

    Replace-one: by another one's duplicate, by those at the corners of the state-action space, by one that
    visits as many cells as it can, and by itself with one thing changed. Raises `InvalidParameter` if there
    is no such trajectory, or the relation is zero-out, which has no meaning for trajectories.
    """
    if not -len(data) <= index < len(data):
        raise InvalidParameter(f"trajectory {index} of {len(data)}", where="trajectory_pairs")
    index %= len(data)
    relation = Neighbouring(neighbouring)
    if relation is Neighbouring.REPLACE_ONE:
        states, actions, rewards = data[index]
        last = states.copy()
        last[-1] = (last[-1] + 1) % data.n_states
        changes = _corners(data) | {
            "another one's duplicate": data[(index + 1) % len(data)],
            "its rewards turned over": Trajectory(states, actions, 1.0 - rewards),
            "its last state alone": Trajectory(last, actions, rewards),
        }
        pairs = [
            Pair(data, data.replace(index, changed), f"a trajectory replaced: {name}", unit=index)
            for name, changed in changes.items()
        ]
        low, high = (data.replace(index, corner) for corner in list(_corners(data).values())[:2])
        pairs.append(Pair(low, high, "one corner of the space, replaced by the opposite one", unit=index))
        yield from (pair for pair in pairs if pair.data != pair.neighbour)
    elif relation is Neighbouring.ADD_OR_REMOVE_ONE:
        rows, sizes = list(data), (data.n_states, data.n_actions)
        if len(rows) > 1:
            rest = TrajectoryData.of(rows[:index] + rows[index + 1 :], *sizes)
            yield Pair(data, rest, "a trajectory dropped", unit=index)
        more = {f"a trajectory added: {name}": corner for name, corner in _corners(data).items()}
        for description, row in {"a trajectory doubled": rows[index], **more}.items():
            yield Pair(data, TrajectoryData.of([*rows, row], *sizes), description, unit=len(rows))
    else:
        why = "a trajectory of zeros is a record like any other"
        remedy = "use replace-one or add-or-remove-one"
        raise InvalidParameter(f"relation {relation}", where="trajectory_pairs", why=why, remedy=remedy)


def _corners(data: TrajectoryData) -> dict[str, Trajectory]:
    """Trajectories at the edges of what a record may be."""
    steps = np.arange(data.horizon + 1)
    nothing, before = np.zeros_like(steps), steps[:-1]
    last_state, last_action = nothing + (data.n_states - 1), nothing[1:] + (data.n_actions - 1)
    moving = Trajectory(steps % data.n_states, before % data.n_actions, (before % 2).astype(float))
    return {
        "the first state and action, no reward": Trajectory(nothing, nothing[1:], np.zeros(data.horizon)),
        "the last state and action, full reward": Trajectory(last_state, last_action, np.ones(data.horizon)),
        "another state and action at each step": moving,
    }


def _table(values: ArrayLike, name: str) -> NDArray[Any]:
    """``values`` as a numeric matrix."""
    try:
        table = np.asarray(values)
    except ValueError:  # rows of different lengths
        table = np.empty((0, 0), dtype=object)
    if table.ndim != 2 or table.dtype.kind not in "iuf":
        what = f"not a matrix of numbers: {table.ndim} dimensions, type {table.dtype}"
        remedy = "give one row per trajectory, every row with the same number of steps"
        raise DataError(what, where=name, remedy=remedy)
    return table


def _outside(values: NDArray[Any], size: int) -> NDArray[np.bool_]:
    inside = (values >= 0) & (values < size)
    if values.dtype.kind == "f":
        inside &= values == np.floor(values)
    return ~inside


def _check_cells(wrong: NDArray[np.bool_], values: NDArray[Any], name: str, wanted: str) -> None:
    if wrong.any():
        episode, step = (int(position) for position in np.argwhere(wrong)[0])
        what, where = f"{name} {values[episode, step]!s} is not {wanted}", f"episode {episode}, step {step}"
        remedy = f"correct the record, or declare the public range that {name}s really have"
        raise DataError(what, where=where, remedy=remedy)
