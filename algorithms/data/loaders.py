"""Trajectories and episodes from CSV, Parquet and Minari, and trajectories back to CSV.

A file of trajectories has one line per step and exactly the columns ``episode, step, state, action, reward,
next_state``, in any order. The numbers of states and actions are public parameters: declare them.
``infer_sizes=True`` reads them off the records instead, which is NOT private - they then depend on single
people - and is meant for a first look at public data only.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import Episodes
from dpaudit.algorithms.data.tables import check_names, line_number, read_table, write_table
from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.algorithms.data.trajectory_columns import (
    COLUMNS,
    Sizes,
    require_whole_numbers,
    trajectories_from_columns,
    whole_episodes,
)
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.errors import DataError, MissingExtra

#: What policy evaluation needs of a step.
EPISODE_COLUMNS = ("episode", "step", "state", "reward")


def read_trajectories(path: str | os.PathLike[str], **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Read ``.csv`` or ``.parquet``, by the file's suffix; arguments and errors as in `read_csv`."""
    suffix = Path(path).suffix.lower()
    if suffix not in {".csv", ".parquet"}:
        raise DataError(
            f"a file of type {suffix or 'without suffix'}",
            where=str(path),
            remedy="give a .csv or .parquet file, or read a Minari data set with read_minari",
        )
    return (read_csv if suffix == ".csv" else read_parquet)(path, **sizes)


def read_csv(path: str | os.PathLike[str], **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Read a CSV file with a header line.

    Args:
        path: the file, UTF-8.
        sizes: public, as in `Sizes`.

    Raises:
        DataError: with the line, for anything that is not a data set of whole trajectories. The message is
            for the data's holder.
        InvalidParameter: if S or A is neither given nor allowed to be inferred.
    """
    header, table = read_table(Path(path), COLUMNS)
    columns = {name: table[:, position] for position, name in enumerate(header)}
    return trajectories_from_columns(
        columns, lambda row: f"{path} line {line_number(Path(path), row)}", **sizes
    )


def read_parquet(path: str | os.PathLike[str], **sizes: Unpack[Sizes]) -> TrajectoryData:
    """Read a Parquet file; needs ``pip install 'dpaudit[parquet]'``. Arguments and errors as in `read_csv`.

    Raises:
        MissingExtra: without pyarrow.
    """
    parquet = _extra("pyarrow.parquet", "parquet", "reading Parquet")
    try:
        table: Any = parquet.read_table(os.fspath(path))
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(
            f"cannot be read: {error}", where=str(path), remedy="give a Parquet file that exists"
        ) from None
    check_names(list(table.column_names), str(path), COLUMNS)
    columns: dict[str, NDArray[np.float64]] = {}
    for name in COLUMNS:
        column = table.column(name)
        values = column.to_numpy()
        if column.null_count or values.dtype.kind not in "iuf":
            raise DataError(
                f"{column.null_count} missing values, type {column.type}",
                where=f"{path} column {name}",
                remedy="give a column of numbers without gaps",
            )
        columns[name] = values.astype(np.float64)
    return trajectories_from_columns(columns, lambda row: f"{path} row {row}", **sizes)


def read_episodes(path: str | os.PathLike[str], n_states: int) -> Episodes:
    """Read a CSV with the columns episode, step, state, reward; episodes may differ in length.

    Args:
        path: UTF-8; steps of an episode are numbered 0, 1, 2, ..., lines are in any order. A file of whole
            trajectories can be read too; its columns action and next_state are not used.
        n_states: N, public.

    Returns:
        The episodes, in increasing order of ``episode``.

    Raises:
        DataError: with the line, for anything that is no set of whole episodes; for the data's holder.
        InvalidParameter: N is not a positive integer.
    """
    n_states = public_size(n_states, "n_states")
    header, table = read_table(Path(path), EPISODE_COLUMNS, COLUMNS)
    columns = {name: table[:, header.index(name)] for name in EPISODE_COLUMNS}

    def place(row: int) -> str:
        return f"{path} line {line_number(Path(path), row)}"

    require_whole_numbers(columns, place, ("episode", "step", "state"))
    order, lengths = whole_episodes(columns, place)
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

    Args:
        dataset_or_id: a ``minari.MinariDataset`` or the id of a local one. Nothing is downloaded.
        horizon: H, public.
        absorbing: pad episodes that terminated before the horizon.

    Raises:
        MissingExtra: without Minari.
        DataError: if the data set is not local, a space is not discrete, an episode is too short, or a record
            is out of range. The message is for the data's holder.
    """
    horizon = public_size(horizon, "horizon")
    minari = _extra("minari", "minari", "reading a Minari data set")
    dataset: Any = dataset_or_id
    if isinstance(dataset_or_id, str):
        try:
            dataset = minari.load_dataset(dataset_or_id)
        except (OSError, ValueError) as error:
            raise DataError(
                f"cannot be loaded: {error}", where=dataset_or_id, remedy="download it with Minari first"
            ) from None
    state_space, action_space = dataset.observation_space, dataset.action_space
    discrete = import_module("gymnasium.spaces").Discrete
    for name, space in (("observation", state_space), ("action", action_space)):
        if not isinstance(space, discrete):
            raise DataError(
                f"a space {space}", where=f"{name} space", remedy="discretise it by a public rule first"
            )
    absorbing_state = int(state_space.n)
    n_states = absorbing_state + 1 if absorbing else absorbing_state

    rows = []
    for episode in dataset.iterate_episodes():
        steps = min(len(episode), horizon)
        missing = horizon - steps
        # A time limit is no end of the process: what would have followed is unknown, not absorbing.
        if missing and not (absorbing and bool(episode.terminations[-1])):
            raise DataError(
                f"{steps} steps{', cut short' if absorbing else ''}; the horizon is {horizon}",
                where=f"episode {episode.id}",
                remedy="lower the horizon" if absorbing else "lower the horizon, or pass absorbing=True",
            )
        states = np.asarray(episode.observations)[: steps + 1] - state_space.start
        outside = np.flatnonzero(~(states < absorbing_state))
        if outside.size:  # no recorded state may be taken for the absorbing one
            raise DataError(
                f"state {states[outside[0]]} outside the declared space",
                where=f"episode {episode.id}, step {outside[0]}",
                remedy="correct the record, or declare the space that the states really have",
            )
        actions = np.asarray(episode.actions)[:steps] - action_space.start
        rewards = np.asarray(episode.rewards, dtype=np.float64)[:steps]
        rows.append(
            Trajectory(
                np.pad(states, (0, missing), constant_values=absorbing_state),
                np.pad(actions, (0, missing)),
                np.pad(rewards, (0, missing)),
            )
        )
    if not rows:
        raise DataError("no episodes", where="the data set", remedy="give at least one episode")
    return TrajectoryData.of(rows, n_states, int(action_space.n))


def write_csv(data: TrajectoryData, path: str | os.PathLike[str]) -> None:
    """Write trajectories so that `read_csv` gives them back exactly; private data, like what it came from."""
    n, horizon = data.actions.shape
    flat: tuple[NDArray[Any], ...] = (
        np.repeat(np.arange(n), horizon),
        np.tile(np.arange(horizon), n),
        data.states[:, :-1].ravel(),
        data.actions.ravel(),
        data.rewards.ravel(),
        data.states[:, 1:].ravel(),
    )
    write_table(path, COLUMNS, zip(*(column.tolist() for column in flat), strict=True))


def _extra(module: str, extra: str, purpose: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {module.partition('.')[0]}",
            where=module,
            why="it is an optional dependency",
            remedy=f"pip install 'dpaudit[{extra}]'",
        ) from error
