"""Every failure leaves as a message on stderr and an exit code; a traceback is for those who ask for it."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dpaudit.errors import DpauditError

EXIT_NOT_PROVED, EXIT_INPUT, EXIT_INCONCLUSIVE, EXIT_NOTHING = 1, 2, 4, 5
EXIT_INTERRUPTED, EXIT_PIPE = 130, 141  # 128 and the number of the signal, as shells have it

_TRACEBACK = "dpaudit.traceback"


class NobodyReads(BrokenPipeError):
    """Whoever read stdout or stderr went away: no fault of the code that was running just then."""


_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def traceback_option(verb: _Verb) -> _Verb:
    """``--traceback``, on the command and on every verb."""
    return click.option(
        "--traceback",
        is_flag=True,
        envvar="DPAUDIT_TRACEBACK",
        expose_value=False,
        callback=_remember,
        help="Print an error's full traceback (or set DPAUDIT_TRACEBACK=1).",
    )(verb)


def _remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    ctx.meta[_TRACEBACK] = value or ctx.meta.get(_TRACEBACK, False)


def report(ctx: click.Context, error: Exception) -> int:
    """Print an error with its four parts; return the exit code it stands for."""
    if is_closed_pipe(error):
        return silenced()
    try:
        return _reported(ctx, error)
    except NobodyReads:
        return silenced()


def is_closed_pipe(error: BaseException) -> bool:
    """Whether what failed is a write to a pipe that nobody reads."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def silenced() -> int:
    """Say no more where nobody reads; the exit code of a program that a closed pipe ended."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # What is still to be written goes nowhere: Python would complain when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return EXIT_PIPE


def open_closed_streams() -> None:
    """Let what is printed to a stream that was closed from the start go nowhere: the exit code tells.

    A file opened later would else get the stream's descriptor, and what libraries print.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the least that is free: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (to the end)


def _reported(ctx: click.Context, error: Exception) -> int:
    if ctx.meta.get(_TRACEBACK):
        _note("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, DpauditError):
        _note(f"error: {error}")
        return error.exit_status
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        _note(f"error: {place}{error.strerror or error}")
        return EXIT_INPUT
    _note(
        f"error: {type(error).__name__}: {error}\n"
        "  why: this is a fault in dpaudit itself, so nothing was judged\n"
        "  do:  run again with --traceback, and report what it prints"
    )
    return EXIT_INPUT


def _note(text: str) -> None:
    from dpaudit.app.text.output import note  # what prints tables is loaded only where something is printed

    note(text)
