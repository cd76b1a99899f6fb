"""What a filter's budget proves on other scales: all that holds for a run of data-dependent length.

Each function takes a budget that was already raised by what a filter may have let through as a rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.closed_forms.conversions import pure_to_gdp, pure_to_zcdp
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.curves.profiles import GaussianProfile, PureProfile
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP


def implied_by_gdp(mu: float, wanted: AnyGuarantee) -> AnyGuarantee | None:
    """The guarantee of the wanted kind, delta and order that mu-GDP implies; None for pure DP.

    The exact Gaussian curve (Dong, Roth and Su 2022, Corollary 2.13), and its Renyi divergences
    alpha mu^2 / 2 (their Corollary B.6).
    """
    match wanted:
        case GDP():
            return GDP(mu=mu)
        case ApproxDP(delta=delta):
            return ApproxDP(epsilon=GaussianProfile(mu).epsilon(delta), delta=delta)
        case ZCDP():
            return ZCDP(rho=up(Fraction(mu) ** 2 / 2))
        case RDP(alpha=alpha):
            return RDP(alpha=alpha, epsilon=up(Fraction(alpha) * Fraction(mu) ** 2 / 2))
        case PureDP():
            return None
        case _:
            assert_never(wanted)


def implied_by_pure(epsilon: float, wanted: AnyGuarantee) -> AnyGuarantee:
    """The guarantee of the wanted kind, delta and order that epsilon-DP implies."""
    match wanted:
        case PureDP():
            return PureDP(epsilon=epsilon)
        case ApproxDP(delta=delta):
            return ApproxDP(epsilon=PureProfile(epsilon).epsilon(delta), delta=delta)
        case ZCDP():
            return ZCDP(rho=pure_to_zcdp(epsilon))
        case RDP(alpha=alpha):
            rho = Fraction(pure_to_zcdp(epsilon))
            return RDP(alpha=alpha, epsilon=min(epsilon, up(rho * Fraction(alpha))))
        case GDP():
            return GDP(mu=pure_to_gdp(epsilon))
        case _:
            assert_never(wanted)
