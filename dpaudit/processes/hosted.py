"""The holder's side of a run: an algorithm in another process, in lockstep with a twin without data.

For each release the holder takes the twin's request as the question, and the worker's request for the value;
both receive the same noisy answer. The twin's output is published. So the releases, their parameters and the
output are functions of the noisy answers alone. If the worker makes another request, ends early or sends no
finite value of the question's shape, the value is the question's neutral element and the run continues: the
data holder is told, and nothing from such a run may be published. Exchange between the two through files or
shared memory is not detected, and certificates say so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dpaudit.certificate.conditions import Condition
from dpaudit.certificate.verdicts import Finding
from dpaudit.claims.claims import Claim
from dpaudit.curator.admission import Admission
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import Given, Question, describe
from dpaudit.errors import DpauditError, InvalidParameter, TargetDied
from dpaudit.ledger.places import shown_place
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Array, InTurns
from dpaudit.noise.grid import OnGrid, finite
from dpaudit.processes.calls import Elsewhere
from dpaudit.processes.host import Host, Started, again, message_of
from dpaudit.processes.wire import BrokenFrame, frame, value_of
from dpaudit.processes.worker import Asked, written


@dataclass(frozen=True)
class HostedData(Elsewhere):
    """The name of data that a target's process holds; `n_users` is their number of users, if they state it.

    `records` describe a pair's data, as in `changes.Records`, and `size` is the number of records.
    """

    name: str
    n_users: int | None = None
    records: tuple[int, ...] | None = None
    size: int | None = None

    @property
    def held_as(self) -> tuple[str, str]:
        """Return the kind "data", and the name."""
        return "data", self.name


@dataclass(frozen=True)
class Sent:
    """An output as the bytes sent: equal bytes have equal content."""

    content: bytes

    def value(self) -> Any:
        """Return the output; raise `BrokenFrame` for invalid bytes."""
        return value_of(self.content)


@dataclass(frozen=True)
class Unplain:
    """An output that could not be sent, with the reason."""

    why: str


@dataclass
class Hosted(Elsewhere):
    """An algorithm in its own process, called like any other, with data in that process too.

    Attributes:
        plain: whether it draws its own noise, so that it can only be sampled.
        twin: the name of the public stand-in data; None without a twin.
        around: the wrapper of the algorithm there, with its options; its ``drawn`` is sent back.
        unread: whether outputs are returned as `Sent`.
        not_checked: further conditions that its audits leave unchecked, as the algorithm states.
        findings: the worker's divergences from its twin, for the data holder alone.
        raised: the worker's action at each divergence, in words that may quote records.
        measured: the algorithm's own measures of the last output's utility, if `with_utility` requests them.
    """

    host: Host
    name: str
    claim: Claim | None
    parameters: Mapping[str, Any]
    twin: str | None = None
    around: Mapping[str, Any] | None = None
    with_utility: bool = False
    not_checked: tuple[Condition, ...] = ()
    plain: bool = False
    unread: bool = False
    drawn: Any = None
    findings: list[Finding] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def held_as(self) -> tuple[str, str]:
        """Return the kind "algorithm", without a name."""
        return "algorithm", ""

    def inside(self, wrapper: type, **options: Any) -> Hosted:
        """Return the algorithm wrapped in a class of dpaudit, in its process, without a twin."""
        made_by = f"{wrapper.__module__}.{wrapper.__name__}"
        return replace(self.alone(), around={"made by": made_by, "options": options})

    def alone(self) -> Hosted:
        """Return the algorithm without a twin, as audits run it."""
        return replace(self, twin=None, with_utility=False, findings=[], raised=[])

    def __call__(self, data: HostedData, curator: Curator) -> Any:
        """Return the output: the twin's output if there is a twin."""
        noise, _, _ = curator.for_user()
        order: dict[str, Any] = {
            "header": _without(curator.ledger.header.to_json(), "record"),
            "public_seed": curator.public_seed,
            "observed": curator.sampler is None,
            "coins": curator.coins and curator.coins.stated,
            "seed": getattr(noise, "sampler_seed", 0),
            "around": self.around,
            "utility": False,
            "data": data.name,
        }
        with_utility = {"utility": self.with_utility}
        runs: list[Started] = []
        try:
            runs.append(self.host.start(order if self.twin else order | with_utility))
            if self.twin is None:
                return _Alone(self, curator).follow(runs[0])
            runs.append(self.host.start(order | with_utility | {"data": self.twin}))
            return _Lockstep(self, curator, runs[0]).follow(runs[1])
        finally:
            for run in runs:
                run.end()


class _Alone:
    """One run without a twin: its own requests are the questions."""

    def __init__(self, hosted: Hosted, curator: Curator) -> None:
        self._hosted, self._curator = hosted, curator
        self._user: tuple[int, Admission] | None = None
        #: By number, the state that a release with several questions keeps between them.
        self._open: dict[int, tuple[Release, int, Any]] = {}
        self._refused: DpauditError | None = None

    def follow(self, run: Started) -> Any:
        """Answer a run's requests to its end; return its output."""
        while True:
            kind, found = _heard_from(run)
            if kind == "end":
                return self._ended(run, found)
            if kind == "error":
                run.finished()
                raise self._again(found)
            self._answer(run, found)

    def _answer(self, run: Started, asked: Asked) -> None:
        try:
            answer = self._answered(*self._admitted(asked), asked, asked)
        except DpauditError as error:
            self._refused = error
            run.reply(frame(("refused", written(error))))
        else:
            run.reply(frame(("answer", answer)))

    def _admitted(self, asked: Asked) -> tuple[Admission, tuple[Release, int, Any]]:
        """Return the release of a request; charge and write it if it is new."""
        user, number = asked.user, asked.number
        admission: Admission = self._curator
        if user is not None:
            if self._user is None or self._user[0] != user:
                self._user = user, self._curator.user(user)
            admission = self._user[1]
        if asked.release is not None:
            release = asked.line()
            if self._hosted.twin is None:  # one of many runs, as audits make them
                self._hosted.host.tell(asked.release)
            known = release, admission.admit(release, asked.where), release.mechanism.answering()
            if not asked.values():  # the first question of a stream or a function has no value
                self._open[number] = known
        else:
            known = self._open[number]
        return admission, known

    def _answered(
        self, admission: Admission, known: tuple[Release, int, Any], asked: Asked, value: Asked
    ) -> Array:
        release, position, answering = known
        query = value.query
        return admission.ask(
            Question(
                release=release,
                number=position,
                query=query,
                exact=query if value.exact is None else value.exact,
                answering=answering,
                given=value.values(),
                at=asked.at,
                scale=value.scale,
                where=value.where,
                batch=value.batch,
            )
        )

    def _ended(self, run: Started, unplain: str | None) -> Any:
        output: Any = Sent(run.receive_frame()) if unplain is None else Unplain(unplain)
        if isinstance(output, Sent) and not self._hosted.unread:
            output = output.value()
        beside = run.receive()
        if type(beside) is not dict or not {"notes", "utility"} <= beside.keys():
            raise BrokenFrame("an end that cannot be read", where="a process's channel")
        run.finished()
        self._hosted.drawn, self._hosted.measured = beside["notes"], beside["utility"]
        return output

    def _again(self, found: Mapping[str, Any]) -> Exception:
        """Return the target's error, or the original error that refused its release."""
        error = again(found)
        refused = self._refused
        return refused if refused is not None and found["own"] == written(refused) else error


class _Lockstep(_Alone):
    """A run with the twin's questions and the worker's values."""

    def __init__(self, hosted: Hosted, curator: Curator, worker: Started) -> None:
        super().__init__(hosted, curator)
        self._worker: Started | None = worker
        #: By number, a bound on the sum of the values of a release with several questions.
        self._sums: dict[int, float] = {}

    def follow(self, run: Started) -> Any:
        """Answer both processes to the twin's end; return the twin's output."""
        output = super().follow(run)
        if self._worker is not None:
            kind, found = self._heard()
            if kind == "end":
                self._worker.finished()
            else:
                why = (
                    "it asks for more where its twin ended"
                    if kind == "ask"
                    else "it ends otherwise than its twin"
                )
                self._diverge(why, None, _its_words(kind, found))
        return output

    def _answer(self, run: Started, asked: Asked) -> None:
        value: Asked | None = None
        if self._worker is not None:
            begun = time.monotonic()
            kind, found = self._heard()
            run.waited(time.monotonic() - begun)
            difference: str | None = f"it ends where its twin asks for {_named(asked)}"
            if kind == "ask":
                difference = _difference(asked, found)
            if difference is None:
                value = found
            else:
                self._diverge(difference, asked, _its_words(kind, found))
        try:
            known = self._admitted(asked)
            value = _neutral(asked, known[1][0]) if value is None else value
            value = self._fit(asked, known[1][0], value)
            try:
                answer: tuple[str, Any] = "answer", self._answered(*known, asked, value)
            except InvalidParameter:
                if self._worker is None:
                    raise
                # An error caused by the data's value must not reach the twin.
                self._diverge(f"its value for {_named(asked)} is too large for the noise", asked)
                answer = "answer", self._answered(*known, asked, _neutral(asked, known[1][0]))
        except DpauditError as error:
            self._refused = error
            answer = "refused", written(error)
        reply = frame(answer)
        for each in (run, self._worker):
            if each is not None:
                each.reply(reply)

    def _fit(self, asked: Asked, release: Release, value: Asked) -> Asked:
        """Return the value, unless its kind differs from the twin's or it is too large.

        Once a sum of a release's values leaves the range of its exact noise it cannot be answered, and
        neither can what comes after it.
        """
        number, pairs = asked.number, zip(asked.values(), value.values(), strict=True)
        if self._worker is None:
            return value
        if not release.mechanism.drawn_by_caller and not all(_alike(*pair, asked.query) for pair in pairs):
            self._diverge(f"its value for {_named(asked)} is not finite, or of another kind", asked)
            return _neutral(asked, release)
        if number not in self._open or release.grid is None:
            return value
        size = float(np.abs(value.query).max(initial=0.0))
        earlier = 0.0 if isinstance(release.mechanism, InTurns) else self._sums.get(number, 0.0)
        self._sums[number] = earlier + size
        if self._sums[number] < 2.0 ** (release.grid + _REACH):
            return value
        self._diverge(f"its values for {_named(asked)} are too large for the noise", asked)
        return _neutral(asked, release)

    def _heard(self) -> tuple[str, Any]:
        """Return the worker's next message, or one of kind "gone" with the reason if there is none."""
        assert self._worker is not None  # noqa: S101  (asked only then)
        try:
            return _heard_from(self._worker)
        except (TargetDied, BrokenFrame) as error:
            return "gone", error

    def _diverge(self, why: str, asked: Asked | None, its_words: str = "") -> None:
        """Note that the worker diverged from its twin: the run continues without the worker's values.

        `why` and the place of `asked` go into reports and depend on the twin alone. `its_words` come from
        the worker: they may quote records, and its line, exception type or exit status may depend on them.
        """
        label, where = (None, "") if asked is None else (asked.label, asked.where)
        detail = f"the run on the data and its twin's on a stand-in part: {why}; from there on the output has"
        detail += " nothing of the data, and must not be published"
        self._hosted.findings.append(Finding(kind="control-flow", label=label, detail=detail, where=where))
        self._hosted.raised.append(its_words)
        if self._worker is not None:
            self._worker.end()
        self._worker = None


def _heard_from(run: Started) -> tuple[str, Any]:
    """Return a run's next message; raise `BrokenFrame` for an invalid request."""
    kind, found = message_of(run.receive())
    if kind == "ask":
        whole = type(found) is tuple and len(found) == len(_TYPES) and all(map(isinstance, found, _TYPES))
        if not whole or not all(map(_is_given, found[_GIVEN] or ())):
            raise BrokenFrame("a request that cannot be read", where="a process's channel")
        found = Asked(*found)
    elif kind not in {"end", "error"}:
        raise BrokenFrame(f"a message of the kind {kind!r}", where="a process's channel")
    return kind, found


def _without(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in fields.items() if one != name}


def _named(asked: Asked) -> str:
    return "one more answer" if asked.release is None else f"release {asked.label!r}"


def _its_words(kind: str, found: Any) -> str:
    """Describe a worker's action, in words that may quote records."""
    match kind:
        case "ask":
            described = _named(found) if found.release is None else _described(found)
            place = f" ({shown_place(found.where)})" if found.where else ""
            return f"asked for {described}, with a value of shape {found.query.shape}{place}"
        case "error":
            place = f" ({shown_place(found['place'])})" if found["place"] else ""
            return f"raised {found['kind']}: {found['text']}{place}"
        case "gone":
            return f"stopped: {found.what}"
        case _:
            return "returned"


def _described(asked: Asked) -> str:
    try:
        return describe(asked.line())
    except DpauditError:
        return f"release {asked.label!r}, whose line cannot be read"


#: Log2 of the number of grid steps that sums of values may span: far less than the noise allows, and far more
#: than clipped values need.
_REACH: Final = 48

_NUMBERS: Final = np.ndarray | np.generic
#: The types of a request's parts.
_TYPES: Final[tuple[Any, ...]] = (
    *(str | None, str | None, str | None, int, _NUMBERS, _NUMBERS | None, tuple | None, _NUMBERS | None),
    *(float | None, int | np.integer | None, str, int | None),
)


_GIVEN: Final = Asked._fields.index("given")


def _is_given(value: object) -> bool:
    if isinstance(value, OnGrid):
        return value.integers.dtype in (np.int64, np.object_)
    return isinstance(value, _NUMBERS | Fraction | float | int)


def _difference(asked: Asked, found: Asked) -> str | None:
    """Describe how a worker's request differs from its twin's, naming only the twin's, or return None."""
    if (asked.release, asked.label, asked.sample) != (found.release, found.label, found.sample):
        what = "one more answer" if found.release is None else "another release"
        its = _named(asked) if asked.release is None else _described(asked)
        return f"it asks for {what} where its twin asks for {its}"
    if (asked.number, asked.user) != (found.number, found.user):
        return f"it asks for {_named(asked)} out of its turn"
    if not _same_place(asked.at, found.at):
        return f"it asks for {_named(asked)} at another point"
    query, own = found.query, asked.query
    if query.dtype != np.float64 or query.shape != own.shape:
        return f"its value for {_named(asked)} has another shape than its twin's {own.shape}"
    if not finite(query) or len(found.values()) != len(asked.values()):
        return f"its value for {_named(asked)} is not finite, or not complete"
    return None


def _alike(own: Given, found: Given, query: Array) -> bool:
    """Return whether a worker's value could be its twin's: finite, with the same type and shape.

    The number of rows for a sampled sum or a choice may differ.
    """
    if type(own) is not type(found):
        return False
    if isinstance(own, OnGrid) and isinstance(found, OnGrid):
        if own.exponent != found.exponent:
            return False
        own, found = own.integers, found.integers
    if not (isinstance(own, np.ndarray | np.generic) and isinstance(found, np.ndarray | np.generic)):
        return not isinstance(found, float) or math.isfinite(found)
    first = 0 if own.shape == query.shape else 1
    same = own.ndim == found.ndim and own.shape[first:] == found.shape[first:]
    if found.dtype == np.object_:
        return same
    return same and found.dtype == own.dtype and finite(found)


def _same_place(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _neutral(asked: Asked, release: Release) -> Asked:
    """Return a request with 0 for every value: equal scores if it is a choice.

    If the algorithm's own code draws, the request holds the answer: the twin's own draw.
    """
    nothing, values = np.zeros_like(asked.query), asked.values()
    given = values if release.mechanism.drawn_by_caller else tuple(map(_zero, values))
    exact = None if asked.exact is None else np.zeros_like(asked.exact)
    return asked._replace(query=nothing, exact=exact, given=given)


def _zero(value: Given) -> Given:
    match value:
        case OnGrid():
            return OnGrid(np.zeros_like(value.integers), value.exponent)
        case np.ndarray():
            return np.zeros_like(value)
        case _:
            return value
