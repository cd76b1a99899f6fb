"""The audit effort for targets in each profile."""

import functools
import secrets
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, Literal, Self

from dpaudit.app.gate.settings import Effort, Gate
from dpaudit.auditors.replay.pair_search import RECORDS
from dpaudit.auditors.sampling.sampling import TooFewRuns
from dpaudit.auditors.sampling.trial import Auditable
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.pairs import Pair
from dpaudit.pipeline.audit import audit

Profile = Literal["pr", "nightly"]

#: No more than one gate in a million refutes a true claim.
CONFIDENCE: Final = 1 - 1e-6

#: Minutes for a pull request, with the same seed every time; at length and with a fresh seed by night.
_DEFAULTS: Final[Mapping[str, Effort]] = {
    "pr": Effort.model_validate({"method": "replay", "time-limit": 120.0, "seed": 0}),
    "nightly": Effort.model_validate({"method": "replay", "time-limit": 1800.0, "seed": "fresh"}),
}
#: Where no table says how many; replays in the profile pr are then as many as may decide.
TRIALS: Final = {
    ("pr", "threshold"): 20_000,
    ("pr", "sequential"): 20_000,
    ("nightly", "replay"): 1_000,
    ("nightly", "threshold"): 200_000,
    ("nightly", "sequential"): 200_000,
}


@dataclass(frozen=True)
class AuditPlan:
    """The effort of one audit, nothing left open; `confidence` is this audit's share of the whole."""

    method: Literal["replay", "threshold", "sequential"]
    trials: int | None  # None: as many replays as may decide
    seconds: float | None
    seed: int
    confidence: float
    search_pairs: bool = False

    @classmethod
    def of(cls, gate: Gate, profile: Profile, own: Effort, seed: int) -> Self:
        """A target's plan: its own table, else the profile's, else the gate's, else the profile's defaults.

        The error that the gate allows is divided evenly among its targets.
        """
        effort: Any = effort_of(gate, profile, own)
        seed = seed if own.seed is None else _drawn(own.seed)
        error = (1 - gate_confidence(gate, profile)) / max(1, len(gate.targets))
        search_pairs = profile == "nightly" and effort.method == "replay"
        return cls(effort.method, effort.trials, effort.time_limit, seed, 1 - error, search_pairs)

    def audit(self, algorithm: Auditable, pairs: Sequence[Pair], /, **options: Any) -> Audit:
        """Audit an algorithm at this effort; an audit that runs out of time is inconclusive.

        The clock alone decides how many runs a sampling audit makes, never a score: the test stays valid.
        """
        limit = None if self.method == "replay" or self.seconds is None else 0.8 * self.seconds
        once = functools.partial(audit, method=self.method, trials=self.trials, confidence=self.confidence)
        unit = getattr(options["claim"], "unit", None)
        searched = self.search_pairs and unit in {None, *RECORDS}
        if self.method == "replay":  # the search of every replay ends well before the time limit
            within = self.seconds and 0.4 * self.seconds
            once = functools.partial(once, search_pairs=searched or None, search_seconds=within)
        try:
            with nullcontext() if self.seconds is None else time_limit(self.seconds):
                found = once(algorithm, pairs, time_limit=limit, **options)
            left = () if searched or not self.search_pairs else (Condition(code=Code.PAIRS_NOT_SEARCHED),)
            conditions = tuple(dict.fromkeys((*found.not_checked, *left)))
            return found.model_copy(update={"not_checked": conditions})
        except (TimeOver, TooFewRuns):
            reason = f"the time limit of {self.seconds:g} seconds was over before it could tell"
            remedy = "raise time-limit, or lower trials"
            return Audit(
                method=self.method,
                claim=options["claim"],
                pairs=len(pairs),
                trials=0,
                seed=options["seed"],
                about="transcript" if self.method == "replay" else "final-output",
                inconclusive=(f"{reason}: {remedy}",),
            )


def effort_of(gate: Gate, profile: Profile, own: Effort) -> Effort:
    """A target's whole effort: its own table's, else the profile's, else the gate's, else the defaults."""
    ranked = (own, getattr(gate.profile, profile), gate.audit, _DEFAULTS[profile])
    method = _first(ranked, "method")
    # A number of trials applies to the method in force in the same table.
    stated = (effort.trials for i, effort in enumerate(ranked) if _first(ranked[i:], "method") == method)
    trials = next((number for number in stated if number is not None), TRIALS.get((profile, method)))
    seconds, seed = _first(ranked, "time_limit"), _first(ranked, "seed")
    return Effort.model_construct(method=method, trials=trials, time_limit=seconds, seed=seed)


def gate_confidence(gate: Gate, profile: Profile) -> float:
    """Return the least probability that no audit of the gate refutes a true claim."""
    return getattr(gate.profile, profile).confidence or gate.audit.confidence or CONFIDENCE


def root_seed(gate: Gate, profile: Profile, given: int | None) -> int:
    """The seed of all audits without one of their own; a fresh one is drawn here."""
    if given is not None:
        return given
    return _drawn(_first((getattr(gate.profile, profile), gate.audit, _DEFAULTS[profile]), "seed"))


def _drawn(seed: int | str) -> int:
    return seed if isinstance(seed, int) else secrets.randbits(32)


def _first(efforts: Sequence[Effort], name: str) -> Any:
    return next((found for effort in efforts if (found := getattr(effort, name)) is not None), None)


class TimeOver(BaseException):
    """The time is over; no `Exception`, so that neither an algorithm nor an audit takes it for its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeOver` in the context at the time limit, and again every second if the code catches it.

    A signal raises it, so the limit works only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(_number: int, _frame: FrameType | None) -> None:
        raise TimeOver

    previous = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
