"""The log moment of one run's privacy loss, log E_P[e^(tL)] = t D_(1+t)(P || Q), at any real t > 0.

Log moments add up over releases; divided by t they are the Renyi divergence of order 1 + t. Each value is an
upper bound. It is raised by `ROUNDING` (32 u) times the sum of the magnitudes of its terms, each of which
takes fewer than ten roundings and calls of log1p, expm1 or sinh (4 u each), or by the quadrature's own bound.
"""

import functools
import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import assert_never

import numpy as np

from dpaudit.accountants.closed_forms.columns import additive
from dpaudit.accountants.closed_forms.conversions import ROUNDING, UNDERFLOW
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.composition.costs import (
    finite,
    infinite_mass,
    pair_of,
    pure_epsilon,
    replaced_part,
    rho,
    rho_of,
)
from dpaudit.accountants.pairs.batches import (
    as_batch,
    as_poisson,
    batch_log_moment,
    batch_losses,
    swapped,
    term_log_moment,
    under,
)
from dpaudit.accountants.pairs.comparisons import sparse_log_moment
from dpaudit.accountants.pairs.mixtures import mixture_losses, mixture_term
from dpaudit.accountants.pairs.profiles import inner_losses
from dpaudit.accountants.pairs.shuffled import shuffled_losses
from dpaudit.accountants.pairs.smooth import smooth_log_moment
from dpaudit.accountants.pairs.tuning import selected_log_moment
from dpaudit.accountants.privacy_loss.contour.replaced_gaussian import ReplacedGaussianFactor
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor
from dpaudit.accountants.privacy_loss.contour.sampled_laplace import SampledLaplaceFactor
from dpaudit.accountants.privacy_loss.terms import (
    GaussianTerm,
    ReplacedGaussianTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
)
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism, PrivateSelection, dominating

#: Least mass assumed past a table's last loss.
_LEFT = 1e-300
#: Powers of 2 for the distances of larger orders that are tried.
_FURTHER = range(-2, 13)
#: t -> an upper bound on the log moment.
LogMoment = Callable[[float], float]


def log_moment(mechanism: AnyMechanism, neighbouring: Neighbouring, *, mixture_first: bool) -> LogMoment:
    """Return the log moment of one run, outside the event that reveals everything (`failure`).

    Gaussian noise, the discrete Gaussian and any rho-zCDP guarantee: rho t (t + 1) (Canonne, Kamath and
    Steinke 2020, Theorem 4; Bun and Steinke 2016, Proposition 1.6). Laplace: Mironov 2017, Table II; for
    vectors too, as one coordinate is the worst split (`losses`). Randomized response: the sum over its
    answers. Exponential: `bounded_range_log_moment`. Any pure guarantee: randomized response's (Kairouz, Oh
    and Viswanath 2015). Sampled: quadrature of the mixture, in the order of the pair that `mixture_first`
    names (Mironov, Talwar and Zhang 2019). Smooth: `smooth_log_moment`. A table: the sum. Sparse vector:
    `sparse_log_moment`. The best of several trials: `selected_log_moment`. Shuffled: the sum over its table.

    Under replace-one, sampling amplifies less (`losses`). Raises `CannotBound`: a parameter is past the range
    of the computation.
    """
    moment = _normal(mechanism, neighbouring, mixture_first=mixture_first)
    return lambda t: moment(t) + UNDERFLOW


def _normal(mechanism: AnyMechanism, neighbouring: Neighbouring, *, mixture_first: bool) -> LogMoment:
    """Compute `log_moment`; the result is an upper bound only if it is not below the normal doubles."""
    if isinstance(mechanism, PrivateSelection):  # its trials are mechanisms, not pairs
        return _selected(mechanism, neighbouring)
    pair = pair_of(mechanism)
    match pair:
        case dominating.Gaussian() | dominating.ZCDP() | dominating.DiscreteGaussian():
            return _quadratic(rho(mechanism))
        case dominating.Laplace():
            epsilon = pure_epsilon(mechanism)
            return lambda t: laplace_log_moment(t, epsilon)
        case dominating.DiscreteLaplace():
            epsilon = pure_epsilon(mechanism)
            return lambda t: response_log_moment(t, epsilon)
        case dominating.Pure() | dominating.Approx():
            return lambda t: response_log_moment(t, pair.epsilon)
        case dominating.Response():
            return lambda t: response_log_moment(t, pair.epsilon, pair.categories)
        case dominating.BoundedRange():
            return lambda t: bounded_range_log_moment(t, pair.epsilon)
        case dominating.Smooth():
            return lambda t: smooth_log_moment(t, pair.alpha, pair.beta, pair.dimension)
        case dominating.Sampled():
            one = _sampled(pair, mechanism, neighbouring, mixture_first=mixture_first)
            return one if pair.times == 1 else lambda t: pair.times * one(t) * (1.0 + ROUNDING)
        case dominating.Batch():
            batch, replaced = under(pair, neighbouring), swapped(pair, neighbouring)
            sampled = as_poisson(batch, replaced=replaced)
            if sampled is not None:
                added = Neighbouring.REPLACE_ONE if replaced else Neighbouring.ADD_OR_REMOVE_ONE
                return _sampled(sampled, mechanism, added, mixture_first=mixture_first)
            return batch_log_moment(batch, replaced=replaced, mixture_first=mixture_first)
        case dominating.Mixture():
            term = mixture_term(pair, mechanism.kind, neighbouring, mixture_first=mixture_first)
            if isinstance(term, GaussianTerm):
                return _quadratic(up(Fraction(term.mu) ** 2 / 2))
            return term_log_moment(term)
        case dominating.Table():
            return lambda t: _tabulated(pair, t)
        case dominating.Shuffled():
            rows = shuffled_losses(pair).term
            whole = dominating.Table(rows.losses, rows.probabilities, rows.infinite)
            return lambda t: min(_tabulated(whole, t), response_log_moment(t, pair.epsilon))
        case dominating.SparseGaussian():
            return lambda t: sparse_log_moment(pair, t)
        case dominating.Added():
            return _added(pair, mechanism)
        case dominating.Selected():
            raise _no_divergence(mechanism)  # another package's: only a `PrivateSelection` names its trials
        case _:
            assert_never(pair)


def _added(pair: dominating.Added, mechanism: AnyMechanism) -> LogMoment:
    """Return the least bound that a package's pair states; a table with infinite loss has no moment."""
    known: list[Callable[[float], float | None]] = [pair.log_moment]
    with suppress(CannotBound):
        known.append(_quadratic(rho(mechanism)))
        epsilon = pure_epsilon(mechanism)
        known.append(lambda t: response_log_moment(t, epsilon))
    table = pair.table()
    if table is not None and infinite_mass(table) == 0:
        known.append(lambda t: _tabulated(table, t))

    def moment(t: float) -> float:
        found = [value for each in known if (value := each(t)) is not None]
        if not found:
            raise _no_divergence(mechanism)
        return min(found)

    moment(1.0)
    return moment


def _no_divergence(mechanism: AnyMechanism) -> CannotBound:
    what = f"no bound on the Renyi divergences of a {mechanism.kind} mechanism is known"
    remedy = "claim (epsilon, delta)-DP, or another guarantee that its package bounds"
    return CannotBound(what, where=f"mechanism {mechanism.kind}", remedy=remedy)


def whole_log_moment(
    mechanism: AnyMechanism, neighbouring: Neighbouring, *, mixture_first: bool
) -> LogMoment:
    """Return `log_moment` without a failure event; `CannotBound` if some outputs reveal everything.

    A table stops at a loss past which a mass d is left. It counts that mass as infinite, because it is to be
    composed; the mechanism has no such outputs if its noise has none. With profile f, its moment is the
    integral of (t + 1) t y^(t - 1) f(y) over y > 0. Up to any Y f is at most the table's profile: its finite
    losses and d, which adds (t + 1) d Y^t. Beyond, f(y) <= y^-s e^M(s) for every s > t and a crude bound M on
    the log moment: by joint convexity, sampling makes the moment no worse at any order. That adds
    (t + 1) t Y^(t - s) e^M(s) / (s - t). With Y^s = e^M(s) / d this is d's term times t / (s - t).
    """
    finite_part = log_moment(mechanism, neighbouring, mixture_first=mixture_first)
    pair = mechanism.dominating_pair()
    match pair:
        case dominating.Batch():
            batch, replaced = under(pair, neighbouring), swapped(pair, neighbouring)
            if as_poisson(batch, replaced=replaced) is not None:
                return finite_part
            lost = batch_losses(batch, replaced=replaced, mixture_first=mixture_first).term.infinite
            parts: tuple[dominating.Inner, ...] = (pair.change, pair.own)
        case dominating.Mixture():
            term = mixture_term(pair, mechanism.kind, neighbouring, mixture_first=mixture_first)
            if isinstance(term, GaussianTerm):
                return finite_part
            lost, parts = term.infinite, (dominating.Gaussian(max(pair.shifts)),)
        case _:
            lost, parts = failure(mechanism), ()
    known = [rho_of(part) for part in parts]
    costs = [finite(up(one), mechanism) for one in known if one is not None]
    cost = max(costs, default=0.0)
    if cost == 0.0 and lost == 0.0:  # all losses are finite
        return finite_part
    if cost == 0.0 or None in known:
        what = f"a {mechanism.kind} mechanism that may reveal everything has no finite Renyi divergence"
        remedy = "claim (epsilon, delta)-DP, or use a mechanism whose own guarantee has no delta"
        raise CannotBound(what, where=f"mechanism {mechanism.kind}", remedy=remedy)
    crude = _quadratic(cost)
    if isinstance(pair, dominating.Mixture):
        crude = _of_each_shift(pair, crude, mixture_first=mixture_first)
    # The mass past the last loss may be below every double.
    least = -math.log(max(lost, _LEFT))

    def moment(t: float) -> float:
        found = (
            _raised(math.log1p(t), t / s * crude(s), t / s * least, -least, math.log1p(t / (s - t)))
            for s in (t + 2.0**power for power in _FURTHER)
            if s > t
        )
        low, high = sorted((finite_part(t), min(found, default=math.inf)))
        if high == math.inf:
            return crude(t)
        return min(crude(t), _raised(high, math.log1p(math.exp(low - high))))

    return moment


def _of_each_shift(pair: dominating.Mixture, whole: LogMoment, *, mixture_first: bool) -> LogMoment:
    """Bound log E (S / t)^a <= log E R^a <= log of the sum of k^(a - 1) p_i^a e^(a (a - 1) c_i^2 / 2).

    The sum runs over the k shifts of one answer, by the convexity of x^a; `whole` is the bound for the
    largest shift alone. In the other order, no loss exceeds -log p for the probability p of no shift.
    """
    if not mixture_first:
        moved = up(sum((p for c, p in zip(pair.shifts, pair.weights, strict=True) if c > 0), Fraction(0)))
        largest = _raised(-math.log1p(-moved)) if moved < 1.0 else math.inf
        return lambda t: min(whole(t), t * largest * (1.0 + ROUNDING))
    rows = [
        (up(shift), _log(weight))
        for shift, weight in zip(pair.shifts, pair.weights, strict=True)
        if weight > 0
    ]

    def moment(t: float) -> float:
        if not t < 1e100:
            return whole(t)
        terms = [
            _raised(t * math.log(len(rows)), (t + 1.0) * weight, 0.5 * (t * shift) * ((t + 1.0) * shift))
            for shift, weight in rows
        ]
        peak = max(terms)
        return min(whole(t), max(0.0, _raised(peak, math.log(math.fsum(math.exp(x - peak) for x in terms)))))

    return moment


def _log(weight: Fraction) -> float:
    """Return the logarithm of a weight in (0, 1], which may be below every double; accurate to a few u."""
    below = weight.denominator.bit_length() - weight.numerator.bit_length()
    if below < 1000:
        return math.log(weight)
    return math.log(weight * 2**below) - below * math.log(2.0)


def failure(mechanism: AnyMechanism) -> float:
    """Return the probability that one run reveals everything; its log moment covers all other events."""
    pair = mechanism.dominating_pair()
    if isinstance(pair, dominating.Approx):
        return pair.delta
    if isinstance(pair, dominating.Batch):
        inner = max(inner_losses(one).infinite for one in (pair.change, pair.own))
        return min(1.0, pair.rate * inner * (1.0 + 1e-11))
    if isinstance(pair, dominating.Mixture) and max(pair.shifts) > 0:
        both = (mixture_losses(pair, mixture_first=order).infinite for order in (True, False))
        return min(1.0, max(both) * (1.0 + 1e-11))
    return min(1.0, infinite_mass(pair)) if isinstance(pair, dominating.Table) else 0.0


@additive(
    lambda sensitivity, _: np.zeros_like(sensitivity), lambda sensitivity, _: np.zeros_like(sensitivity)
)
def failure_cost(mechanism: AnyMechanism) -> float:
    """Return -log(1 - failure), which adds up; rounded up, and infinite for a certain failure."""
    probability = failure(mechanism)
    if probability >= 1.0:
        what = f"a {mechanism.kind} mechanism that may reveal everything"
        remedy = "give a table whose mass at finite losses is positive"
        raise CannotBound(what, where=f"mechanism {mechanism.kind}", remedy=remedy)
    cost = -math.log1p(-probability) * (1.0 + ROUNDING)
    return math.nextafter(cost, math.inf) if cost > 0.0 else 0.0


def response_log_moment(t: float, epsilon: float, categories: int = 2) -> float:
    """Return log of (e^((t+1) epsilon) + (k - 2) + e^(-t epsilon)) / (e^epsilon + k - 1), k categories.

    For two categories it is log(1 + 2 sinh((t+1) epsilon/2) sinh(t epsilon/2) / cosh(epsilon/2)), without
    cancellation. With more, the loss is 0 with probability 1 - w, w = (1 + e^epsilon)/(e^epsilon + k - 1).
    """
    a, b = t * epsilon, (t + 1.0) * epsilon
    if b < 30.0:
        excess = 2.0 * math.sinh(0.5 * b) * math.sinh(0.5 * a) / math.cosh(0.5 * epsilon)
        binary = math.log1p(excess) * (1.0 + ROUNDING)
    else:
        binary = _raised(a, math.log1p(math.exp(-a - b)), -math.log1p(math.exp(-epsilon)))
    if categories == 2:
        return binary
    shrunk = math.exp(-epsilon)
    # More categories make w smaller. A float cannot be multiplied by an integer past every double.
    w = (1.0 + shrunk) / (1.0 + (min(categories, 10**300) - 1) * shrunk)
    if binary < 30.0:
        return math.log1p(w * math.expm1(binary)) * (1.0 + ROUNDING)
    return min(binary, _raised(binary, math.log(w), math.log1p((1.0 / w - 1.0) * math.exp(-binary))))


def laplace_log_moment(t: float, epsilon: float) -> float:
    """Return Laplace noise's log of ((t+1) e^(t epsilon) + t e^(-(t+1) epsilon)) / (2t + 1)."""
    a, b = t * epsilon, (t + 1.0) * epsilon
    if a < 30.0:
        # As (t + 1) a = t b, the first-order terms of expm1 cancel exactly; the rest is positive.
        excess = ((t + 1.0) * _second_order(a) + t * _second_order(-b)) / (2.0 * t + 1.0)
        return math.log1p(excess) * (1.0 + 2.0 * ROUNDING)
    ratio = t / (t + 1.0)
    return _raised(a, -math.log1p(ratio), math.log1p(ratio * math.exp(-a - b)))


def bounded_range_log_moment(t: float, epsilon: float) -> float:
    """Return the log moment of a choice of bounded range: losses lie in [h - epsilon, h] for some h.

    E_P[e^(tL)] is convex in e^-L, whose mean is 1, so the two ends are the worst case. Over h the largest
    value is (E - w)^(t+1) t^t / ((t+1)^(t+1) (1 - w)^t (E - 1)) with E = e^epsilon, w = e^(-t epsilon) (after
    Dong, Durfee and Rogers 2020). It is never above epsilon^2/8 t (t + 1) (Cesar and Rogers 2021), which is
    used where the closed form's rounding exceeds its value.
    """
    quadratic = (t * epsilon) * ((t + 1.0) * epsilon / 8.0) * (1.0 + ROUNDING)
    lost = -math.expm1(-t * epsilon)  # 1 - w
    if epsilon > 700.0 or lost == 0.0:
        return min(quadratic, response_log_moment(t, epsilon))
    gained = math.expm1(epsilon)  # E - 1
    first, second = (t + 1.0) * math.log(gained + lost), -(t + 1.0) * math.log1p(t)
    exact = _raised(first, second, t * math.log(t), -t * math.log(lost), -math.log(gained))
    slack = ROUNDING * (2.0 * t + 1.0)  # the logarithms' arguments are accurate to a few u
    return min(quadratic, response_log_moment(t, epsilon), exact + slack)


def _quadratic(cost: float) -> LogMoment:
    def moment(t: float) -> float:
        # Neither product may underflow or overflow if the result does not.
        moved = cost * (t * (t + 1.0)) if t < 1e150 else cost * t * (t + 1.0)
        return moved * (1.0 + ROUNDING) if cost > 0.0 else 0.0

    return moment


def _selected(mechanism: PrivateSelection, neighbouring: Neighbouring) -> LogMoment:
    """Return the log moment from the larger of a trial's moments in both orders of the data sets."""
    made = [(one.mechanism, one.count) for one in mechanism.releases]
    orders = [
        [(whole_log_moment(one, neighbouring, mixture_first=first), count) for one, count in made]
        for first in (True, False)
    ]

    @functools.lru_cache(maxsize=1 << 12)
    def trial(t: float) -> float:
        return max(sum(moment(t) * count for moment, count in each) for each in orders) * (1.0 + ROUNDING)

    try:
        pure = sum(pure_epsilon(one) * count for one, count in made) * (1.0 + ROUNDING)
    except CannotBound:
        pure = math.inf
    moment = selected_log_moment(mechanism.repetitions, trial, pure)
    try:
        whole = pure_epsilon(mechanism)
    except CannotBound:
        return moment
    return lambda t: min(moment(t), response_log_moment(t, whole))


def _sampled(
    pair: dominating.Sampled, mechanism: AnyMechanism, neighbouring: Neighbouring, *, mixture_first: bool
) -> LogMoment:
    replaced = neighbouring is Neighbouring.REPLACE_ONE
    inner, rate = pair.inner if replaced else pair.own, pair.rate
    if isinstance(inner, dominating.Laplace):
        if inner.epsilon == 0:
            return _quadratic(0.0)
        epsilon = pure_epsilon(mechanism)
        if replaced and rate < 1.0:
            batch = batch_log_moment(as_batch(pair), replaced=True, mixture_first=True)
            return lambda t: min(response_log_moment(t, epsilon), batch(t))
        if rate == 1.0:
            return lambda t: laplace_log_moment(t, epsilon)
        whole = finite(up(inner.epsilon), mechanism)
        SampledLaplaceTerm(whole, rate)  # raises if it cannot be computed
        return _by_quadrature(SampledLaplaceFactor(whole, rate, 1.0, mixture_first))
    own = replaced_part(pair) if replaced else None
    if own is not None:
        ReplacedGaussianTerm(own, rate)  # raises too
        return _by_quadrature(ReplacedGaussianFactor(own, rate, 1.0, mixture_first=True))
    if inner.mu == 0 or replaced or rate == 1.0:
        return _quadratic(finite(up(inner.mu_squared / 2), mechanism))
    mu = finite(up(inner.mu), mechanism)
    SampledGaussianTerm(mu, rate)  # raises too
    return _by_quadrature(SampledGaussianFactor(mu, rate, 1.0, mixture_first))


def _by_quadrature(factor: SampledGaussianFactor | SampledLaplaceFactor) -> LogMoment:
    def bound(t: float) -> float:
        cumulant = factor.cumulant(t)
        return max(0.0, cumulant.value + cumulant.error)

    return bound


def _tabulated(table: dominating.Table, t: float) -> float:
    rows = zip(table.losses, table.probabilities, strict=True)
    # Each exponent includes its own rounding, so a long table needs no further allowance.
    raised = [_raised(t * loss, math.log(p)) for loss, p in rows if p > 0.0]
    peak = max(raised, default=-math.inf)
    if not math.isfinite(peak):
        return math.inf if raised else 0.0
    total = math.fsum(math.exp(log - peak) for log in raised)
    # A table may add up to less than 1: no log moment of a finite loss is negative.
    return max(0.0, _raised(peak, math.log(total)) + ROUNDING)


def _second_order(x: float) -> float:
    """Return e^x - 1 - x, at least 0, without cancellation."""
    if abs(x) > 0.5:
        return math.expm1(x) - x
    series = 0.0
    for order in range(20, 2, -1):
        series = (1.0 + series) * x / order
    return 0.5 * x * x * (1.0 + series)


def _raised(*terms: float) -> float:
    return sum(terms) + ROUNDING * sum(map(abs, terms))
