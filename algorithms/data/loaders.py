"""Trajectories and episodes from CSV, Parquet and Minari, and trajectories back to CSV.

A file of trajectories has one line per step and exactly the columns ``episode, step, state, action, reward,
next_state``, in any order. The numbers of states and actions are public parameters: declare them.
``infer_sizes=True`` reads them off the records instead, which is NOT private - they then depend on single
people - and is meant for a first look at public data only.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import Episodes
from dpaudit.algorithms.data.tables import check_names, line_number, read_table, write_table
from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.algorithms.optional_modules import optional_module
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.errors import DataError
from dpaudit.tables import parquet

COLUMNS = ("episode", "step", "state", "action", "reward", "next_state")

Columns = Mapping[str, NDArray[np.float64]]
Place = Callable[[int], str]


class Sizes(TypedDict, total=False):
    """The public sizes of a file of trajectories."""

    n_states: int | None  # S
    n_actions: int | None  # A
    horizon: int | None  # H; without it, the length that most episodes have. All must have it.
    infer_sizes: bool  # read S and A off the records where they are not given. That is NOT private.


def read_trajectories(path: str | os.PathLike[str], **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Read ``.csv`` or ``.parquet``, by the file's suffix; arguments and errors as in `read_csv`."""
    suffix = Path(path).suffix.lower()
    if suffix not in {".csv", ".parquet"}:
        remedy = "give a .csv or .parquet file, or read a Minari data set with read_minari"
        raise DataError(f"a file of type {suffix or 'without suffix'}", where=str(path), remedy=remedy)
    return (read_csv if suffix == ".csv" else read_parquet)(path, **sizes)


def read_csv(path: str | os.PathLike[str], **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Read a CSV file, UTF-8, with a header line.

    Raises `DataError` (for the data's holder), with the line, for anything that is not a data set of whole
    trajectories, and `InvalidParameter` if S or A is neither given nor allowed to be inferred.
    """
    header, table = read_table(Path(path), COLUMNS)
    columns = {name: table[:, position] for position, name in enumerate(header)}
    return _trajectories(columns, lambda row: f"{path} line {line_number(Path(path), row)}", **sizes)


def read_parquet(path: str | os.PathLike[str], **sizes: Unpack[Sizes]) -> TrajectoryData:
    """As `read_csv`, for Parquet; raises `MissingExtra` without ``pip install 'dpaudit[parquet]'``."""
    optional_module("pyarrow.parquet", "parquet", "reading Parquet")
    table = parquet.read_parquet(path, where=str(path), otherwise="give a file of fewer rows")
    check_names(list(table.column_names), str(path), COLUMNS)
    columns: dict[str, NDArray[np.float64]] = {}
    for name in COLUMNS:
        column = table.column(name)
        values = column.to_numpy()
        if column.null_count or values.dtype.kind not in "iuf":
            what, where = f"{column.null_count} missing values, type {column.type}", f"{path} column {name}"
            raise DataError(what, where=where, remedy="give a column of numbers without gaps")
        columns[name] = values.astype(np.float64)
    return _trajectories(columns, lambda row: f"{path} row {row}", **sizes)


def read_episodes(path: str | os.PathLike[str], n_states: int) -> Episodes:
    """Read a CSV with the columns episode, step, state, reward; episodes may differ in length.

    Steps of an episode are numbered 0, 1, 2, ..., lines are in any order; the episodes come in increasing
    order of ``episode``. A file of whole trajectories can be read too; its other columns are not used.

    Raises `DataError` (for the data's holder), with the line, for anything that is no set of whole episodes.
    """
    n_states = public_size(n_states, "n_states")
    names = ("episode", "step", "state", "reward")
    header, table = read_table(Path(path), names, COLUMNS)
    columns = {name: table[:, header.index(name)] for name in names}

    def place(row: int) -> str:
        return f"{path} line {line_number(Path(path), row)}"

    _require_whole_numbers(columns, place, ("episode", "step", "state"))
    order, lengths = _whole_episodes(columns, place)
    states = columns["state"][order]
    # Episodes reports the episode of a state outside 0..N-1 and of a reward that is not finite.
    return Episodes(states.astype(np.int64), columns["reward"][order], lengths, n_states)


def read_minari(dataset_or_id: object, *, horizon: int, absorbing: bool = False) -> TrajectoryData:
    """Read a Minari data set over discrete spaces; needs ``pip install 'dpaudit[minari]'``.

    S and A are those of the data set's declared spaces. An episode longer than the horizon is cut there. One
    that is shorter is an error, unless ``absorbing=True``: then the public state number S is added (whether
    or not any episode needs it), and an episode that terminated early goes there with action 0 and reward 0
    for the steps that remain. So one unit stays one row of H steps, adds exactly one to the counts of each
    step, and the sensitivity is that of unpadded data; dropping short episodes instead would make n depend
    on the records, which replace-one does not cover.

    The data set is a ``minari.MinariDataset`` or the id of a local one; nothing is downloaded. Raises
    `MissingExtra` without Minari, and `DataError` (for the data's holder) if the data set is not local, a
    space is not discrete, an episode is too short, or a record is out of range.
    """
    horizon = public_size(horizon, "horizon")
    minari = optional_module("minari", "minari", "reading a Minari data set")
    dataset: Any = dataset_or_id
    if isinstance(dataset_or_id, str):
        try:
            dataset = minari.load_dataset(dataset_or_id)
        except (OSError, ValueError) as error:
            what, remedy = f"cannot be loaded: {error}", "download it with Minari first"
            raise DataError(what, where=dataset_or_id, remedy=remedy) from None
    state_space, action_space = dataset.observation_space, dataset.action_space
    discrete = import_module("gymnasium.spaces").Discrete
    for name, space in (("observation", state_space), ("action", action_space)):
        if not isinstance(space, discrete):
            remedy = "discretise it by a public rule first"
            raise DataError(f"a space {space}", where=f"{name} space", remedy=remedy)
    absorbing_state = int(state_space.n)
    n_states = absorbing_state + 1 if absorbing else absorbing_state

    rows = []
    for episode in dataset.iterate_episodes():
        steps = min(len(episode), horizon)
        missing = horizon - steps
        # A time limit is no end of the process: what would have followed is unknown, not absorbing.
        if missing and not (absorbing and bool(episode.terminations[-1])):
            what = f"{steps} steps{', cut short' if absorbing else ''}; the horizon is {horizon}"
            remedy = f"lower the horizon{'' if absorbing else ', or pass absorbing=True'}"
            raise DataError(what, where=f"episode {episode.id}", remedy=remedy)
        states = np.asarray(episode.observations)[: steps + 1] - state_space.start
        outside = np.flatnonzero(~(states < absorbing_state))
        if outside.size:  # no recorded state may be taken for the absorbing one
            what = f"state {states[outside[0]]} outside the declared space"
            remedy = "correct the record, or declare the space that the states really have"
            raise DataError(what, where=f"episode {episode.id}, step {outside[0]}", remedy=remedy)
        states = np.pad(states, (0, missing), constant_values=absorbing_state)
        actions = np.pad(np.asarray(episode.actions)[:steps] - action_space.start, (0, missing))
        rewards = np.pad(np.asarray(episode.rewards, dtype=np.float64)[:steps], (0, missing))
        rows.append(Trajectory(states, actions, rewards))
    if not rows:
        raise DataError("no episodes", where="the data set", remedy="give at least one episode")
    return TrajectoryData.of(rows, n_states, int(action_space.n))


def write_csv(data: TrajectoryData, path: str | os.PathLike[str]) -> None:
    """Write trajectories so that `read_csv` gives them back exactly; private data, like what it came from."""
    n, horizon = data.actions.shape
    episodes, steps = np.divmod(np.arange(n * horizon), horizon)
    tables = data.states[:, :-1], data.actions, data.rewards, data.states[:, 1:]
    flat = [column.ravel().tolist() for column in (episodes, steps, *tables)]
    write_table(path, COLUMNS, zip(*flat, strict=True))


def _trajectories(columns: Columns, place: Place, **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Assemble trajectories, in increasing order of ``episode``, from lines in any order.

    Columns are [lines]; episodes are any whole numbers, steps 0..H-1.
    """
    _require_whole_numbers(columns, place, ("episode", "step", "state", "action", "next_state"))
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

    order, lengths = _whole_episodes(columns, place)
    horizon = int(np.bincount(lengths).argmax()) if horizon is None else public_size(horizon, "horizon")
    ragged = np.flatnonzero(lengths != horizon)
    if ragged.size:
        last = int(order[int(lengths[: ragged[0] + 1].sum()) - 1])
        steps = f"episode {columns['episode'][last]:.0f} has {lengths[ragged[0]]} steps"
        remedy = "cut longer episodes at the horizon and pad shorter ones with a public absorbing state"
        where = _where(columns, place, last)
        raise DataError(f"{steps}; the horizon is {horizon}", where=where, remedy=remedy)
    state, action, reward, next_state = (
        columns[name][order].reshape(-1, horizon) for name in ("state", "action", "reward", "next_state")
    )  # [n, H] each
    broken = next_state[:, :-1] != state[:, 1:]
    if broken.any():
        episode, step = (int(position) for position in np.argwhere(broken)[0])
        where = _where(columns, place, int(order[episode * horizon + step]))
        reached, begun = next_state[episode, step], state[episode, step + 1]
        what = f"next_state {reached:.0f}, but step {step + 1} is in state {begun:.0f}"
        remedy = "correct the record: a trajectory's step begins where the one before it ended"
        raise DataError(what, where=where, remedy=remedy)
    states = np.concatenate([state, next_state[:, -1:]], axis=1).astype(np.int64)  # [n, H+1]
    return TrajectoryData(states, action.astype(np.int64), reward, n_states, n_actions)


def _require_whole_numbers(columns: Columns, place: Place, names: Sequence[str]) -> None:
    """Raise `DataError` (for the data's holder) unless there are lines, with whole numbers in these."""
    if columns["episode"].size == 0:
        raise DataError("no episodes", where="the table", remedy="give at least one trajectory")
    for name in names:
        values = columns[name]
        # Past 2^53 neighbouring integers share one float64, and two people could become one. False for NaN.
        whole = (values == np.floor(values)) & (np.abs(values) < 2.0**53)
        _check(~whole, columns, place, name, "a finite integer")


def _whole_episodes(columns: Columns, place: Place) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The lines in order of (episode, step), and each episode's length, [n]; steps run from 0."""
    episode, step = columns["episode"], columns["step"]
    order = np.lexsort((step, episode))
    episode, step = episode[order], step[order]
    opens = np.concatenate([[True], episode[1:] != episode[:-1]])  # [lines]: first line of its episode
    starts = np.flatnonzero(opens)
    position = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))

    wrong = step != position
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        what = f"step {position[first]} is missing in episode {episode[first]:.0f}"
        remedy = "give every step, numbered from 0"
        if step[first] < 0:
            what, remedy = f"step {step[first]:.0f}", "number the steps of an episode 0, 1, 2, ..."
        elif not opens[first] and step[first] == step[first - 1]:
            what = f"step {step[first]:.0f} occurs twice in episode {episode[first]:.0f}"
            remedy = "give each step once, and each person's trajectory an episode number of its own"
        raise DataError(what, where=_where(columns, place, int(order[first])), remedy=remedy)

    return order, np.diff(np.append(starts, order.size))


def _check(wrong: NDArray[np.bool_], columns: Columns, place: Place, name: str, wanted: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = f"{name} {columns[name][row]:.17g} is not {wanted}"
        remedy = f"correct the record, or declare the public range that column {name} really has"
        raise DataError(what, where=_where(columns, place, row), remedy=remedy)


def _where(columns: Columns, place: Place, row: int) -> str:
    return f"{place(row)} (episode {columns['episode'][row]:.17g}, step {columns['step'][row]:.17g})"
