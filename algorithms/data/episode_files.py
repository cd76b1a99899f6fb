"""Episodes and state features from CSV files, for policy evaluation on data of one's own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.csv_table import line_number, read_table
from dpaudit.algorithms.data.episodes import Episodes
from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.data.trajectory_columns import COLUMNS, require_whole_numbers, whole_episodes
from dpaudit.errors import InvalidParameter, UsageError

#: What policy evaluation needs of a step; a file of whole trajectories, with all their columns, will do too.
EPISODE_COLUMNS = ("episode", "step", "state", "reward")


def read_episodes(path: str | os.PathLike[str], n_states: int) -> Episodes:
    """Read a CSV with the columns episode, step, state, reward; episodes may differ in length.

    Args:
        path: UTF-8; steps of an episode are numbered 0, 1, 2, ..., lines are in any order. The columns action
            and next_state, if there, are not looked at.
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
    # Outside 0..N-1 or not finite: Episodes says which episode.
    return Episodes(states.astype(np.int64), columns["reward"][order], lengths, n_states)


def read_matrix(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Public numbers from a CSV without a header, one row a state: features [N, d] or weights [N, 1].

    Raises:
        UsageError: the file cannot be read.
        InvalidParameter: it is no table of numbers.
    """
    try:
        with Path(path).open(encoding="utf-8-sig") as stream:
            return np.loadtxt(stream, delimiter=",", ndmin=2, dtype=np.float64)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path), remedy="name a CSV file") from None
    except ValueError as error:
        raise InvalidParameter(
            f"no table of numbers: {error}",
            where=str(path),
            why="one row gives one state's numbers",
            remedy="give a CSV of numbers without a header, one row a state",
        ) from None
