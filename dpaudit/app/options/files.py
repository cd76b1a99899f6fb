"""The files that a verb reads and writes: errors name them, and no output overwrites an input."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpaudit.errors import DpauditError, UsageError


@contextmanager
def about_file(path: Path) -> Iterator[None]:
    """Name the file in an error that says neither which file nor which option it is about."""
    try:
        yield
    except DpauditError as error:
        if error.where != str(path) and not error.where.startswith(("--", f"{path}:")):
            error.where = f"{path}: {error.where}" if error.where else str(path)
        raise


def make_folder(folder: Path) -> None:
    """Make the folder that ``-o`` names, or raise `UsageError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what, remedy = f"cannot be made a folder: {error.strerror}", "name another folder"
        raise UsageError(what, where=f"-o {folder}", why="nothing could be kept", remedy=remedy) from None


def require_no_input(output: Path, *inputs: Path) -> None:
    """Raise `UsageError` if the output is one of the inputs, under whatever name or link."""
    for given in inputs:
        same = False
        with suppress(OSError):  # one of the files is missing or not accessible
            same = output.samefile(given)
        if same:
            what = f"would be written over: it is {given}, which is read"
            why = "the output would overwrite its own input"
            raise UsageError(what, where=f"-o {output}", why=why, remedy="name another file")
