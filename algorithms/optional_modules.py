"""Optional dependencies, imported where they are used."""

from importlib import import_module
from typing import Any

from dpaudit.errors import MissingExtra


def optional_module(module: str, extra: str, purpose: str) -> Any:
    """The module, or `MissingExtra` with the extra that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        what, why = f"{purpose} needs {module.partition('.')[0]}", "it is an optional dependency"
        raise MissingExtra(what, where=module, why=why, remedy=f"pip install 'dpaudit[{extra}]'") from error
