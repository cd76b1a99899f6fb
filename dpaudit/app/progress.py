"""How far a long computation has come, on stderr."""

from __future__ import annotations

import sys
import time

import click


class Progress:
    """Say after each finished part how many there are: on one line of a terminal, else at each tenth.

    Args:
        total: how many parts there are.
        what: what they are called.
    """

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self.done = 0
        self._kept: int | None = None
        self._begun = time.monotonic()
        self._live = sys.stderr.isatty()
        self._tenth = -1

    def __call__(self, done: int) -> None:
        """Note that `done` parts are finished; the first call tells what was finished before."""
        if self._kept is None:
            self._kept = done
            self._begun = time.monotonic()
        self.done = done
        tenth = 10 * done // max(self.total, 1)
        if self._live:
            click.echo(f"\r{self._words()}\x1b[K", nl=done == self.total, err=True)
        elif tenth != self._tenth:
            click.echo(self._words(), err=True)
        self._tenth = tenth

    def _words(self) -> str:
        words = f"{self.done} of {self.total} {self.what}"
        new = self.done - (self._kept or 0)
        if new and self.done < self.total:
            left = (time.monotonic() - self._begun) / new * (self.total - self.done)
            words += f", about {left:.0f} s left"
        return words
