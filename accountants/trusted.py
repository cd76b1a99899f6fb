"""What a mechanism's figures take on trust: conditions that no ledger can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

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
    sensitivity_of,
)
from dpaudit.releases import Release


def trusted_conditions(releases: Sequence[Release]) -> list[str]:
    """One line for each kind of condition, naming the releases that rest on it."""
    labels: dict[str, list[str]] = {}
    for release in releases:
        for condition in _conditions(release.mechanism):
            labels.setdefault(condition, []).append(release.label)
    return [condition.format(releases=_shown(names)) for condition, names in labels.items()]


def _conditions(mechanism: AnyMechanism) -> Iterable[str]:
    declared = sensitivity_of(mechanism)
    if declared is not None and declared.basis == "declared":
        yield "the declared sensitivity of {releases}"
    match mechanism:
        case RandomizedResponse():
            yield "that one unit gives at most one of the answers randomized in {releases}"
        case Exponential():
            yield "the declared sensitivity of the scores in {releases}"
        case SmoothGaussian():
            yield "that the noise scale of {releases} bounds the local sensitivity and is smooth"
        case PoissonSampled():
            yield "that who was sampled stays secret in {releases}"
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            justification = mechanism.justification.replace("{", "{{").replace("}", "}}")
            yield f"the guarantee of {{releases}}, justified so: {justification}"
        case Calibrated():
            pass
        case _:
            assert_never(mechanism)


def _shown(labels: list[str]) -> str:
    distinct = sorted(set(labels))
    shown = ", ".join(repr(label) for label in distinct[:5]) + (", ..." if len(distinct) > 5 else "")
    return f"{len(distinct)} release(s): {shown}"
