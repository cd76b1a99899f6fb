"""Data sets that differ from a given one in single records, identified by the names of the changes.

A process that holds data makes a changed data set when a run asks for its name, so a search needs only the
names. Records lie along the first axis of an array, or are the entries of a list; a tuple of arrays of one
length holds the parts of each record. A change "take 0-4,7*3" makes a data set of records of the pair, by
their numbers in its `records.Pool`.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.processes.records import cut, taken, taking

_Parts: TypeAlias = tuple[NDArray[Any], ...]

_MARK: Final = "|"

#: Each change is one of these words, with a record's number, and a column or another record's number.
WORDS: Final = {
    "drop": "taken out",
    "double": "doubled",
    "high": "at the largest values",
    "low": "at the least values",
    "zero": "at zero",
    "like": "replaced",
    "others-high": "among others at the largest values",
    "others-low": "among others at the least values",
    "others-zero": "among others at zero",
}
_CHANGE: Final = re.compile(rf"({'|'.join(WORDS)}) (\d+)(?:\.(\d+))?")
_TAKE: Final = "take "
_PLAIN: Final = "plain "
_RUN: Final = re.compile(r"(\d+)(?:-(\d+)|\*(\d+))?")


@dataclass(frozen=True)
class Records:
    """The numbers of records and columns of data; the changed, the largest and the smallest record."""

    number: int
    columns: int
    row: int
    largest: int
    smallest: int


def records_of(data: Any, neighbour: Any) -> Records | None:
    """Return the records; None if the data are not records of finite numbers or several records differ."""
    one, other = (_parts(side) for side in (data, neighbour))
    if one is None or other is None or len(one) != len(other) or len(one[0]) == 0:
        return None
    if any(a.shape[1:] != b.shape[1:] for a, b in zip(one, other, strict=True)):
        return None
    flat, flat_other = (np.hstack([_flat(part) for part in parts]).astype(float) for parts in (one, other))
    if not (np.isfinite(flat).all() and np.isfinite(flat_other).all()):
        return None
    both = min(len(flat), len(flat_other))
    differ = (flat[:both] != flat_other[:both]).any(axis=1)
    row = int(np.argmax(differ)) if differ.any() else both
    if len(flat) == len(flat_other):
        alone = differ.sum() == 1
    else:  # one side has one more record, at this place
        long, short = (flat, flat_other) if len(flat) > both else (flat_other, flat)
        alone = len(long) == both + 1 and np.array_equal(np.delete(long, row, axis=0), short)
    sizes = np.abs(flat).sum(axis=1)
    where = min(row, len(flat) - 1), int(np.argmax(sizes)), int(np.argmin(sizes))
    return Records(len(flat), flat.shape[1], *where) if alone else None


def size_of(data: Any) -> int | None:
    """Return the number of records of data; None if it is not known."""
    whole = data[0] if isinstance(data, tuple) and _parts(data) is not None else data
    try:
        return len(whole)
    except Exception:  # noqa: BLE001  (an object without a length may raise anything)
        return None


def named(name: str, changes: Sequence[str]) -> str:
    """Return the name of changed data."""
    return _MARK.join([name, *changes])


def take(numbers: Iterable[int]) -> str:
    """Return the name of the change to these records of the pair, in this order."""
    return _TAKE + taking(numbers)


class Changeable(dict[str, Any]):
    """A mapping of data sets by name, and of changed data sets by the names of their changes.

    `beside` names each data set's neighbour; a change may take records from it.
    """

    def __init__(self, data: Mapping[str, Any], beside: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(data)
        self._beside = beside

    def __missing__(self, name: str) -> Any:
        base, *changes = name.split(_MARK)
        if not changes or base not in self:
            raise KeyError(name)
        return changed(self[base], changes, self.get(self._beside.get(base, "")))


def changed(data: Any, changes: Sequence[str], neighbour: Any = None) -> Any:
    """Return the data after some changes, of the same kind; the given data stay unchanged.

    Raises `InvalidParameter` for data of another kind, and for an unknown change.
    """
    if changes and changes[0].startswith(_TAKE):
        data, changes = taken(data, neighbour, list(_numbers(changes[0]))), changes[1:]
        if changes and changes[0].startswith(_PLAIN):
            data, changes = cut(data, int(changes[0].removeprefix(_PLAIN))), changes[1:]
        if not changes:
            return data
    parts = _parts(data)
    if parts is None:
        remedy = "give an array of records, a list of them, or a tuple of arrays"
        raise InvalidParameter(f"data of type {type(data).__name__}", where="changes", remedy=remedy)
    for change in changes:
        parts = _changed(parts, change)
    if isinstance(data, np.ndarray):
        return parts[0]
    if len(parts) > 1:
        return parts
    return type(data)(parts[0].tolist() if parts[0].ndim == 1 else list(parts[0]))


def words(changes: Sequence[str]) -> str:
    """Describe a list of changes in words."""
    found = []
    for change in changes:
        if change.startswith(_TAKE):
            numbers = list(_numbers(change))
            records = "1 record" if len(numbers) == 1 else f"{len(numbers)} records"
            found.append(
                records if len(set(numbers)) == len(numbers) else f"{records}, {len(set(numbers))} distinct"
            )
            continue
        kind, row, at = _read(change)
        second = "" if at is None else f" by record {at + 1}" if kind == "like" else f", column {at + 1},"
        place = f"record {row + 1}"
        found.append(f"{place} {WORDS[kind]}{second}" if kind == "like" else f"{place}{second} {WORDS[kind]}")
    return " and ".join(found) or "as it is"


def _flat(part: NDArray[Any]) -> NDArray[Any]:
    return part.reshape(len(part), int(np.prod(part.shape[1:])))


def _parts(data: Any) -> _Parts | None:
    """Return the arrays of numbers with the records' parts, of one length, without a type's metadata.

    Return None for masked arrays: a changed copy would count the masked entries.
    """
    several = isinstance(data, tuple) and len(data) > 1 and all(isinstance(one, np.ndarray) for one in data)
    if not several and not isinstance(data, np.ndarray | list | tuple):
        return None
    if any(
        isinstance(one, np.ma.MaskedArray)
        for one in (data, *(data if isinstance(data, list | tuple) else ()))
    ):
        return None
    try:
        parts = tuple(np.array(one) for one in (data if several else (data,)))
    except (TypeError, ValueError, RuntimeError, OverflowError):  # of different shapes, or of another kind
        return None
    if any(part.ndim == 0 or part.dtype.kind not in "biuf" for part in parts):
        return None
    parts = tuple(part.view(part.dtype.str) for part in parts)
    return parts if len({len(part) for part in parts}) == 1 else None


def _numbers(change: str) -> Iterator[int]:
    """Return the records that a change takes."""
    for run in change.removeprefix(_TAKE).split(","):
        found = _RUN.fullmatch(run)
        if found is None:
            raise InvalidParameter(f"no records {run!r}", where="changes", remedy="name them, as in 0-4,7*3")
        first, last, many = (None if each is None else int(each) for each in found.groups())
        yield from itertools.repeat(first or 0, many or 1) if last is None else range(first or 0, last + 1)


def _read(change: str) -> tuple[str, int, int | None]:
    found = _CHANGE.fullmatch(change)
    if found is None:
        remedy = f"give one of {', '.join(WORDS)}"
        raise InvalidParameter(f"no change {change!r}", where="changes", remedy=remedy)
    return found[1], int(found[2]), None if found[3] is None else int(found[3])


def _changed(parts: _Parts, change: str) -> _Parts:
    kind, row, at = _read(change)
    if kind == "drop":
        return tuple(np.delete(part, row, axis=0) for part in parts)
    if kind == "double":
        return tuple(np.concatenate([part, part[row : row + 1]]) for part in parts)
    made, first = [], 0
    for part in parts:
        flat = _flat(part).copy()
        column = np.arange(first, first + flat.shape[1])
        first += flat.shape[1]
        columns = column == at if at is not None and kind != "like" else np.ones(len(column), dtype=np.bool_)
        rows = np.arange(len(flat)) == row
        match kind.removeprefix("others-"):
            case "high":
                values = flat.max(axis=0)
            case "low":
                values = flat.min(axis=0)
            case "like":
                values = flat[at or 0]
            case _:
                values = np.zeros_like(flat[0])
        chosen = np.ix_(~rows if kind.startswith("others-") else rows, columns)
        flat[chosen] = values[columns]
        made.append(flat.reshape(part.shape))
    return tuple(made)
