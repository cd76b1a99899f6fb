"""A trip wire for randomness that is not the curator's.

It detects draws from numpy's global generator and from Python's, seeded or not: they are hidden state that
any other code may change. And whatever takes a seed from the operating system: a generator made without
one, ``secrets``, ``os.urandom``. Allowed are the curator's public streams and what is spawned from them,
and a generator made with a seed that the code states: it gives both sides of a pair the same, so that a
replay detects whatever it adds. Nothing is patched: Python reports calls to a profile function, whatever
the form of the import; numpy's compiled functions do not appear there, but its global state changes.
"""

import os
import random
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np

from dpaudit import errors
from dpaudit.curator.curator import Curator

_GLOBAL_PYTHON = getattr(random, "_inst")  # noqa: B009  (private, and the only name it has)
_STANDARD = sysconfig.get_paths()["stdlib"]
_SOURCES = {random.__file__, str(Path(random.__file__).with_name("secrets.py"))}
_INSTALLED = (_STANDARD, sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"])
_CORE = Path(errors.__file__).parent
_CORE_FOLDERS = {
    str(_CORE / name) for name in ("", "certificate", "claims", "curator", "ledger", "mechanisms")
}


class _Wrapped:
    """An algorithm with its own name, claim and parameters, to be run while something is observed."""

    def __init__(self, algorithm: Callable[[Any, Curator], Any]) -> None:
        self._algorithm = algorithm

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: its notes are read after the run; the algorithm inside is a fresh copy already."""
        return self

    def __getattr__(self, name: str) -> Any:
        """The algorithm's attribute."""
        return getattr(self._algorithm, name)


class Watch(_Wrapped):
    """Runs an algorithm and notes the first draw of randomness that does not come from a curator."""

    #: What was drawn from, and file and line; None if nothing was.
    drawn: tuple[str, str] | None = None

    def __call__(self, data: Any, curator: Curator) -> Any:
        """The algorithm's output."""
        with _unused_state():
            before, earlier = _numpy_state(), sys.getprofile()
            sys.setprofile(self._called)
            try:
                return self._algorithm(data, curator)
            finally:
                sys.setprofile(earlier)
                if self.drawn is None and _numpy_state() != before:
                    self.drawn = "numpy's global generator", ""

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.drawn is not None:
            return
        reseeded = event == "call" and frame.f_code is random.Random.seed.__code__
        if event == "c_call":
            if argument is os.urandom:
                self._note("the operating system", frame)
            elif getattr(argument, "__self__", None) is _GLOBAL_PYTHON and argument.__name__ != "getstate":
                self._note("Python's global generator", frame)
        elif reseeded and frame.f_locals.get("a", 0) is None:
            self._note("the operating system", frame)

    def _note(self, source: str, frame: FrameType) -> None:
        where = _place(frame)
        if where is not None:
            self.drawn = source, where


class Locate(_Wrapped):
    """Runs an algorithm line by line to find the one after which numpy's global state has changed."""

    #: File and line; empty if none of the algorithm's own.
    where: str = ""

    def __init__(self, algorithm: Callable[[Any, Curator], Any]) -> None:
        super().__init__(algorithm)
        self._state = _numpy_state()
        self._last: dict[FrameType, str] = {}

    def __call__(self, data: Any, curator: Curator) -> Any:
        """The algorithm's output."""
        with _unused_state():
            self._state, earlier = _numpy_state(), sys.gettrace()
            sys.settrace(self._entered)
            try:
                return self._algorithm(data, curator)
            finally:
                sys.settrace(earlier)
                self._last.clear()

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        file = frame.f_code.co_filename
        foreign = file.startswith((*_INSTALLED, "<")) or str(Path(file).parent) in _CORE_FOLDERS
        return None if foreign or self.where else self._moved

    def _moved(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if not self.where and frame in self._last and _numpy_state() != self._state:
            self.where = self._last[frame]
        if event == "line":
            self._last[frame] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return self._moved


def _place(frame: FrameType | None) -> str | None:
    """Where the algorithm drew; None if the curator did, or Python's own library for itself."""
    while frame is not None and frame.f_code.co_filename in _SOURCES:
        frame = frame.f_back
    # A RandomState takes a seed from the operating system even where it is given one, which replaces it.
    if frame is None or "RandomState" in frame.f_code.co_names:
        return None
    file = frame.f_code.co_filename
    place = f"{file}:{frame.f_lineno}"
    outer: FrameType | None = frame
    while outer is not None and outer.f_code is not Watch.__call__.__code__:
        # A module that seeds itself while it is imported for the first time draws nothing for the algorithm.
        if outer.f_code.co_filename.startswith("<frozen importlib") or outer.f_code in _OWN:
            return None
        outer = outer.f_back
    if file.startswith(_STANDARD) and not file.startswith(_INSTALLED[1:]):
        return None
    return None if str(Path(file).parent) in _CORE_FOLDERS else place


#: What the standard library draws for itself: names of files and threads.
_OWN = {tempfile.mkdtemp.__code__, tempfile.mkstemp.__code__, threading.Thread.start.__code__}


@contextmanager
def _unused_state() -> Iterator[None]:
    """A state of numpy's global generator that no stated seed leads to, and the old one afterwards.

    An algorithm that seeds it and draws leaves it in the same state every time: compared with the state
    after its own last run, nothing would have changed.
    """
    kept = np.random.get_state(legacy=False)  # noqa: NPY002
    np.random.set_state(np.random.RandomState(np.frombuffer(b"dpaudit watch   ", np.uint32)).get_state())  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(kept)  # noqa: NPY002


def _numpy_state() -> tuple[bytes, int, int, float]:
    kind = np.random.get_state(legacy=False)  # noqa: NPY002  (it is this very state that is watched)
    assert isinstance(kind, dict)  # noqa: S101  (for the type checker: legacy=True would be a tuple)
    inner = kind["state"]
    return inner["key"].tobytes(), int(inner.get("pos", 0)), int(kind["has_gauss"]), float(kind["gauss"])
