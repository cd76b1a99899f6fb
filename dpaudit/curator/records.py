"""Records that an algorithm gives one by one: how they are copied, and when two releases have the same."""

import datetime as dt
import decimal
import functools
import hashlib
import math
import operator
from collections import namedtuple
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dpaudit.curator.clipping import require_unmasked
from dpaudit.errors import InvalidParameter

#: Values that hold nothing but themselves, and cannot be changed.
_ATOMS: Final = frozenset({type(None), bool, int, complex, str, bytes, dt.date, dt.time, dt.timedelta})
_SCALARS: Final = frozenset(np.sctypeDict.values()) - {np.object_}
NOT_PLAIN: Final = "hold a value of type "


class Unusable(ValueError):
    """A record has no row, and why, in words that quote nothing of it."""


def listed(records: Any, where: str) -> list[Any]:
    """The records, in a list; raises `InvalidParameter` for a table, a dictionary or a text."""
    if isinstance(records, np.ma.MaskedArray):
        require_unmasked(records, where)
    alone = isinstance(records, np.ndarray) and records.ndim == 0
    other = isinstance(records, str | bytes | Mapping) or hasattr(records, "columns")
    if alone or other or not isinstance(records, Iterable):
        what, why = f"records in a {type(records).__name__}", "its parts are no units' records"
        remedy = f"give a list with one record per unit{_of_a_frame(records)}"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)
    return list(records)


def _of_a_frame(records: object) -> str:
    """The call that makes a list of a frame's rows, for a remedy; empty for anything but a frame."""
    calls = ("to_dicts()", "to_pylist()", "to_dict('records')")  # of Polars, PyArrow and pandas
    own = next((call for call in calls if hasattr(records, call.partition("(")[0])), None)
    return "" if own is None else f": frame.{own}"


def plain(value: Any) -> Any:
    """A copy of a record that has none but plain values in it; raises `Unusable` for any other.

    A class may hold anything, and so may what its methods return.
    """
    kind = type(value)
    if kind is float:
        return value if value == value else math.nan  # noqa: PLR0124  (one object for every NaN)
    if kind in _ATOMS:
        if kind is dt.time and value.tzinfo is not None:
            raise Unusable("a time with a time zone")
        return value
    if kind is dict:
        return {plain(key): plain(one) for key, one in value.items()}
    if kind is list:
        return [plain(one) for one in value]
    if kind is tuple:
        return tuple([plain(one) for one in value])
    if issubclass(kind, tuple) and type(kind) is type:
        return _record_of(getattr(kind, "_fields", None), tuple(tuple.__iter__(value)), kind)
    if kind is np.ndarray:
        if not value.dtype.hasobject:
            return np.array(value, order="C")
        if value.dtype.kind == "O":
            copied = np.empty(value.size, dtype=object)
            for i, one in enumerate(value.ravel().tolist()):
                copied[i] = plain(one)
            return copied.reshape(value.shape)
    if kind in _SCALARS and not value.dtype.hasobject:
        return value.copy()
    if kind is dt.datetime and (value.tzinfo is None or type(value.tzinfo) is dt.timezone):
        return value
    if kind is decimal.Decimal and value.is_finite():
        return value
    if kind in {set, frozenset} and all(type(one) in {str, int, bytes} for one in value):
        return kind(value)
    raise Unusable(f"{NOT_PLAIN}{type_name(kind)}")


def _record_of(fields: Any, values: tuple[Any, ...], kind: type) -> Any:
    """A named tuple of a class that has its fields and nothing else of the class that was given."""
    if type(fields) is not tuple or {*map(type, fields)} != {str} or len(fields) != len(values):
        raise Unusable(f"{NOT_PLAIN}{type_name(kind)}")
    return _named_tuple(fields)(*map(plain, values))


@functools.lru_cache(maxsize=64)
def _named_tuple(fields: tuple[str, ...]) -> Any:
    return namedtuple("Record", fields, rename=True)  # noqa: PYI024  (of fields that are not known here)


def type_name(kind: type) -> str:
    """A type's name, where it is an ordinary one: a class may be named by data."""
    return kind.__name__ if kind.__name__.isidentifier() else "of an odd name"


@dataclass(frozen=True)
class SameRecords:
    """What tells whether two releases are given the same records in the same order.

    Attributes:
        number: how many records there are.
        digest: of their plain values, in order.
        others: the records that are not plain, in order; they are told apart as objects.
    """

    number: int
    digest: str
    others: tuple[Any, ...]

    @classmethod
    def of(cls, records: Iterable[Any]) -> "SameRecords":
        """Take the records' values, so that no later change of a record or an array changes the answer."""
        given = np.atleast_1d(np.asarray(records)) if isinstance(records, np.ndarray) else list(records)
        digest, others = hashlib.sha256(), []
        for record in given:
            try:
                text = repr(_written(plain(record)))
            except Exception:  # noqa: BLE001  (a record may have any methods, and be nested without end)
                text = "other"
                others.append(record)
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return cls(len(given), digest.hexdigest(), tuple(others))

    def same(self, other: "SameRecords", *, plain_alone: bool) -> bool:
        """Whether they are; with `plain_alone` only plain records have a row, so the others do not matter."""
        alike = self.number == other.number and self.digest == other.digest
        return alike and (plain_alone or all(map(operator.is_, self.others, other.others)))


def _written(value: Any) -> object:
    """A plain value in tuples of texts and bytes, which are the same for the same values alone."""
    kind = type(value)
    if kind is dict:
        return "dict", tuple((_written(key), _written(one)) for key, one in value.items())
    if kind is np.ndarray and value.dtype.hasobject:
        return "array", value.shape, tuple(map(_written, value.ravel().tolist()))
    if kind is np.ndarray or isinstance(value, np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return kind.__name__, getattr(kind, "_fields", ()), tuple(map(_written, value))
    if kind in {set, frozenset}:
        return kind.__name__, tuple(sorted(map(repr, value)))
    return kind.__name__, hex(value) if kind is int else repr(value)
