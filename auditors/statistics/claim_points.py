"""The implication of a claim for any one event: p <= e^epsilon q + delta at every point of its curve."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

import numpy as np

from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP, PureDP
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array

#: delta(epsilon) that a guarantee of zCDP, GDP or RDP implies; an upper bound is enough.
PrivacyCurve: TypeAlias = Callable[[float], float]


class Judged(TypedDict):
    """The input of every test: the claim, its curve delta(epsilon), the bound's delta, the confidence."""

    claim: Claim | None
    curve: PrivacyCurve | None
    delta: float | None
    confidence: float


#: Where a bound on epsilon is stated if neither the claim nor the caller names a delta.
DEFAULT_DELTA = 1e-5
_POINTS = 200
_SMALLEST_DELTA = 1e-12


@dataclass(frozen=True)
class ClaimedPoints:
    """Points (epsilon, delta), [k] each, that all hold if the claim does.

    The audit states its bound at `report_delta`, where the claim states `report_epsilon`; None without one.
    """

    epsilons: Array
    deltas: Array
    report_delta: float
    report_epsilon: float | None

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """The claimed pairs (epsilon, delta)."""
        return list(zip(self.epsilons.tolist(), self.deltas.tolist(), strict=True))

    def ceiling(self, q: Array) -> Array:
        """Return the largest probability of an event that the claim allows, given q: [n] -> [n]."""
        lines = np.exp(np.minimum(self.epsilons, 700.0)) * q[..., None] + self.deltas
        return np.asarray(np.min(lines, axis=-1))


def claimed_points(claim: Claim | None, curve: PrivacyCurve | None, delta: float | None) -> ClaimedPoints:
    """Return the points to test for a claim; without a claim, only epsilon at `delta` is bounded.

    The curve delta(epsilon) of the claimed guarantee, nonincreasing, is needed for zCDP, GDP and RDP. By
    default the bound is stated at the claim's own delta, or 1e-5.

    Raises `InvalidParameter` for a missing curve, a curve that is NaN, increases, leaves [0, 1] or is 1 at
    every epsilon tried, or a delta outside [0, 1).
    """
    if delta is not None:
        require_fraction("delta", delta, zero=True)
    at = DEFAULT_DELTA if delta is None else delta
    if claim is None:
        return ClaimedPoints(np.zeros(1), np.full(1, at), at, None)
    guarantee = claim.guarantee
    if isinstance(guarantee, PureDP | ApproxDP):
        own = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
        at = own if delta is None else delta
        # (epsilon, delta)-DP implies nothing at a smaller delta.
        stated = guarantee.epsilon if at >= own else None
        return ClaimedPoints(np.array([guarantee.epsilon]), np.array([own]), at, stated)
    if curve is None:
        what = f"a claim of {guarantee} comes without its curve"
        why = "an event is tested against every (epsilon, delta) that the claim implies"
        remedy = "pass the accountant's delta(epsilon) for the claimed guarantee"
        raise InvalidParameter(what, where="curve", why=why, remedy=remedy)
    top = 1.0
    while _value(curve, top) > _SMALLEST_DELTA and top < 500:
        top *= 2
    epsilons = np.union1d(np.linspace(0.0, top, _POINTS), np.geomspace(top / 1e4, top, _POINTS))
    deltas = np.array([_value(curve, float(epsilon)) for epsilon in epsilons])
    if np.any(np.diff(deltas) > 1e-9):
        raise InvalidParameter("delta(epsilon) of the claim increases", where="curve")
    stated = _claimed_epsilon(curve, at)
    if stated is not None:
        # The reported point is tested with the others: whatever refutes it refutes the whole.
        epsilons, deltas = np.append(epsilons, stated), np.append(deltas, at)
    useful = deltas < 1
    if not useful.any():
        what, where = f"a claim of {guarantee} has delta = 1 at every epsilon up to {top:g}", "claim"
        why = "with a delta of 1 everything may be revealed, so that no outcome could refute the claim"
        raise InvalidParameter(what, where=where, why=why, remedy="claim less: a smaller mu, rho or epsilon")
    return ClaimedPoints(epsilons[useful], deltas[useful], at, stated)


def _value(curve: PrivacyCurve, epsilon: float) -> float:
    value = float(curve(epsilon))
    if not 0 <= value <= 1:
        raise InvalidParameter(f"delta({epsilon}) of the claim is {value}", where="curve")
    return value


def _claimed_epsilon(curve: PrivacyCurve, delta: float) -> float | None:
    """Return the least epsilon that the claim states at delta, rounded up; None if it states none."""
    if _value(curve, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while _value(curve, high) > delta:
        high *= 2
        if high > 1e4:
            return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _value(curve, middle) <= delta else (middle, high)
    return high
