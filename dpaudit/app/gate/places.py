"""A finding's place: the line of the claim, of a release or of the algorithm."""

import ast
import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.app.gate.report import Place

_PLACE = re.compile(r"(?P<file>[^:\n]+):(?P<line>[0-9]{1,9})(?::|$)")


@dataclass(frozen=True)
class Places:
    """The lines that belong to one check.

    Attributes:
        whole: what is judged: an algorithm's definition, or a ledger's first line.
        claim: where the claim is stated, or as `whole` if that is in the configuration.
        release: where something was released under a label, if that is known; else as `whole`.
    """

    whole: Place
    claim: Place
    release: Callable[[str], Place]


def place_in(text: str, root: Path) -> Place | None:
    """Return the place at the start of a text, if it is a line of a file below the root."""
    found = _PLACE.match(text)
    if found is None or not Path(found["file"]).is_file():
        return None
    place = Place.of(Path(found["file"]).resolve(), int(found["line"]), root.resolve())
    return None if Path(place.file).is_absolute() else place


def definition(algorithm: Any, root: Path) -> Place | None:
    """Where an algorithm is defined, if that is below the root."""
    while isinstance(algorithm, functools.partial):
        algorithm = algorithm.func
    plain = inspect.unwrap(algorithm)
    defined = plain if inspect.isroutine(plain) else type(plain)
    with contextlib.suppress(OSError, TypeError):
        file = inspect.getsourcefile(defined)
        _, line = inspect.getsourcelines(defined)
        if file is not None:
            return place_in(f"{file}:{line}", root)
    return None


def claim_in_source(reference: str, algorithm: Any, root: Path) -> Place | None:
    """The line below the root that gives an algorithm its claim, read from its source; None if none is seen.

    Seen are ``NAME.claim = ...`` of the reference's name and of the function, ``NAME = Kind(claim=...)``, and
    ``claim`` in the body of the algorithm's class.
    """
    location, _, name = reference.rpartition(":")
    file = location if location.endswith(".py") else getattr(sys.modules.get(location), "__file__", None)
    candidates = [(file, name)]
    with contextlib.suppress(TypeError):
        while isinstance(algorithm, functools.partial):
            algorithm = algorithm.func
        kinds = [algorithm] if inspect.isroutine(algorithm) else type(algorithm).__mro__[:-1]
        candidates += [(inspect.getsourcefile(kind), kind.__name__) for kind in kinds]
    for path, named in candidates:
        if path is not None and (line := _claim_line(Path(path), named)) is not None:
            return place_in(f"{path}:{line}", root)
    return None


def _claim_line(path: Path, name: str) -> int | None:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    # The last assignment is the one in force.
    return max((line for node in ast.walk(tree) for line in _claims(node, name)), default=None)


def _claims(node: ast.AST, name: str) -> Iterator[int]:
    if isinstance(node, ast.ClassDef) and node.name == name:
        for one in node.body:
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            names = [getattr(target, "id", None) for target in targets]
            if "claim" in names or getattr(one, "name", None) == "claim":
                yield one.lineno
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Attribute) and target.attr == "claim":
            if isinstance(target.value, ast.Name) and target.value.id == name:
                yield node.lineno
        elif isinstance(target, ast.Name) and target.id == name and isinstance(node.value, ast.Call):
            yield from (word.value.lineno for word in node.value.keywords if word.arg == "claim")
