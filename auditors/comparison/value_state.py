"""What single values hold: scalars, members, attributes, a function's closure and globals, a pandas table."""

import dis
import struct
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

SCALARS = frozenset({bool, int, float, complex, str, bytes, type(None)})
#: Types that hold nothing but their items; a subclass may hold more.
EXACT = SCALARS | {list, tuple, dict, set, frozenset, range, MappingProxyType}

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made at run time, whose attributes any code may set


class NotComparable(TypeError):
    """An output of a type that cannot be compared bit for bit; the message names it."""


def constant(value: Any) -> bool:
    """Whether a value that both runs share cannot have changed between them."""
    if isinstance(value, tuple | frozenset):
        return all(map(constant, value))
    if isinstance(value, type):
        return not value.__flags__ & HEAP_TYPE
    return type(value) in SCALARS or isinstance(
        value, FunctionType | BuiltinFunctionType | ModuleType | np.ufunc | Enum
    )


def foreign(value: Any, module: Mapping[str, Any]) -> bool:
    """Whether a class or function was imported from another module, whose state is not followed."""
    return hasattr(value, "__qualname__") and getattr(value, "__module__", None) != module.get("__name__")


def named(one: Any, other: Any, place: str) -> str | None:
    """A value that is known by its name alone, a builtin function or class: the same if it is one object."""
    if one is not other:
        raise NotComparable(f"{place} is a {full_name(type(one))}")
    if isinstance(one, type) and one.__flags__ & HEAP_TYPE:
        raise NotComparable(f"{place} is a class, one object in both runs, whose attributes may have changed")
    return None


def scalars(one: Any, other: Any, place: str) -> str | None:
    """Scalars, and instances of subclasses as plain scalars, whatever their own equality is."""
    if isinstance(one, float):
        same = struct.pack("<d", one) == struct.pack("<d", other)
    elif isinstance(one, complex):
        same = struct.pack("<dd", one.real, one.imag) == struct.pack("<dd", other.real, other.imag)
    else:
        plain = next((kind for kind in (int, str, bytes) if isinstance(one, kind)), None)
        same = one is other if plain is None else plain.__eq__(one, other)
    return None if same else place


def entries(one: Any, other: Any, place: str) -> str | None:
    """The bytes of two arrays or numpy scalars of one type.

    `NotComparable` is raised where only the bytes between fields differ, which are uninitialised memory.
    """
    if one.tobytes() == other.tobytes():
        return None
    if one.dtype.names and _packed(one) == _packed(other):
        what = "has bytes between its fields that are uninitialised memory: return its fields"
        raise NotComparable(f"{place} {what}")
    return place


def _packed(value: Any) -> bytes:
    """The bytes of all fields, one after the other."""
    if not value.dtype.names:
        return bytes(value.tobytes())
    return b"".join(_packed(value[name]) for name in value.dtype.names)


def held_state(rest: Sequence[Any]) -> tuple[Any, list[Any], list[Any]]:
    """State, items and pairs, from what `__reduce_ex__` returns after function and arguments."""
    state, items, pairs = [*rest[:3], None, None, None][:3]
    return state, list(items or ()), list(pairs or ())


def members(values: AbstractSet[Any], place: str) -> set[tuple[str, Any]]:
    """A set's members as values that are equal only if they are the same."""
    for value in values:
        if not (type(value) in SCALARS or isinstance(value, Enum)):
            raise NotComparable(f"{place} is a set of {full_name(type(value))}")
    return {
        (full_name(type(value)), struct.pack("<d", value) if type(value) is float else value)
        for value in values
    }


def full_name(kind: type) -> str:
    """The name of a type, with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


def names(one: Any, other: Any) -> list[str]:
    """The attributes that two objects of one type hold in a dictionary."""
    return sorted({*getattr(one, "__dict__", ()), *getattr(other, "__dict__", ())})


def carried(function: FunctionType) -> tuple[Any, ...]:
    """What a function holds beside its code: closure, defaults and attributes."""
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # the variable was never assigned
            cells.append(None)
    keywords = tuple(sorted((function.__kwdefaults__ or {}).items()))
    return tuple(cells), function.__defaults__ or (), keywords, tuple(function.__dict__.items())


def pandas_parts(value: Any) -> dict[str, Any] | None:
    """The public parts of a pandas table, column or index, by name; None for any other value.

    Its pickle cannot be compared, since it holds a weak reference and caches. pandas is never imported.
    """
    kind = next((kind for kind in type(value).__mro__ if kind.__module__.partition(".")[0] == "pandas"), None)
    if kind is None:
        return None
    match kind.__name__:
        case "DataFrame":
            parts = {f"column {position}": value.iloc[:, position] for position in range(value.shape[1])}
            parts |= {"index": value.index, "columns": value.columns, "attrs": value.attrs}
        case "Series":
            parts = {"values": value.array, "index": value.index, "name": value.name, "attrs": value.attrs}
        case "RangeIndex":
            parts = {"range": (value.start, value.stop, value.step), "names": list(value.names)}
        case "MultiIndex":
            parts = {"levels": list(value.levels), "codes": list(value.codes), "names": list(value.names)}
        case "NumpyExtensionArray":
            parts = {"numpy": value.to_numpy()}
        case "Categorical":
            parts = {"categories": value.categories, "codes": value.codes, "ordered": value.ordered}
        case name if name.endswith("Index"):
            parts = {"values": value.array, "names": list(value.names)}
        case name if name.endswith("Array"):
            parts = {"type": str(value.dtype), "values": list(value.astype(object))}
        case _:
            return None
    if kind.__name__ in {"DataFrame", "Series"} or type(value) is not kind:
        own = getattr(value, "__dict__", {})
        parts |= {f".{name}": own[name] for name in sorted(own) if not name.startswith("_")}
    return parts


def global_names(code: CodeType) -> set[str]:
    """The global variables, and builtins, that the code and the functions inside it read."""
    return _named(code, {"LOAD_GLOBAL", "LOAD_NAME"})


def written_names(namespace: Mapping[str, Any]) -> set[str]:
    """The global variables that a module's functions and methods assign by a ``global`` statement.

    Assignments from elsewhere, by ``globals()`` or on the module itself, are not detected.
    """
    written: set[str] = set()
    for value in list(namespace.values()):
        for member in list(vars(value).values()) if isinstance(value, type) else [value]:
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType) and function.__globals__ is namespace:
                written |= _named(function.__code__, {"STORE_GLOBAL", "DELETE_GLOBAL"})
    return written


def _named(code: CodeType, operations: set[str]) -> set[str]:
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname in operations}
    inner = (_named(each, operations) for each in code.co_consts if isinstance(each, CodeType))
    return names.union(*inner)
