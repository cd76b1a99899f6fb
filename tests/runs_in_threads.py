"""Hosts whose runs are threads, where pages are walked: a forked run costs twenty times as much.

A target still has a process of its own, and is asked in lockstep with its twin; what is printed is the same.
What forks are for is tested in tests/processes, and every night pages are walked with them.
"""

from __future__ import annotations

import contextlib
import copy
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Set for programs that tests start, which then call `serve_in_threads` in place of forking.
VARIABLE = "DPAUDIT_TESTS_RUN_IN_THREADS"


def serve_in_threads(prepare: Callable[[], Any], control: socket.socket, limits: object) -> None:
    """What `dpaudit.processes.host._serve` does, with a thread for each run."""
    from dpaudit.ledger.ledger import Header, Ledger
    from dpaudit.processes.wire import receive, send
    from dpaudit.processes.worker import raised, run_target

    def run(served: Any, order: dict[str, Any], ledger: Ledger, channel: socket.socket) -> None:
        with channel:
            own = copy.deepcopy((served.algorithm, served.data[order["data"]]))
            run_target(*own, order, ledger, channel)

    try:
        served = prepare()
    except BaseException as error:  # noqa: BLE001  (it is raised in the other process)
        send(control, ("error", raised(error)))
        os._exit(0)
    send(control, ("ready", dict(served.about)))
    header: dict[str, Any] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            kind, *rest = receive(control)
            if kind == "header":
                (header,) = rest
            elif kind == "run":
                _, (number,), _, _ = socket.recv_fds(control, 1, 1)
                channel = socket.socket(fileno=number)
                given = served, rest[0], Ledger(Header(**header)), channel
                threading.Thread(target=run, args=given, daemon=True).start()
                send(control, 1)
            else:
                send(control, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def patch_host() -> None:
    """Have hosts of this process run in threads from now on."""
    from dpaudit.processes import host

    setattr(host, "_serve", serve_in_threads)  # noqa: B010  (a plain assignment is refused by the type checker)
