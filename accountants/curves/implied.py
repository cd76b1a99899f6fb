"""The implications of one guarantee: its curve delta(epsilon), other scales, a budget's bounds."""

from collections.abc import Callable
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.closed_forms.conversions import pure_to_gdp, pure_to_zcdp, zcdp_epsilon
from dpaudit.accountants.closed_forms.ranges import representable
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.curves.curves import Additive, ImpliedProfile
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import CannotBound


def implied_curve(guarantee: AnyGuarantee) -> Callable[[float], float]:
    """Return delta(epsilon) that the guarantee implies for any mechanism, rounded up, nonincreasing."""
    if isinstance(guarantee, ApproxDP):
        from dpaudit.accountants.privacy_loss import ApproxTerm, PrivacyLoss

        loss = PrivacyLoss.compose([(ApproxTerm(guarantee.epsilon, guarantee.delta), 1)])
        return lambda epsilon: loss.delta(epsilon).upper
    return ImpliedProfile(guarantee).delta


def implied(given: Additive, wanted: AnyGuarantee) -> AnyGuarantee | None:
    """Return the implied guarantee of the wanted kind, delta and order, rounded up; None if there is none.

    For mu-GDP: the exact Gaussian curve (Dong, Roth and Su 2022, Corollary 2.13), and its Renyi divergences
    alpha mu^2 / 2 (their Corollary B.6).
    """
    match wanted:
        case ApproxDP(delta=delta):
            return ApproxDP(epsilon=ImpliedProfile(given).epsilon(delta), delta=delta)
        case ZCDP():
            return None if isinstance(given, RDP) else ZCDP(rho=up(_rho(given)))
        case RDP(alpha=alpha):
            if isinstance(given, RDP):  # divergences grow with the order
                return RDP(alpha=alpha, epsilon=given.epsilon) if alpha <= given.alpha else None
            epsilon = up(_rho(given) * Fraction(alpha))
            if isinstance(given, PureDP):
                epsilon = min(given.epsilon, epsilon)
            return RDP(alpha=alpha, epsilon=representable(epsilon, "epsilon"))
        case GDP():
            if isinstance(given, PureDP):
                return GDP(mu=pure_to_gdp(given.epsilon))
            return given if isinstance(given, GDP) else None
        case PureDP():
            return given if isinstance(given, PureDP) else None
        case _:
            assert_never(wanted)


def _rho(given: PureDP | ZCDP | GDP) -> Fraction:
    """Return the implied rho; exact, except that pure DP has an upper bound."""
    match given:
        case PureDP():
            return Fraction(pure_to_zcdp(given.epsilon))
        case ZCDP():
            return Fraction(given.rho)
        case GDP():
            return Fraction(given.mu) ** 2 / 2
        case _:
            assert_never(given)


def budget_bounds(budget: AnyGuarantee, wanted: AnyGuarantee, group_size: int = 1) -> list[Bound]:
    """Return the bounds that a filter's budget alone proves, for a run of data-dependent length.

    Raises `CannotBound`: `held_to` refuses the budget.
    """
    found = implied(held_to(budget, group_size), wanted)
    return [] if found is None else [Bound(guarantee=found, method="budget")]


def held_to(budget: AnyGuarantee, group_size: int = 1) -> Additive:
    """Return a group's guarantee from a run held to a budget, including the filter's rounding tolerance.

    A group of k units has k^2 times the rho of one (Bun and Steinke 2016, Proposition 1.9), k times its mu
    (Dong, Roth and Su 2022, Theorem 2.14) and k times its pure epsilon. Raises `CannotBound`: no filter adds
    up on the budget's scale, or the budget is one Renyi order and the unit is a group.
    """
    match budget:
        case PureDP():
            return PureDP(epsilon=held(budget.epsilon, group_size))
        case ZCDP():
            return ZCDP(rho=held(budget.rho, group_size**2))
        case GDP():
            return GDP(mu=held(budget.mu, group_size))
        case RDP() if group_size == 1:
            return RDP(alpha=budget.alpha, epsilon=held(budget.epsilon, 1))
        case ApproxDP() | RDP():
            remedy = "hold the run to a zCDP, GDP or pure-DP budget, or one unit to one Renyi order"
            raise CannotBound(f"a budget of {budget}", where="header.budget", remedy=remedy)
        case _:
            assert_never(budget)


def budget_for(target: ApproxDP) -> ZCDP:
    """Return the largest rho, rounded down, such that all runs held to it together meet the target.

    It uses the bound for every rho-zCDP mechanism (Canonne, Kamath and Steinke 2020, Proposition 12). The
    target is proved at exactly the returned number, including the filter's rounding tolerance.
    """

    def met(rho: float) -> bool:
        return zcdp_epsilon(held(rho, 1), target.delta) <= target.epsilon

    low, high = 0.0, max(target.epsilon, 5e-324)
    while met(high):
        low, high = high, 2.0 * high
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if met(middle) else (low, middle)
    return ZCDP(rho=low)


def held(budget: float, factor: int) -> float:
    """Return the largest cost of a run held to a budget: a filter admits sums that exceed it by a rounding.

    `factor` is the ratio of a group's cost to one unit's cost.
    """
    return representable(up(Fraction(budget) * (1 + Fraction(CLAIM_TOLERANCE)) * factor), "the budget")
