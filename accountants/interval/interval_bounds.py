"""A ledger's total, enclosed in balls or computed in rational numbers (rigour `interval`)."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, assert_never

from dpaudit.accountants.accounting import Accounted
from dpaudit.accountants.closed_forms.ranges import representable
from dpaudit.accountants.closed_forms.rounding import sqrt_up, up
from dpaudit.accountants.closed_forms.search import minimum
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon
from dpaudit.accountants.curves.implied import held
from dpaudit.accountants.interval.ball_arithmetic import ball, flint, precise, upper_end
from dpaudit.accountants.interval.interval import enclose_divergence, enclose_epsilon
from dpaudit.accountants.pairs.dominating_pairs import loss_terms, lower_terms
from dpaudit.accountants.privacy_loss import DiscreteTerm, Term
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2
from dpaudit.errors import CannotBound
from dpaudit.ledger.ledger import Header
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import (
    AnyMechanism,
    Gaussian,
    Laplace,
    OnSample,
    OpaquePureDP,
    OpaqueZCDP,
    SampledMatrix,
    dominating,
)


def enclosed(found: Accounted) -> Accounted:
    """Return an accounting whose total is bounded by its enclosure alone; `CannotBound` if none is known."""
    accounting, header = found.accounting, found.header
    wanted: AnyGuarantee = ZCDP(rho=0.0) if accounting.claim is None else accounting.claim.guarantee
    bound = interval_bound(found.composition, wanted) if header.budget is None else _of_budget(header, wanted)
    rounded = Condition(code=Code.SINGLE_FIGURES_ROUNDED)
    changes = {"bounds": (bound,), "not_checked": (*accounting.not_checked, rounded)}
    return replace(found, accounting=accounting.model_copy(update=changes))


def interval_bound(composition: Composition, wanted: AnyGuarantee) -> Bound:
    """Return the upper end of an enclosure, on the scale of a guarantee; `CannotBound` if none is known."""
    flint()
    match wanted:
        case ApproxDP(delta=delta):
            return _approximate(composition, delta)
        case ZCDP():
            return _bound(ZCDP(rho=_finite(composition.total(enclosed_rho))), "zcdp")
        case RDP(alpha=alpha):
            return _renyi(composition, alpha)
        case GDP():
            square = Fraction(_finite(composition.total(_rational_mu_squared)))
            return _bound(GDP(mu=sqrt_up(square)), "gdp")
        case PureDP():
            return _bound(PureDP(epsilon=_finite(composition.total(_enclosed_epsilon))), "pure")
        case _:
            assert_never(wanted)


def enclosed_rho(mechanism: AnyMechanism) -> float:
    """Return the upper end of the enclosure of `composition.costs.rho`; `CannotBound` if none is known."""
    match pair := mechanism.dominating_pair():
        case dominating.Gaussian():
            return up(pair.mu_squared / 2)
        case dominating.ZCDP() | dominating.DiscreteGaussian():
            return up(pair.rho)
        case dominating.BoundedRange():
            return up(Fraction(pair.epsilon) ** 2 / 8)
        case dominating.SparseGaussian():
            return up(pair.alone**2 * pair.steps / 2)
        case dominating.Laplace():
            e = ball(pure_epsilon(mechanism))
            return upper_end(precise(lambda: e + (-e).expm1()))
        case dominating.Selected() | dominating.Shuffled():
            e = ball(pure_epsilon(mechanism))
            return upper_end(precise(lambda: e * (e / 2).tanh()))
        case dominating.Sampled() if not isinstance(pair.inner, dominating.Laplace):
            raise _unknown(mechanism)
        case dominating.DiscreteLaplace() | dominating.Response() | dominating.Pure() | dominating.Sampled():
            e = ball(_enclosed_epsilon(mechanism))
            return upper_end(precise(lambda: e * (e / 2).tanh()))
        case (
            dominating.Added()
            | dominating.Table()
            | dominating.Smooth()
            | dominating.Approx()
            | dominating.Batch()
            | dominating.Mixture()
        ):
            raise _unknown(mechanism)
        case _:
            assert_never(pair)


def enclosed_zcdp_epsilon(rho: float, delta: float) -> float:
    """Return epsilon's upper end by Canonne, Kamath and Steinke 2020, Proposition 12, at a good order."""
    if rho == 0.0:
        return 0.0

    def at(log_t: float, number: Any) -> Any:
        t = number(math.exp(log_t))
        log = math.log if number is float else (lambda x: x.log())
        return number(rho) * (1 + t) - (log(number(delta)) + log(1 + t)) / t - log(1 + 1 / t)

    best = minimum(lambda log_t: at(log_t, float), -30.0, 30.0, 1e-5)
    with flint().ctx.workprec(192):
        return max(0.0, upper_end(at(best, ball)))


def _approximate(composition: Composition, delta: float) -> Bound:
    try:
        exposed = _exposed(composition)
    except CannotBound:
        rho = _finite(composition.total(enclosed_rho))
        return _bound(ApproxDP(epsilon=enclosed_zcdp_epsilon(rho, delta), delta=delta), "zcdp")
    found = max((enclose_epsilon(terms, delta) for terms in exposed), key=lambda one: one.upper)
    lower = found.lower if _exactly(composition) else None
    return _bound(ApproxDP(epsilon=found.upper, delta=delta), found.method, lower)


def _renyi(composition: Composition, alpha: float) -> Bound:
    """Return the smaller of the pairs' own divergence and the one that rho implies, if both are known."""
    try:
        exposed = _exposed(composition)
        found = max((enclose_divergence(terms, alpha) for terms in exposed), key=lambda one: one.upper)
        own = [_bound(RDP(alpha=alpha, epsilon=_finite(found.upper)), found.method)]
    except CannotBound:
        own = []
    try:
        total = Fraction(_finite(composition.total(enclosed_rho)))
        own.append(_bound(RDP(alpha=alpha, epsilon=_finite(up(total * Fraction(alpha)))), "zcdp"))
    except CannotBound:
        if not own:
            raise
    return min(own, key=lambda bound: leading_figure(bound.guarantee))


def _exposed(composition: Composition) -> list[list[tuple[Term, int]]]:
    """Return the pairs of one unit's exposure, for every way to meet the parts of the splits."""
    relation = composition.sampling_relation
    runs = ([(_enclosed(one, relation), n) for one, n in each.items()] for each in composition.exposures())
    found = [loss_terms(each, relation) for each in runs]
    if not all(term.enclosed for terms in found for term, _ in terms if isinstance(term, DiscreteTerm)):
        what = "no enclosure of the profile of a sampled mechanism is known"
        raise CannotBound(what, where="rigour interval", remedy="ask for rigour float-pessimistic")
    return found


def _enclosed(one: AnyMechanism, relation: Neighbouring) -> AnyMechanism:
    """Return a mechanism that costs at least as much: balls cannot enclose a sample with a replaced unit."""
    if not isinstance(one, OnSample | SampledMatrix) or relation is not Neighbouring.REPLACE_ONE:
        return one
    if isinstance(one.mechanism, Laplace):
        return OpaquePureDP(epsilon=pure_epsilon(one), justification="a sample of Laplace noise")
    return one.model_copy(update={"contribution": None})


def _exactly(composition: Composition) -> bool:
    """Return whether the enclosed pairs are the mechanisms' own, so that the lower end is theirs too."""
    relation = composition.sampling_relation
    runs = [list(each.items()) for each in composition.exposures()]
    same = all(_enclosed(one, relation) == one for each in runs for one, _ in each)
    return same and all(lower_terms(each, relation) is None for each in runs)


def _of_budget(header: Header, wanted: AnyGuarantee) -> Bound:
    """Return a group's cost in a run held to a budget, by a mechanism of equal cost."""
    group_size, why = header.group_size, "the budget"
    mechanism: AnyMechanism
    match header.budget:
        case ZCDP(rho=rho):
            mechanism = OpaqueZCDP(rho=held(rho, group_size**2), justification=why)
        case GDP(mu=mu):
            if isinstance(wanted, GDP):  # the root of a square would round up
                return _bound(GDP(mu=held(mu, group_size)), "budget")
            mechanism = Gaussian(sigma=1.0, sensitivity=L2(held(mu, group_size)))
        case PureDP(epsilon=epsilon):
            mechanism = OpaquePureDP(epsilon=held(epsilon, group_size), justification=why)
        case budget:
            remedy = "hold the run to a zCDP, GDP or pure-DP budget, or ask for rigour float-pessimistic"
            what = f"no enclosure from a budget of {budget}"
            raise CannotBound(what, where="rigour interval", remedy=remedy)
    composition = compose([Release(label="budget", mechanism=mechanism)], header.neighbouring)
    return interval_bound(composition, wanted).model_copy(update={"method": "budget"})


def _rational_mu_squared(mechanism: AnyMechanism) -> float:
    if isinstance(mechanism.dominating_pair(), dominating.Gaussian):
        return mu_squared(mechanism)
    raise _unknown(mechanism)


def _enclosed_epsilon(mechanism: AnyMechanism) -> float:
    """Return the pure epsilon; sampled: log(1 + rate (e^epsilon - 1))."""
    pair = mechanism.dominating_pair()
    moved = pair.larger if isinstance(pair, dominating.Sampled) else None
    if not (isinstance(pair, dominating.Sampled) and isinstance(moved, dominating.Laplace)):
        return pure_epsilon(mechanism)
    whole, rate = _finite(up(moved.epsilon)), pair.rate
    e = ball(whole)  # log(1 + q (e^epsilon - 1)) = epsilon + log(1 + (1 - q) (e^-epsilon - 1))
    return min(whole, upper_end(precise(lambda: e + ((1 - ball(rate)) * (-e).expm1()).log1p())))


def _bound(guarantee: AnyGuarantee, method: str, at_least: float | None = None) -> Bound:
    return Bound(guarantee=guarantee, method=method, rigour="interval", at_least=at_least)


def _finite(figure: float) -> float:
    return representable(figure, "the total")


def _unknown(mechanism: AnyMechanism) -> CannotBound:
    what = f"no enclosure of a {mechanism.kind} mechanism's cost on this scale is known"
    return CannotBound(what, where="rigour interval", remedy="ask for rigour float-pessimistic")
