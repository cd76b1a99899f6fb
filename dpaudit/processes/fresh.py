"""Targets in fresh interpreters, for cases in which a fork of the requesting process is not safe.

On macOS a forked process may not use the system's own libraries, and on other systems a fork may wait for a
lock that a thread of the program holds. A fresh interpreter has neither problem: it imports the target, and
its runs are forks of it. If the target starts threads at import, each run is a fresh interpreter too.
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

#: The way to start a target's process: ``fork`` or ``spawn``; by default spawn on macOS only.
PROCESSES_VARIABLE: Final = "DPAUDIT_PROCESSES"

#: Libraries of tables, and the modules of dpaudit that runs load when they need them.
_LIBRARIES: Final = ("dpaudit.auditors.", "dpaudit.tables.", "narwhals.", "pandas.", "polars.", "pyarrow.")

_WHY: Final = "a process that is not a fork has only what it can import or is sent"
_REMEDY: Final = "define it and its data in a module that can be imported, or run it with --in-process"
_MOST_SEEDS: Final = 2**32


def is_spawned() -> bool:
    """Return whether a target's process is a fresh interpreter; raise `UsageError` for an unknown setting.

    By default it is a fresh interpreter if a fork could wait for ever: on macOS, or if Polars has started
    its threads in this process, since a fork lacks these threads and waits for them.
    """
    stated = os.environ.get(PROCESSES_VARIABLE, "")
    if stated not in {"", "fork", "spawn"}:
        what, why = f"{PROCESSES_VARIABLE}={stated!r}", "it says how a target's process is started"
        raise UsageError(what, where="the environment", why=why, remedy="set it to fork or spawn")
    return stated == "spawn" or (not stated and (sys.platform == "darwin" or has_polars_threads()))


def loaded_libraries() -> list[str]:
    """Return the names of the modules of libraries that this process has loaded, for a fresh interpreter.

    Otherwise each of its runs, which are forks of it, would import them again. Return no names on macOS,
    where a library that starts a thread at import would make each run a fresh interpreter.
    """
    if sys.platform == "darwin":
        return []
    return [name for name in sys.modules if f"{name}.".startswith(_LIBRARIES)]


def load_libraries(names: Iterable[str]) -> None:
    """Import modules by their names, if they are installed."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def written_target(prepare: Callable[[], Any]) -> bytes:
    """Return a target's recipe for a fresh interpreter, with the code of a script's or notebook's objects.

    Raises `UsageError` if it cannot be sent.
    """
    import cloudpickle

    try:
        content: bytes = cloudpickle.dumps(prepare)
    except Exception as error:  # an object's own pickling may raise anything
        what = f"a target that cannot be sent to a fresh interpreter ({type(error).__name__})"
        raise UsageError(what, where="its process", why=_WHY, remedy=_REMEDY) from error
    return content


def make_target(content: bytes) -> Any:
    """Return the target from `written_target`; raise `UsageError` if an object that it names is missing."""
    try:
        prepare = pickle.loads(content)  # noqa: S301  (the holder's own; a target's is never unpickled)
    except (AttributeError, ImportError, pickle.UnpicklingError) as error:
        name = getattr(error, "name", None)
        missing = "" if name is None else f": {name!r}"
        what = f"a target that cannot be imported by name ({type(error).__name__}{missing})"
        raise UsageError(what, where="its process", why=_WHY, remedy=_REMEDY) from error
    return prepare()


def start_interpreter(entry: str, *channels: socket.socket) -> int:
    """Start an interpreter that calls a function of `dpaudit.processes.serving`; return its process.

    The function receives channels. All interpreters order sets in the same way. Ctrl-C reaches an
    interpreter only if it requests that.
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
    """Return a channel passed to `start_interpreter`, inside the interpreter."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    return channel


def is_threaded() -> bool:
    """Return whether this process has threads that a fork would lack; on macOS, whether it ever had any."""
    if sys.platform == "darwin":
        return bool(ctypes.CDLL(None).pthread_is_threaded_np())
    return threading.active_count() > 1 or has_polars_threads()
