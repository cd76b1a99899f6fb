"""How hard targets are audited, profile by profile, and the audit itself at that effort."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from dpaudit.accountants.curves.conversion_table import ALWAYS, curves
from dpaudit.app.gate.settings import Effort, Gate
from dpaudit.app.gate.time_limit import TimeOver, time_limit
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.trials import Trials, run_trials
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.pairs import Pair
from dpaudit.mechanisms import Array

Profile = Literal["pr", "nightly"]

#: No more than one gate in a million refutes a true claim.
CONFIDENCE: Final = 1 - 1e-6

#: Minutes for a pull request, with the same seed every time; at length and with a fresh seed by night.
_DEFAULTS: Final[Mapping[str, Effort]] = {
    "pr": Effort(**{"method": "replay", "time-limit": 120.0, "seed": 0}),  # type: ignore[arg-type]
    "nightly": Effort(**{"method": "replay", "time-limit": 1800.0, "seed": "fresh"}),  # type: ignore[arg-type]
}
#: Where no table says how many.
TRIALS: Final = {
    ("pr", "replay"): 100,
    ("pr", "threshold"): 20_000,
    ("pr", "sequential"): 20_000,
    ("nightly", "replay"): 1_000,
    ("nightly", "threshold"): 200_000,
    ("nightly", "sequential"): 200_000,
}

#: Trials between two looks at the clock.
_CHUNK: Final = 200


@dataclass(frozen=True)
class Plan:
    """The effort of one audit, nothing left open.

    Attributes:
        seconds: a limit on the audit's time; None for none.
        confidence: of this audit alone: its share of the whole.
    """

    method: Literal["replay", "threshold", "sequential"]
    trials: int
    seconds: float | None
    seed: int
    confidence: float

    @classmethod
    def of(cls, gate: Gate, profile: Profile, own: Effort, seed: int) -> Self:
        """A target's plan: its own table, else the profile's, else the gate's, else the profile's defaults.

        The error that the gate allows is divided evenly among its targets.
        """
        ranked = (own, getattr(gate.profile, profile), gate.audit, _DEFAULTS[profile])
        method, seconds = _first(ranked, "method"), _first(ranked, "time_limit")
        # A number of trials is meant for the method that is in force where it stands.
        stated = (effort.trials for i, effort in enumerate(ranked) if _first(ranked[i:], "method") == method)
        trials = next((number for number in stated if number is not None), TRIALS[profile, method])
        seed = seed if own.seed is None else _drawn(own.seed)
        error = (1 - gate_confidence(gate, profile)) / max(1, len(gate.targets))
        return cls(method, trials, seconds, seed, 1 - error)


def gate_confidence(gate: Gate, profile: Profile) -> float:
    """The probability, at least, with which no true claim is refuted by any audit of the gate."""
    return getattr(gate.profile, profile).confidence or gate.audit.confidence or CONFIDENCE


def root_seed(gate: Gate, profile: Profile, given: int | None) -> int:
    """The seed of all audits without one of their own; a fresh one is drawn here."""
    if given is not None:
        return given
    seed = _first((getattr(gate.profile, profile), gate.audit, _DEFAULTS[profile]), "seed")
    return _drawn(seed)


def _drawn(seed: int | str) -> int:
    return seed if isinstance(seed, int) else secrets.randbits(32)


def _first(efforts: Sequence[Effort], name: str) -> Any:
    return next((found for effort in efforts if (found := getattr(effort, name)) is not None), None)


def audited(
    algorithm: Callable[[Any, Any], Any],
    pairs: Sequence[Pair],
    *,
    claim: Claim | None,
    plan: Plan,
    run_options: Mapping[str, Any],
) -> list[Audit]:
    """Audit an algorithm on neighbouring pairs; what the time did not suffice for is inconclusive.

    Raises:
        Exception: whatever the algorithm raises.
    """
    try:
        with nullcontext() if plan.seconds is None else time_limit(plan.seconds):
            if plan.method == "replay":
                found = replay(
                    algorithm,
                    pairs,
                    claim=claim,
                    seed=plan.seed,
                    run_options=run_options,
                    replays=plan.trials,
                    confidence=plan.confidence,
                )
                return [found]
            return [
                _sampled(algorithm, pair, claim=claim, plan=plan, share=len(pairs), run_options=run_options)
                for pair in pairs
            ]
    except TimeOver:
        late = Audit(
            method=plan.method,
            claim=claim,
            pairs=len(pairs),
            trials=0,
            seed=plan.seed,
            speaks_of="transcript" if plan.method == "replay" else "final-output",
            inconclusive=(f"the time limit of {plan.seconds:g} seconds was over before it could tell",),
        )
        return [late]


def _sampled(
    algorithm: Callable[[Any, Any], Any],
    pair: Pair,
    *,
    claim: Claim | None,
    plan: Plan,
    share: int,
    run_options: Mapping[str, Any],
) -> Audit:
    """One pair's sampling audit, at its share of time and error.

    The clock alone decides how many trials there are, never a score: the test stays valid.
    """
    end = math.inf if plan.seconds is None else time.monotonic() + 0.8 * plan.seconds / share

    def late(done: int, asked: int, so_far: Trials) -> bool:
        del done, asked, so_far
        return time.monotonic() > end

    trials = run_trials(
        algorithm,
        pair,
        plan.trials,
        seed=plan.seed,
        chunk=min(_CHUNK, plan.trials),
        progress=late,
        run_options={**run_options, **({} if claim is None else {"claim": claim})},
    )
    if len(trials) < 2 and not trials.complete:
        raise TimeOver
    samples = Samples(_scores(trials.data), _scores(trials.neighbour), plan.seed)
    method = threshold if plan.method == "threshold" else sequential
    return method(
        samples,
        claim=claim,
        curve=None if claim is None else claimed_curve(claim.guarantee),
        confidence=1 - (1 - plan.confidence) / share,
    )


def _scores(scores: Array) -> Array:
    """An output of a single number is a score, not a row of one feature."""
    return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores


def claimed_curve(guarantee: AnyGuarantee) -> Callable[[float], float]:
    """delta(epsilon) of a guarantee, by a conversion that holds whatever the mechanism is."""
    return next(curve.delta for curve in curves(guarantee) if curve.holds == ALWAYS)
