"""Writing to stdout and stderr: unprintable characters escaped, closed pipes handled."""

import errno
import os
import re
import sys
from pathlib import Path
from typing import IO

from dpaudit.page.printable import printable_lines

EXIT_PIPE = 141  # 128 and the number of the signal, as shells have it


class ReaderGone(BrokenPipeError):
    """The reader of stdout or stderr closed the pipe; the running code is not at fault."""


#: What a runner of continuous integration reads as a command: two colons at the start of a line, after
#: white space (GitHub), or ``##`` with a bracket anywhere in it (GitHub's older form, Azure, TeamCity).
_COMMAND = re.compile(r"(?:\A|(?<=[\n\r]))([^\S\n\r]*):(?=:)|#(?=#\w*\[)")


def logged(text: str) -> str:
    """Return the text with every workflow command in it broken by an escape, which JSON reads as well."""
    return _COMMAND.sub(lambda at: "\\u0023" if at[1] is None else f"{at[1]}\\u003a", text)


def note(text: str) -> None:
    """Print a line for people on stderr."""
    outer = getattr(sys.stderr, "outer", sys.stderr)  # while a target's own words are dropped
    write(outer, printable_lines(text) + "\n")


def write(stream: IO[str], text: str, *, commands: bool = False) -> None:
    """Write and flush; raise `ReaderGone` where the other end of the pipe is closed.

    Everything that is printed goes through here, as `logged` has it, but for the gate's own `commands`.
    """
    text = text if commands else logged(text)
    # A label may hold characters that the terminal's encoding lacks: an escape is better than a traceback.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderGone(*error.args) from None


def is_closed_pipe(error: BaseException) -> bool:
    """Return whether the failure is a write to a closed pipe."""
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
