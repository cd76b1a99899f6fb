"""Targets in fresh interpreters, for where a fork of the process that asks for them is not safe.

On macOS a forked process may not use the system's own libraries, and elsewhere a program's threads may hold
what a fork of it then waits for. A fresh interpreter has neither: it imports the target, and its runs are
forks of it. Where the target starts threads while it is imported, each run is a fresh interpreter too.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pickle
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from dpaudit.errors import UsageError
from dpaudit.processes.engines import has_polars_threads

#: How a target's process is started: ``fork`` or ``spawn``; left out, spawn on macOS alone.
PROCESSES_VARIABLE: Final = "DPAUDIT_PROCESSES"

#: Libraries of tables, and the modules of dpaudit that runs load when they need them.
_LIBRARIES: Final = ("dpaudit.auditors.", "dpaudit.tables.", "narwhals.", "pandas.", "polars.", "pyarrow.")

_WHY: Final = "a process that is not a fork has only what it can import or is sent"
_REMEDY: Final = "define it and its data in a module that can be imported, or run it with --in-process"
_MOST_SEEDS: Final = 2**32


def is_spawned() -> bool:
    """Whether a target's process is a fresh interpreter; raises `UsageError` for a setting that is none.

    Left open, it is one where a fork of this process could wait for ever: on macOS, and where Polars has
    started its threads here, which a fork lacks and waits for.
    """
    stated = os.environ.get(PROCESSES_VARIABLE, "")
    if stated not in {"", "fork", "spawn"}:
        what, why = f"{PROCESSES_VARIABLE}={stated!r}", "it says how a target's process is started"
        raise UsageError(what, where="the environment", why=why, remedy="set it to fork or spawn")
    return stated == "spawn" or (not stated and (sys.platform == "darwin" or has_polars_threads()))


def loaded_libraries() -> list[str]:
    """Return the names of the modules of libraries that this process has loaded, for a fresh interpreter.

    Its runs, which are forks of it, would else import them anew each. None on macOS, where a library that
    starts a thread when it is imported would make each run a fresh interpreter.
    """
    if sys.platform == "darwin":
        return []
    return [name for name in sys.modules if f"{name}.".startswith(_LIBRARIES)]


def load_libraries(names: Iterable[str]) -> None:
    """Import modules by their names, where they are there."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def written_target(prepare: Callable[[], Any]) -> bytes:
    """What makes a target, for a fresh interpreter; what a script or a notebook defines travels as its code.

    Raises `UsageError` where it cannot be sent.
    """
    import cloudpickle

    try:
        content: bytes = cloudpickle.dumps(prepare)
    except Exception as error:  # whatever an object's own pickling raises
        what = f"a target that cannot be sent to a fresh interpreter ({type(error).__name__})"
        raise UsageError(what, where="its process", why=_WHY, remedy=_REMEDY) from error
    return content


def make_target(content: bytes) -> Any:
    """The target that `written_target` was given; raises `UsageError` where what it names is not there."""
    try:
        prepare = pickle.loads(content)  # noqa: S301  (the holder's own; a target's is never unpickled)
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        name = getattr(error, "name", None)
        missing = "" if name is None else f": {name!r}"
        what = f"a target that cannot be imported by name ({type(error).__name__}{missing})"
        raise UsageError(what, where="its process", why=_WHY, remedy=_REMEDY) from error
    return prepare()


def start_interpreter(entry: str, *channels: socket.socket) -> int:
    """Start an interpreter that calls a function of `dpaudit.processes.serving` with channels; its process.

    All of them order sets alike. Ctrl-C reaches one only where it asks for it.
    """
    numbers = []
    for channel in channels:
        channel.set_inheritable(True)
        numbers.append(channel.fileno())
    program = f"import sys; sys.path[:] = {sys.path!r}; from dpaudit.processes.serving import {entry}"
    environment = dict(os.environ)
    if environment.get("PYTHONHASHSEED", "random") == "random":
        environment["PYTHONHASHSEED"] = str(secrets.randbelow(_MOST_SEEDS))
    command = [sys.executable, "-c", f"{program}; {entry}(*{numbers})"]
    mask = [*signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.SIGINT]
    return os.posix_spawn(sys.executable, command, environment, setsigmask=mask)


def opened(descriptor: int) -> socket.socket:
    """A channel that `start_interpreter` was given, in the interpreter."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    return channel


def is_threaded() -> bool:
    """Whether this process has threads that a fork of it would lack: on macOS, whether it ever had any."""
    if sys.platform == "darwin":
        return bool(ctypes.CDLL(None).pthread_is_threaded_np())
    return threading.active_count() > 1 or has_polars_threads()
