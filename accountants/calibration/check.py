"""The second accountant's check of each calibrated answer: do the releases meet the target?"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.closed_forms.conversions import rdp_epsilon, response_delta
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.closed_forms.search import minimum
from dpaudit.accountants.interval.interval import MOST_FORMULAE, enclose_delta
from dpaudit.accountants.pairs.dominating_pairs import Runs, loss_terms, renyi_terms
from dpaudit.accountants.privacy_loss import GaussianTerm, PrivacyLoss, Term
from dpaudit.accountants.privacy_loss.contour.planning import total_cumulant
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from dpaudit.accountants.privacy_loss.solve import contour_log_delta
from dpaudit.certificate.second_opinion import DP_ACCOUNTING, OPINION_TOLERANCE
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import dominating
from dpaudit.registry import from_wing

#: dp-accounting's upper figure confirms the target's epsilon up to this relative excess.
_CONFIRMS = 1e-2
_QUICK = 40_000  # formulas in ball arithmetic that take less time than importing dp-accounting
_RESOLVED = 1e-5  # an enclosure's upper end confirms the target's delta up to this relative excess

Terms = Sequence[tuple[Term, int]]


@dataclass(frozen=True)
class Opinion:
    """A second accountant's figure for the releases, on the target's scale, and whether it `agrees`.

    If `proves` is set, it is an upper bound that proves the target by other means. Otherwise it is a lower
    bound or an estimate with a relative `resolution`, which can only contradict.
    """

    method: str
    guarantee: AnyGuarantee
    agrees: bool
    proves: bool
    resolution: float = 0.0


def opinion(runs: Runs, neighbouring: Neighbouring, target: AnyGuarantee) -> Opinion:
    """Return an opinion on mechanisms with known losses; `CannotBound` if no second accountant can tell."""
    terms = (renyi_terms if isinstance(target, ZCDP | RDP) else loss_terms)(runs, neighbouring)
    match target:
        case ApproxDP():
            return _approximate(runs, neighbouring, terms, target)
        case ZCDP():
            rho = _largest_renyi(terms)
            return Opinion("renyi", ZCDP(rho=rho), rho <= target.rho, proves=False)
        case RDP(alpha=alpha):
            # The larger of both orders, rounded up: log M(c) / c with c = alpha - 1.
            found = [total_cumulant(factors, alpha - 1.0) for factors in collect(terms).directions()]
            logs = (one.value + one.error for one in found)
            epsilon = max(0.0, *(log / (alpha - 1.0) * (1.0 + 1e-15) for log in logs))
            guarantee = RDP(alpha=alpha, epsilon=epsilon)
            return Opinion("renyi", guarantee, epsilon <= target.epsilon, proves=True)
        case GDP():
            return Opinion("contour", target, _within_gaussian(terms, target.mu), proves=False)
        case PureDP():
            most = collect(terms).ceiling
            if not math.isfinite(most):
                raise _no_second_opinion(target, "no finite pure epsilon follows from the privacy losses")
            return Opinion("privacy-loss", PureDP(epsilon=most), most <= target.epsilon, proves=True)
        case _:
            assert_never(target)


def opinion_of_rho(rho: float, target: ApproxDP) -> Opinion:
    """Return an opinion from rho alone: the Renyi divergence of one well-chosen order."""

    def epsilon(log_t: float) -> float:
        alpha = 1.0 + math.exp(log_t)
        return rdp_epsilon(alpha, up(Fraction(rho) * Fraction(alpha)), target.delta)

    least = epsilon(minimum(epsilon, -30.0, 30.0, 1e-9))
    guarantee = ApproxDP(epsilon=least, delta=target.delta)
    return Opinion("renyi", guarantee, guarantee.epsilon <= target.epsilon, proves=True)


def opinion_of_divergences(runs: Runs, neighbouring: Neighbouring, target: ApproxDP) -> Opinion:
    """Return an opinion on runs that include comparisons with Gaussian noise: one order's Renyi divergence.

    The divergences of comparisons add up in rational numbers, except the logarithm of the number of outcomes.
    """
    compared, others = [], []
    for mechanism, count in runs:
        pair = mechanism.dominating_pair()
        if isinstance(pair, dominating.SparseGaussian):
            compared.append((pair, count))
        else:
            others.append((mechanism, count))
    directions = collect(renyi_terms(others, neighbouring)).directions() if others else ()

    def epsilon(log_t: float) -> float:
        alpha = 1.0 + math.exp(log_t)
        t = alpha - 1.0
        logs = [total_cumulant(factors, t) for factors in directions]
        divergence = max(((one.value + one.error) / t for one in logs), default=0.0) * (1.0 + 1e-15)
        for pair, count in compared:
            yeses = min(pair.answers, pair.steps)
            outcomes = sum(math.comb(pair.steps, k) for k in range(yeses + 1))
            squares = pair.threshold**2 + yeses * pair.against**2
            one = Fraction(math.log(outcomes)) / Fraction(t) + Fraction(alpha) / 2 * squares
            divergence += count * up(min(one, Fraction(alpha) / 2 * pair.steps * pair.alone**2))
        return rdp_epsilon(alpha, divergence * (1.0 + 1e-14), target.delta)

    least = epsilon(minimum(epsilon, -20.0, 20.0, 1e-9))
    guarantee = ApproxDP(epsilon=least, delta=target.delta)
    return Opinion("renyi", guarantee, least <= target.epsilon, proves=True)


def _approximate(runs: Runs, neighbouring: Neighbouring, terms: Terms, target: ApproxDP) -> Opinion:
    """Try the contour for Gaussian noise, then pure epsilon, quick balls, dp-accounting, slow balls.

    Ball arithmetic proves the target without another library: it comes before dp-accounting if it is quick.
    """
    total = collect(terms)
    if all(isinstance(term, GaussianTerm) for term, _ in terms):
        (factors,) = total.directions()
        log_delta = contour_log_delta(factors, target.epsilon, math.inf).upper if factors else -math.inf
        agrees = log_delta <= math.log(target.delta) * (1.0 + 1e-15)
        return Opinion("contour", approximate(target.epsilon, math.exp(log_delta)), agrees, proves=True)
    if math.isfinite(total.ceiling) and total.least_delta.upper == 0.0:
        delta = response_delta(total.ceiling, target.epsilon)
        if delta <= target.delta:
            return Opinion("pure", approximate(target.epsilon, delta), agrees=True, proves=True)
    with contextlib.suppress(CannotBound):
        return _by_balls(terms, target, _QUICK)
    try:
        return _by_dp_accounting(runs, neighbouring, target)
    except CannotBound as error:
        reason = f"{DP_ACCOUNTING}: {error.what}"
    try:
        return _by_balls(terms, target, MOST_FORMULAE)
    except CannotBound as error:
        raise _no_second_opinion(target, f"{reason}; interval: {error.what}") from None


def _by_dp_accounting(runs: Runs, neighbouring: Neighbouring, target: ApproxDP) -> Opinion:
    enclose = from_wing("enclosure")
    allowed = target.epsilon + OPINION_TOLERANCE * max(1.0, target.epsilon)
    found = enclose([runs], neighbouring, target, coarsely=True)
    if not found.same or found.epsilon > min(allowed, target.epsilon * (1.0 + _CONFIRMS)):
        found = enclose([runs], neighbouring, target)  # the coarse enclosure could not contradict it
    contradicts = found.at_least > allowed
    if not contradicts and not (found.same and found.epsilon <= target.epsilon * (1.0 + _CONFIRMS)):
        raise _too_far_apart("epsilon", found.at_least, found.epsilon)
    figure = found.at_least if contradicts else found.epsilon
    width = abs(figure / target.epsilon - 1.0) if target.epsilon > 0.0 else 0.0
    return Opinion(
        DP_ACCOUNTING, approximate(figure, target.delta), not contradicts, proves=False, resolution=width
    )


def _by_balls(terms: Terms, target: ApproxDP, most: int) -> Opinion:
    lower, upper, _ = enclose_delta(terms, target.epsilon, most)
    agrees, proves = upper <= target.delta * (1.0 + _RESOLVED), upper <= target.delta
    if not agrees and lower <= target.delta:
        raise _too_far_apart("delta", lower, upper)
    width = 0.0 if proves else upper / target.delta - 1.0
    return Opinion("interval", approximate(target.epsilon, upper), agrees, proves, width)


def approximate(epsilon: float, delta: float) -> ApproxDP:
    """Return the guarantee, with delta moved into the open interval (0, 1) if it is at an end."""
    return ApproxDP(epsilon=epsilon, delta=min(max(delta, 5e-324), 1.0 - 2.0**-53))


def _largest_renyi(terms: Terms) -> float:
    """Return the largest D(alpha) / alpha over a ladder of orders: a lower bound on rho, up to rounding."""
    largest = 0.0
    for power in range(-24, 25):
        c = 2.0 ** (0.5 * power)
        for factors in collect(terms).directions():
            one = total_cumulant(factors, c)
            largest = max(largest, (one.value - one.error) / (c * (c + 1.0)) * (1.0 - 1e-15))
    return largest


def _within_gaussian(terms: Terms, mu: float) -> bool:
    """Return whether lower bounds on delta(epsilon) lie below mu-GDP's curve at a ladder of epsilons."""
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


def _too_far_apart(name: str, lower: float, upper: float) -> CannotBound:
    between = f"{lower:.6g} and {upper:.6g}"
    return CannotBound(f"its bounds on {name}, {between}, are too far apart", where="calibration")


def _no_second_opinion(target: AnyGuarantee, why: str) -> CannotBound:
    what = f"no second accountant can confirm {target} for these mechanisms"
    why = f"an answer is returned only if two accountants have computed it ({why})"
    remedy = "ask for zCDP or a delta from 1e-9, or use Gaussian noise"
    return CannotBound(what, where="calibration", why=why, remedy=remedy)
