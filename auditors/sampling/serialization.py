"""An object as bytes that another process can load, without the script that defined it."""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

_INSTALLED = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")})


def shipped(value: object) -> bytes:
    """`value` pickled, its functions and classes by value unless they belong to an installed package.

    Closures and lambdas have no name to import them by, and the module of a script or a test cannot be
    imported from elsewhere: what it defines has to travel.

    Raises:
        Exception: whatever pickling raises for a part that cannot be pickled.
    """
    added = [module for module in _own_modules(value) if module.__name__ not in _registered()]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(value)
        return content
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _registered() -> set[str]:
    return set(cloudpickle.list_registry_pickle_by_value())


def _own_modules(value: object) -> set[ModuleType]:
    """The modules that define a value, its class and its attributes, as far as they are not installed."""
    names = {name for part in _parts(value, depth=3) for name in (_module(part), _module(type(part)))}
    modules = (sys.modules.get(name) for name in names if name is not None)
    return {module for module in modules if module is not None and not _importable(module)}


def _module(value: object) -> str | None:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else None


def _parts(value: Any, depth: int) -> Iterator[object]:
    yield value
    if depth == 0:
        return
    inner = list(vars(value).values()) if hasattr(value, "__dict__") and not isinstance(value, type) else []
    if isinstance(value, functools.partial):
        inner += [value.func, *value.args, *value.keywords.values()]
    for part in inner:
        yield from _parts(part, depth - 1)


def _importable(module: ModuleType) -> bool:
    """Whether a worker has the module: Python's own, an installed one, or dpaudit's."""
    if module.__name__.partition(".")[0] == "dpaudit" or getattr(module, "__file__", None) is None:
        return True
    file = Path(str(module.__file__))
    return any(file.is_relative_to(folder) for folder in _INSTALLED)
