"""Hosts whose runs are threads, where pages are walked: a forked run costs twenty times as much.

A target still has a process of its own, and is asked in lockstep with its twin; what is printed is the same.
What forks are for is tested in tests/processes, and every night pages are walked with them.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Set for programs that tests start, which then call `serve_in_threads` in place of forking.
VARIABLE = "DPAUDIT_TESTS_RUN_IN_THREADS"


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
                sys.stderr.write("tests/runs_in_threads.py does not know this message\n")
                break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def patch_host() -> None:
    """Have hosts of this process run in threads from now on."""
    from dpaudit.processes import host

    setattr(host, "serve_fork", serve_in_threads)  # noqa: B010  (a plain assignment is refused by the type checker)
