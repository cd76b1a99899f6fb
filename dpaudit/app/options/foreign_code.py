"""Load and run a user's code: errors name that code as the cause, and reports omit its messages."""

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from dpaudit.app.text.streams import ReaderGone, note
from dpaudit.app.text.target_text import (
    SHOW,
    is_from_outside,
    is_shown,
    is_targets_own,
    place_of,
    public_words,
    target_streams,
)
from dpaudit.errors import DpauditError, TargetRaised, UsageError
from dpaudit.progress import Work


class TargetFailed(UsageError):
    """A user's code raised an exception of its own, or asked the interpreter to exit."""


@contextlib.contextmanager
def foreign_code(reference: str, doing: str, *, shown: bool | None = None) -> Iterator[None]:
    """Report what goes wrong inside as a fault of `reference`; stdout stays free for the answer.

    What the code prints and the words of its exceptions go to stderr where they are `shown`; left out, as
    `is_shown` says. Raises `TargetFailed`, without those words.
    """
    shown = is_shown() if shown is None else shown
    try:
        with Work(doing), target_streams(reference, doing, shown=shown):
            yield
    except ReaderGone:
        raise
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(*(() if is_targets_own(stop) else stop.args)) from None
    except BaseException as error:  # also what is no Exception: SystemExit, a framework's cancellation
        place = place_of(error)
        if isinstance(error, DpauditError) and not is_targets_own(error):
            error.raised_at = error.raised_at or (place if is_from_outside(error) else "")
            cause = error.__cause__  # the exception that the target raised in a failed trial
            if shown and cause and (isinstance(cause, TargetRaised) or is_targets_own(cause)):
                _show(reference, cause)
            raise
        kind = error.kind if isinstance(error, TargetRaised) else type(error).__name__
        if shown:
            _show(reference, error)
        what = f"{kind}{public_words(error)} while {doing}"
        why = "an algorithm that fails cannot be judged"
        hidden = "" if shown else f"{SHOW} shows its message, "
        remedy = f"correct it; {hidden}--traceback shows where it failed"
        raise TargetFailed(what, where=f"{reference} ({place})", why=why, remedy=remedy) from error


def _show(reference: str, error: BaseException) -> None:
    """Print a target's own exception message on stderr."""
    found = (
        (error.kind, error.text) if isinstance(error, TargetRaised) else (type(error).__name__, str(error))
    )
    if found[1]:
        note(f"{reference} ({place_of(error)}): {': '.join(found)}")


def load(reference: str, option: str, suits: Callable[[Any], bool] = callable) -> Any:
    """The object that ``path.py:name`` or ``package.module:name`` refers to.

    `option` is what it was given for. Where the name is not there, similar ones are suggested whose objects
    `suits` accepts. Raises `UsageError`: no such file, module or name, or importing it fails.
    """
    location, colon, name = reference.rpartition(":")
    if not colon or not location or not name:
        why, remedy = "a file or module holds many objects", "write path.py:NAME or package.module:NAME"
        raise UsageError(f"{option} {reference!r} names no object", where=option, why=why, remedy=remedy)
    is_file = location.endswith(".py") or "/" in location
    module = _from_file(location, reference, option) if is_file else _by_name(location, reference, option)
    if not hasattr(module, name):
        known = [own for own, value in vars(module).items() if not own.startswith("_") and suits(value)]
        near = difflib.get_close_matches(name, known, n=3)
        why = "there is nothing to run"
        remedy = f"did you mean {', '.join(near)}?" if near else "name something that it defines"
        raise UsageError(f"{location} has no {name!r}", where=f"{option} {reference}", why=why, remedy=remedy)
    return getattr(module, name)


def _from_file(location: str, reference: str, option: str) -> ModuleType:
    path = Path(location)
    if not path.is_file():
        what = f"{location} is {'a folder' if path.is_dir() else 'not there'}"
        remedy = "name a Python file that exists"
        raise UsageError(what, where=f"{option} {reference}", why="there is nothing to run", remedy=remedy)
    path = path.resolve()
    # One file is one module, however often it is named: TARGET and --pair share its classes.
    name = f"dpaudit_target_{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        what, where = f"{location} is no Python file", f"{option} {reference}"
        raise UsageError(what, where=where, remedy="name a file that ends in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    _search_first(str(path.parent))  # as `python path.py` does: its neighbours can be imported
    try:
        with foreign_code(reference, "importing it"):
            specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _by_name(location: str, reference: str, option: str) -> ModuleType:
    _search_first(str(Path.cwd()))  # as `python -m` does
    try:
        with foreign_code(reference, "importing it"):
            return importlib.import_module(location)
    except UsageError as error:
        cause = error.__cause__
        missing = cause.name if isinstance(cause, ModuleNotFoundError) else None
        if missing is not None and (location == missing or location.startswith(f"{missing}.")):
            what, why = f"no module named {missing!r}", "there is nothing to run"
            remedy = "run from the folder that holds it, or install it; a file is named with its .py"
            raise UsageError(what, where=f"{option} {reference}", why=why, remedy=remedy) from None
        raise


def _search_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)
