"""A claim as points of its own curve delta(epsilon), for pictures."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.accountants.curves.conversion_table import ALWAYS, conversions
from dpaudit.accountants.curves.implied import implied_curve
from dpaudit.certificate.certificate import Certificate
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP

#: At this delta a claim on a scale without one is shown as a point.
SHOWN_DELTA = 1e-6

_POINTS = 240


def claim_curve(claim: AnyGuarantee, end: float) -> list[tuple[float, float]]:
    """What a claim promises between epsilon 0 and `end`: a curve, or the one point that was claimed."""
    if isinstance(claim, ApproxDP):
        return [(claim.epsilon, claim.delta)]
    curve = implied_curve(claim)
    steps = (end * step / _POINTS for step in range(_POINTS + 1))
    return [(epsilon, min(1.0, curve(epsilon))) for epsilon in steps]


def claim_point(claim: AnyGuarantee) -> tuple[float, float]:
    """One (epsilon, delta) that a claim promises."""
    if isinstance(claim, ApproxDP):
        return claim.epsilon, claim.delta
    epsilon = claimed_epsilon(claim, SHOWN_DELTA)
    return (0.0, SHOWN_DELTA) if epsilon is None else (epsilon, SHOWN_DELTA)


def claimed_epsilon(claim: AnyGuarantee, delta: float) -> float | None:
    """The epsilon that a claim promises at a delta; None where it promises none."""
    found = (row.guarantee for row in conversions(claim, [delta], []) if row.holds == ALWAYS)
    return next((g.epsilon for g in found if isinstance(g, ApproxDP)), None)


def end_of(certificate: Certificate) -> float:
    """How far to the right the pictures of delta(epsilon) go."""
    ends = [curve.points[-1][0] for curve in certificate.profile]
    return max([1.15 * claim_point(certificate.claim.guarantee)[0], *ends]) or 1.0


def proved_points(certificate: Certificate) -> Sequence[tuple[float, float]]:
    """All points of all accountants' curves: each of them is proved."""
    return [point for curve in certificate.profile for point in curve.points]
