"""The holder's side of a process that holds a target and its data, and starts a process for every run."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import numpy as np

from dpaudit.errors import TargetDied, TargetRaised, UsageError
from dpaudit.processes.calls import written_call
from dpaudit.processes.fresh import is_spawned, loaded_libraries, start_interpreter, written_target
from dpaudit.processes.serving import (
    CLOSED,
    HEADER,
    NO_LIMITS,
    RELEASE,
    RUN,
    STATUS,
    Limits,
    Served,
    flush,
    fork,
    serve_fork,
)
from dpaudit.processes.wire import BrokenFrame, Incoming, frame, receive, send, value_of
from dpaudit.processes.worker import OF_ERRORS, rebuilt

__all__ = ["AVAILABLE", "NO_LIMITS", "Host", "Limits", "Served", "Started", "again", "died"]

#: Whether runs can have their own processes: Windows cannot pass a channel between processes.
AVAILABLE: Final = sys.platform in {"linux", "darwin"}


#: The place of a `TargetDied` error after a time-out.
TIMEOUT: Final = "--timeout"
#: Seconds before a process that does not end by itself is killed.
_GRACE: Final = 10.0
#: The largest number of releases that a target's process is told of.
_MOST_TOLD: Final = 100
#: The channels to the processes of all targets that are open here.
_OPEN: Final[set[socket.socket]] = set()


class Host:
    """The process that holds a target; it ends with `close`, or when this process ends.

    Args:
        prepare: makes the target, in the other process; its errors are raised here.
        limits: the limits of every run; the time limit applies to `prepare` as well.

    Attributes:
        about: the description of the target by `prepare`, in plain values.
    """

    def __init__(self, prepare: Callable[[], Served], limits: Limits = NO_LIMITS) -> None:
        if limits.memory is not None and sys.platform != "linux":
            what, why = "a limit on memory", "this system does not hold a process to one"
            raise UsageError(what, where="--memory", why=why, remedy="leave it out, or run on Linux")
        self.limits = limits
        #: The headers that the process was told, with their numbers there.
        self._headers: dict[bytes, int] = {}
        self._told: set[str] = set()
        self._runs = 0
        self._control, other = socket.socketpair()
        _OPEN.add(self._control)
        self._pid = 0
        try:
            with other:
                self._begin(prepare, other)
            self._control.settimeout(limits.timeout)
            kind, found = message_of(receive(self._control))
            self._control.settimeout(None)
        except TimeoutError:
            os.kill(self._pid, signal.SIGKILL)
            self.close()
            raise late("opening the target", limits) from None
        except (EOFError, BrokenFrame):
            self._control.close()
            raise died("the target's module", self._reaped()) from None
        except BaseException:  # Ctrl-C: the import of the target's module may never end
            if self._pid:
                os.kill(self._pid, signal.SIGKILL)
            self.close()
            raise
        if kind == "error":
            self.close()
            raise again(found)
        self.about: Mapping[str, Any] = found

    def _begin(self, prepare: Callable[[], Served], other: socket.socket) -> None:
        """Start the process, by a fork or as a fresh interpreter."""
        if is_spawned():
            target = np.frombuffer(written_target(prepare), np.uint8)
            self._pid = start_interpreter("serve_fresh", other)
            with contextlib.suppress(OSError):  # it has died, as its status shows
                started = target, loaded_libraries(), self.limits.timeout, self.limits.memory
                send(self._control, started)
            return
        flush()
        self._pid = fork()
        if self._pid == 0:
            for control in _OPEN:  # close the channels of other targets
                control.close()
            serve_fork(prepare, other, self.limits)

    def start(self, order: Mapping[str, Any]) -> Started:
        """Start one run according to its order."""
        mine, other = socket.socketpair()
        try:
            if "header" in order:  # sent once for all equal runs
                header = frame(order["header"])
                if header not in self._headers:
                    self._control.sendall(HEADER + header)
                order = {**order, "header": self._headers.setdefault(header, len(self._headers))}
            message = RUN + frame(order)
            sent = socket.send_fds(self._control, [message], [other.fileno()])
            if sent < len(message):
                self._control.sendall(message[sent:])
        except OSError:
            mine.close()
            raise died("the target's process", self._reaped()) from None
        finally:
            other.close()
        self._runs += 1
        return Started(self, mine, self._runs)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Started:
        """Start a call of one of dpaudit's own functions, with placeholders for objects held there."""
        return self.start({"call": written_call(function, arguments)})

    def tell(self, release: str) -> None:
        """Announce a release, so that later runs already know that it can be read back."""
        if release not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(release)
            with contextlib.suppress(OSError):
                self._control.sendall(RELEASE + frame(release))

    def status(self, run: int, *, kill: bool = False) -> int:
        """Wait for a run's process, and give its exit status; negative for a signal's number."""
        try:
            self._control.sendall(STATUS + frame((run, kill)))
            return int(receive(self._control))
        except (EOFError, OSError):
            raise died("the target's process", self._reaped()) from None

    def close(self) -> None:
        """End the process, and every run that has not ended."""
        _OPEN.discard(self._control)
        self._control.close()
        self._reaped()

    def _reaped(self) -> int:
        """Return the process's exit status; kill it if it does not end by itself within seconds."""
        pid, self._pid = self._pid, 0
        ends = time.monotonic() + _GRACE
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            while pid:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status)
                if time.monotonic() > ends:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(1e-3)
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class Started:
    """One run's process, on the holder's side."""

    def __init__(self, host: Host, channel: socket.socket, number: int) -> None:
        self._host, self._channel, self._number = host, channel, number
        self._incoming = Incoming(channel)
        self._begin()

    def _begin(self) -> None:
        limit = self._host.limits.timeout
        self._ends = None if limit is None else time.monotonic() + limit

    def waited(self, seconds: float) -> None:
        """Exclude time that the run has spent waiting for another run from its limit."""
        if self._ends is not None:
            self._ends += seconds

    def receive(self) -> Any:
        """Return the next message; raise `BrokenFrame`, or as `receive_frame`."""
        return value_of(self.receive_frame())

    def receive_frame(self) -> bytes:
        """Return the next message, unparsed; raise `TargetDied` if none comes in time."""
        try:
            if self._ends is not None:
                self._channel.settimeout(max(self._ends - time.monotonic(), 1e-3))
            return self._incoming.receive_frame()
        except TimeoutError:
            self.end()
            raise late("the run", self._host.limits) from None
        except (EOFError, ConnectionError):
            number, self._number = self._number, 0
            raise died("the run", self._host.status(number)) from None

    def result(self, noted: Callable[[Any], object] = lambda _: None) -> Any:
        """Return a call's result; raise its error, or `TargetDied`.

        `noted` receives the call's notes; the time limit restarts at each note.
        """
        self._begin()
        try:
            while True:
                kind, found = message_of(self.receive())
                if kind != "note":
                    break
                self._begin()
                noted(found)
            self.finished()
        finally:
            self.end()
        if kind == "error":
            raise again(found)
        return found

    def finished(self) -> None:
        """Note that the run has sent its last message: its process ends by itself."""
        self._number = 0

    def reply(self, answer: bytes) -> None:
        """Answer the last message; a dead process is noticed at the next receive."""
        try:  # called for every release of many runs, and so without a context
            self._channel.sendall(answer)
        except OSError:
            return

    def end(self) -> None:
        """End the run, if it has not ended."""
        self._channel.close()
        if self._number:
            number, self._number = self._number, 0
            with contextlib.suppress(TargetDied):
                self._host.status(number, kill=True)


def message_of(value: Any) -> tuple[str, Any]:
    """Return a message's kind and content; raise `BrokenFrame` for an invalid message."""
    if type(value) is tuple and len(value) == 2:
        kind, held = value
        if type(kind) is str and (kind != "error" or _is_error(held)):
            return kind, held
    raise BrokenFrame("a message that cannot be read", where="a process's channel")


def _is_error(found: Any) -> bool:
    """Return whether a value has the form of `worker.raised`."""
    try:
        own = found["own"]
        texts = [found[name] for name in ("kind", "text", "place", "traceback")]
        texts += [] if own is None else [own[name] for name in OF_ERRORS]
    except (KeyError, TypeError):
        return False
    return all(type(text) is str for text in texts)


def died(what: str, status: int) -> TargetDied:
    """Describe how a process ended."""
    if status == CLOSED:
        remedy = "close only what the algorithm opened: os.closerange closes dpaudit's files too"
        return TargetDied(f"{what} closed the channel to dpaudit", where="its process", remedy=remedy)
    if status < 0:
        with contextlib.suppress(ValueError):
            return TargetDied(f"{what} was killed by {signal.Signals(-status).name}", where="its process")
    return TargetDied(f"{what} ended with exit status {status} before it returned", where="its process")


def late(what: str, limits: Limits) -> TargetDied:
    """Return the error for an exceeded time limit."""
    said = f"{what} did not end within {limits.timeout:g} s"
    return TargetDied(said, where=TIMEOUT, remedy="allow it more time, or make it faster")


def again(found: Mapping[str, Any]) -> Exception:
    """Return a target's error for raising here: dpaudit's errors keep their type."""
    if found["own"] is not None:
        error = rebuilt(found["own"])
        error.raised_at = found["place"]
        return error
    if found["kind"] == "BdbQuit":  # from a debugger without a terminal
        remedy = "leave breakpoint() out, or run it in a terminal with --in-process --show-target-errors"
        return TargetDied("a breakpoint that nobody answered", where="its process", remedy=remedy)
    return TargetRaised(found["kind"], found["text"], found["place"], found["traceback"])
