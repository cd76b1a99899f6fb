"""A user's data file as an array."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DataError, UsageError


def read_array(path: Path) -> NDArray[Any]:
    """Read ``.npy`` as it is, or ``.csv`` as a float64 matrix [rows, columns].

    A first line without any number holds the columns' names, and is left out.

    Raises:
        UsageError: another suffix.
        DataError: not numbers, not finite ones, or lines of different lengths.
    """
    suffix = path.suffix.lower()
    if suffix not in {".npy", ".csv"}:
        raise UsageError(
            f"a data file ending in {suffix!r}",
            where=f"--data {path}",
            why="how to read it is told from its name",
            remedy="give .npy or .csv, or let --pair return the data",
        )
    try:
        array = np.load(path, allow_pickle=False) if suffix == ".npy" else _read_csv(path)
    except DataError:
        raise
    except (OSError, ValueError, EOFError, csv.Error) as error:
        raise DataError(
            f"cannot be read: {error}", where=f"--data {path}", remedy="give a file of numbers"
        ) from None
    if array.dtype.kind not in "biuf" or not array.size:
        raise DataError(
            f"an array of shape {array.shape} and type {array.dtype}",
            where=f"--data {path}",
            remedy="give at least one record, in numbers",
        )
    if not np.isfinite(array).all():
        raise DataError(
            "holds NaN or infinity",
            where=f"--data {path}",
            why="they pass through noise unchanged and tell the data apart",
            remedy="clip or fill them before",
        )
    return array


def _read_csv(path: Path) -> NDArray[np.float64]:
    rows: list[list[float]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for cells in reader:
            place = f"--data {path}:{reader.line_num}"
            numbers = [_number(cell) for cell in cells]
            if reader.line_num == 1 and cells and all(number is None for number in numbers):
                continue  # the columns' names: a line with any number in it is a record
            if not cells and not file.read().strip():
                break  # an empty line at the end
            present = [number for number in numbers if number is not None]
            if not cells or len(present) < len(cells):
                raise DataError(
                    "an empty line" if not cells else "a cell that is empty or no number",
                    where=place,
                    why="which record it belongs to, or what it stands for, cannot be told",
                    remedy="give a number in every cell; a first line of names has names alone",
                )
            if rows and len(present) != len(rows[0]):
                raise DataError(
                    f"{len(present)} cells, where the first record has {len(rows[0])}",
                    where=place,
                    why="every record has one number in every column",
                    remedy="complete the line",
                )
            rows.append(present)
    return np.array(rows, dtype=np.float64)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
