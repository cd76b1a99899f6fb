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
        Exception: whatever the algorithm raises on both data sets of a pair, after the same releases;
            raised on one of them alone it is a ``control-flow`` finding.
    """
    options = {"claim": claim, **(run_options or {})}
    findings: list[Finding] = []
    inconclusive: str | None = None
    directions = [way for pair in pairs for way in ((pair.data, pair.neighbour), (pair.neighbour, pair.data))]
    for index, (data, neighbour) in enumerate(directions):
        noise = LiveNoise(np.random.SeedSequence([seed, index]))
        recorded = _record(algorithm, data, noise, options)
        try:
            found = _compare(algorithm, data, neighbour, recorded, options)
        except NotComparable as error:
            inconclusive = f"outputs cannot be compared bit for bit: {error}"
            continue
        if recorded.error is not None and not found:
            raise recorded.error
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
        # And of the options: a budget is spent by one run, and must be whole again for the next.
        options = copy.deepcopy(dict(options))
        result = run(algorithm, copy.deepcopy(data), noise=noise, transcript=transcript, **options)
    except Exception as error:  # noqa: BLE001  (an error on one side only is a finding, whatever it is)
        return _Recording(None, transcript, error)
    try:
        # An algorithm may hand out the same object again, changed, from its next run.
        output = copy.deepcopy(result.output)
    except Exception:  # noqa: BLE001  (what cannot be copied is compared as it is)
        output = result.output
    return _Recording(output, transcript)


def _compare(
    algorithm: Callable[[Any, Curator], Any],
    data: Any,
    neighbour: Any,
    recorded: _Recording,
    options: Mapping[str, Any],
) -> list[Finding]:
    again = _replayed(algorithm, data, recorded, options)
    repeated = (
        _flow_difference(recorded, again)
        or _query_difference(recorded, again)
        or first_difference(recorded.output, again.output)
    )
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
    findings += _parts(recorded.transcript.entries, other.transcript.entries)
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
    if isinstance(other.error, ReplayDiverged):
        return other.error.what
    if type(other.error) is not type(recorded.error):
        raised = [type(error).__name__ for error in (recorded.error, other.error) if error is not None]
        # Of an error its kind alone: what it says may be about private records.
        return f"one side raises {' and the other '.join(raised)}"
    made, expected = len(other.transcript.entries), len(recorded.transcript.entries)
    if made != expected:
        return f"{made} releases where {expected} were recorded"
    return None


def _query_difference(recorded: _Recording, again: _Recording) -> str | None:
    """Which query a second run on the same data computes otherwise, or None."""
    for one, two in zip(recorded.transcript.entries, again.transcript.entries, strict=True):
        if first_difference(one.query, two.query) is not None:
            return f"the query of {one.release.label!r}"
    return None


def _parts(recorded: Sequence[Entry], other: Sequence[Entry]) -> list[Finding]:
    """Releases that move although the unit is in other parts of their split."""
    moved: dict[str, dict[str, Entry]] = {}
    by_values: set[str] = set()
    for move in movements(recorded, other):
        partition = move.entry.release.partition
        if partition is not None and move.measured > SENSITIVITY_TOLERANCE * move.declared:
            moved.setdefault(partition.split, {}).setdefault(partition.part, move.entry)
            if partition.by == "values":
                by_values.add(partition.split)
    findings = []
    for split, parts in moved.items():
        touched = 2 if split in by_values else 1
        if len(parts) > touched:
            entry = list(parts.values())[-1]
            findings.append(
                Finding(
                    kind="sensitivity",
                    label=entry.release.label,
                    detail=f"one unit moves {len(parts)} parts of split {split!r}, "
                    f"of which it can touch {touched}: {', '.join(map(repr, parts))}",
                    where=entry.where,
                    declared=float(touched),
                    measured=float(len(parts)),
                )
            )
    return findings


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
