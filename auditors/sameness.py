"""Whether two outputs are the same, bit for bit, and where they first differ."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpaudit.curator import Curator

_PLAIN = (bool, int, str, bytes, type(None), Enum)


class NotComparable(TypeError):
    """An output of a type that cannot be compared bit for bit; the message names it."""


def first_difference(one: Any, other: Any, place: str = "output") -> str | None:
    """Where two values first differ, without saying what they hold; None if they are the same.

    Floats are the same if their bits are, so that NaN equals itself and 0.0 differs from -0.0.

    Raises:
        NotComparable: a value is of a type whose content cannot be seen, or contains itself.
    """
    try:
        return _difference(one, other, place)
    except RecursionError:
        raise NotComparable(f"{place} contains itself, or is nested too deeply") from None


def _difference(one: Any, other: Any, place: str) -> str | None:
    if type(one) is not type(other):
        if _full_name(type(one)) == _full_name(type(other)):
            raise NotComparable(f"{place} is of a type that every run makes anew, {type(one).__name__}")
        return f"{place} (types {type(one).__name__} and {type(other).__name__})"
    if isinstance(one, np.ndarray):
        return _arrays(one, other, place)
    if isinstance(one, float):
        return None if struct.pack("<d", one) == struct.pack("<d", other) else place
    if isinstance(one, complex):
        return (
            None
            if struct.pack("<dd", one.real, one.imag) == struct.pack("<dd", other.real, other.imag)
            else place
        )
    if isinstance(one, np.generic):
        return None if one.tobytes() == other.tobytes() else place
    if isinstance(one, _PLAIN):
        return None if one == other else place
    return _containers(one, other, place)


def _arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], place: str) -> str | None:
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{place} (shapes {one.shape} and {other.shape}, types {one.dtype} and {other.dtype})"
    if one.dtype.hasobject:
        return _sequences(one.ravel().tolist(), other.ravel().tolist(), place)
    if one.view(np.ndarray).tobytes() != other.view(np.ndarray).tobytes():
        return place
    # A subclass may carry more than its entries: a masked array its mask.
    return _attributes(one, other, _names(one, other), place)


def _containers(one: Any, other: Any, place: str) -> str | None:
    if isinstance(one, Mapping):
        keys = _sequences(list(one), list(other), f"{place} (keys)")
        values = (
            (f"{place}[{key!r}]", a, b) for (key, a), b in zip(one.items(), other.values(), strict=True)
        )
        return keys or _first(values) or _attributes(one, other, _names(one, other), place)
    if isinstance(one, Sequence):
        return _sequences(one, other, place) or _attributes(one, other, _names(one, other), place)
    if isinstance(one, AbstractSet):
        return None if _members(one, place) == _members(other, place) else place
    if isinstance(one, FunctionType):
        return _functions(one, other, place)
    if isinstance(one, np.random.Generator):
        return _difference(one.bit_generator.state, other.bit_generator.state, place)
    if isinstance(one, Curator):
        # It holds queries, and its noise is live on one side and replayed on the other.
        raise NotComparable(f"{place} is the curator itself")
    if isinstance(one, type | BuiltinFunctionType) and one is other:
        return None
    if isinstance(one, BaseModel):
        return _attributes(one, other, _names(one, other), place) or _difference(
            one.__pydantic_private__, other.__pydantic_private__, f"{place} (private)"
        )
    return _reduced(one, other, place)


def _reduced(one: Any, other: Any, place: str) -> str | None:
    """Any other object is what pickling would write of it, which shows also what lies below Python."""
    if isinstance(one, type | BuiltinFunctionType):
        raise NotComparable(f"{place} is a {_full_name(type(one))}")
    try:
        shown = [value.__reduce_ex__(4) for value in (one, other)]
    except Exception:  # noqa: BLE001  (a type refuses in whatever way it likes)
        raise NotComparable(f"{place} is a {_full_name(type(one))}") from None
    if not all(isinstance(value, tuple) for value in shown):
        # The name of a global: nothing of its content.
        if one is other:
            return None
        raise NotComparable(f"{place} is a {_full_name(type(one))}")
    (make, arguments, *rest), (make_other, arguments_other, *rest_other) = shown
    if make is not make_other:
        return f"{place} (made otherwise)"
    state, items, pairs = _state(rest)
    state_other, items_other, pairs_other = _state(rest_other)
    return (
        _difference(arguments, arguments_other, f"{place} (arguments)")
        or _attributes(one, other, _names(one, other), place)
        or _difference(state, state_other, f"{place} (state)")
        or _difference(items, items_other, f"{place} (items)")
        or _difference(pairs, pairs_other, f"{place} (items)")
    )


def _state(rest: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    state, items, pairs = [*rest[:3], None, None, None][:3]
    return state, list(items or ()), list(pairs or ())


def _members(values: AbstractSet[Any], place: str) -> set[tuple[str, Any]]:
    """A set's members as values that are equal only if they are the same."""
    members: set[tuple[str, Any]] = set()
    for value in values:
        if isinstance(value, float):
            members.add((_full_name(type(value)), struct.pack("<d", value)))
        elif isinstance(value, _PLAIN):
            members.add((_full_name(type(value)), value))
        else:
            raise NotComparable(f"{place} is a set of {_full_name(type(value))}")
    return members


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _names(one: Any, other: Any) -> list[str]:
    """The attributes of two objects of one type, as far as they lie in a dictionary."""
    return sorted({*getattr(one, "__dict__", ()), *getattr(other, "__dict__", ())})


def _sequences(one: Sequence[Any], other: Sequence[Any], place: str) -> str | None:
    if len(one) != len(other):
        return f"{place} (lengths {len(one)} and {len(other)})"
    names = getattr(one, "_fields", range(len(one)))
    return _first((f"{place}[{name!r}]", a, b) for name, a, b in zip(names, one, other, strict=True))


def _attributes(one: Any, other: Any, names: Sequence[str], place: str) -> str | None:
    missing = object()
    return _first(
        (f"{place}.{name}", getattr(one, name, missing), getattr(other, name, missing)) for name in names
    )


def _functions(one: FunctionType, other: FunctionType, place: str) -> str | None:
    """A function is its code and what it closes over."""
    if one.__code__ != other.__code__:
        return f"{place} (code)"

    def carried(function: FunctionType) -> list[Any]:
        cells = [_content(cell) for cell in function.__closure__ or ()]
        return [cells, function.__defaults__, function.__kwdefaults__, function.__dict__]

    return _difference(carried(one), carried(other), f"{place} (closure)")


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable was never assigned
        return None


def _first(items: Any) -> str | None:
    for place, one, other in items:
        difference = _difference(one, other, place)
        if difference is not None:
            return difference
    return None
