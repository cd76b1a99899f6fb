"""Replay: the white-box audit.

Run the algorithm on one data set and record every release; run it on a neighbour with each release
forced to return what was recorded. Whatever then still differs got past the ledger. The method goes
back to DPCheck (Zhang, Roth, Haeberlen, Pierce, Roth 2020) and dp-recorder (Cebere et al. 2026).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.auditors.movement import movements
from dpaudit.auditors.sameness import NotComparable, first_difference
from dpaudit.claims import Claim
from dpaudit.curator import Curator
from dpaudit.noise import Entry, LiveNoise, NoiseSource, ReplayDiverged, ReplayedNoise, Transcript
from dpaudit.pairs import Pair
from dpaudit.running import run
from dpaudit.verdicts import Audit, Finding

#: A measured sensitivity may exceed the declared one by this relative amount: sums are rounded.
SENSITIVITY_TOLERANCE = 1e-9

LIMITS = (
    "replay speaks of the pairs it was given, and of the outputs the noise happened to take",
    "replay tests the ledger's description of the algorithm, not the noise generator itself",
)


@dataclass(frozen=True)
class _Recording:
    """One run: what it returned, what it released, and how it ended early if it did."""

    output: Any
    transcript: Transcript
    error: Exception | None = None


def replay(
    algorithm: Callable[[Any, Curator], Any],
    pairs: Sequence[Pair],
    *,
    claim: Claim | None = None,
    seed: int = 0,
    run_options: Mapping[str, Any] | None = None,
) -> Audit:
    """Replay an algorithm on neighbouring pairs, in both directions.

    Args:
        algorithm: any callable ``(data, curator) -> output``; data sets are copied before each run.
        pairs: neighbouring pairs.
        claim: repeated in the result; replay tests what any claim about the ledger rests on.
        seed: root seed; recording i draws its noise from (seed, i).
        run_options: further arguments of `dpaudit.run` (unit, neighbouring, trust_model, users, ...).

    Returns:
        The audit, REFUTED by any of the findings ``sensitivity``, ``control-flow``, ``leak`` and
        ``nondeterminism``; INCONCLUSIVE where an output cannot be compared.

    Raises:
        Exception: whatever the algorithm raises on the data it is recorded on.
    """
    options = {"claim": claim, **(run_options or {})}
    findings: list[Finding] = []
    inconclusive: str | None = None
    directions = [way for pair in pairs for way in ((pair.data, pair.neighbour), (pair.neighbour, pair.data))]
    for index, (data, neighbour) in enumerate(directions):
        noise = LiveNoise(np.random.SeedSequence([seed, index]))
        recorded = _record(algorithm, data, noise, options)
        if recorded.error is not None:
            raise recorded.error
        try:
            found = _compare(algorithm, data, neighbour, recorded, options)
        except NotComparable as error:
            inconclusive = f"outputs cannot be compared bit for bit: {error}"
            continue
        findings += [finding for finding in found if finding not in findings]
    if not pairs:
        inconclusive = "no neighbouring pair was given"
    return Audit(
        method="replay",
        claim=claim,
        pairs=len(pairs),
        trials=2 * len(pairs),
        seed=seed,
        speaks_of="transcript",
        findings=tuple(findings),
        inconclusive=inconclusive,
        not_checked=LIMITS,
    )


def _record(
    algorithm: Callable[[Any, Curator], Any], data: Any, noise: NoiseSource, options: Mapping[str, Any]
) -> _Recording:
    transcript = Transcript()
    try:
        # A deep copy: an algorithm that changes its data in place must not change the other side's.
        result = run(algorithm, copy.deepcopy(data), noise=noise, transcript=transcript, **options)
    except Exception as error:  # noqa: BLE001  (an error on one side only is a finding, whatever it is)
        return _Recording(None, transcript, error)
    return _Recording(result.output, transcript)


def _compare(
    algorithm: Callable[[Any, Curator], Any],
    data: Any,
    neighbour: Any,
    recorded: _Recording,
    options: Mapping[str, Any],
) -> list[Finding]:
    again = _replayed(algorithm, data, recorded, options)
    repeated = _flow_difference(recorded, again) or first_difference(recorded.output, again.output)
    if repeated is not None:
        # With randomness of its own the algorithm differs from itself: nothing more can be told.
        return [
            Finding(
                kind="nondeterminism",
                detail=f"same data and same noise, yet different: {repeated}; "
                "the algorithm draws randomness that is not the curator's",
            )
        ]
    other = _replayed(algorithm, neighbour, recorded, options)
    findings = _sensitivities(recorded.transcript.entries, other.transcript.entries)
    flow = _flow_difference(recorded, other)
    if flow is not None:
        at = min(len(other.transcript.entries), len(recorded.transcript.entries) - 1)
        entry = recorded.transcript.entries[at] if recorded.transcript.entries else None
        findings.append(
            Finding(
                kind="control-flow",
                label=entry.release.label if entry else None,
                detail=flow,
                where=entry.where if entry else "",
            )
        )
        return findings
    leak = first_difference(recorded.output, other.output)
    if leak is not None:
        findings.append(
            Finding(
                kind="leak", detail=f"every release was the same, yet the neighbour's output differs: {leak}"
            )
        )
    return findings


def _replayed(
    algorithm: Callable[[Any, Curator], Any], data: Any, recorded: _Recording, options: Mapping[str, Any]
) -> _Recording:
    noise = ReplayedNoise(recorded.transcript)
    result = _record(algorithm, data, noise, options)
    # An algorithm may have caught the divergence and gone on; it diverged all the same.
    return _Recording(result.output, result.transcript, noise.divergence or result.error)


def _flow_difference(recorded: _Recording, other: _Recording) -> str | None:
    """How the sequence of releases differs, or None."""
    if other.error is not None:
        if isinstance(other.error, ReplayDiverged):
            return other.error.what
        # Of any other error its kind alone: what it says may be about private records.
        return f"one side raises {type(other.error).__name__}"
    made, expected = len(other.transcript.entries), len(recorded.transcript.entries)
    if made != expected:
        return f"{made} releases where {expected} were recorded"
    return None


def _sensitivities(recorded: Sequence[Entry], other: Sequence[Entry]) -> list[Finding]:
    return [
        Finding(
            kind="sensitivity",
            label=move.entry.release.label,
            detail=f"the query moves by {move.measured:.6g} {move.measure}, declared are {move.declared:.6g}",
            where=move.entry.where,
            declared=move.declared,
            measured=move.measured,
        )
        for move in movements(recorded, other)
        if not move.measured <= move.declared * (1 + SENSITIVITY_TOLERANCE)
    ]
