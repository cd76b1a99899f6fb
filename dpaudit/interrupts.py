"""Ctrl-C at a terminal reaches every process of a command; one of them is enough to answer it."""

import multiprocessing
import signal
import threading


def leave_to_parent() -> None:
    """In a worker's main thread: ignore Ctrl-C from here on, because the parent stops its workers itself."""
    in_worker = multiprocessing.parent_process() is not None
    if in_worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
