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
    """What `dpaudit.processes.host._serve` does, with a thread for each run; never returns."""
    from dpaudit.ledger.ledger import Header
    from dpaudit.processes.calls import answer_call
    from dpaudit.processes.wire import receive, send
    from dpaudit.processes.worker import Counted, expect, raised, run_target

    def run(served: Any, order: dict[str, Any], header: dict[str, Any], channel: socket.socket) -> None:
        with channel:
            # A run leaves nothing behind in what others get.
            algorithm, data = copy.deepcopy((served.algorithm, dict(served.data)))
            own = dataclasses.replace(served, algorithm=algorithm, data=data)
            if "call" in order:
                answer_call(order["call"], own.held(), channel)
            else:
                ledger = Counted(Header(**header))
                run_target(own.algorithm, own.data[order["data"]], order, ledger, channel)

    try:
        served = prepare()
    except BaseException as error:  # noqa: BLE001  (it is raised in the other process)
        send(control, ("error", raised(error)))
        os._exit(0)
    send(control, ("ready", dict(served.about)))
    header: dict[str, Any] = {}
    status = 1  # of a message that is not known here
    with contextlib.suppress(EOFError, OSError):
        while True:
            match receive(control):
                case "header", header:
                    pass
                case "release", text:
                    expect(text)
                case "run", order:
                    _, (number,), _, _ = socket.recv_fds(control, 1, 1)
                    given = served, order, header, socket.socket(fileno=number)
                    threading.Thread(target=run, args=given, daemon=True).start()
                case "status", _, _:
                    send(control, 0)
                case _:
                    break
        sys.stderr.write("tests/runs_in_threads.py does not know this message\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def patch_host() -> None:
    """Have hosts of this process run in threads from now on."""
    from dpaudit.processes import host

    setattr(host, "_serve", serve_in_threads)  # noqa: B010  (a plain assignment is refused by the type checker)
