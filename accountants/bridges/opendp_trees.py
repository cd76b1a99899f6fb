"""Rebuild OpenDP's serialised measurements with OpenDP itself, but only from constructors.

A serialised measurement names functions of the library and their arguments, and reading it calls them. The
library would call any name in its modules. Here every name must be a known constructor, and nothing is called
before the whole tree has passed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dpaudit.errors import CannotBound, MissingExtra, UsageError

#: Names that may be called, by module: constructors and their arguments.
_CONSTRUCTORS = {
    "measurements": re.compile(r"make_(?!user_|private_|proof_)\w+"),
    "transformations": re.compile(r"make_(?!user_|proof_)\w+"),
    "combinators": re.compile(r"make_(?!proof_)\w+"),
    "domains": re.compile(r"(?!_|user_|lazyframe_|wild_)\w+_domain"),
    "metrics": re.compile(r"(?!user_)\w+_distance"),
    "measures": re.compile(r"approximate|(?!user_)\w+_divergence"),
    "core": re.compile(r"(transformation_output|measurement_input)_(domain|metric)"),
}

#: Serialised expressions and frames of Polars: reading one may run code from the file.
_FOREIGN = ("__expr__", "__lazyframe__", "__margin__")

#: All fields of an object that the library converts, by the field that identifies it.
_FIELDS = {
    "__function__": {"__function__", "__module__", "__version__", "__kwargs__"},
    "__tuple__": {"__tuple__"},
}

_DEEPEST = 100


def library() -> Any:
    """Return the module `opendp.mod`. Raises `MissingExtra`: OpenDP is not installed, or cannot serialise."""
    try:
        found: Any = import_module("opendp.mod")
        what = f"opendp {getattr(found, '__version__', '')} has no deserialize"
    except ImportError:
        found, what = None, "OpenDP's measurements need opendp"
    if not hasattr(found, "deserialize"):
        why = "a measurement's figures come from the library's own map"
        raise MissingExtra(what, where="from_opendp", why=why, remedy="pip install 'dpaudit[opendp]'")
    return found


def name_of(tree: Any) -> str | None:
    """Return the name of the constructor at the top of a tree, or None."""
    name = tree.get("__function__") if isinstance(tree, Mapping) else None
    return name if isinstance(name, str) else None


def require_constructors(tree: Any, version: str) -> None:
    """Raise `UsageError` unless reading the tree calls only constructors of the installed version.

    Raises `UsageError`: another function, another version, an unknown field, or not a tree;
    `CannotBound`: parts that only Polars can read.
    """
    if name_of(tree) is None:
        what, remedy = "no serialised measurement", "give the result of opendp.mod.serialize(measurement)"
        raise UsageError(what, where="measurement", why="it names no constructor", remedy=remedy)
    _require(tree, version, "measurement", 0)


def _require(node: Any, version: str, place: str, depth: int) -> None:
    """Refuse any node that does more than build lists, tuples and constructors' results.

    OpenDP inspects every object of the text, whatever field holds it, innermost first. So no field may stand
    beside the fields that are checked here.
    """
    if depth > _DEEPEST:
        raise UsageError(f"more than {_DEEPEST} levels", where=place[:80], remedy="give one measurement")
    if isinstance(node, list | tuple):
        for position, item in enumerate(node):
            _require(item, version, f"{place}[{position}]", depth + 1)
        return
    if not isinstance(node, Mapping):
        return
    foreign = next((name for name in _FOREIGN if name in node), None)
    if foreign is not None:
        why = "reading it may run code from the file"
        remedy = "call from_opendp with the measurement itself, in the program that made it"
        raise CannotBound(f"a part {foreign!r} that Polars reads", where=place, why=why, remedy=remedy)
    known = next((fields for name, fields in _FIELDS.items() if name in node), set(node))
    for name in node:
        if name not in known:
            raise _unknown(name, place)
    if "__function__" in node:
        _require_constructor(node, version, place)
        node = node.get("__kwargs__", {})
        if not isinstance(node, Mapping):
            raise UsageError(f"arguments {str(node)[:40]!r}", where=place, remedy="give names and values")
    elif "__tuple__" in node:
        _require(node["__tuple__"], version, place, depth + 1)
        return
    for name, item in node.items():
        if not isinstance(name, str) or name.startswith("__"):
            raise _unknown(name, place)
        _require(item, version, f"{place}.{name}", depth + 1)


def _unknown(name: object, place: str) -> UsageError:
    what = f"a field {str(name)[:60]!r} that OpenDP does not write there"
    why = "reading a measurement calls every function that its fields name"
    remedy = "give the result of opendp.mod.serialize(measurement)"
    return UsageError(what, where=place[:80], why=why, remedy=remedy)


def _require_constructor(node: Mapping[str, Any], version: str, place: str) -> None:
    module, function = node.get("__module__"), node.get("__function__")
    allowed = _CONSTRUCTORS.get(module) if isinstance(module, str) else None
    if allowed is None or not isinstance(function, str) or not allowed.fullmatch(function):
        what = f"a call of {str(module)[:40]}.{str(function)[:60]}"
        why = "reading a measurement calls the functions it names, and this one is not a constructor"
        remedy = "give the result of opendp.mod.serialize(measurement)"
        raise UsageError(what, where=place, why=why, remedy=remedy)
    if node.get("__version__") != version:
        what = f"made by opendp {node.get('__version__')}, installed is {version}"
        why = "in that version the same constructor may draw different noise, and have another map"
        raise UsageError(what, where=place, why=why, remedy=f"pip install opendp=={node.get('__version__')}")


def rebuilt(node: Mapping[str, Any], place: str) -> Any:
    """Return the measurement or transformation of a tree that passed `require_constructors`.

    Raises `CannotBound`: OpenDP refuses to build it.
    """
    mod = library()
    # OpenDP may build parts without a complete proof, as their author allowed; other switches stay unchanged.
    before = "contrib" in mod.GLOBAL_FEATURES
    mod.enable_features("contrib")
    try:
        with answers(place, "does not build it"):
            return mod.deserialize(json.dumps(node))
    finally:
        if not before:
            mod.disable_features("contrib")


@contextmanager
def answers(place: str, refusal: str) -> Iterator[None]:
    """Turn OpenDP's errors into `CannotBound`."""
    try:
        yield
    except (MissingExtra, CannotBound, UsageError):
        raise
    except Exception as error:  # noqa: BLE001  (its Python layer raises many types)
        said = " ".join(str(error).split())
        why = "a measurement's cost comes from its own map at that distance"
        remedy = "correct the distance, or give the measurement as OpenDP serialised it"
        raise CannotBound(f"OpenDP {refusal}: {said[:200]}", where=place, why=why, remedy=remedy) from None
