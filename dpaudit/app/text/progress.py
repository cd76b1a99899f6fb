"""Progress of long work on stderr: a temporary bar at a terminal, a few lines in a log."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from dpaudit.app.text.streams import note
from dpaudit.page.printable import printable
from dpaudit.progress import Work, shown_by, words

#: In a log a line is printed at each tenth, and at the latest after so many seconds.
INTERVAL = 30.0

#: Files below this size, in bytes, are read in a second or two: a bar would only flicker.
LONG = 20_000_000

_MEGABYTE = 1_000_000


def progress_shown() -> AbstractContextManager[None]:
    """Show progress inside: a bar at a terminal, lines in a log, nothing in continuous integration."""
    if os.environ.get("CI"):
        return shown_by(lambda _: None)
    return shown_by(_Bar() if sys.stderr.isatty() else _Lines())


class _Bar:
    """The innermost work as one line at the bottom of the terminal.

    It is drawn whenever there is something new, and by no thread of its own: targets' processes are forks of
    this one. One line, because rich would erase what a target printed between two.
    """

    def __init__(self) -> None:
        self._bar: Any = None  # rich's, which is slow to import
        self._work: Work | None = None

    def __call__(self, under_way: Sequence[Work]) -> None:
        if not under_way:
            self._close()
            return
        if self._bar is None:
            self._bar = _rich_bar()
            self._bar.start()
        work = under_way[-1]
        if work is not self._work:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task("", total=work.total)
            self._work = work
        task = self._bar.task_ids[0]
        shown = printable(words(under_way))
        self._bar.update(task, completed=work.done, total=work.total, description=shown, refresh=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._work = None


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))
    columns = (BarColumn(20), TimeRemainingColumn(compact=True), name)
    quiet: Any = {"redirect_stdout": False, "redirect_stderr": False, "auto_refresh": False}
    return Progress(*columns, console=Console(stderr=True), transient=True, expand=True, **quiet)


class _Lines:
    """Long work that is no part of other counted work, as lines of a log."""

    def __init__(self) -> None:
        self._work: Work | None = None
        self._before = 0  # what was done already when it was first told of
        self._begun = self._said = 0.0
        self._tenth = -1

    def __call__(self, under_way: Sequence[Work]) -> None:
        work = next((one for one in under_way if one.total is not None), None)
        if work is None or work.total is None or not work.lasting or not work.told:
            return
        now = time.monotonic()
        if work is not self._work:
            self._work, self._before, self._begun, self._said, self._tenth = work, work.done, now, now, -1
        tenth = 10 * work.done // max(work.total, 1)
        if tenth == self._tenth and now - self._said < INTERVAL:
            return
        said, new = f"{work.done} of {work.total} {work.what}", work.done - self._before
        if new and work.done < work.total:
            said += f", about {(now - self._begun) / new * (work.total - work.done):.0f} s left"
        note(said + (f"; {work.detail}" if work.detail else ""))
        self._tenth, self._said = tenth, now


@contextmanager
def progress_on(path: Path) -> Iterator[Callable[[int], None] | None]:
    """A function that takes the number of bytes just read; None for a short file."""
    size = path.stat().st_size if path.is_file() else 0
    if size < LONG:
        yield None
        return
    read = 0
    with Work(f"MB of {printable(path.name)}", -(-size // _MEGABYTE)) as work:

        def told(more: int) -> None:
            nonlocal read
            read += more
            work(read // _MEGABYTE)

        yield told
