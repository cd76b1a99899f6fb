"""A process that holds a target and its data, and starts one more for every run.

It is a fork of the process that asks for it, made before the target's code is imported there. Every run is a
fork of it in turn, so that no memo, module state or patched library goes from one run to another.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from dpaudit.errors import TargetDied, TargetRaised
from dpaudit.ledger.ledger import Header
from dpaudit.processes.calls import answer_call, written_call
from dpaudit.processes.wire import BrokenFrame, Incoming, frame, receive, send
from dpaudit.processes.worker import Counted, expect, raised, rebuilt, run_target

#: Whether runs can have processes of their own here. On macOS a forked process may not use the system's
#: libraries, and Windows has no forks.
AVAILABLE: Final = sys.platform == "linux"


@dataclass(frozen=True)
class Limits:
    """What one run may take: seconds, and bytes of memory; None for as much as there is."""

    timeout: float | None = None
    memory: int | None = None


#: Seconds that a process has to end by itself.
_GRACE: Final = 10.0
#: And a run's process that has sent its last message, or whose holder is gone.
_LINGER: Final = 0.2
#: The exit status of a process that found its channel closed, though the holder was there.
_CLOSED: Final = 240
#: Releases that a target's process is told of.
_MOST_TOLD: Final = 100
_ROUNDS: Final = 10
_SET_CHILD_SUBREAPER: Final = 36
#: The channels to the processes of all targets that are open here.
_OPEN: Final[set[socket.socket]] = set()

NO_LIMITS: Final = Limits()


@dataclass(frozen=True)
class Served:
    """A target as its own process holds it: the algorithm, data by name, and what may be told of both.

    `kept` are functions of the target's author that calls may name, such as a score of its output.
    """

    algorithm: Callable[..., Any]
    data: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)

    def held(self) -> dict[tuple[str, str], Any]:
        """All of it, by the names that `Elsewhere` gives."""
        data = {("data", name): each for name, each in self.data.items()}
        kept = {("kept", name): each for name, each in self.kept.items()}
        return {("algorithm", ""): self.algorithm, **data, **kept}


class Host:
    """The process that holds a target; it ends with `close`, or when this process ends.

    Args:
        prepare: makes the target, in the other process; what it raises is raised here.
        limits: of every run.

    Attributes:
        about: what `prepare` tells of the target, in plain values.
    """

    def __init__(self, prepare: Callable[[], Served], limits: Limits = NO_LIMITS) -> None:
        self.limits = limits
        self._header: Mapping[str, Any] | None = None
        self._told: set[str] = set()
        self._runs = 0
        self._control, other = socket.socketpair()
        _flush()
        self._pid = _fork()
        if self._pid == 0:
            for control in (self._control, *_OPEN):  # those of other targets are none of this one's
                control.close()
            _adopt()
            _serve(prepare, other, limits)
        other.close()
        _OPEN.add(self._control)
        try:
            kind, found = receive(self._control)
        except (EOFError, BrokenFrame):
            self._control.close()
            raise died("the target's module", self._reaped()) from None
        except BaseException:  # Ctrl-C: what the target's module does while it is imported may never end
            os.kill(self._pid, signal.SIGKILL)
            self.close()
            raise
        if kind == "error":
            self.close()
            raise again(found)
        self.about: Mapping[str, Any] = found

    def start(self, order: Mapping[str, Any]) -> Started:
        """Start one run, as its order says."""
        mine, other = socket.socketpair()
        try:
            header, rest = (
                order.get("header"),
                {name: each for name, each in order.items() if name != "header"},
            )
            if header is not None and header != self._header:  # told once for all runs that are alike
                send(self._control, ("header", header))
                self._header = header
            send(self._control, ("run", rest))
            socket.send_fds(self._control, [b"."], [other.fileno()])
        except OSError:
            mine.close()
            raise died("the target's process", self._reaped()) from None
        finally:
            other.close()
        self._runs += 1
        return Started(self, mine, self._runs)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Started:
        """Start a call of one of dpaudit's own functions, on what stands for what is held there."""
        return self.start({"call": written_call(function, arguments)})

    def tell(self, release: str) -> None:
        """Tell of a release that runs make, so that later ones know already that it can be read back."""
        if release not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(release)
            with contextlib.suppress(OSError):
                send(self._control, ("release", release))

    def status(self, run: int, *, kill: bool = False) -> int:
        """Wait for a run's process, and give its exit status; negative for a signal's number."""
        try:
            send(self._control, ("status", run, kill))
            return int(receive(self._control))
        except (EOFError, OSError):
            raise died("the target's process", self._reaped()) from None

    def close(self) -> None:
        """End the process, and every run that has not ended."""
        _OPEN.discard(self._control)
        self._control.close()
        self._reaped()

    def _reaped(self) -> int:
        """The process's exit status; one that does not end by itself within seconds is killed."""
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
    """One run's process, as the holder sees it."""

    def __init__(self, host: Host, channel: socket.socket, number: int) -> None:
        self._host, self._channel, self._number = host, channel, number
        self._incoming = Incoming(channel)
        self._begin()

    def _begin(self) -> None:
        limit = self._host.limits.timeout
        self._ends = None if limit is None else time.monotonic() + limit

    def receive(self) -> Any:
        """The next message; raises `TargetDied` where none will come, or none came in time."""
        try:
            if self._ends is not None:
                self._channel.settimeout(max(self._ends - time.monotonic(), 1e-3))
            return self._incoming.receive()
        except TimeoutError:
            self.end()
            what = f"the run did not end within {self._host.limits.timeout:g} s"
            raise TargetDied(
                what, where="--timeout", remedy="allow it more time, or make it faster"
            ) from None
        except (EOFError, ConnectionError):
            number, self._number = self._number, 0
            raise died("the run", self._host.status(number)) from None

    def result(self, noted: Callable[[Any], object] = lambda _: None) -> Any:
        """What a call returns; raises what it raised, and `TargetDied`.

        `noted` is told what the call notes; the limit on its time holds from one note to the next.
        """
        self._begin()
        try:
            while True:
                kind, found = self.receive()
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
        """The run has sent its last message: its process ends by itself."""
        self._number = 0

    def reply(self, answer: bytes) -> None:
        """Answer the last message; a process that is gone is noticed when its next one is awaited."""
        with contextlib.suppress(OSError):
            self._channel.sendall(answer)

    def end(self) -> None:
        """End the run, if it has not ended."""
        self._channel.close()
        if self._number:
            number, self._number = self._number, 0
            with contextlib.suppress(TargetDied):
                self._host.status(number, kill=True)


def died(what: str, status: int) -> TargetDied:
    """How a process ended, in words."""
    if status == _CLOSED:
        remedy = "close only what the algorithm opened: os.closerange closes dpaudit's files too"
        return TargetDied(f"{what} closed the channel to dpaudit", where="its process", remedy=remedy)
    if status < 0:
        with contextlib.suppress(ValueError):
            return TargetDied(f"{what} was killed by {signal.Signals(-status).name}", where="its process")
    return TargetDied(f"{what} ended with exit status {status} before it returned", where="its process")


def again(found: Mapping[str, Any]) -> Exception:
    """What a target raised, as it is raised here: one of our errors as itself."""
    if found["own"] is not None:
        error = rebuilt(found["own"])
        error.raised_at = found["place"]
        return error
    if found["kind"] == "BdbQuit":  # of a debugger that has nobody to ask
        remedy = "leave breakpoint() out, or run it in a terminal with --in-process --show-target-errors"
        return TargetDied("a breakpoint that nobody answered", where="its process", remedy=remedy)
    return TargetRaised(found["kind"], found["text"], found["place"], found["traceback"])


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns where the process has threads. Only Python's own locks matter to what runs next, and
        # those are made anew in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _serve(prepare: Callable[[], Served], control: socket.socket, limits: Limits) -> None:
    """Serve until the other end is closed; never returns."""
    #: The processes of runs by their numbers; of those that ended by themselves, the status that was not 0.
    running: dict[int, int] = {}
    ended: dict[int, int] = {}
    gc.freeze()  # what the process had before is not looked through again, which would copy its memory
    runs = 0
    try:
        try:
            served = prepare()
            ready = frame(("ready", dict(served.about)))
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        except BaseException as error:  # noqa: BLE001  (it is raised in the other process)
            send(control, ("error", raised(error)))
            return
        gc.collect()
        gc.freeze()
        control.sendall(ready)
        ledger: Counted | None = None
        while True:
            kind, *rest = receive(control)
            if kind == "header":
                ledger = Counted(Header(**rest[0]))
            elif kind == "release":
                expect(rest[0])
            elif kind == "run":
                _, (channel,), _, _ = socket.recv_fds(control, 1, 1)
                _reap(running, ended)
                runs += 1
                pid = _fork()
                if pid == 0:
                    control.close()
                    _run(served, rest[0], ledger, channel, limits)
                os.close(channel)
                running[runs] = pid
            else:
                number, kill = rest
                status = ended.pop(number, 0)
                if number in running:
                    pid = running.pop(number)
                    if kill:
                        os.kill(pid, signal.SIGKILL)
                    status = os.waitpid(pid, 0)[1]
                send(control, os.waitstatus_to_exitcode(status))
    except (EOFError, OSError):
        pass
    finally:
        _end(running.values())
        _end_helpers()
        _flush()
        os._exit(0 if _is_open(control) else _CLOSED)


def _is_open(channel: socket.socket) -> bool:
    """Whether a channel's descriptor is still a socket."""
    try:
        return stat.S_ISSOCK(os.fstat(channel.fileno()).st_mode)
    except OSError:
        return False


def _adopt() -> None:
    """Become the parent of whatever the target's processes start and leave behind, where the kernel can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_helpers() -> None:
    """Ask what the target's processes have left behind to end, such as a manager of multiprocessing.

    Nothing is killed: those that clean up after others end by themselves when this process does.
    """
    for _ in range(_ROUNDS):  # what the children leave behind are children then
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
        children = [int(pid) for pid in " ".join(lists).split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        time.sleep(_LINGER / _ROUNDS)


def _reap(running: dict[int, int], ended: dict[int, int]) -> None:
    """Take leave of the runs that have ended."""
    for number, pid in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            del running[number]
            if status:
                ended[number] = status


def _end(running: Iterable[int]) -> None:
    """Let runs end that have sent their last message, and end the others."""
    ends = time.monotonic() + _LINGER
    for pid in running:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if time.monotonic() > ends:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(1e-3)


def _run(
    served: Served, order: dict[str, Any], ledger: Counted | None, descriptor: int, limits: Limits
) -> None:
    """One run in a process of its own; never returns."""
    status = 1
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # What the target forks has no business with the holder.
        os.register_at_fork(after_in_child=channel.close)
        if limits.memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
        if "call" in order:
            answer_call(order["call"], served.held(), channel)
        else:
            assert ledger is not None  # noqa: S101  (its header came before the first run)
            run_target(served.algorithm, served.data[order["data"]], order, ledger, channel)
        status = 0 if _is_open(channel) else _CLOSED
    finally:
        _flush()
        os._exit(status)
