"""How far a long computation, or the reading of a long file, has come, on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dpaudit.app.text.streams import note, printable

#: Without a terminal a line is printed at each tenth, and at the latest after so many seconds.
INTERVAL = 30.0

#: Files below this size, in bytes, are read in a second or two: a bar would only flicker.
LONG = 20_000_000


class Progress:
    """Say after each finished part how many of a `total` there are: a bar on a terminal, else plain lines.

    Used in a ``with`` block it leaves the terminal as it was, whatever happens. `what` names the parts.
    """

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self._kept: int | None = None
        self._begun = self._said = time.monotonic()
        self._tenth = -1
        self._bar: Any = None  # rich's, which is slow to import
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            detail = TextColumn("{task.fields[detail]}", markup=False)
            name = TextColumn("{task.description}", markup=False)
            columns = (MofNCompleteColumn(), name, BarColumn(), TimeRemainingColumn(), detail)
            console = Console(stderr=True)
            self._bar = Bar(*columns, console=console, redirect_stdout=False, redirect_stderr=False)
        self._task = None if self._bar is None else self._bar.add_task(what, total=total, detail="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __call__(self, done: int, detail: str = "") -> None:
        """Note that `done` parts are finished, and a few words; the first call tells what was before."""
        if self._kept is None:
            self._kept = done
            self._begun = time.monotonic()
        if self._bar is not None and self._task is not None:
            self._bar.start()
            self._bar.update(self._task, completed=done, detail=detail)
            if done == self.total:
                self.close()
            return
        tenth, now = 10 * done // max(self.total, 1), time.monotonic()
        if tenth != self._tenth or now - self._said >= INTERVAL:
            words, new = f"{done} of {self.total} {self.what}", done - self._kept
            if new and done < self.total:
                words += f", about {(now - self._begun) / new * (self.total - done):.0f} s left"
            note(words + (f"; {detail}" if detail else ""))
            self._tenth, self._said = tenth, now

    def close(self) -> None:
        """Leave the last state standing."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def progress_on(path: Path) -> Iterator[Callable[[int], None] | None]:
    """A function that takes the number of bytes just read; None for a short file or without a terminal.

    The bar is gone afterwards, also after an error or Ctrl-C.
    """
    size = path.stat().st_size if path.is_file() else 0
    if size < LONG or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True, markup=False), transient=True) as bars:
        bar = bars.add_task(printable(path.name), total=size)
        yield lambda read: bars.advance(bar, read)
