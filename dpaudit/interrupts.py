"""Ctrl-C at a terminal reaches every process of a command; only the parent process handles it."""

import multiprocessing
import signal
import threading


def leave_to_parent() -> None:
    """Ignore Ctrl-C in a worker's main thread from now on; the parent stops its workers itself."""
    in_worker = multiprocessing.parent_process() is not None
    if in_worker and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
