"""Three ways to make audits cheap by day, in this process and in programs that a test starts.

Samplers are tested with a tenth of their draws; a replay makes few runs; runs are threads of their target's
process, where a fork costs twenty times as much. What a day's tests leave out so, each night's have: what a
name in `WAYS` stands for is done where the environment has that name.
"""

import contextlib
import copy
import dataclasses
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

Patch = Callable[[object, str, object], None]
DRAWS = ("DRAWS", "SLOW_DRAWS", "CHOICES")


def with_few_draws(patch: Patch) -> None:
    """Samplers are tested with a tenth of their draws; the probability of a false alarm is the same."""
    from dpaudit.auditors.replay import sampler_check

    for name in DRAWS:
        patch(sampler_check, name, getattr(sampler_check, name) // 10)


def with_few_runs(patch: Patch) -> None:
    """A replay makes one recording a direction, and one more with outputs that are set."""
    from dpaudit.auditors.replay import forced_outputs, replay

    patch(replay, "FIRST", 1)
    patch(forced_outputs, "SETTINGS", {"zero": forced_outputs.SETTINGS["zero"]})


def in_threads(patch: Patch) -> None:
    """The runs of a target are threads of its process, which is asked in lockstep with its twin as ever."""
    from dpaudit.processes import host

    patch(host, "serve_fork", serve_in_threads)


def serve_in_threads(prepare: Callable[[], Any], control: socket.socket, limits: object) -> None:
    """What `dpaudit.processes.serving.serve_fork` does, with a thread for each run; never returns."""
    from dpaudit.ledger.ledger import Header
    from dpaudit.processes import serving
    from dpaudit.processes.calls import answer_call
    from dpaudit.processes.wire import receive_frame, send, value_of
    from dpaudit.processes.worker import Counted, expect, raised, run_target

    def run(served: Any, order: dict[str, Any], channel: socket.socket) -> None:
        with channel:
            # A run leaves nothing behind in what others get.
            algorithm, data = copy.deepcopy((served.algorithm, dict(served.data)))
            own = dataclasses.replace(served, algorithm=algorithm, data=data)
            if "call" in order:
                answer_call(order["call"], own.held(), channel)
            else:
                ledger = Counted(Header(**headers[order["header"]]))
                run_target(own.algorithm, own.data[order["data"]], order, ledger, channel)

    try:
        served = prepare()
    except BaseException as error:  # noqa: BLE001  (it is raised in the other process)
        send(control, ("error", raised(error)))
        os._exit(0)
    send(control, ("ready", dict(served.about)))
    headers: list[dict[str, Any]] = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            kind, channels, _, _ = socket.recv_fds(control, 1, 1)
            if not kind:
                break
            message = value_of(receive_frame(control))
            if kind == serving.HEADER:
                headers.append(message)
            elif kind == serving.RELEASE:
                expect(message)
            elif kind == serving.RUN:
                given = served, message, socket.socket(fileno=channels[0])
                threading.Thread(target=run, args=given, daemon=True).start()
            elif kind == serving.STATUS:
                send(control, 0)
            else:
                sys.stderr.write("tests/cheap_runs.py does not know this message\n")
                break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


#: By the name of the environment variable that asks for it.
WAYS: dict[str, Callable[[Patch], None]] = {
    f"DPAUDIT_TESTS_{way.__name__.upper()}": way for way in (with_few_draws, with_few_runs, in_threads)
}
