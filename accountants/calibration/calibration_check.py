"""Whether another accountant agrees that releases meet a target; used on every calibrated answer.

A second opinion either proves the target by formulae of its own (`proves`), or it estimates what it is
about and says how far the estimate can be trusted; the latter can only contradict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from scipy.optimize import minimize_scalar

from dpaudit.accountants.calibration.fft_check import grid_delta
from dpaudit.accountants.closed_forms.conversions import rdp_epsilon
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.curves.profiles import PureProfile
from dpaudit.accountants.privacy_loss import GaussianTerm, PrivacyLoss, Term
from dpaudit.accountants.privacy_loss.contour.planning import total_cumulant
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from dpaudit.accountants.privacy_loss.solve import contour_log_delta
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import CannotBound

#: What an estimate may exceed the target by, beside a multiple of its own resolution.
_ALLOWED = 1e-5
_UNRESOLVED = 1e-2

Terms = Sequence[tuple[Term, int]]


@dataclass(frozen=True)
class Opinion:
    """What another accountant says of the releases.

    Attributes:
        method: the accountant.
        guarantee: its figure, on the target's scale.
        agrees: whether that is consistent with the target.
        proves: whether `guarantee` is an upper bound of its own; else it is an estimate or a lower bound.
        resolution: relative, for an estimate.
    """

    method: str
    guarantee: AnyGuarantee
    agrees: bool
    proves: bool
    resolution: float = 0.0

    @property
    def tells(self) -> bool:
        """Whether it can be told from the figure that the target is met or missed."""
        return self.resolution <= _UNRESOLVED


def opinions_of_losses(terms: Terms, target: AnyGuarantee, *, lattice: bool = True) -> list[Opinion]:
    """Opinions on releases whose privacy losses are known, the preferred first.

    Args:
        terms: the releases with their counts.
        target: the guarantee that is in question.
        lattice: whether to ask the lattice, which costs about a second.
    """
    match target:
        case ApproxDP():
            if all(isinstance(term, GaussianTerm) for term, _ in terms):
                return [_by_contour(terms, target)]
            return ([_by_grid(terms, target)] if lattice else []) + _by_pure(terms, target)
        case ZCDP():
            rho = _largest_renyi(terms)
            return [Opinion("renyi", ZCDP(rho=rho), rho <= target.rho, proves=False)]
        case RDP():
            epsilon = _renyi(terms, target.alpha - 1.0)
            return [
                Opinion(
                    "renyi", RDP(alpha=target.alpha, epsilon=epsilon), epsilon <= target.epsilon, proves=True
                )
            ]
        case GDP():
            agrees = _within_gaussian(terms, target.mu)
            return [Opinion("contour", target, agrees, proves=False)]
        case PureDP():
            most = collect(terms).ceiling
            if not math.isfinite(most):
                return []
            return [Opinion("privacy-loss", PureDP(epsilon=most), most <= target.epsilon, proves=True)]
        case _:
            assert_never(target)


def opinion_of_rho(rho: float, target: ApproxDP) -> Opinion:
    """An opinion on releases of which only rho is known: the Renyi divergence of one order, well chosen."""

    def epsilon(log_t: float) -> float:
        alpha = 1.0 + math.exp(log_t)
        return rdp_epsilon(alpha, up(Fraction(rho) * Fraction(alpha)), target.delta)

    found = minimize_scalar(epsilon, bounds=(-30.0, 30.0), method="bounded", options={"xatol": 1e-9})
    guarantee = ApproxDP(epsilon=epsilon(float(found.x)), delta=target.delta)
    return Opinion("renyi", guarantee, guarantee.epsilon <= target.epsilon, proves=True)


def _by_contour(terms: Terms, target: ApproxDP) -> Opinion:
    (factors,) = collect(terms).directions()
    log_delta = contour_log_delta(factors, target.epsilon, math.inf).upper if factors else -math.inf
    agrees = log_delta <= math.log(target.delta) * (1.0 + 1e-15)
    return Opinion("contour", approximate(target.epsilon, math.exp(log_delta)), agrees, proves=True)


def _by_grid(terms: Terms, target: ApproxDP) -> Opinion:
    try:
        delta, resolution = grid_delta(terms, target.epsilon)
    except CannotBound:
        delta, resolution = 0.0, math.inf
    # Near the largest loss a lattice sees nothing: then it has no opinion.
    agrees = resolution <= _UNRESOLVED and delta <= target.delta * (1.0 + 20.0 * resolution + _ALLOWED)
    return Opinion("grid", approximate(target.epsilon, delta), agrees, proves=False, resolution=resolution)


def _by_pure(terms: Terms, target: ApproxDP) -> list[Opinion]:
    total = collect(terms)
    if not math.isfinite(total.ceiling) or total.least_delta.upper > 0.0:
        return []
    delta = PureProfile(total.ceiling).delta(target.epsilon)
    return [Opinion("pure", approximate(target.epsilon, delta), delta <= target.delta, proves=True)]


def approximate(epsilon: float, delta: float) -> ApproxDP:
    """The guarantee, its delta moved into the open interval (0, 1) where it stands at an end."""
    return ApproxDP(epsilon=epsilon, delta=min(max(delta, 5e-324), 1.0 - 2.0**-53))


def _renyi(terms: Terms, c: float) -> float:
    """The Renyi divergence of order 1 + c, rounded up: log M(c) / c, the larger of both orders."""
    found = [total_cumulant(factors, c) for factors in collect(terms).directions()]
    return max(0.0, *((one.value + one.error) / c * (1.0 + 1e-15) for one in found))


def _largest_renyi(terms: Terms) -> float:
    """The largest D(alpha) / alpha over a ladder of orders: a lower bound on rho, but for rounding."""
    largest = 0.0
    for power in range(-24, 25):
        c = 2.0 ** (0.5 * power)
        for factors in collect(terms).directions():
            one = total_cumulant(factors, c)
            largest = max(largest, (one.value - one.error) / (c * (c + 1.0)) * (1.0 - 1e-15))
    return largest


def _within_gaussian(terms: Terms, mu: float) -> bool:
    """Whether delta(epsilon), by its lower bounds, lies below that of mu-GDP at a ladder of epsilons."""
    total = collect(terms)
    loss = None if total.only_gaussian else PrivacyLoss.compose(terms)
    for share in (0.0, 0.5, 1.0, 2.0, 4.0, 6.0):
        epsilon = 0.5 * mu * mu + share * mu
        allowed = gaussian_delta(epsilon, mu)
        if loss is not None:
            lower = loss.delta(epsilon).lower
        else:
            (factors,) = total.directions()
            lower = math.exp(contour_log_delta(factors, epsilon, math.inf).lower) if factors else 0.0
        if lower > allowed * (1.0 + 1e-15):
            return False
    return True
