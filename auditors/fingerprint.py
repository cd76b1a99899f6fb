"""A fingerprint of an algorithm or of data: the same content, the same digest, in any process.

Pickles will not do: their bytes depend on which objects happen to be shared. A function is its code, its
defaults, what it closes over and what of its own package it names; moving it or rewording a comment
changes nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import struct
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpaudit.errors import InvalidParameter

_PLAIN = (bool, int, str, bytes, type(None), PurePath)


def fingerprint(value: object) -> str:
    """The SHA-256 digest, in hexadecimal, of what a value holds.

    An object with a ``fingerprint`` attribute that is a string is taken at its word.

    Raises:
        InvalidParameter: the content of some part cannot be seen.
    """
    return _digest(value, {}).hex()


def _digest(value: Any, known: dict[int, bytes]) -> bytes:
    """The digest of one value; `known` has the functions and classes met so far, and what is open."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, _PLAIN):
        return _hash(type(value).__name__, str(value).encode(errors="surrogatepass"))
    if isinstance(value, float):
        return _hash("float", struct.pack("<d", value))
    if isinstance(value, complex):
        return _hash("complex", struct.pack("<dd", value.real, value.imag))
    if isinstance(value, Enum):
        return _hash("enum", _name(type(value)), value.name.encode())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _hash("array", str(value.dtype).encode(), str(value.shape).encode(), value.tobytes())
    if isinstance(value, np.generic):
        return _hash("number", str(value.dtype).encode(), value.tobytes())
    own = None if isinstance(value, type) else getattr(value, "fingerprint", None)
    if isinstance(own, str):
        return _hash("stated", own.encode())
    known[id(value)] = _hash("met before", str(len(known)).encode())  # stands for it inside itself
    digest = _compound(value, known)
    if isinstance(value, (FunctionType, type)):
        known[id(value)] = digest
    else:
        del known[id(value)]  # it may be gone soon, and its id with it
    return digest


def _compound(value: Any, known: dict[int, bytes]) -> bytes:
    def several(kind: str, values: Iterable[Any]) -> bytes:
        return _hash(kind, *(_digest(each, known) for each in values))

    if isinstance(value, np.ndarray):
        return several(f"array {value.shape}", value.ravel().tolist())
    if isinstance(value, Mapping):
        return several("mapping", (each for pair in value.items() for each in pair))
    if isinstance(value, (list, tuple)):
        return several(type(value).__name__, value)
    if isinstance(value, AbstractSet):
        return _hash("set", *sorted(_digest(each, known) for each in value))
    if isinstance(value, FunctionType):
        return several("function", _function_parts(value))
    if isinstance(value, CodeType):
        # Constants include the code of functions defined inside; line numbers are left out.
        return several("code", (value.co_code, value.co_names, value.co_varnames, value.co_consts))
    if isinstance(value, MethodType):
        return several("method", (value.__func__, value.__self__))
    if isinstance(value, functools.partial):
        return several("partial", (value.func, value.args, value.keywords))
    if isinstance(value, (ModuleType, BuiltinFunctionType, np.ufunc)):
        return _hash("name", _name(value))
    if isinstance(value, type):
        return several("class", (_name(value), *_class_parts(value)))
    if isinstance(value, np.random.Generator):
        return several("generator", (value.bit_generator.state,))
    if callable(value) and hasattr(value, "__qualname__"):
        return _hash("name", _name(value))  # a function written in C
    return several("object", (type(value), *_state(value)))


def _function_parts(function: FunctionType) -> list[Any]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    parts: list[Any] = [function.__code__, function.__defaults__, function.__kwdefaults__, cells]
    package = function.__module__.partition(".")[0]
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            value = function.__globals__[name]
            # A helper beside the function is part of it; another package's is known by its name.
            parts += [name, value if _inside(value, package) else _name(value)]
    return parts


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _inside(value: Any, package: str) -> bool:
    """Whether a value that a function names counts by its content, not by its name."""
    if hasattr(value, "__qualname__"):
        # dpaudit's own version is part of a store's configuration.
        return package != "dpaudit" and value.__module__.partition(".")[0] == package
    return not isinstance(value, (ModuleType, BuiltinFunctionType, np.ufunc, logging.Logger))


def _class_parts(kind: type) -> list[Any]:
    """What a class of the user's own defines itself."""
    if kind.__module__.partition(".")[0] in {"builtins", "dpaudit", "numpy"}:
        return []
    functions = (FunctionType, property, staticmethod, classmethod)
    parts: list[Any] = []
    for name, value in sorted(vars(kind).items()):
        if isinstance(value, functions) or (isinstance(value, (*_PLAIN, float)) and name[:2] != "__"):
            inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            parts += [name, inner]
    return parts


def _state(value: Any) -> list[Any]:
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, BaseModel):
        return [(name, getattr(value, name)) for name in type(value).model_fields]
    if hasattr(value, "__dict__"):
        return sorted(vars(value).items())
    raise InvalidParameter(
        f"a {type(value).__module__}.{type(value).__qualname__}",
        where="fingerprint",
        why="trials are kept only for what can be recognised when they are resumed",
        remedy="give the object that holds it an attribute `fingerprint`, a string that names its content",
    )


def _name(value: Any) -> bytes:
    module = getattr(value, "__module__", "") or ""
    name = (
        getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or getattr(value, "name", "")
    )
    return f"{module}.{name}".encode()


def _hash(kind: str, *parts: bytes) -> bytes:
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
