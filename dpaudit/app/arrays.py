"""A user's data file as an array."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DataError, UsageError


def read_array(path: Path) -> NDArray[Any]:
    """Read ``.npy`` as it is, or ``.csv`` as a float64 matrix [rows, columns], a line of names or none.

    Raises:
        UsageError: another suffix.
        DataError: not numbers, or not finite ones.
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
    except (OSError, ValueError, EOFError) as error:
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
    with path.open(encoding="utf-8") as file:
        first = file.readline()
    try:
        [float(cell) for cell in first.split(",")]
        names = 0
    except ValueError:
        names = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a file without records is refused by the caller
        return np.loadtxt(path, delimiter=",", skiprows=names, ndmin=2, encoding="utf-8")
