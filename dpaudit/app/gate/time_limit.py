"""A limit on how long something may take, which no algorithm catches by accident."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeOver(BaseException):
    """The time is over; no `Exception`, so that neither an algorithm nor an audit takes it for its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeOver` inside once the time is over, and once a second after that should it be swallowed.

    A signal does it, and so only in the main thread; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TimeOver

    previous = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
