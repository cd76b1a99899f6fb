"""What runs in a target's own process: one run, whose every release is asked of the holder.

The curator here is the one of any other run; only its noise is another's. It clips, sums and checks what the
algorithm gives it, and sends the values that noise is to be added to. What comes back is noisy.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit import errors
from dpaudit.claims.relations import TrustModel
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.admission import CORE, new_release, told_apart
from dpaudit.curator.coins import Coins
from dpaudit.curator.curator import Curator
from dpaudit.curator.deferred import at_hand
from dpaudit.curator.noise import Given, LiveNoise, Question
from dpaudit.errors import DpauditError, ScheduleBroken
from dpaudit.ledger.ledger import Header, Ledger, Noise
from dpaudit.ledger.places import released_at
from dpaudit.ledger.releases import LIKE, Release
from dpaudit.mechanisms import Array, Gaussian, SampledSum
from dpaudit.processes.wire import BrokenFrame, Channel, Incoming, NotPlain, frame, send

#: What one of our errors is sent as.
OF_ERRORS: Final = ("kind", "module", "what", "where", "why", "remedy")
_OWN_FOLDER: Final = str(Path(errors.__file__).parent) + os.sep


class Asked(NamedTuple):
    """A request, in the order in which it is sent.

    `release` is the ledger's line without its label and sample, and None where the release is not new;
    `given` is None where it is the query alone. All else is as in `Question`.
    """

    label: str | None
    sample: str | None
    release: str | None
    number: int
    query: Array
    exact: Array | None
    given: tuple[Given, ...] | None
    at: Array | None
    scale: float | None
    user: int | None
    where: str
    batch: int | None

    def line(self) -> Release:
        """The ledger's line of a new release; raises `InputError` for what is none."""
        return told_apart(_release_of(str(self.release)), self.label, self.sample)

    def values(self) -> tuple[Given, ...]:
        """What noise is added to, or a choice made by."""
        return (self.query,) if self.given is None else tuple(self.given)


def _line_of(release: Release) -> str:
    """The key of a release in requests: all fields but label and sample, in which most releases differ."""
    try:
        return _line(*release.like())
    except TypeError:  # something in it is not hashable
        return json.dumps(told_apart(release, "label").to_json())


@functools.lru_cache(maxsize=1024, typed=True)
def _line(*like: Any) -> str:
    return json.dumps(Release(label="label", **dict(zip(LIKE, like, strict=True))).to_json())


@functools.lru_cache(maxsize=1024)
def _release_of(text: str) -> Release:
    try:
        fields = dict(json.loads(text))
    except (RecursionError, TypeError, ValueError):
        raise BrokenFrame("a release that cannot be read", where="a process's channel") from None
    return Release(**{name: value for name, value in fields.items() if name != "record"})


class Counted(Ledger):
    """The releases of a run as its own process counts them: what proves anything is written elsewhere."""

    def append(self, release: Release, *, by_curator: bool = False) -> None:
        """Count one more release."""
        del by_curator
        self.number += 1
        self._releases.append(release)
        self._tuple = None


class HolderGone(BaseException):
    """The holder has ended the run, or has itself ended."""


class AskedNoise:
    """The holder's noise: every question is sent, and what comes back is its answer.

    It knows the process and the thread of the run, and refuses any other with `ScheduleBroken`: the order of
    questions is part of what the holder compares.
    """

    def __init__(
        self,
        channel: Channel,
        description: Noise,
        seed: int | None,
        coins: tuple[int, int, int | None] | None = None,
    ) -> None:
        self.description = description
        #: The samples that the holder has forced.
        self.coins = None if coins is None else Coins(*coins)
        self._channel, self._incoming = channel, Incoming(channel)
        self._thread, self._process = threading.get_ident(), os.getpid()
        self._seed = seed
        self._own: LiveNoise | None = None
        self._newest = -1

    def answer(self, question: Question) -> Array:
        """The holder's answer; raises what the holder's curator raised."""
        self._require_own_thread(question)
        given = question.given
        if question.release.mechanism.drawn_by_caller and given:
            # A sampler or a trial that is the algorithm's own code can only run in its process.
            given = (self._drawing().answer(question),)
        new, self._newest = question.number > self._newest, max(question.number, self._newest)
        exact = None if question.exact is question.query else question.exact
        release, query = question.release, question.query
        line = (release.label, release.sample, _line_of(release)) if new else (None, None, None)
        alone = None if len(given) == 1 and given[0] is query else given
        asked = question.number, query, exact, alone, question.at, question.scale, question.user
        where = released_at(CORE) if question.where is None else question.where
        try:
            send(self._channel, ("ask", (*line, *asked, where, question.batch)))
            kind, found = self._incoming.receive()
        except (EOFError, OSError):
            raise HolderGone from None
        if kind == "refused":
            raise rebuilt(found)
        return np.asarray(found)

    def _drawing(self) -> LiveNoise:
        """What is drawn in this process."""
        self._own = self._own or LiveNoise(self._seed)
        return self._own

    def _require_own_thread(self, question: Question) -> None:
        if threading.get_ident() != self._thread or os.getpid() != self._process:
            other = "thread" if os.getpid() == self._process else "process"
            what = f"release {question.release.label!r} in another {other} than the run's"
            why = "the order of releases would depend on which of them was faster"
            remedy = f"compute in other {other}s, and release where the run began"
            raise ScheduleBroken(what, where="curator", why=why, remedy=remedy)


class DrawingNoise(AskedNoise):
    """The same for a run whose samples nobody compares, so that they are drawn here."""

    def chosen(self, mechanism: SampledSum, count: int) -> NDArray[np.bool_]:
        """Who of so many units is in a sample: neither the holder nor a twin is told."""
        return self._drawing().chosen(mechanism, count)


def expect(text: str) -> None:
    """Find out now, for all runs that begin later, that a release can be read back, and its line."""
    like = _release_of(text)
    stated = {name: value for name, value in like if name not in ("grid", "sample")}
    with contextlib.suppress(DpauditError):
        _line_of(new_release(**stated, on_grid=like.grid is not None))


def rehearse(header: Header) -> bool:
    """Make a run of dpaudit's own, so that no later one has to make what the first one does.

    Returns:
        Whether it came to its end.
    """

    def release(data: float, curator: Curator) -> None:
        own = curator.user(0) if header.trust_model is TrustModel.LOCAL else curator
        own.release(data, Gaussian(sigma=1.0, sensitivity=L2(0.0)), label="rehearsal")

    mine, other = socket.socketpair()
    order = {"observed": True, "seed": 0, "public_seed": 0, "around": None, "utility": False, "coins": None}
    with mine, other:
        send(other, ("answer", np.zeros(())))
        run_target(release, 0.0, order, Counted(header), mine)
        mine.close()
        sent = Incoming(other)
        with contextlib.suppress(EOFError, OSError):
            return bool([sent.receive() for _ in range(2)][1][0] == "end")
    return False


def written(error: DpauditError) -> dict[str, str]:
    """One of our errors in plain values."""
    kind = type(error)
    named = (str(getattr(error, name)) for name in OF_ERRORS[2:])
    return dict(zip(OF_ERRORS, (kind.__qualname__, kind.__module__, *named), strict=True))


def rebuilt(error: dict[str, str]) -> DpauditError:
    """The error that `written` was given; a plain `DpauditError` where its class is none of dpaudit's."""
    kind: type[DpauditError] = DpauditError
    if error["module"].partition(".")[0] == "dpaudit":
        known = [DpauditError]
        for one in known:
            known += one.__subclasses__()
        named = (one for one in known if one.__qualname__ == error["kind"])
        kind = next(named, DpauditError)
    made = kind.__new__(kind)
    DpauditError.__init__(made, error["what"], where=error["where"], why=error["why"], remedy=error["remedy"])
    return made


def run_target(
    algorithm: Callable[..., Any], data: Any, order: dict[str, Any], ledger: Ledger, channel: Channel
) -> None:
    """One run, from its order to its last message, which has the output or what was raised.

    The ledger is empty; what is written to it here counts releases, and proves nothing.
    """
    try:
        last = _outcome(algorithm, data, order, ledger, channel)
    except HolderGone:
        return
    except BaseException as error:  # noqa: BLE001  (whatever a target raises ends its run, and not this)
        last = frame(("error", raised(error)))
    with contextlib.suppress(OSError):
        channel.sendall(last)


def _outcome(
    algorithm: Callable[..., Any], data: Any, order: dict[str, Any], ledger: Ledger, channel: Channel
) -> bytes:
    # What the holder compares is drawn there.
    asking = AskedNoise if order["observed"] else DrawingNoise
    noise = asking(channel, ledger.header.noise, order["seed"], order["coins"])
    curator = Curator(ledger, noise, public_seed=order["public_seed"])
    around = order["around"]
    if around is not None:
        module, _, name = around["made by"].rpartition(".")
        algorithm = getattr(importlib.import_module(module), name)(algorithm, **around["options"])
    output = algorithm(at_hand(data), curator)
    curator.end()
    notes = getattr(algorithm, "drawn") if around is not None else None  # noqa: B009  (a wrapper has it)
    figures: dict[str, float] = {}
    if order["utility"] and hasattr(algorithm, "utility"):
        figures = {str(name): float(value) for name, value in algorithm.utility(output).items()}
    beside = frame({"notes": notes, "utility": figures})
    try:
        return frame(("end", None)) + frame(output, "output") + beside
    except NotPlain as error:
        return frame(("end", str(error))) + beside


def raised(error: BaseException) -> dict[str, Any]:
    """What a target raised, in plain values, with file and line of the innermost frame outside dpaudit."""
    frames = list(traceback.extract_tb(error.__traceback__))
    outside = [frame for frame in frames if not frame.filename.startswith((_OWN_FOLDER, "<frozen"))]
    place = "".join(f"{frame.filename}:{frame.lineno}" for frame in (outside or frames)[-1:])
    if isinstance(error, SyntaxError) and error.filename is not None:
        place = f"{error.filename}:{error.lineno}"
    return {
        "kind": type(error).__name__,
        "text": str(error),
        "place": place,
        "traceback": "".join(traceback.format_exception(error)),
        # The words of one of our errors that the target made itself are the target's.
        "own": written(error) if isinstance(error, DpauditError) and _is_ours(error) else None,
    }


def _is_ours(error: BaseException) -> bool:
    """Whether an error was raised in dpaudit's code, or in Python's library on its behalf."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    module = "" if found is None else str(found.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in {"dpaudit", *sys.stdlib_module_names}
