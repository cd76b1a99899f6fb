"""Every failure ends with a message on stderr and an exit code; `--traceback` adds the traceback."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dpaudit.app.text.streams import ReaderGone, is_closed_pipe, note, silenced
from dpaudit.app.text.target_text import is_shown, may_quote_data, place_of, traceback_of, without_value
from dpaudit.errors import DpauditError

EXIT_NOT_PROVED, EXIT_INPUT, EXIT_INCONCLUSIVE, EXIT_NOTHING = 1, 2, 4, 5
EXIT_INTERRUPTED = 130  # 128 and the number of the signal, as shells have it

_TRACEBACK = "dpaudit.traceback"


_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def traceback_option(verb: _Verb) -> _Verb:
    """``--traceback``, on the command and on every verb: `dpaudit.app.main.imported` adds it."""
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
    """Print an error with its four parts; return its exit code."""
    if is_closed_pipe(error):
        return silenced()
    if isinstance(error, DpauditError):
        words = str(error if is_shown() else without_value(error))
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        words = f"{place}{error.strerror or error}"
    else:
        said = place_of(error) if may_quote_data() else error
        words = (
            f"{type(error).__name__}: {said}\n"
            "  why: this is a fault in dpaudit itself, so nothing was judged\n"
            "  do:  run again with --traceback, and report what it prints"
        )
    try:
        if ctx.meta.get(_TRACEBACK):
            note(traceback_of(error))
        note(f"error: {words}")
    except ReaderGone:
        return silenced()
    return error.exit_status if isinstance(error, DpauditError) else EXIT_INPUT
