"""The process that holds a target: it serves the holder's orders, and starts one more process for every run.

It is a fork of the process that asks for it, made before the target's code is imported there, or a fresh
interpreter. Every run is a fork of it in turn, so that no memo, module state or patched library goes from one
run to another; where it has threads, which a fork would lack, a run is a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import numpy as np

from dpaudit.errors import UsageError
from dpaudit.ledger.ledger import Header
from dpaudit.processes.calls import answer_call
from dpaudit.processes.engines import has_polars_threads
from dpaudit.processes.fresh import (
    PROCESSES_VARIABLE,
    is_threaded,
    load_libraries,
    make_target,
    opened,
    start_interpreter,
)
from dpaudit.processes.wire import Channel, frame, receive, receive_frame, send, value_of
from dpaudit.processes.worker import Counted, expect, raised, rehearse, run_target


@dataclass(frozen=True)
class Limits:
    """What one run may take: seconds, and bytes of memory; None for as much as there is."""

    timeout: float | None = None
    memory: int | None = None


NO_LIMITS: Final = Limits()

#: What a message to a target's process begins with. A run's channel comes with its first byte.
HEADER, RELEASE, RUN, STATUS = b"h", b"n", b"r", b"s"


#: Seconds that a run's process has to end that has sent its last message, or whose holder is gone.
LINGER: Final = 0.2
#: The exit status of a process that found its channel closed, though the holder was there.
CLOSED: Final = 240
_ROUNDS: Final = 10
_SET_CHILD_SUBREAPER: Final = 36


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


def fork() -> int:
    """As `os.fork`, without Python 3.12's warning where the process has threads.

    Only Python's own locks matter to what runs next, and those are made anew in the child.
    """
    with warnings.catch_warnings() if sys.version_info >= (3, 12) else contextlib.nullcontext():
        if sys.version_info >= (3, 12):
            warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def flush() -> None:
    """Flush what was printed, as far as that works."""
    for stream in (sys.stdout, sys.stderr):
        try:  # of every run, and so without a context
            stream.flush()
        except Exception:  # noqa: BLE001, S112  (whatever a target's stream raises)
            continue


def serve_fork(prepare: Callable[[], Served], control: socket.socket, limits: Limits) -> NoReturn:
    """Serve, in a fork of the holder."""
    _adopt()
    gc.freeze()  # what the process had before is not looked through again, which would copy its memory
    _Serving(control, limits).to_the_end(prepare)


def serve_fresh(descriptor: int) -> NoReturn:
    """Serve, in a fresh interpreter."""
    _adopt()
    control = opened(descriptor)
    target, libraries, timeout, memory = receive(control)
    _hear_interrupts()
    load_libraries(libraries)
    serving = _Serving(control, Limits(timeout, memory), target)
    serving.to_the_end(functools.partial(make_target, target.tobytes()))


def run_fresh(started: int, channel: int) -> NoReturn:
    """Make one run, in a fresh interpreter."""
    with opened(started) as orders:
        target, memory, header, message = receive(orders)
    opened(channel).detach()
    _hear_interrupts()
    ledger = [] if header is None else [Counted(Header(**header))]
    _run(functools.partial(make_target, target.tobytes()), message, ledger, channel, Limits(memory=memory))


def _hear_interrupts() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


class _Serving:
    """What a target's process knows of its runs; `target` is how a fresh interpreter makes it."""

    def __init__(
        self, control: socket.socket, limits: Limits, target: np.ndarray[Any, Any] | None = None
    ) -> None:
        self._control, self._limits, self._target = control, limits, target
        self._process = os.getpid()
        #: The processes of runs by their numbers; of those that ended by themselves, the status, if not 0.
        self._running: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._runs = 0
        #: The headers that this process was told, and an empty ledger with each.
        self._headers: list[Any] = []
        self._ledgers: list[Counted] = []

    def to_the_end(self, prepare: Callable[[], Served]) -> NoReturn:
        """Serve until the other end is closed."""
        try:
            try:
                try:
                    served = prepare()
                finally:
                    if os.getpid() != self._process:  # a fork that the target's module made, and let go on
                        os._exit(0)
                if self._target is None:
                    _require_no_pool()
                ready = frame(("ready", dict(served.about)))
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGINT, self._interrupted)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, no run could be waited for
            except BaseException as error:  # noqa: BLE001  (it is raised in the other process)
                send(self._control, ("error", raised(error)))
            else:
                gc.collect()
                gc.freeze()
                self._control.sendall(ready)
                while True:
                    self._next(served)
        except (EOFError, OSError):
            pass
        finally:
            _end(self._running.values())
            _end_helpers()
            flush()
            os._exit(0 if _is_open(self._control) else CLOSED)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C ends a run, which is a fork, and not the process that serves."""
        if os.getpid() != self._process:
            signal.default_int_handler(number, frame)

    def _next(self, served: Served) -> None:
        """Answer one message. Whatever memory this writes to between two runs is copied for the next one."""
        kind, channels, _, _ = socket.recv_fds(self._control, 1, 1)
        if not kind:
            raise EOFError
        message = receive_frame(self._control)
        if kind == RUN:
            _reap(self._running, self._ended)
            self._runs += 1
            self._running[self._runs] = self._started(served, message, channels[0])
            os.close(channels[0])
        elif kind == HEADER:
            self._headers.append(value_of(message))
            self._ledgers.append(Counted(Header(**self._headers[-1])))
            if len(self._ledgers) == 1:
                rehearse(self._ledgers[0].header)
        elif kind == RELEASE:
            expect(value_of(message))
        else:
            number, kill = value_of(message)
            status = self._ended.pop(number, 0)
            if number in self._running:
                pid = self._running.pop(number)
                if kill:
                    os.kill(pid, signal.SIGKILL)
                status = os.waitpid(pid, 0)[1]
            send(self._control, os.waitstatus_to_exitcode(status))

    def _started(self, served: Served, message: bytes, channel: int) -> int:
        """Start a run; its process."""
        if self._target is not None and is_threaded():
            return self._started_fresh(self._target, message, channel)
        pid = fork()
        if pid == 0:
            self._control.close()
            _run(lambda: served, message, self._ledgers, channel, self._limits)
        return pid

    def _started_fresh(self, target: np.ndarray[Any, Any], message: bytes, channel: int) -> int:
        order = value_of(message)
        header = self._headers[order["header"]] if "header" in order else None
        own, other = socket.socketpair()
        with own, other, socket.socket(fileno=os.dup(channel)) as run:
            pid = start_interpreter("run_fresh", other, run)
            other.close()
            with contextlib.suppress(OSError):  # it has died, which its status tells
                send(own, (target, self._limits.memory, header, frame(order | {"header": 0})))
        return pid


def _require_no_pool() -> None:
    """Raise `UsageError` where forks of this process would wait for Polars' threads for ever."""
    if has_polars_threads():
        what = "Polars computed something while the target and its data were opened"
        why = "each run is a fork of that process, and waits for ever for the threads that Polars has started"
        remedy = "compute inside the algorithm, or inside a function that --data names, or set "
        remedy += f"{PROCESSES_VARIABLE}=spawn, which starts an interpreter for each run"
        raise UsageError(what, where="the target's module", why=why, remedy=remedy)


def _is_open(channel: Channel) -> bool:
    """Whether a channel's descriptor is still a socket."""
    try:
        return stat.S_ISSOCK(os.fstat(channel.fileno()).st_mode)
    except OSError:
        return False


def _adopt() -> None:
    """Become the parent of whatever the target's processes start and leave behind, where the kernel can.

    A pool of joblib's or Dask's that the holder has is its own: none of its threads is in a fork.
    """
    if (pools := sys.modules.get("joblib.externals.loky.reusable_executor")) is not None:
        vars(pools)["_executor"] = None
    if (pools := sys.modules.get("dask.threaded")) is not None:
        vars(pools)["default_pool"] = None
        vars(pools)["pools"].clear()
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
        time.sleep(LINGER / _ROUNDS)


def _reap(running: dict[int, int], ended: dict[int, int]) -> None:
    """Collect the exit status of each run that has ended."""
    for number, pid in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            del running[number]
            if status:
                ended[number] = status


def _end(running: Iterable[int]) -> None:
    """Let runs end that have sent their last message, and end the others."""
    ends = time.monotonic() + LINGER
    for pid in running:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if time.monotonic() > ends:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(1e-3)


def _run(
    prepare: Callable[[], Served], message: bytes, ledgers: Sequence[Counted], descriptor: int, limits: Limits
) -> NoReturn:
    """One run in a process of its own."""
    status = 1
    channel = Channel(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
    try:
        # What the target forks has no business with the holder.
        os.register_at_fork(after_in_child=channel.close)
        if limits.memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
        order, served = value_of(message), prepare()
        if "call" in order:
            answer_call(order["call"], served.held(), channel)
        else:
            run_target(served.algorithm, served.data[order["data"]], order, ledgers[order["header"]], channel)
        status = 0 if _is_open(channel) else CLOSED
    finally:
        flush()
        os._exit(status)
