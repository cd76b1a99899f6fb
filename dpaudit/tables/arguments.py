"""What callers give to a table: columns, public keys, ranges and edges, each checked against the frame."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.errors import InvalidParameter
from dpaudit.models import as_double, up
from dpaudit.tables.cells import word
from dpaudit.tables.frames import Frame
from dpaudit.tables.plan import LARGEST_EXACT, Key, Kind

#: The largest bound on a value: sums of its squares stay below what a double holds.
_LARGEST: Final = 2.0**400
#: How many edges a histogram may have.
_MOST_EDGES: Final = 1000


def key_columns(
    frame: Frame, unit: str, by: str | Sequence[str], method: str, *more: Kind
) -> tuple[str, ...]:
    """Return the columns that form groups, of the kinds of keys or of `more` kinds."""
    names = (by,) if isinstance(by, str) else tuple(listed(by, method, "by"))
    for name in names:
        frame.require_column(name, method)
        frame.require_kind(name, method, "text", "whole", "boolean", "objects", *more)
    if not names or len(set(names)) < len(names) or unit in names:
        what, why = f"{method}({', '.join(map(repr, names))})", "groups are of several units"
        remedy = f"name columns, each once, and not {unit!r}"
        raise InvalidParameter(what, where=method, why=why, remedy=remedy)
    return names


def value_range(frame: Frame, column: str, lower: float, upper: float, method: str) -> tuple[float, float]:
    """Return the bounds of an existing column as doubles."""
    frame.require_column(column, method)
    frame.require_kind(column, method, "number", "whole", "boolean")
    for name, given in (("lower", lower), ("upper", upper)):
        require_kind(given, numbers.Real, f"{method}({name}=)")
        # As doubles: beside one of numpy's narrower floats, the largest bound would become infinite.
        if not -_LARGEST <= as_double(given, up) <= _LARGEST:
            what, where = f"{name} = {given!r}", f"{method}({name}=)"
            remedy = f"give a public number, at most {_LARGEST:.1g} in magnitude"
            raise InvalidParameter(what, where=where, remedy=remedy)
    low, high = float(lower), float(upper)
    if not low < high:
        what, why = f"lower = {lower} is not below upper = {upper}", "no double lies between them"
        remedy = "give the public range of the values, the smaller number first"
        raise InvalidParameter(what, where=f"{method}(lower=, upper=)", why=why, remedy=remedy)
    return low, high


def bin_edges(frame: Frame, column: str, edges: Sequence[float]) -> tuple[float, ...]:
    """Return a histogram's edges as doubles, in increasing order."""
    found = listed(edges, "histogram", "edges")
    if not 2 <= len(found) <= _MOST_EDGES:
        remedy = f"give 2 to {_MOST_EDGES} public numbers, in increasing order"
        raise InvalidParameter(f"{len(found)} edges", where="histogram(edges=)", remedy=remedy)
    for one, other in itertools.pairwise(found):
        value_range(frame, column, one, other, "histogram")
    return tuple(map(float, found))


def _require_keys(frame: Frame, name: str, values: list[Any]) -> None:
    """Raise `InvalidParameter` unless all values have the column's type."""
    kind = frame.kinds[name]
    least, most = (-(2**63), 2**63 - 1) if kind == "whole" else (-LARGEST_EXACT, LARGEST_EXACT)
    if far := [each for each in values if type(each) is int and not least <= each <= most]:
        what, why = f"a key of {far[0]!r}", "a column of whole numbers holds 64 bits"
        remedy = "leave it out: no row has it"
        if kind != "whole":
            why = "the column is read as doubles, to which other numbers of this size are rounded"
            remedy = "leave it out, or convert the column to whole numbers, in pandas to Int64"
        raise InvalidParameter(what, where="group_by(keys=)", why=why, remedy=remedy)
    wanted = {"text": str, "whole": int, "number": int, "boolean": bool}.get(kind, type(values[0]))
    wanted = wanted if wanted in {str, int, bool} else str
    strange = [each for each in values if type(each) is not wanted]
    if strange:
        types = ", ".join(sorted({type(each).__name__ for each in values}))
        what = f"keys of type {types} for column {name!r} of type {frame.columns[name]}"
        why = "a key of another type than the column's matches no row, or other rows in other engines"
        remedy = f"give each key as {wanted.__name__}: {strange[0]!r} is none"
        if kind == "objects":
            remedy = "give all keys as str, all as int or all as bool"
            remedy += f": as text this one is {text!r}" if (text := word(strange[0])) is not None else ""
        if strange[0] is None:
            remedy = "leave None out: rows without a value are in no group"
        raise InvalidParameter(what, where="group_by(keys=)", why=why, remedy=remedy)


def group_keys(frame: Frame, names: tuple[str, ...], keys: Any) -> tuple[Key, ...]:
    """Return the released groups, each once, in the given order."""
    if isinstance(keys, Mapping):
        if set(keys) != set(names):
            what = f"keys for {', '.join(map(repr, keys))}"
            remedy = f"give a list for each of {', '.join(names)}"
            raise InvalidParameter(what, where="group_by(keys=)", remedy=remedy)
        found = list(itertools.product(*(listed(keys[name], "group_by", "keys") for name in names)))
    else:
        given = [] if keys is None else listed(keys, "group_by", "keys")
        several = len(names) > 1
        found = [tuple(each) if several and isinstance(each, tuple | list) else (each,) for each in given]
    found = [tuple(_plain(each) for each in group) for group in found]
    wrong = any(
        len(group) != len(names) or any(isinstance(each, list | tuple | set | dict) for each in group)
        for group in found
    )
    if not found or wrong:
        what = "no keys" if not found else f"keys that are not one value for each of {', '.join(names)}"
        why = "the list of groups must be public: groups read from private rows reveal that a unit has them"
        remedy = "give the public values, or choose them by select_keys"
        raise InvalidParameter(what, where="group_by(keys=)", why=why, remedy=remedy)
    for i, name in enumerate(names):
        _require_keys(frame, name, [group[i] for group in found])
    return tuple(dict.fromkeys(found))


def listed(given: Any, method: str, name: str) -> list[Any]:
    """Return the values of a list or a series; raise `InvalidParameter` for other types."""
    strange = isinstance(given, str | bytes | Mapping) or hasattr(given, "columns")
    if isinstance(given, Iterable) and not strange:
        return list(given)
    what, remedy = f"a {type(given).__name__} is no list", "give a list, or one column as a series"
    why = "a frame gives the names of its columns, and a dictionary its own names"
    if isinstance(given, str | bytes):
        what, why = f"{given!r} is a text, not a list", "it would be read letter by letter"
        remedy = f"give a list: {name}=[{given!r}]"
    raise InvalidParameter(what, where=f"{method}({name}=)", why=why, remedy=remedy)


def _plain(key: Any) -> Any:
    """Return a key of numpy or PyArrow as a Python value."""
    return key.item() if isinstance(key, np.generic) else key.as_py() if hasattr(key, "as_py") else key
