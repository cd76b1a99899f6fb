"""A public reward function from a file: one line per step, state and action."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter, UsageError

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
        with where.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if set(reader.fieldnames or ()) != set(COLUMNS):
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
    shape = np.max(list(cells), axis=0) + 1  # [3]
    if len(cells) != shape.prod():
        _refuse(
            f"{len(cells)} of the {shape.prod()} combinations that H, S, A = {tuple(shape)} need", str(where)
        )
    rewards = np.zeros(shape)
    for cell, reward in cells.items():
        rewards[cell] = reward
    return rewards


def _cell(row: dict[str, str], where: str) -> tuple[tuple[int, int, int], float]:
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
