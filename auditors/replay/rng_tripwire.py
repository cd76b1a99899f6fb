"""A trip wire for randomness from outside the curator.

It detects draws from the global generators of numpy, Python and torch, seeded or not, by a comparison of
their states: they are hidden state that any other code may change. It also detects seeds from the operating
system: a generator made without a seed, ``secrets``, ``os.urandom``. The code of Python and numpy gets these
from two functions, which are replaced during the run in every module that names them. The curator's public
streams and generators spawned from them are allowed. So is a generator with a seed in the
code: it gives both sides of a pair the same numbers, so a replay detects its effect. Randomness from other
sources is found by its effect when the same recording is replayed on the same data.
"""

import operator
import os
import random
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, ClassVar, Self

import numpy as np

from dpaudit import errors
from dpaudit.curator.curator import Curator

_NUMPY, _PYTHON, _TORCH = (f"{library} global generator" for library in ("numpy's", "Python's", "torch's"))
_STANDARD = sysconfig.get_paths()["stdlib"]
_SOURCES = {random.__file__, str(Path(random.__file__).with_name("secrets.py"))}
_INSTALLED = (_STANDARD, sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"])
_CORE = Path(errors.__file__).parent
_CORE_NAMES = "certificate", "claims", "curator", "ledger", "mechanisms", "noise", "processes"
_CORE_FOLDERS = {str(_CORE / name) for name in ("", *_CORE_NAMES)}


class Watch:
    """An algorithm under watch: the first draw of randomness from outside a curator is noted.

    It has the algorithm's own name, claim and parameters. `by_line` compares the states of the global
    generators after every line of the algorithm, which is slow, to find the line that drew.
    """

    def __init__(self, algorithm: Callable[[Any, Curator], Any], *, by_line: bool = False) -> None:
        self._algorithm = algorithm
        #: The source of the draw, with file and line (empty if not known); None: no draw.
        self.drawn: tuple[str, str] | None = None
        self._by_line = by_line
        self._before: Mapping[str, Any] = {}
        self._last: dict[FrameType, str] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the object itself: its notes are read after the run; the algorithm is already a copy."""
        return self

    def __getattr__(self, name: str) -> Any:
        """Return the algorithm's attribute."""
        return getattr(self._algorithm, name)

    def __call__(self, data: Any, curator: Curator) -> Any:
        """Run the algorithm under watch."""
        with _unused_states() as self._before, _calls_noted(self._note):
            earlier = sys.gettrace()
            try:
                sys.settrace(self._entered if self._by_line else earlier)
                return self._algorithm(data, curator)
            finally:
                sys.settrace(earlier)
                self._last.clear()
                self._compare("")

    def _compare(self, where: str) -> None:
        changed = (name for name, state in _states().items() if state != self._before.get(name, state))
        if self.drawn is None and (name := next(changed, None)) is not None:
            self.drawn = name, where

    def _note(self, frame: FrameType) -> None:
        where = _place(frame)
        if where is not None and self.drawn is None:
            self.drawn = "the operating system", where

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        file = frame.f_code.co_filename
        foreign = file.startswith((*_INSTALLED, "<")) or str(Path(file).parent) in _CORE_FOLDERS
        return None if foreign or self.drawn else self._moved

    def _moved(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if frame in self._last and self.drawn is None:
            self._compare(self._last[frame])
        if event == "line":
            self._last[frame] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return self._moved


def _place(frame: FrameType | None) -> str | None:
    """Return the place of the algorithm's draw; None if the curator or the standard library drew."""
    while frame is not None and frame.f_code.co_filename in _SOURCES:
        frame = frame.f_back
    # A RandomState takes a seed from the operating system before it uses the given seed.
    if frame is None or "RandomState" in frame.f_code.co_names:
        return None
    file = frame.f_code.co_filename
    place = f"{file}:{frame.f_lineno}"
    outer: FrameType | None = frame
    while outer is not None and outer.f_code is not Watch.__call__.__code__:
        # A module that seeds itself at its first import draws nothing for the algorithm.
        if outer.f_code.co_filename.startswith("<frozen importlib") or outer.f_code in _OWN:
            return None
        if (outer.f_globals.get("__name__"), outer.f_code.co_name) in _OTHERS:
            return None
        outer = outer.f_back
    if file.startswith(_STANDARD) and not file.startswith(_INSTALLED[1:]):
        return None
    return None if str(Path(file).parent) in _CORE_FOLDERS else place


#: The standard library's own draws: names of files and threads.
_OWN = {tempfile.mkdtemp.__code__, tempfile.mkstemp.__code__, threading.Thread.start.__code__}


#: Installed libraries' own draws, by module and function: names of DuckDB's relations.
_OTHERS = {("duckdb._relation", "_unnamed")}


@contextmanager
def _calls_noted(note: Callable[[FrameType], None]) -> Iterator[None]:
    """Call `note` with the caller's frame for every call that takes randomness from the operating system.

    Threads that ran before do not belong to the algorithm.
    """
    others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    seed = random.Random.seed

    def own(frame: FrameType) -> None:
        if threading.get_ident() not in others:
            note(frame)

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None:
            own(sys._getframe(1))  # noqa: SLF001  (as below)
        seed(self, a, version)

    setattr(random.Random, "seed", seeded)  # noqa: B010  (a plain assignment is refused by the type checker)
    try:
        with _Tap.of(os.urandom).noting(own):
            yield
    finally:
        setattr(random.Random, "seed", seed)  # noqa: B010


class _Tap:
    """A function that notes its callers and replaces another function in every module that names it.

    The places are kept. A module of the standard library, an installed library or dpaudit is searched again
    if its number of names has changed; any other module is searched before every run.
    """

    _taps: ClassVar[dict[Callable[[int], bytes], "_Tap"]] = {}

    def __init__(self, system: Callable[[int], bytes]) -> None:
        self._system = system
        self._notes: list[Callable[[FrameType], None]] = []
        self._modules: list[Any] = []
        self._seen: list[_Names] = []

        def urandom(size: int, /) -> bytes:
            for note in list(self._notes):
                note(sys._getframe(1))  # noqa: SLF001  (documented, and the only way to a caller)
            return system(size)

        # One tap for all runs: a name bound to it in one run is watched in the next run, too.
        self._urandom = urandom
        self._taps[system] = self._taps[urandom] = self

    @classmethod
    def of(cls, function: Callable[[int], bytes]) -> "_Tap":
        """Return the tap for a function, also while the tap replaces it."""
        return cls._taps.get(function) or cls(function)

    @contextmanager
    def noting(self, note: Callable[[FrameType], None]) -> Iterator[None]:
        """Call `note` with the frame of every caller."""
        self._notes.append(note)
        self._replace(self._system, self._urandom, first=True)
        try:
            yield
        finally:
            self._notes.remove(note)
            if not self._notes:
                # Also in modules imported meanwhile.
                self._replace(self._urandom, self._system, first=False)

    def _replace(self, old: Callable[[int], bytes], new: Callable[[int], bytes], *, first: bool) -> None:
        modules = list(sys.modules.values())
        if len(modules) != len(self._modules) or not all(map(operator.is_, modules, self._modules)):
            self._modules, known = modules, {id(one.names): one for one in self._seen}
            # Objects that only imitate a module, as cffi libraries do, are skipped; and a lazy module may
            # load itself when its names are read.
            real = [module for module in modules if issubclass(type(module), ModuleType)]
            found = [object.__getattribute__(module, "__dict__") for module in real]
            self._seen = [known.get(id(names)) or _Names(names) for names in found]
        for one in self._seen:
            if one.size != len(one.names) or (first and not one.installed):
                one.look_for(old)
            for name in one.places:
                if one.names.get(name) is old:
                    one.names[name] = new


class _Names:
    """A module's names, their number, whether it is installed, and the names bound to the function."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names, self.size, self.places = names, -1, set[str]()
        self.installed = _is_installed(names)

    def look_for(self, function: Callable[[int], bytes]) -> None:
        """Add the names that are now bound to the function."""
        self.size = len(self.names)
        if [value for value in list(self.names.values()) if value is function]:  # few modules have one
            self.places |= {name for name, value in list(self.names.items()) if value is function}


def _is_installed(names: Mapping[str, Any]) -> bool:
    """Return whether a module belongs to the standard library, an installed library or dpaudit."""
    known = names.get("__name__") in sys.builtin_module_names
    return known or str(names.get("__file__")).startswith((*_INSTALLED, f"{_CORE}{os.sep}"))


@contextmanager
def _unused_states() -> Iterator[Mapping[str, Any]]:
    """Give the global generators states that no stated seed produces; restore the old states afterwards.

    An algorithm that seeds a generator and draws leaves the same state after every run. Compared with the
    state after its last run, nothing would seem to have changed.
    """
    kept = _states()
    random.setstate(random.Random(b"dpaudit watch").getstate())  # noqa: S311  (draws nothing)
    np.random.set_state(np.random.RandomState(np.frombuffer(b"dpaudit watch   ", np.uint32)).get_state())  # noqa: NPY002
    if (torch := _torch()) is not None:
        torch.set_rng_state(torch.Generator().manual_seed(int.from_bytes(b"dpaudit", "big")).get_state())
    try:
        yield _states()
    finally:
        random.setstate(kept[_PYTHON])
        kind, key, *rest = kept[_NUMPY]
        np.random.set_state((kind, np.frombuffer(key, np.uint32), *rest))  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torch.frombuffer(bytearray(kept[_TORCH]), dtype=torch.uint8))


def _states() -> dict[str, Any]:
    """Return a copy of the state of every global generator."""
    found: Any = np.random.get_state()  # noqa: NPY002  (it is this very state that is watched)
    kind, key, *rest = found
    states = {_NUMPY: (kind, key.tobytes(), *rest), _PYTHON: random.getstate()}
    torch = _torch()
    return states if torch is None else {**states, _TORCH: torch.get_rng_state().numpy().tobytes()}


def _torch() -> Any:
    """Return torch if it has been imported."""
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "get_rng_state") else None
