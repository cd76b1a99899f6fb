"""A fingerprint of an algorithm or of data: the same content has the same digest, in any process.

Pickles are not suitable: their bytes depend on which objects happen to be shared. A function is its code, its
defaults, its closure and what it names of its own package or of any module that is not installed; a class is
what it and its bases of that kind define. Changing a comment changes nothing.
"""

import copyreg
import dataclasses
import functools
import hashlib
import logging
import os
import random
import struct
import sys
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import Path, PurePath
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np
from pydantic import BaseModel

from dpaudit.auditors.comparison.value_state import EXACT, HEAP_TYPE, carried, held_state
from dpaudit.errors import InvalidParameter

_PLAIN = (bool, int, str, bytes, type(None), PurePath)
_CACHED = type(functools.cache(len))
_BY_NAME = {"builtins", "dpaudit", "numpy", *sys.stdlib_module_names}
_LIBRARY = Path(os.__file__).resolve().parent  # the standard library's folder
_SLOTS = (GetSetDescriptorType, MemberDescriptorType)
#: The attributes that make up the content of a value of each type. The constants of code include the code of
#: functions defined inside; line numbers are left out.
_CONTENT: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (CodeType, "code", ("co_code", "co_names", "co_varnames", "co_consts")),
    (MethodType, "method", ("__func__", "__self__")),
    (functools.partial, "partial", ("func", "args", "keywords")),
    (_CACHED, "cached", ("__wrapped__",)),
    (functools.cached_property, "cached property", ("func",)),
    (property, "property", ("fget", "fset")),
    (staticmethod, "staticmethod", ("__func__",)),
    (classmethod, "classmethod", ("__func__",)),
)
#: Generators that everything shares: every trial seeds them, so that their state does not matter.
_SHARED = tuple(getattr(draw, "__self__") for draw in (random.random, np.random.random))  # noqa: B009


def fingerprint(value: object) -> str:
    """The SHA-256 digest, in hexadecimal, of a value's content.

    For an object with a ``fingerprint`` attribute that is a string, that string is its content.
    `InvalidParameter` is raised where the content of some part cannot be inspected.
    """
    return _digest(value, {}).hex()


def _digest(value: Any, known: dict[int, bytes]) -> bytes:
    """The digest of one value; `known` has functions and classes already digested, and enclosing values."""
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, _PLAIN):
        return _hash(type(value).__name__, str(value).encode(errors="surrogatepass"))
    if isinstance(value, float):
        return _hash("float", struct.pack("<d", value))
    if isinstance(value, complex):
        return _hash("complex", struct.pack("<dd", value.real, value.imag))
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

    def items(kind: str, values: Iterable[Any]) -> bytes:
        # A subclass may carry more than its items.
        more = () if type(value) in EXACT else (type(value), sorted(getattr(value, "__dict__", {}).items()))
        return several(kind, (*more, *values))

    if isinstance(value, Enum):
        return several("enum", (type(value), value.name, value.value))
    if isinstance(value, np.ndarray):
        return several(f"array {value.shape}", value.ravel().tolist())
    if isinstance(value, Mapping):
        return items("mapping", (each for pair in value.items() for each in pair))
    if isinstance(value, (list, tuple)):
        return items(type(value).__name__, value)
    if isinstance(value, AbstractSet):
        # In the order of the digests, none of which may depend on the members before it.
        return _hash("set", *sorted(_digest(each, dict(known)) for each in value))
    if isinstance(value, FunctionType):
        package, names = (value.__module__ or "").partition(".")[0], _names(value.__code__)
        parts = (value.__code__, *carried(value), *_named(value.__globals__, names, package, ()))
        return several("function", parts)
    for kind, name, attributes in _CONTENT:
        if isinstance(value, kind):
            return several(name, (getattr(value, attribute) for attribute in attributes))
    if isinstance(value, (ModuleType, np.ufunc, logging.Logger)) or any(value is each for each in _SHARED):
        return _hash("name", _name(value), _name(type(value)))
    if isinstance(value, type):
        return several("class", (_name(value), *_class_parts(value)))
    if isinstance(value, np.random.Generator):
        return several("generator", (value.bit_generator.state,))
    if callable(value) and hasattr(value, "__qualname__") and not type(value).__flags__ & HEAP_TYPE:
        # Written in C, perhaps bound to a value: `", ".join`.
        owner = getattr(value, "__self__", None)
        return several("name", (_name(value), None if isinstance(owner, (ModuleType, type)) else owner))
    return several("object", (type(value), *_state(value)))


def _named(
    namespace: Mapping[str, Any], names: set[str], package: str, above: tuple[ModuleType, ...]
) -> list[Any]:
    """What these names stand for in a namespace; for a module of the user's own, in that module."""
    parts: list[Any] = []
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if not _inside(value, package):
            parts += [name, _name(value)]
        elif not isinstance(value, ModuleType):
            parts += [name, value]
        elif value not in above:
            # A module's code, since its functions may be fetched by name too; for one in C its file.
            try:
                code = value.__loader__.get_code(value.__name__)  # type: ignore[union-attr]
            except (AttributeError, ImportError):
                code = None
            code = Path(str(value.__file__)).read_bytes() if code is None else code
            parts += [name, code, *_named(vars(value), names, package, (*above, value))]
    return parts


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _inside(value: Any, package: str) -> bool:
    """Whether a value that a function names is digested by content, not by name."""
    if isinstance(value, ModuleType):
        return _own(value.__name__)
    if not hasattr(value, "__qualname__"):
        return True
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return True  # a method of a builtin
    # dpaudit's own version is part of a store's configuration.
    return (package != "dpaudit" and module.partition(".")[0] == package) or _own(module)


def _own(module: str) -> bool:
    """Whether a module is the user's own: neither dpaudit's nor the standard library's nor installed."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module.partition(".")[0] == "dpaudit":
        return False
    path = Path(file).resolve()
    return not path.is_relative_to(_LIBRARY) and not {"site-packages", "dist-packages"} & {*path.parts}


def _class_parts(kind: type) -> list[Any]:
    """What a class and its bases define, as far as they are the user's own."""
    parts: list[Any] = []
    for each in kind.__mro__:
        package = each.__module__.partition(".")[0]
        if (each is not kind or package in _BY_NAME) and not _own(each.__module__):
            parts.append(_name(each))
            continue
        for name, value in sorted(vars(each).items()):
            function = isinstance(value, (FunctionType, property, staticmethod, classmethod))
            # Python's own entries have names like __doc__; the value of a slot belongs to the object.
            if function or not (name[:2] == "__" or name == "_abc_impl" or isinstance(value, _SLOTS)):
                parts += [name, value if _inside(value, package) else _name(value)]
    return parts


def _state(value: Any) -> list[Any]:
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, BaseModel):
        return [(name, getattr(value, name)) for name in type(value).model_fields]
    if type(value) is object:
        raise _unseen(value)
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(2) if reduce is None else reduce(value)
    except Exception as error:
        raise _unseen(value) from error
    if isinstance(reduced, str):
        return [reduced]
    make, arguments, *rest = reduced
    state, *others = held_state(rest)
    # The order in which attributes were set does not matter.
    if type(state) is dict:
        state = sorted(state.items(), key=lambda item: str(item[0]))
    return [_name(make), arguments, state, *others]


def _unseen(value: Any) -> InvalidParameter:
    what = f"a {type(value).__module__}.{type(value).__qualname__}"
    why = "trials are kept only for what can be recognised when they are resumed"
    remedy = "give the object that holds it an attribute `fingerprint`, a string that names its content"
    return InvalidParameter(what, where="fingerprint", why=why, remedy=remedy)


def _name(value: Any) -> bytes:
    module = getattr(value, "__module__", "") or ""
    names = (getattr(value, name, None) for name in ("__qualname__", "__name__", "name"))
    return f"{module}.{next(filter(None, names), '')}".encode()


def _hash(kind: str, *parts: bytes) -> bytes:
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
