"""The values of --data for your own algorithm: numbers, a table, a query, or a function."""

from __future__ import annotations

import csv
import functools
import importlib
import math
import os
import re
import shlex
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.options.foreign_code import load
from dpaudit.app.text.output import counted
from dpaudit.curator.deferred import Deferred
from dpaudit.errors import DataError, UsageError
from dpaudit.models import did_you_mean
from dpaudit.tables.parquet import MOST_BYTES, read_parquet

_QUERY: Final = "duckdb:"
_GIVE: Final = (
    "give .npy, .csv, 'FILE.csv?NAME=TYPE,...' for a table, .parquet or a folder of .parquet, "
    "'duckdb:FILE?QUERY' or MODULE.py:FUNCTION"
)
#: Settings of a connection for reading one file: no other file, no network, no Python variable by its name.
_READING_ALONE: Final = {
    "enable_external_access": "false",
    "lock_configuration": "true",
    "python_enable_replacements": "false",
}
#: What numpy raises for a faulty header.
_NO_NPY: Final = (
    ArithmeticError,
    ValueError,
    TypeError,
    EOFError,
    SyntaxError,
    TokenError,
    MemoryError,
    RecursionError,
)
_NPY_HEADERS: Final[Mapping[tuple[int, int], Callable[..., Any]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
#: What a column of a table in CSV may hold.
_TYPES: Final = ("text", "whole", "number")


def read_data(given: str, unit: str | None) -> Any:
    """An array, a PyArrow table, or a `Deferred`.

    A ``.csv`` file is an array of numbers, or with ``FILE.csv?NAME=TYPE,...`` a table of the columns named.
    Types are stated, since cells do not tell them: one unit's cell would decide what those of others are.

    Args:
        given: as on the command line.
        unit: the claim's, if there is a claim.

    Raises:
        UsageError: no such file, function, engine, column or type, or a suffix that says nothing; or CSV with
            text or with the unit as a column, whose types are not stated.
        DataError: what is in the file cannot be used; names line and column.
    """
    where = f"--data {given}"
    if given.startswith(_QUERY):
        file, mark, query = given.removeprefix(_QUERY).partition("?")
        if not mark or not query.strip():
            remedy = "write duckdb:FILE?QUERY, for instance 'duckdb:visits.db?select * from visits'"
            raise UsageError("no query", where=where, why="a file holds many tables", remedy=remedy)
        _require_there(Path(file), where)
        _require_installed("duckdb", where)
        return Deferred(functools.partial(_queried, file, query))
    path, types = Path(given), ""
    if not path.exists() and (table := re.fullmatch(r"(.*\.csv)\?(.*)", given, re.IGNORECASE | re.DOTALL)):
        path, types, where = Path(table[1]), table[2], f"--data {table[1]}"
    elif ":" in given and not path.exists():
        make = load(given, "--data")
        if not callable(make):
            what, remedy = f"{given} is of type {type(make).__name__}, not a function", "name a function"
            raise UsageError(what, where=where, why="each run calls it for its data", remedy=remedy)
        return Deferred(make)
    _require_there(path, where)
    if path.is_dir() or path.suffix.lower() == ".parquet":
        return _parquet(path, where)
    if path.suffix.lower() == ".csv":
        names, rows = _lines(path, named=bool(types))
        text = names and any(_number(cell) is None for cell in rows[0][1] if cell)
        if types or text or unit in names:
            _require_names(names, where)
            return _table(path, names, rows, unit, _stated(types, names, unit, where))
    return read_array(path)


def require_file(given: str) -> Path:
    """The file, or raise `UsageError`."""
    path = Path(given)
    if not path.is_file():
        what = f"{path} is {'a folder' if path.is_dir() else 'not there'}"
        why = "there are no data to run on"
        raise UsageError(what, where=f"--data {given}", why=why, remedy="name a file that exists")
    return path


def _require_there(path: Path, where: str) -> None:
    if not path.exists():
        raise UsageError(f"{path} is not there", where=where, why="there are no data to run on", remedy=_GIVE)


def _require_installed(module: str, where: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError:
        extra = "parquet" if module == "pyarrow" else "engines"
        what, remedy = f"{module} is not installed", f"pip install 'dpaudit[{extra}]'"
        raise UsageError(what, where=where, why="it reads these data", remedy=remedy) from None


def _queried(file: str, query: str) -> Any:
    """Return the rows of one SELECT, on a connection that reads this file alone and writes nothing."""
    duckdb: Any = importlib.import_module("duckdb")
    where = f"--data duckdb:{file}"
    try:
        connection = duckdb.connect(file, read_only=True, config=_READING_ALONE)
        statements = connection.extract_statements(query)
        kinds = [each.type.name for each in statements]
        if kinds != ["SELECT"]:
            what = "no statement" if not kinds else f"{counted(len(kinds), 'statement', 'statements')}"
            what += f" ({', '.join(kinds)})" if kinds else ""
            why = "every run queries the file again, and may only read it"
            raise DataError(what, where=where, why=why, remedy="write one SELECT, without a second statement")
        return connection.sql(query)
    except duckdb.Error as error:
        why, remedy = "it has no rows to run on", "correct the query; DuckDB's shell shows where it fails"
        if isinstance(error, duckdb.PermissionException):
            why = "the query may read this file and no other, and write none"
            remedy = "copy the rows into this file before, or name a function: MODULE.py:FUNCTION"
        failed = DataError(f"a query that fails: {error}", where=where, why=why, remedy=remedy)
        failed.quoted = f": {error}"
        raise failed from None


def _parquet(path: Path, where: str) -> Any:
    """All rows of a file, or of the files in a folder, in order of their names."""
    _require_installed("pyarrow", where)
    arrow: Any = importlib.import_module("pyarrow")
    files = sorted(filter(Path.is_file, path.rglob("*.parquet"))) if path.is_dir() else [path]
    if not files:
        raise DataError("a folder without a .parquet file", where=where, remedy=_GIVE)
    tables: list[Any] = []
    for file in files:
        room = MOST_BYTES - sum(table.nbytes for table in tables)
        tables.append(read_parquet(file, where=f"--data {file}", room=room))
        if not tables[-1].schema.equals(tables[0].schema):
            what = f"other columns than those of {files[0].name}"
            why, remedy = "a table has one type in each column", "write all files with the same columns"
            raise DataError(what, where=f"--data {file}", why=why, remedy=remedy)
    return arrow.concat_tables(tables)


def _lines(path: Path, *, named: bool) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names in a file's first line, and its other lines with their numbers.

    Nothing where there is no other line or, unless it is `named`, where the first one holds a number.
    """
    where, reader = f"--data {path}", None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            rows = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        line = "" if reader is None else f":{reader.line_num}"
        remedy = "correct the quotation marks of this line, or of one before"
        raise DataError(f"cannot be read: {error}", where=f"{where}{line}", remedy=remedy) from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read: {error}", where=where, remedy="give a file in UTF-8") from None
    while rows and not rows[-1][1] and len(rows[0][1]) > 1:  # of one column it could be a cell
        rows.pop()
    if len(rows) < 2 or (not named and any(_number(cell) is not None for cell in rows[0][1])):
        return [], []
    return rows[0][1], rows[1:]


def _require_names(names: list[str], where: str) -> None:
    if not names:
        what, remedy = "no table", "give a first line that names the columns, and at least one more"
        raise DataError(what, where=where, remedy=remedy)
    if len(set(names)) < len(names) or not all(names):
        what, why = f"the columns {', '.join(map(repr, names))}", "each needs a name of its own"
        remedy = "correct the first line, which names the columns"
        remedy += "" if all(names) else "; pandas writes no index with index=False"
        raise DataError(what, where=f"{where}:1", why=why, remedy=remedy)


def _stated(types: str, names: list[str], unit: str | None, where: str) -> dict[str, str]:
    """The type of each column that is read, from ``NAME=TYPE,...``."""
    kinds = f"{', '.join(_TYPES[:-1])} or {_TYPES[-1]}"
    if not types:
        what, why = (
            "a table in CSV, whose types are not stated",
            "in such a file the cell of one person could",
        )
        columns = ",".join(f"{name}=TYPE" for name in names if "," not in name)
        data = shlex.quote(f"{where.removeprefix('--data ')}?{columns}")
        remedy = f"write --data {data}, each TYPE {kinds}, without the columns you do not need"
        if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
            remedy = "separate the cells by commas, if they are several"
        elif any("," in name for name in names):
            remedy += "; a column with a comma in its name needs another name"
        raise UsageError(what, where=where, why=f"{why} decide the type of a column", remedy=remedy)
    stated: dict[str, str] = {}
    for each in types.split(","):
        name, equals, kind = each.rpartition("=")
        remedy = f"write NAME=TYPE,... with each name once and each TYPE {kinds}"
        if not equals or kind not in _TYPES:
            remedy = f"{did_you_mean(kind, _TYPES)}{remedy}"
        elif name not in names:
            remedy = f"{did_you_mean(name, names)}its columns are {', '.join(names)}"
        elif name not in stated:
            stated[name] = kind
            continue
        why = "it says again what a column holds" if name in stated else "it does not say what a column holds"
        raise UsageError(f"{each!r} after the question mark", where=where, why=why, remedy=remedy)
    if unit in names and stated.get(unit) not in {"text", "whole"}:
        what = f"the claim's unit {unit!r} " + ("as a number" if unit in stated else "left out")
        why, remedy = "it says whose row each is", f"state {unit}=text, or {unit}=whole"
        raise UsageError(what, where=where, why=why, remedy=remedy)
    return stated


def _table(
    path: Path,
    names: list[str],
    rows: list[tuple[int, list[str]]],
    unit: str | None,
    types: Mapping[str, str],
) -> Any:
    """A table of the columns whose types are stated; an empty cell is a missing value.

    Two ways to write one number are refused in the unit's column: 7 and 007 may be two people.
    """
    where = f"--data {path}"
    _require_installed("pyarrow", where)
    arrow: Any = importlib.import_module("pyarrow")
    for line, cells in rows:
        if len(cells) != len(names):
            named = counted(len(names), "column", "columns")
            what = f"{counted(len(cells), 'cell', 'cells')}, where the first line names {named}"
            raise DataError(what, where=f"{where}:{line}", remedy="complete the line")
    columns = {}
    for name, kind in types.items():
        i = names.index(name)
        if kind == "text":
            columns[name] = arrow.array([cells[i] or None for _, cells in rows], arrow.string())
            continue
        read = _whole if kind == "whole" else _finite
        found = [read(cells[i], f"{where}:{line}", name) if cells[i] else None for line, cells in rows]
        if name == unit:
            _require_one_spelling(found, rows, i, where)
        columns[name] = arrow.array(found, arrow.int64() if kind == "whole" else arrow.float64())
    return arrow.table(columns)


def _require_one_spelling(
    found: list[Any], rows: list[tuple[int, list[str]]], column: int, where: str
) -> None:
    spelt: dict[Any, str] = {}
    for number, (line, cells) in zip(found, rows, strict=True):
        if spelt.setdefault(number, cells[column]) != cells[column]:
            what, why = "a unit's number that an earlier line writes differently", "they may be two units"
            remedy = "write it one way, or state that the column is text"
            raise DataError(what, where=f"{where}:{line}", why=why, remedy=remedy)


def _whole(cell: str, where: str, name: str) -> int:
    """A cell of a column of whole numbers."""
    try:
        found = int(cell) if _is_plain(cell) else 2**63
    except ValueError:
        found = 2**63
    if -(2**63) <= found < 2**63:
        return found
    what = f"no whole number of 64 bits in column {name!r}"
    remedy = "give such a number, or leave the cell empty; or state another type of the column"
    raise DataError(what, where=where, why=f"the column is stated as {name}=whole", remedy=remedy)


def _finite(cell: str, where: str, name: str) -> float:
    """A cell of a column of numbers."""
    found = _number(cell)
    if found is None or not np.isfinite(found):
        what = f"{'no number' if found is None else 'NaN or infinity'} in column {name!r}"
        remedy = f"give a number, or leave the cell empty; or state {name}=text"
        raise DataError(what, where=where, why=f"the column is stated as {name}=number", remedy=remedy)
    return found


def read_array(path: Path) -> NDArray[Any]:
    """Read ``.npy`` unchanged, or ``.csv`` as a float64 matrix [rows, columns].

    A first line without any number holds the columns' names, and is left out.
    Raises `UsageError` for another suffix, `DataError` for what are not numbers, not finite ones, or lines of
    different lengths.
    """
    suffix, where = path.suffix.lower(), f"--data {path}"
    if suffix not in {".npy", ".csv"}:
        why = "the suffix says how to read it"
        remedy = "give .npy, .csv or .parquet, or load.py:function; or let --pair return the data"
        raise UsageError(f"a data file ending in {suffix!r}", where=where, why=why, remedy=remedy)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # a file of Python 2 is one too
            array = _read_npy(path) if suffix == ".npy" else _read_csv(path)
    except DataError:
        raise
    except (OSError, csv.Error, *_NO_NPY) as error:
        raise DataError(f"cannot be read: {error}", where=where, remedy="give a file of numbers") from None
    if array.dtype.kind not in "biuf" or not array.size or not array.ndim:
        what = f"an array of shape {array.shape} and type {array.dtype}" if array.size else "holds no record"
        why = "there are no numbers to run on" if array.ndim else "records lie along the first axis"
        remedy = "give at least one record" if not array.size else "give a file of numbers"
        remedy += "" if array.ndim else ", with one axis or more"
        raise DataError(what, where=where, why=why, remedy=remedy)
    if not np.isfinite(array).all():
        why = "they pass through noise unchanged and so reveal the data"
        raise DataError("holds NaN or infinity", where=where, why=why, remedy="clip or fill them before")
    return array


def _read_npy(path: Path) -> NDArray[Any]:
    """Read an array whose header fits the file's size; raise `DataError`, or one of `_NO_NPY`."""
    where, remedy = f"--data {path}", "write it again by numpy.save, one array in a file"
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            what, why = "an archive of numpy.savez under the name of one array", "it may hold several arrays"
            raise DataError(what, where=where, why=why, remedy=remedy)
        file.seek(0)
        version = np.lib.format.read_magic(file)
        if version not in _NPY_HEADERS:
            what = f"a header of version {version[0]}.{version[1]}"
            raise DataError(what, where=where, why="numbers have one of version 1.0 or 2.0", remedy=remedy)
        shape, _, dtype = _NPY_HEADERS[version](file)
        size = os.fstat(file.fileno()).st_size - file.tell()
    if not all(type(length) is int and length >= 0 for length in shape):
        what, why = f"a shape of {shape}", "an axis has a whole number of entries"
        raise DataError(what, where=where, why=why, remedy=remedy)
    stated = math.prod(shape) * dtype.itemsize
    if dtype.kind in "biuf" and stated != size:
        what = f"{counted(size, 'byte', 'bytes')} of an array of shape {shape} and type {dtype}"
        raise DataError(what, where=where, why=f"it takes {stated}", remedy=remedy)
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _read_csv(path: Path) -> NDArray[np.float64]:
    rows: list[list[float]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for cells in reader:
            place = f"--data {path}:{reader.line_num}"
            present = [number for cell in cells if (number := _number(cell)) is not None]
            if reader.line_num == 1 and cells and not present:
                continue  # the columns' names: a line with any number in it is a record
            if not cells and not file.read().strip():
                break  # an empty line at the end
            if not cells or len(present) < len(cells):
                what = "an empty line" if not cells else "a cell that is empty or not a number"
                why = "a missing number cannot be assigned to a record"
                remedy = "give a number in every cell; a first line of column names must not hold numbers; "
                remedy += "for a table with text add what its columns hold, as in FILE.csv?NAME=text"
                raise DataError(what, where=place, why=why, remedy=remedy)
            if rows and len(present) != len(rows[0]):
                what = f"{counted(len(present), 'cell', 'cells')}, where the first record has {len(rows[0])}"
                why = "every record has one number in every column"
                raise DataError(what, where=place, why=why, remedy="complete the line")
            rows.append(present)
    return np.array(rows, dtype=np.float64)


def _number(cell: str) -> float | None:
    try:
        return float(cell) if _is_plain(cell) else None
    except ValueError:
        return None


def _is_plain(cell: str) -> bool:
    """Return whether a number has a common form: Python also accepts 1_000 and digits of all scripts."""
    return cell.isascii() and "_" not in cell
