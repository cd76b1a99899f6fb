"""Shared parts of the library adapters: versions, temporary patches, and names of queries."""

import ast
import importlib
import itertools
import linecache
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from dpaudit.curator.curator import Curator
from dpaudit.errors import MissingExtra, UsageError
from dpaudit.ledger.places import nearest_caller, passed_over

#: The scale of noise that a library omits, because the sensitivity is 0 or epsilon is infinite. It is too
#: small to change results computed from the answer, but it reveals a query that moves.
NO_NOISE: Final = 2.0**-40

_OWN: Final = str(Path(__file__).parent) + os.sep
_LONGEST: Final = 60


@dataclass(frozen=True)
class Adapter:
    """The routing of one library's noise through a curator.

    Attributes:
        module: the name of the imported module.
        distribution: the name of the installed distribution.
        install: the argument of ``pip install``.
        versions: the known versions: from the first on, and below the second.
        routing: a context in which the curator draws the library's noise.
    """

    module: str
    distribution: str
    install: str
    versions: tuple[str, str]
    routing: Callable[[Curator], AbstractContextManager[None]]

    def installed(self) -> str:
        """Return the installed version.

        Raises:
            MissingExtra: the library is not installed, or cannot be imported.
            UsageError: this version's noise layer is not known.
        """
        try:
            importlib.import_module(self.module)
            version = importlib.metadata.version(self.distribution)
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            what, why = (
                f"{self.module} cannot be imported: {error}",
                "its noise is routed inside its own code",
            )
            raise MissingExtra(what, where="library", why=why, remedy=self.install) from None
        least, below = self.versions
        if not _numbers(least) <= _numbers(version) < _numbers(below):
            what = f"{self.distribution} {version}; known are versions from {least} on, below {below}"
            why = "noise that another version draws elsewhere would not be routed"
            remedy = "install a known version, or audit by sampling: --plain --method sequential"
            raise UsageError(what, where="library", why=why, remedy=remedy)
        return version


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's first numbers: 0.6.6rc1 is 0.6.6."""
    parts = (itertools.takewhile(str.isdigit, part) for part in version.split(".")[:3])
    return tuple(int("".join(digits) or "0") for digits in map(list, parts))


@contextmanager
def replaced(places: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes of classes and modules in the context: (owner, name, value)."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, value in places:
            before.append((owner, name, vars(owner)[name]))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def folder_of(module: str) -> str:
    """Return the folder of an imported module, as frames name it."""
    return str(Path(str(importlib.import_module(module).__file__)).parent) + os.sep


@dataclass(frozen=True)
class Asked:
    """The place that requests noise: a frame outside the folders of the library's noise layer."""

    folders: tuple[str, ...]

    def label(self) -> str:
        """Return a label: the query in the library's own words, and the function that asks it."""
        frame = nearest_caller((_OWN, *self.folders))
        if frame is None:
            return "query"
        name = frame.f_code.co_name.strip("<>")
        words = _first_argument(frame)
        return f"{words[:_LONGEST]} in {name}" if words else name

    def passed_over(self) -> AbstractContextManager[None]:
        """Attribute releases in the context to the place that requests them."""
        return passed_over((_OWN, *self.folders))


def _first_argument(frame: FrameType) -> str:
    """Return the source text of the first argument of a frame's current call, or of the call itself."""
    with suppress(StopIteration, SyntaxError, TypeError, ValueError):
        place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        first, last, start, end = place
        if first is None or last is None or start is None or end is None:
            return ""
        lines = [line.encode() for line in linecache.getlines(frame.f_code.co_filename)[first - 1 : last]]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][start:]
        call = ast.parse(b"".join(lines).decode(), mode="eval").body
        if isinstance(call, ast.Call):
            given = [*call.args, *(each.value for each in call.keywords)]
            return ast.unparse(given[0] if given else call)
    return ""


def refused(what: str, why: str) -> UsageError:
    """Return the error that an adapter raises for a part of the library that is not routed."""
    remedy = "audit it by sampling instead: without the library, --plain --method sequential"
    return UsageError(what, where="library", why=why, remedy=remedy)
