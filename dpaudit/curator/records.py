"""Records: copies of them as plain values, and the comparison of the records of two releases."""

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

#: Types of immutable values without parts.
_ATOMS: Final = frozenset({type(None), bool, int, complex, str, bytes, dt.date, dt.time, dt.timedelta})
_SCALARS: Final = frozenset(np.sctypeDict.values()) - {np.object_}
NOT_PLAIN: Final = "hold a value of type "


class Unusable(ValueError):
    """The reason that a record has no row, in words that do not quote the record."""


def listed(records: Any, where: str) -> list[Any]:
    """Return the records as a list; raises `InvalidParameter` for a table, a dictionary or a text."""
    if isinstance(records, np.ma.MaskedArray):
        require_unmasked(records, where)
    alone = isinstance(records, np.ndarray) and records.ndim == 0
    other = isinstance(records, str | bytes | Mapping) or hasattr(records, "columns")
    if alone or other or not isinstance(records, Iterable):
        what, why = f"records in a {type(records).__name__}", "its items are not the units' records"
        remedy = f"give a list with one record per unit{_of_a_frame(records)}"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)
    return list(records)


def _of_a_frame(records: object) -> str:
    """Return the method that lists a frame's rows, for a remedy; empty if `records` is not a frame."""
    calls = ("to_dicts()", "to_pylist()", "to_dict('records')")  # of Polars, PyArrow and pandas
    own = next((call for call in calls if hasattr(records, call.partition("(")[0])), None)
    return "" if own is None else f": frame.{own}"


def plain(value: Any) -> Any:
    """Return a copy of a record of plain values only; raises `Unusable` for any other record.

    An instance of any other class may refer to other records, and its methods may return them.
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
    """Return a named tuple with the same fields and values, without the methods of the given class."""
    if type(fields) is not tuple or {*map(type, fields)} != {str} or len(fields) != len(values):
        raise Unusable(f"{NOT_PLAIN}{type_name(kind)}")
    return _named_tuple(fields)(*map(plain, values))


@functools.lru_cache(maxsize=64)
def _named_tuple(fields: tuple[str, ...]) -> Any:
    return namedtuple("Record", fields, rename=True)  # noqa: PYI024  (the fields are unknown here)


def type_name(kind: type) -> str:
    """Return a type's name if it is an identifier; otherwise it may contain data."""
    return kind.__name__ if kind.__name__.isidentifier() else "of an odd name"


@dataclass(frozen=True)
class SameRecords:
    """A fingerprint of a release's records in order, to compare them with those of another release.

    Attributes:
        number: the number of records.
        digest: the hash of their plain values, in order.
        others: the records that are not plain, in order; they are compared by identity.
    """

    number: int
    digest: str
    others: tuple[Any, ...]

    @classmethod
    def of(cls, records: Iterable[Any]) -> "SameRecords":
        """Return the fingerprint of the records; a later change of a record does not affect it."""
        given = np.atleast_1d(np.asarray(records)) if isinstance(records, np.ndarray) else list(records)
        digest, others = hashlib.sha256(), []
        for record in given:
            try:
                text = repr(_written(plain(record)))
            except Exception:  # noqa: BLE001  (a record may have any methods, and contain itself)
                text = "other"
                others.append(record)
            digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
        return cls(len(given), digest.hexdigest(), tuple(others))

    def same(self, other: "SameRecords", *, plain_alone: bool) -> bool:
        """Return whether the records are the same; `plain_alone` ignores records that are not plain."""
        alike = self.number == other.number and self.digest == other.digest
        return alike and (plain_alone or all(map(operator.is_, self.others, other.others)))


def _written(value: Any) -> object:
    """Return tuples of texts and bytes that are equal exactly for equal plain values."""
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
