"""One room a paper: its algorithms line by line, their entries in the catalogue, and its figures.

A room registers its figures. `FIGURES` in its `__init__.py` says what each shows, by name; `STUDIES` in its
`figure.py` says how each is drawn. `EARLIER` maps earlier names to names, if there are any.
"""

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def rooms() -> tuple[ModuleType, ...]:
    """Every paper's room, in the order of their names; figures and algorithms are not imported."""
    return tuple(import_module(f"{__name__}.{room.name}") for room in pkgutil.iter_modules(__path__))
