"""A table of numbers from a CSV file, every defect named with its line."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DataError


def read_table(path: Path, *accepted: Sequence[str]) -> tuple[list[str], NDArray[np.float64]]:
    """The header and the numbers below it, [lines, columns].

    Args:
        path: UTF-8.
        accepted: the sets of column names, in any order, of which the header must be one.

    Raises:
        DataError: with the line, for anything else; for the data's holder.
    """
    header: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            header = [name.strip() for name in next(csv.reader([stream.readline()]), [])]
            check_names(header, str(path), *accepted)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
                table = np.loadtxt(stream, delimiter=",", quotechar='"', comments=None, ndmin=2)
    except (OSError, UnicodeDecodeError) as error:
        _refuse(f"cannot be read: {error}", where=str(path), remedy="give a UTF-8 file that exists")
    except DataError:  # a ValueError itself, and already says what is wrong
        raise
    except ValueError as error:
        _refuse_unreadable_line(path, header, error)
    if table.size and table.shape[1] != len(header):
        _refuse_unreadable_line(path, header, ValueError("lines longer than the header"))
    return header, table.reshape(-1, len(header))


def check_names(names: list[str], where: str, *accepted: Sequence[str]) -> None:
    """Refuse a header that is none of the accepted ones; the first is the one asked for.

    Raises:
        DataError: it is none of them.
    """
    if sorted(names) not in [sorted(columns) for columns in accepted]:
        wanted = accepted[0]
        absent = [name for name in wanted if name not in names]
        other = [name for name in names if name not in wanted or names.count(name) > 1]
        _refuse(
            f"columns missing: {absent or 'none'}; unknown or repeated: {other or 'none'}",
            where=f"{where} header",
            remedy=f"give exactly the columns {', '.join(wanted)}",
        )


def _data_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of each line that holds data."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        next(reader, None)
        for fields in reader:
            if fields:
                yield reader.line_num, fields


def line_number(path: Path, row: int) -> int:
    """The line of the file on which a row of its table stands."""
    return next(line for position, (line, _) in enumerate(_data_lines(path)) if position == row)


def _refuse_unreadable_line(path: Path, header: Sequence[str], error: ValueError) -> NoReturn:
    """Find the line that the fast parser choked on."""
    for line, fields in _data_lines(path):
        where = f"{path} line {line}"
        if len(fields) != len(header):
            _refuse(
                f"{len(fields)} fields, the header has {len(header)}", where=where, remedy="correct the line"
            )
        for name, field in zip(header, fields, strict=True):
            try:
                float(field)
            except ValueError:
                _refuse(f"{name} {field!r} is not a number", where=where, remedy="correct the line")
    _refuse(f"cannot be read: {error}", where=str(path), remedy="give plain decimal numbers")


def _refuse(what: str, *, where: str, remedy: str) -> NoReturn:
    raise DataError(what, where=where, remedy=remedy)
