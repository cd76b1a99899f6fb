"""How far a long computation, or the reading of a long file, has come, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dpaudit.app.text.streams import note, printable

#: Without a terminal a line is printed at each tenth, and at the latest after so many seconds.
INTERVAL = 30.0

#: Files below this size, in bytes, are read in a second or two: a bar would only flicker.
LONG = 20_000_000


class Progress:
    """Say after each finished part how many there are: as a bar on a terminal, else in plain lines.

    Used in a ``with`` block it leaves the terminal as it was, whatever happens.

    Args:
        total: how many parts there are.
        what: what they are called.
    """

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self.done = 0
        self._kept: int | None = None
        self._begun = self._said = time.monotonic()
        self._tenth = -1
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = None if self._bar is None else self._bar.add_task(what, total=total, detail="")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, done: int, detail: str = "") -> None:
        """Note that `done` parts are finished; the first call tells what was finished before.

        Args:
            done: how many.
            detail: what is known by now, in a few words.
        """
        if self._kept is None:
            self._kept = done
            self._begun = time.monotonic()
        self.done = done
        if self._bar is not None and self._task is not None:
            self._bar.start()
            self._bar.update(self._task, completed=done, detail=detail)
            if done == self.total:
                self.close()
            return
        tenth, now = 10 * done // max(self.total, 1), time.monotonic()
        if tenth != self._tenth or now - self._said >= INTERVAL:
            note(self._words() + (f"; {detail}" if detail else ""))
            self._tenth, self._said = tenth, now

    def close(self) -> None:
        """Leave the last state standing."""
        if self._bar is not None:
            self._bar.stop()

    def _words(self) -> str:
        words = f"{self.done} of {self.total} {self.what}"
        new = self.done - (self._kept or 0)
        if new and self.done < self.total:
            left = (time.monotonic() - self._begun) / new * (self.total - self.done)
            words += f", about {left:.0f} s left"
        return words


def _bar() -> Bar:
    return Bar(
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        console=Console(stderr=True),
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextmanager
def progress_on(path: Path) -> Iterator[Callable[[int], None] | None]:
    """A function that takes the number of bytes just read; None for a short file or without a terminal.

    The bar is gone afterwards, also after an error or Ctrl-C.
    """
    size = path.stat().st_size if path.is_file() else 0
    if size < LONG or not sys.stderr.isatty():
        yield None
        return
    with Bar(console=Console(stderr=True, markup=False), transient=True) as bars:
        bar = bars.add_task(printable(path.name), total=size)
        yield lambda read: bars.advance(bar, read)
