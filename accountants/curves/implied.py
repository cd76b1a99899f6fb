"""What a claimed guarantee says of every event: its curve delta(epsilon), for audits that test all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import assert_never

from dpaudit.accountants.closed_forms.conversions import ROUNDING
from dpaudit.accountants.curves.profiles import GaussianProfile, ZCDPProfile
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP


def implied_curve(guarantee: AnyGuarantee) -> Callable[[float], float] | None:
    """delta(epsilon) that follows from the guarantee, rounded up and nonincreasing.

    Returns:
        None for pure and approximate DP, which are one point each.
    """
    match guarantee:
        case PureDP() | ApproxDP():
            return None
        case ZCDP():
            return ZCDPProfile(guarantee.rho).delta
        case GDP():
            return GaussianProfile(guarantee.mu).delta
        case RDP():
            return _renyi_curve(guarantee.alpha, guarantee.epsilon)
        case _:
            assert_never(guarantee)


def _renyi_curve(alpha: float, divergence: float) -> Callable[[float], float]:
    """Canonne, Kamath and Steinke 2020, Proposition 12, solved for delta at the one order there is."""

    def delta(epsilon: float) -> float:
        terms = (
            (alpha - 1.0) * divergence,
            -(alpha - 1.0) * epsilon,
            (alpha - 1.0) * math.log1p(-1.0 / alpha),
            -math.log(alpha),
        )
        logarithm = sum(terms) + ROUNDING * sum(abs(term) for term in terms)
        return (
            1.0 if logarithm >= 0.0 else min(1.0, math.nextafter(math.exp(logarithm) * (1.0 + ROUNDING), 2.0))
        )

    return delta
