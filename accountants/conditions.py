"""What a mechanism's figures take on trust: conditions that no ledger can show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from dpaudit.ledger.columnar import PlainRelease
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import (
    AnyMechanism,
    Calibrated,
    Exponential,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    Tabulated,
    TreeAggregation,
    sensitivity_of,
)

#: So many releases are named under a condition.
_MOST_NAMED = 5


class TrustedConditions:
    """Collects such conditions, release by release."""

    def __init__(self) -> None:
        self._resting: dict[str, _Resting] = {}
        self._split_by_position = False

    def add(self, release: Release | PlainRelease) -> None:
        """Take one more release in."""
        if isinstance(release, Release):
            for condition in _conditions(release.mechanism):
                self._rests(release.label, condition)
        elif release.noise.basis == "declared":
            self._rests(release.label, _DECLARED)
        if release.partition is not None and release.partition.by == "position":
            self._split_by_position = True

    def lines(self) -> list[str]:
        """One line for each condition: how many releases rest on it, and the labels of the first."""
        lines = [
            condition.format(releases=f"{resting.number} release(s): {_shown(resting.labels)}")
            for condition, resting in self._resting.items()
        ]
        if self._split_by_position:
            lines.append(
                "that parts of a split were made by a position that no change of one unit shifts, "
                "not by what records say"
            )
        return lines

    def _rests(self, label: str, condition: str) -> None:
        resting = self._resting.setdefault(condition, _Resting())
        resting.number += 1
        if len(resting.labels) <= _MOST_NAMED:  # one more tells that there are more
            resting.labels.setdefault(label)


@dataclass(slots=True)
class _Resting:
    """How many releases rest on a condition, and their first distinct labels in order."""

    number: int = 0
    labels: dict[str, None] = field(default_factory=dict)


_DECLARED = "the declared sensitivity of {releases}"


def _conditions(mechanism: AnyMechanism) -> Iterable[str]:
    declared = sensitivity_of(mechanism)
    if declared is not None and declared.basis == "declared":
        yield _DECLARED
    match mechanism:
        case RandomizedResponse():
            yield (
                "that one unit gives at most one of the answers randomized in {releases}, and that their "
                "number is public"
            )
        case Exponential():
            yield "the declared sensitivity of the scores in {releases}"
        case SmoothGaussian():
            yield "that the noise scale of {releases} bounds the local sensitivity and is smooth"
        case PoissonSampled():
            yield "that who was sampled stays secret in {releases}"
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            justification = mechanism.justification.replace("{", "{{").replace("}", "}}")
            yield f"the guarantee of {{releases}}, justified so: {justification}"
        case TreeAggregation():
            yield "that items keep their places in the stream of {releases}: one taken out leaves a zero"
        case Calibrated():
            pass
        case _:
            assert_never(mechanism)


def _shown(labels: Iterable[str]) -> str:
    first, rest = list(labels)[:_MOST_NAMED], list(labels)[_MOST_NAMED:]
    return ", ".join(map(repr, sorted(first))) + (", ..." if rest else "")
