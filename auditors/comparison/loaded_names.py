"""Which global variables a function's code reads, and which ones a module's functions write."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any


def global_names(code: CodeType) -> set[str]:
    """The global variables, and builtins, that the code and the functions inside it read."""
    return _named(code, {"LOAD_GLOBAL", "LOAD_NAME"})


def written_names(namespace: Mapping[str, Any]) -> set[str]:
    """The global variables that a module's functions and methods assign by a ``global`` statement.

    Assignments from elsewhere, by ``globals()`` or on the module itself, are not seen.
    """
    written: set[str] = set()
    for function in _functions(namespace):
        written |= _named(function.__code__, {"STORE_GLOBAL", "DELETE_GLOBAL"})
    return written


def _named(code: CodeType, operations: set[str]) -> set[str]:
    names = {str(step.argval) for step in dis.get_instructions(code) if step.opname in operations}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _named(constant, operations)
    return names


def _functions(namespace: Mapping[str, Any]) -> Iterator[FunctionType]:
    for value in list(namespace.values()):
        inside = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in inside:
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType) and function.__globals__ is namespace:
                yield function
