"""A target's own words may quote private data: they are shown at a terminal, never in a report or a log.

An exception's message, prints and warnings may quote records. They are shown on stderr where that is a
terminal, or under --show-target-errors; elsewhere, as in continuous integration, only an exception's type,
file and line are.
"""

import contextlib
import functools
import io
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import IO, Any, Final, TypeVar

import click

from dpaudit.app.text.streams import note
from dpaudit.errors import DataError, DpauditError, InvalidParameter, NormMismatch, TargetRaised, UnknownKind
from dpaudit.ledger.places import shown_place

SHOW: Final = "--show-target-errors"
_SHOWN: Final = "dpaudit.show-target-errors"

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def target_errors_option(verb: _Verb) -> _Verb:
    """``--show-target-errors``, for verbs that run a target."""
    return click.option(
        SHOW,
        is_flag=True,
        envvar="DPAUDIT_SHOW_TARGET_ERRORS",
        expose_value=False,
        callback=_remember,
        help="Show TARGET's output, warnings and exceptions, which may quote private data, even if stderr is "
        "no terminal.",
    )(verb)


def may_quote_data() -> bool:
    """Whether even the words of a fault in dpaudit stay unshown: a verb that runs a target ends with it."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and _SHOWN in ctx.meta and not is_shown()


def _remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.meta[_SHOWN] = value


def is_shown() -> bool:
    """Whether a target's own words may be shown: at a terminal, or because somebody asked for them."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.meta.get(_SHOWN):
        return True
    return sys.stderr.isatty() and not os.environ.get("CI")


class _Unshown(io.TextIOWrapper):
    """A stream that drops what is written to it; `outer` is where dpaudit's own notes go meanwhile."""

    def __init__(self, outer: IO[str]) -> None:
        super().__init__(io.FileIO(os.devnull, "w"), encoding="utf-8", errors="replace")
        self.outer = outer
        self.lines = 0

    def write(self, text: str, /) -> int:
        """Count the lines, and drop them."""
        self.lines += text.count("\n")
        return len(text)


@contextlib.contextmanager
def target_streams(reference: str, doing: str, *, shown: bool) -> Iterator[None]:
    """Keep stdout free for the answer: what is printed inside goes to stderr if `shown`, else nowhere.

    That holds for child processes, compiled libraries, warnings and what threads raise as well.
    """
    if shown:
        with contextlib.redirect_stdout(sys.stderr), _descriptors({1: 2}):
            yield
        return
    with contextlib.ExitStack() as stack:
        outer = getattr(sys.stderr, "outer", sys.stderr)
        if _is_descriptor_two(outer):
            outer = stack.enter_context(
                os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
            )
        dropped = stack.enter_context(_Unshown(outer))
        stack.callback(lambda: _say_dropped(dropped.lines, reference, doing))
        null = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, null)
        stack.enter_context(_descriptors({1: null, 2: null}))
        stack.enter_context(contextlib.redirect_stdout(dropped))
        stack.enter_context(contextlib.redirect_stderr(dropped))
        hooks = ((threading, "excepthook"), (sys, "unraisablehook"), (warnings, "showwarning"))
        for module, hook in hooks:  # what filters make of a warning stays as it is
            stack.callback(setattr, module, hook, getattr(module, hook))
            setattr(module, hook, lambda *_, **__: dropped.write("\n"))
        yield


def _is_descriptor_two(stream: IO[str]) -> bool:
    try:
        return stream.fileno() == 2
    except (OSError, ValueError, AttributeError):
        return False


def _say_dropped(lines: int, reference: str, doing: str) -> None:
    if lines:
        many = "1 line" if lines == 1 else f"{lines} lines"
        note(f"{reference} printed {many} while {doing}: not shown outside a terminal without {SHOW}")


@contextlib.contextmanager
def _descriptors(onto: dict[int, int]) -> Iterator[None]:
    """What is written to each of these descriptors goes to another instead."""
    kept: dict[int, int] = {}
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    try:
        for one, other in onto.items():
            with contextlib.suppress(OSError):  # closed
                kept[one] = os.dup(one)
                os.dup2(other, one)
        yield
    finally:
        for one, copy in kept.items():
            os.dup2(copy, one)
            os.close(copy)


@contextlib.contextmanager
def unwritten(*streams: IO[str]) -> Iterator[None]:
    """What is written to these goes nowhere, also where a module kept them, as a handler of logs does."""
    with contextlib.ExitStack() as stack:
        null = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, null)
        for stream in streams:
            with contextlib.suppress(OSError, ValueError):  # in memory alone
                stack.enter_context(_descriptors({stream.fileno(): null}))
        yield


def is_targets_own(error: BaseException) -> bool:
    """Whether an error's words are a target's: it is none of ours, or it was raised in the target's code."""
    return not (isinstance(error, DpauditError | KeyboardInterrupt) and _is_from_dpaudit(error))


def _is_from_dpaudit(error: BaseException) -> bool:
    inner = _innermost(error.__traceback__)
    module = "dpaudit" if inner is None else str(inner.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in {"dpaudit", *sys.stdlib_module_names}


def public_words(error: BaseException) -> str:
    """What of a foreign error's words holds no data: a missing module, or a file that we could not write."""
    if isinstance(error, ModuleNotFoundError):
        return f" ({error.name})"
    return f" ({error.strerror})" if isinstance(error, OSError) and _is_from_dpaudit(error) else ""


def _innermost(found: TracebackType | None) -> TracebackType | None:
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return found


def place_of(error: BaseException) -> str:
    """File and line, as it may be shown, of the innermost frame outside dpaudit."""
    if isinstance(error, TargetRaised):
        return shown_place(error.place)
    if isinstance(error, SyntaxError) and error.filename is not None:
        return shown_place(f"{error.filename}:{error.lineno}")
    found = error.__traceback__
    first = "" if found is None else f"{found.tb_frame.f_code.co_filename}:{found.tb_lineno}"
    return shown_place([first, *_outside(error)][-1])


def is_from_outside(error: BaseException) -> bool:
    """Whether any code but dpaudit's had a part in it."""
    return isinstance(error, TargetRaised | SyntaxError) or bool(_outside(error))


def _outside(error: BaseException) -> list[str]:
    """File and line of each frame outside dpaudit, the innermost last."""
    places, found = [], error.__traceback__
    while found is not None:
        file = found.tb_frame.f_code.co_filename
        name = str(found.tb_frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] != "dpaudit" and not file.startswith(("<frozen", *_CONTEXTS)):
            places.append(f"{file}:{found.tb_lineno}")
        found = found.tb_next
    return places


_CONTEXTS: Final = str(contextlib.__file__), str(functools.__file__)

#: Errors whose words quote a value that was given: one from private data, perhaps.
_QUOTING: Final = InvalidParameter, NormMismatch, UnknownKind
_ELSEWHERE: Final = f"run `dpaudit certify` in a terminal, or with {SHOW}"


def without_text(error: DpauditError) -> DpauditError:
    """The error as a report may show it: what is wrong with records is for the data's holder alone."""
    if not isinstance(error, DataError):
        return without_value(error)
    what, why = "the data cannot be used", "what is wrong with records is for their holder"
    return DataError(what, where=error.raised_at or "the data", why=why, remedy=_ELSEWHERE)


def tell_raised(reference: str, raised: Iterable[str]) -> None:
    """Tell the data's holder, and nobody else, what a run on the data did where its twin did not."""
    for words in filter(None, raised):
        note(f"{reference} {words}" if is_shown() else f"{SHOW} shows what {reference} did there")


def without_value(error: DpauditError) -> DpauditError:
    """The error as a log may show it: a value that a target's code gave may be private.

    One that was given by an option, or in a configuration, is shown: no target's code gave that.
    """
    if error.quoted:
        remedy = f"{error.remedy}; to see what was said, {_ELSEWHERE}"
        return type(error)(
            error.what.replace(error.quoted, ""), where=error.where, why=error.why, remedy=remedy
        )
    if not isinstance(error, _QUOTING) or not error.raised_at or error.where.startswith("-"):
        return error
    what = f"a value given at {shown_place(error.raised_at)} cannot be used, and may be private"
    shown = type(error)(what, where=error.where, why=error.why, remedy=f"to see it, {_ELSEWHERE}")
    shown.raised_at = error.raised_at
    return shown


def traceback_of(error: BaseException) -> str:
    """An error's traceback with its causes; the words of what dpaudit did not raise only if shown."""
    if is_shown():
        elsewhere = [error.__cause__.traceback] if isinstance(error.__cause__, TargetRaised) else []
        return "\n".join([*elsewhere, "".join(traceback.format_exception(error))]).rstrip()
    parts: list[str] = []
    one: BaseException | None = error
    while one is not None:
        said = without_value(one) if isinstance(one, DpauditError) else one
        words = type(one).__name__ + ("" if is_targets_own(one) else f": {said}")
        frames = "".join(traceback.format_tb(one.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{words}")
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\n\nand, because of it,\n\n".join(reversed(parts))
