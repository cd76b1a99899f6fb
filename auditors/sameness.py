"""Whether two outputs are the same, bit for bit, and where they first differ."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from types import FunctionType
from typing import Any

import numpy as np
from pydantic import BaseModel

_PLAIN = (bool, int, str, bytes, type(None), Enum)


class NotComparable(TypeError):
    """An output of a type that cannot be compared bit for bit; the message names it."""


def first_difference(one: Any, other: Any, place: str = "output") -> str | None:
    """Where two values first differ, without saying what they hold; None if they are the same.

    Floats are the same if their bits are, so that NaN equals itself and 0.0 differs from -0.0.

    Raises:
        NotComparable: a value is of a type whose content cannot be seen.
    """
    if type(one) is not type(other):
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
    return None if one.tobytes() == other.tobytes() else place


def _containers(one: Any, other: Any, place: str) -> str | None:
    if isinstance(one, Mapping):
        if list(one) != list(other):
            return f"{place} (keys)"
        return _first((f"{place}[{key!r}]", one[key], other[key]) for key in one)
    if isinstance(one, Sequence):
        return _sequences(one, other, place)
    if isinstance(one, AbstractSet):
        return None if one == other else place
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        return _attributes(one, other, [field.name for field in dataclasses.fields(one)], place)
    if isinstance(one, BaseModel):
        return _attributes(one, other, list(type(one).model_fields), place)
    if isinstance(one, FunctionType):
        return _functions(one, other, place)
    if isinstance(one, np.random.Generator):
        return _containers(one.bit_generator.state, other.bit_generator.state, place)
    if hasattr(one, "__dict__") and not isinstance(one, type):
        names = sorted({*vars(one), *vars(other)})
        return _attributes(one, other, names, place)
    raise NotComparable(f"{place} is a {type(one).__module__}.{type(one).__name__}")


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
    if one.__code__ is not other.__code__:
        return f"{place} (code)"

    def carried(function: FunctionType) -> list[Any]:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return [cells, function.__defaults__, function.__kwdefaults__]

    return first_difference(carried(one), carried(other), f"{place} (closure)")


def _first(items: Any) -> str | None:
    for place, one, other in items:
        difference = first_difference(one, other, place)
        if difference is not None:
            return difference
    return None
