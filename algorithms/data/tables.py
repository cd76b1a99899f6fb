"""Tables of numbers in CSV files; each defect is reported with its line."""

import csv
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DataError, InvalidParameter, UsageError
from dpaudit.ledger.files import replace_file

REWARD_COLUMNS = ("step", "state", "action", "reward")


def read_table(path: Path, *accepted: Sequence[str]) -> tuple[list[str], NDArray[np.float64]]:
    """The header and the numbers below it, [lines, columns], of a UTF-8 file.

    The header must be one of the accepted sets of column names, in any order. Raises `DataError` (for the
    data's holder), with the line, for anything else.
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
        what, remedy = f"cannot be read: {error}", "give a UTF-8 file that exists"
        raise DataError(what, where=str(path), remedy=remedy) from None
    except DataError:  # a ValueError itself, and already says what is wrong
        raise
    except ValueError as error:
        _refuse_unreadable_line(path, header, error)
    if table.size and table.shape[1] != len(header):
        _refuse_unreadable_line(path, header, ValueError("lines longer than the header"))
    return header, table.reshape(-1, len(header))


def check_names(names: list[str], where: str, *accepted: Sequence[str]) -> None:
    """Raise `DataError` unless a header is one of those accepted; the error asks for the first of them."""
    if sorted(names) not in [sorted(columns) for columns in accepted]:
        wanted = accepted[0]
        absent = [name for name in wanted if name not in names]
        other = [name for name in names if name not in wanted or names.count(name) > 1]
        what = f"columns missing: {absent or 'none'}; unknown or repeated: {other or 'none'}"
        raise DataError(what, where=f"{where} header", remedy=f"give exactly the columns {', '.join(wanted)}")


def write_table(
    path: str | os.PathLike[str], columns: Sequence[str], rows: Iterable[Sequence[float]]
) -> None:
    """Write a header and rows of numbers, which are read back exactly; the file is whole or not there."""
    lines = (",".join(map(repr, row)) + "\n" for row in rows)
    replace_file(path, (",".join(columns) + "\n" + "".join(lines)).encode())


def line_number(path: Path, row: int) -> int:
    """The line of the file on which a row of its table stands."""
    return next(line for position, (line, _) in enumerate(_data_lines(path)) if position == row)


def read_rewards(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Read a public reward function: a CSV with step, state, action, reward, every combination once.

    It is [H, S, A] in [0, 1]; the sizes are one more than the largest indices. Raises `UsageError` if the
    file cannot be read, and `InvalidParameter` if a line is malformed, a combination is missing or occurs
    twice, or a reward lies outside [0, 1].
    """
    file = Path(path)
    try:
        file.open("rb").close()
        header, table = read_table(file, REWARD_COLUMNS)
    except OSError as error:
        raise UsageError(f"cannot be read: {error}", where=str(file), remedy="name a CSV file") from None
    except DataError as error:  # the file is public, and so may be its error
        _refuse_rewards(error.what, error.where)
    table = table[:, [header.index(name) for name in REWARD_COLUMNS]]
    index, rewards = table[:, :3], table[:, 3]
    # Past 2^53 neighbouring integers share one double. Comparisons are false for NaN.
    whole = ((index >= 0.0) & (index < 2.0**53) & (index == np.floor(index))).all(axis=1)
    wrong = np.flatnonzero(~(whole & (rewards >= 0.0) & (rewards <= 1.0)))
    if wrong.size:
        row = int(wrong[0])
        named = zip(REWARD_COLUMNS, table[row], strict=True)
        cell = ", ".join(f"{name} {value:.17g}" for name, value in named)
        _refuse_rewards(cell, f"{file} line {line_number(file, row)}")
    if not rewards.size:
        _refuse_rewards("no rewards", str(file))
    cells = [(int(step), int(state), int(action)) for step, state, action in index.tolist()]
    _, firsts = np.unique(index, axis=0, return_index=True)
    if firsts.size < len(cells):
        row = min(set(range(len(cells))) - set(firsts.tolist()))
        _refuse_rewards(f"step, state, action {cells[row]} twice", f"{file} line {line_number(file, row)}")
    shape = tuple(max(column) + 1 for column in zip(*cells, strict=True))  # (H, S, A)
    needed = math.prod(shape)  # in Python's integers, which do not wrap around
    if len(cells) != needed:
        _refuse_rewards(f"{len(cells)} of the {needed} combinations that H, S, A = {shape} need", str(file))
    table = np.zeros(shape)
    table[tuple(np.array(cells).T)] = rewards
    return table


def write_rewards(rewards: NDArray[np.float64], path: str | os.PathLike[str]) -> None:
    """Write [H, S, A] so that `read_rewards` gives it back exactly."""
    write_table(path, REWARD_COLUMNS, ((*cell, float(reward)) for cell, reward in np.ndenumerate(rewards)))


def read_matrix(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """Public numbers from a CSV without a header, one row a state: features [N, d] or weights [N, 1].

    Raises `UsageError` if the file cannot be read, and `InvalidParameter` if it is no table of numbers.
    """
    try:
        with Path(path).open(encoding="utf-8-sig") as stream:
            return np.loadtxt(stream, delimiter=",", ndmin=2, dtype=np.float64)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path), remedy="name a CSV file") from None
    except ValueError as error:
        what, why = f"no table of numbers: {error}", "one row gives one state's numbers"
        remedy = "give a CSV of numbers without a header, one row a state"
        raise InvalidParameter(what, where=str(path), why=why, remedy=remedy) from None


def _data_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of each line that holds data."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        next(reader, None)
        for fields in reader:
            if fields:
                yield reader.line_num, fields


def _refuse_unreadable_line(path: Path, header: Sequence[str], error: ValueError) -> NoReturn:
    """Find the line that the fast parser could not read."""
    for line, fields in _data_lines(path):
        what = None
        if len(fields) != len(header):
            what = f"{len(fields)} fields, the header has {len(header)}"
        for name, field in zip(header, fields, strict=False):
            try:
                float(field)
            except ValueError:
                what = what or f"{name} {field!r} is not a number"
        if what:
            raise DataError(what, where=f"{path} line {line}", remedy="correct the line")
    raise DataError(f"cannot be read: {error}", where=str(path), remedy="give plain decimal numbers")


def _refuse_rewards(what: str, where: str) -> NoReturn:
    why = "the public reward function gives the algorithm its sizes"
    remedy = "list step (from 0), state, action, reward in [0, 1], every combination once"
    raise InvalidParameter(what, where=where, why=why, remedy=remedy)
