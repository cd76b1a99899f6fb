"""How far a long file has been read: a bar on stderr where that is a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from dpaudit.app.text.output import printable

#: Files below this size, in bytes, are read in a second or two: a bar would only flicker.
LONG = 20_000_000


@contextmanager
def progress_on(path: Path) -> Iterator[Callable[[int], None] | None]:
    """A function to be told of bytes that have been read, or None where nobody would see it.

    The bar is gone afterwards, also after an error or Ctrl-C.
    """
    size = path.stat().st_size if path.is_file() else 0
    if size < LONG or not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(stderr=True, markup=False), transient=True) as bars:
        bar = bars.add_task(printable(path.name), total=size)
        yield lambda read: bars.advance(bar, read)
