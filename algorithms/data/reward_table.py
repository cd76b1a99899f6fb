"""A public reward function from a file and to one: one line per step, state and action."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter, UsageError
from dpaudit.ledger.files import replace_file

COLUMNS = ("step", "state", "action", "reward")


def read_rewards(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Read a CSV with the columns step, state, action, reward, every combination once.

    Returns:
        [H, S, A] in [0, 1]; the sizes are one more than the largest indices.

    Raises:
        UsageError: the file cannot be read.
        InvalidParameter: a line is malformed, missing or twice there, or a reward lies outside [0, 1].
    """
    where = Path(path)
    cells: dict[tuple[int, int, int], float] = {}
    try:
        with where.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if sorted(reader.fieldnames or ()) != sorted(COLUMNS):
                _refuse(f"columns {reader.fieldnames}", f"{where}:1")
            for number, row in enumerate(reader, start=2):
                cell, reward = _cell(row, f"{where}:{number}")
                if cell in cells:
                    _refuse(f"step, state, action {cell} stands twice", f"{where}:{number}")
                cells[cell] = reward
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(where), remedy="name a CSV file") from None
    if not cells:
        _refuse("no rewards", str(where))
    shape = tuple(max(column) + 1 for column in zip(*cells, strict=True))  # (H, S, A)
    needed = math.prod(shape)  # in Python's integers, which do not wrap around
    if len(cells) != needed:
        _refuse(f"{len(cells)} of the {needed} combinations that H, S, A = {shape} need", str(where))
    rewards = np.zeros(shape)
    for cell, reward in cells.items():
        rewards[cell] = reward
    return rewards


def write_rewards(rewards: NDArray[np.float64], path: str | os.PathLike[str]) -> None:
    """Write [H, S, A] so that `read_rewards` gives it back exactly; the file appears whole or not at all."""
    # repr of a float reads back as the same float.
    lines = (f"{h},{s},{a},{float(reward)!r}\n" for (h, s, a), reward in np.ndenumerate(rewards))
    replace_file(path, (",".join(COLUMNS) + "\n" + "".join(lines)).encode())


def _cell(row: dict[str, str], where: str) -> tuple[tuple[int, int, int], float]:
    if None in row:  # where csv puts what stands beyond the last column
        _refuse(f"a line of more than {len(COLUMNS)} columns", where)
    try:
        step, state, action = (int(row[name]) for name in COLUMNS[:3])
        reward = float(row["reward"])
    except (TypeError, ValueError):
        _refuse(f"a line {dict(row)}", where)
    if min(step, state, action) < 0 or not 0.0 <= reward <= 1.0:
        _refuse(f"step {step}, state {state}, action {action}, reward {reward}", where)
    return (step, state, action), reward


def _refuse(what: str, where: str) -> NoReturn:
    raise InvalidParameter(
        what,
        where=where,
        why="the public reward function gives the algorithm its sizes",
        remedy="list step (from 0), state, action, reward in [0, 1], every combination once",
    )
