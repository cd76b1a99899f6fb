"""One room a paper: its algorithms line by line, their entries in the catalogue, and its figures.

A room whose module names `FIGURES` - what each shows, by its name - has them as `STUDIES` in its `figure.py`,
and may name earlier names of figures as `EARLIER`.
"""

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def rooms() -> tuple[ModuleType, ...]:
    """Every paper's room, in the order of their names; figures and algorithms are not imported."""
    return tuple(import_module(f"{__name__}.{room.name}") for room in pkgutil.iter_modules(__path__))
