"""Progress of long work, reported by the working code and shown at a terminal or in a notebook.

A command shows it at a terminal (`dpaudit.app.text.progress`), and a notebook shows it automatically;
otherwise nothing is shown.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from time import monotonic
from typing import Any, Self, TypeAlias

#: The least time between two updates, in seconds.
BETWEEN = 0.1


@dataclass(eq=False)
class Work:
    """Work that may take longer than two seconds; `what` names its `total` parts or the current activity.

    Use it in a ``with`` block, and call it with the number of `done` parts and a short detail. Without a
    total it shows only the current activity. Progress of `lasting` work is also written to a log if there is
    no terminal.
    """

    what: str
    total: int | None = None
    lasting: bool = False
    done: int = 0
    detail: str = ""
    told: float = 0.0

    def __enter__(self) -> Self:
        _tell(lambda under_way: under_way.append(self))
        return self

    def __exit__(self, *raised: object) -> None:
        _tell(lambda under_way: under_way.remove(self) if self in under_way else None)

    def __call__(self, done: int, detail: str = "", total: int | None = None) -> None:
        """Report that `done` parts are finished; `detail` must contain nothing private.

        `total` is the number of parts, if it has changed.
        """
        self.done, self.detail = done, detail
        self.total = self.total if total is None else total
        now = monotonic()
        if now - self.told >= BETWEEN or done == self.total:
            self.told = now
            _tell()


#: Shows the current work, innermost last; called after every change, and at the end with an empty list.
Display: TypeAlias = Callable[[Sequence[Work]], object]


class _Watched:
    """A display and the work that it shows, for one process without its forked children."""

    def __init__(self, display: Display) -> None:
        self.display, self.process = display, os.getpid()
        self.under_way: list[Work] = []


_WATCHED: ContextVar[_Watched | None] = ContextVar("watched", default=None)


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Show the work inside the block with `display`."""
    token = _WATCHED.set(_Watched(display))
    try:
        yield
    finally:
        _WATCHED.reset(token)


def _tell(change: Callable[[list[Work]], object] = lambda _: None) -> None:
    watched = _WATCHED.get()
    if watched is None and (show := _in_notebook()) is not None:
        watched = _Watched(show)
        _WATCHED.set(watched)
    if watched is not None and watched.process == os.getpid():
        change(watched.under_way)
        watched.display(watched.under_way)


class _NotebookBar:
    """A display that shows the innermost work as one bar in the running cell and removes it at the end."""

    def __init__(self, shell: Any, display: Callable[..., Any], html: Callable[[str], Any]) -> None:
        self._shell, self._display, self._html = shell, display, html
        self._handle: Any = None
        self._cell: object = None

    def __call__(self, under_way: Sequence[Work]) -> None:
        if not under_way:
            self._handle.update(self._html(""))
            return
        cell = self._shell.execution_count
        if cell != self._cell:
            self._cell, self._handle = cell, None
        work = under_way[-1]
        bar = "<progress></progress>"
        if work.total is not None:
            bar = f'<progress value="{work.done}" max="{work.total}"></progress>'
        shown = self._html(f"{bar} {escape(words(under_way))}")
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)


def words(under_way: Sequence[Work]) -> str:
    """Describe the work in words, innermost first, because a narrow terminal cuts off the end."""
    works = reversed(under_way)
    counts = ((w.what if w.total is None else f"{w.done} of {w.total} {w.what}", w.detail) for w in works)
    return ", ".join(word for count in counts for word in count if word)


def _in_notebook() -> Display | None:
    """Return a notebook display if a Jupyter kernel runs this process, or None."""
    library: Any = sys.modules.get("IPython")
    shell = None if library is None else library.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import HTML, display

    return _NotebookBar(shell, display, HTML)
