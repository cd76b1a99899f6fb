"""From a long table (one line per step) to whole trajectories; each defect is reported with its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.errors import DataError

COLUMNS = ("episode", "step", "state", "action", "reward", "next_state")

# Past this, neighbouring integers share one float64, and two people could become one.
_LARGEST_EXACT = 2.0**53

Columns = Mapping[str, NDArray[np.float64]]
Place = Callable[[int], str]


class Sizes(TypedDict, total=False):
    """The public sizes of a file of trajectories.

    Attributes:
        n_states: S.
        n_actions: A.
        horizon: H; without it, the length that most episodes have. All must have it.
        infer_sizes: read S and A off the records where they are not given. That is NOT private.
    """

    n_states: int | None
    n_actions: int | None
    horizon: int | None
    infer_sizes: bool


def trajectories_from_columns(columns: Columns, place: Place, **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Assemble trajectories from six columns of equal length, in any order of lines.

    Args:
        columns: ``episode`` (any integers, one per trajectory), ``step`` (0..H-1), ``state``, ``action``,
            ``reward`` and ``next_state``, each [lines] as float64.
        place: names a line's place in its file, for messages.
        sizes: public.

    Returns:
        The trajectories, in increasing order of ``episode``.

    Raises:
        DataError: on the first defect; the message is for the data's holder.
        InvalidParameter: if S or A is neither given nor allowed to be inferred.
    """
    require_whole_numbers(columns, place, ("episode", "step", "state", "action", "next_state"))
    rewards = columns["reward"]
    _check(~((rewards >= 0.0) & (rewards <= 1.0)), columns, place, "reward", "a number in [0, 1]")

    n_states, n_actions, horizon = sizes.get("n_states"), sizes.get("n_actions"), sizes.get("horizon")
    if sizes.get("infer_sizes"):
        largest_state = max(columns["state"].max(), columns["next_state"].max())
        n_states = int(largest_state) + 1 if n_states is None else n_states
        n_actions = int(columns["action"].max()) + 1 if n_actions is None else n_actions
    n_states, n_actions = public_size(n_states, "n_states"), public_size(n_actions, "n_actions")
    for name, size in (("state", n_states), ("action", n_actions), ("next_state", n_states)):
        wrong = (columns[name] < 0) | (columns[name] >= size)
        _check(wrong, columns, place, name, f"in 0..{size - 1}")

    order, n, horizon = _one_length(
        columns, place, None if horizon is None else public_size(horizon, "horizon")
    )
    state, action, reward, next_state = (
        columns[name][order].reshape(n, horizon) for name in ("state", "action", "reward", "next_state")
    )  # [n, H] each
    broken = next_state[:, :-1] != state[:, 1:]
    if broken.any():
        episode, step = (int(position) for position in np.argwhere(broken)[0])
        row = int(order[episode * horizon + step])
        raise DataError(
            f"next_state {next_state[episode, step]:.0f}, but step {step + 1} is in "
            f"state {state[episode, step + 1]:.0f}",
            where=_where(columns, place, row),
            remedy="correct the record: a trajectory's step begins where the one before it ended",
        )
    states = np.concatenate([state, next_state[:, -1:]], axis=1).astype(np.int64)  # [n, H+1]
    return TrajectoryData(states, action.astype(np.int64), reward, n_states, n_actions)


def require_whole_numbers(columns: Columns, place: Place, names: Sequence[str]) -> None:
    """Raise `DataError` (for the data's holder) unless there are lines, with whole numbers in these."""
    if columns["episode"].size == 0:
        raise DataError("no episodes", where="the table", remedy="give at least one trajectory")
    for name in names:
        values = columns[name]
        whole = (values == np.floor(values)) & (np.abs(values) < _LARGEST_EXACT)  # false for NaN and infinity
        _check(~whole, columns, place, name, "a finite integer")


def whole_episodes(columns: Columns, place: Place) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The lines in order of (episode, step), and each episode's length, [n]; steps run from 0.

    Raises:
        DataError: a step is missing or occurs twice; the message is for the data's holder.
    """
    episode, step = columns["episode"], columns["step"]
    order = np.lexsort((step, episode))
    episode, step = episode[order], step[order]
    opens = np.concatenate([[True], episode[1:] != episode[:-1]])  # [lines]: first line of its episode
    starts = np.flatnonzero(opens)
    position = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))

    wrong = step != position
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        where = _where(columns, place, int(order[first]))
        if step[first] < 0:
            raise DataError(
                f"step {step[first]:.0f}", where=where, remedy="number the steps of an episode 0, 1, 2, ..."
            )
        if not opens[first] and step[first] == step[first - 1]:
            raise DataError(
                f"step {step[first]:.0f} occurs twice in episode {episode[first]:.0f}",
                where=where,
                remedy="give each step once, and each person's trajectory an episode number of its own",
            )
        raise DataError(
            f"step {position[first]} is missing in episode {episode[first]:.0f}",
            where=where,
            remedy="give every step, numbered from 0",
        )

    return order, np.diff(np.append(starts, order.size))


def _one_length(columns: Columns, place: Place, horizon: int | None) -> tuple[NDArray[np.intp], int, int]:
    """The lines in order of (episode, step), the number of episodes and their common length."""
    order, lengths = whole_episodes(columns, place)
    common = horizon if horizon is not None else int(np.bincount(lengths).argmax())
    ragged = np.flatnonzero(lengths != common)
    if ragged.size:
        last = int(lengths[: ragged[0] + 1].sum()) - 1
        raise DataError(
            f"episode {columns['episode'][order[last]]:.0f} has {lengths[ragged[0]]} steps; "
            f"the horizon is {common}",
            where=_where(columns, place, int(order[last])),
            remedy="cut longer episodes at the horizon and pad shorter ones with a public absorbing state",
        )
    return order, int(lengths.size), common


def _check(wrong: NDArray[np.bool_], columns: Columns, place: Place, name: str, wanted: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{name} {columns[name][row]:.17g} is not {wanted}",
            where=_where(columns, place, row),
            remedy=f"correct the record, or declare the public range that column {name} really has",
        )


def _where(columns: Columns, place: Place, row: int) -> str:
    return f"{place(row)} (episode {columns['episode'][row]:.17g}, step {columns['step'][row]:.17g})"
