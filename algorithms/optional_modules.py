"""Optional dependencies, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpaudit.errors import MissingExtra


def optional_module(module: str, extra: str, purpose: str) -> Any:
    """The module, or `MissingExtra` with the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {module.partition('.')[0]}",
            where=module,
            why="it is an optional dependency",
            remedy=f"pip install 'dpaudit[{extra}]'",
        ) from error
