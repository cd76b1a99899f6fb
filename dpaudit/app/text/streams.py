"""Writing to stdout and stderr: unprintable characters escaped, closed pipes handled."""

import errno
import os
import sys
from pathlib import Path
from typing import IO, Any

EXIT_PIPE = 141  # 128 and the number of the signal, as shells have it


class ReaderGone(BrokenPipeError):
    """Whoever read stdout or stderr went away: no fault of the code that was running just then."""


def note(text: str) -> None:
    """A line for people, on stderr."""
    outer = getattr(sys.stderr, "outer", sys.stderr)  # while a target's own words are dropped
    write(outer, "\n".join(printable(line) for line in text.split("\n")) + "\n")


def printable(text: str) -> str:
    """The text without characters that would command the terminal: file names and labels are foreign."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def all_printable(value: Any) -> Any:
    """The same with every text in its fields and items printable."""
    if isinstance(value, dict):
        return {name: all_printable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [all_printable(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def write(stream: IO[str], text: str) -> None:
    """Write and flush; raise `ReaderGone` where the other end of the pipe is closed."""
    # A label may hold characters that the terminal's encoding lacks: an escape is better than a traceback.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderGone(*error.args) from None


def is_closed_pipe(error: BaseException) -> bool:
    """Whether what failed is a write to a closed pipe."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def silenced() -> int:
    """Drop what is still to be written to a closed pipe; the exit code of a program that it ended."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # What is still to be written goes nowhere: Python would complain when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return EXIT_PIPE


def open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed from the start.

    A file opened later would otherwise get the stream's descriptor, and with it what libraries print.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the least that is free: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (to the end)
