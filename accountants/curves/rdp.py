"""Renyi divergences of real order, composed release by release, and the best (epsilon, delta) they imply.

The log moments of one unit's exposure add up during composition, order by order. For each order
alpha = 1 + t,

    epsilon = [K(t) + log(1/delta) - log(1 + t)] / t - log(1 + 1/t)

(Canonne, Kamath and Steinke 2020, Proposition 12) is a bound, so only its evaluation must be rounded up, not
the search for the best order, which runs over all real t > 0. For a fixed epsilon log delta is convex in t,
because K and t log t - (1 + t) log(1 + t) are convex. So epsilon has one minimum, and Brent's method finds
it. The pointwise bound behind the conversion holds for any finite measure: a release that reveals everything
with probability delta_0 adds delta_0 to delta, and the rest composes as if it were certain. Rigour:
`float-pessimistic`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from dpaudit.accountants.closed_forms import conversions
from dpaudit.accountants.closed_forms.columns import Cost, gaussian_log_moment, laplace_log_moment
from dpaudit.accountants.closed_forms.conversions import ROUNDING
from dpaudit.accountants.closed_forms.ranges import above_one, nonnegative, probability
from dpaudit.accountants.closed_forms.search import minimum
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.composition.costs import pure_epsilon
from dpaudit.accountants.curves.sampled_orders import best_order, moment_of, sampled_factors
from dpaudit.accountants.pairs.moments import LogMoment, failure_cost, log_moment, whole_log_moment
from dpaudit.accountants.privacy_loss.contour.factors import Factor
from dpaudit.claims.bounds import Rigour
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism, HiddenSample, dominating

MOST_DISTINCT = 20000  # with more distinct mechanisms, accountants that compress them are used
_EXTREME = 300.0  # limit of |log t|
_WALL = 1e290  # replaces an infinite value, and grows to the right


@dataclass(frozen=True, eq=False)
class RenyiProfile:
    """The curve that follows from a composition's Renyi divergences of all orders.

    The curve is at most that of the total pure epsilon, if there is one. No delta is below `revealed`, a
    bound on the probability that everything is revealed.
    """

    pure: float
    revealed: float
    _directions: tuple[LogMoment, ...] = field(repr=False)
    _composition: Composition = field(repr=False)
    _factors: tuple[tuple[Factor, ...], ...] = field(repr=False)
    method: str = "rdp"
    rigour: Rigour = "float-pessimistic"

    @classmethod
    def of(cls, composition: Composition) -> RenyiProfile:
        """Return the curve of a composition.

        Raises `CannotBound`: a mechanism has no log moment, or there are too many distinct mechanisms.
        """
        if composition.distinct > MOST_DISTINCT:
            what = f"{composition.distinct} distinct mechanisms"
            remedy = "use the accountant of privacy losses, which compresses them"
            raise CannotBound(what, where="composition", remedy=remedy)
        factors = sampled_factors(composition)
        directions = tuple(map(moment_of, factors)) or _totals(composition, log_moment)
        try:
            pure = composition.total(pure_epsilon)
        except CannotBound:
            pure = math.inf
        revealed = -math.expm1(-composition.total(failure_cost)) * (1.0 + ROUNDING)
        return cls(pure, revealed, directions, composition, factors)

    def divergence(self, alpha: float) -> float:
        """Return the Renyi divergence of order alpha > 1, in nats, rounded up.

        Raises `InvalidParameter`: alpha is not a number in (1, inf); `CannotBound`: the divergence is
        infinite, or past the largest double.
        """
        t = above_one("alpha", alpha) - 1.0
        # alpha - 1 is exact below 2^53; above, the next order's divergence is used.
        order = math.nextafter(t, math.inf)
        divergence = max(whole(order) for whole in self._whole) / t * (1.0 + ROUNDING)
        found = min(self.pure, math.nextafter(divergence, math.inf))
        if not math.isfinite(found):
            what = f"no finite Renyi divergence of order {alpha}"
            raise CannotBound(what, where="composition", remedy="ask for a smaller order")
        return found

    def epsilon(self, delta: float) -> float:
        """Return the epsilon proved at `delta`, by the best order.

        Raises `InvalidParameter`: delta is outside (0, 1); `CannotBound`: everything may be revealed with
        probability `delta` or more.
        """
        left = probability("delta", delta)
        if self.revealed > 0.0:
            left = math.nextafter(left - self.revealed, 0.0)
        if left <= 0.0:
            raise CannotBound(
                f"delta = {delta!r} is not above {self.revealed!r}, the probability with which the releases "
                "may reveal everything",
                where="delta",
                remedy="ask for a larger delta, or lower the delta of the approximate releases",
            )
        target = -math.log(left)

        def at(log_t: float) -> float:
            t = math.exp(log_t)
            divergence = self._log_moment(t) / t
            finite = math.isfinite(divergence)
            return conversions.renyi_epsilon(t, divergence, 0.0, target) if finite else math.inf

        best = best_order(self._factors, target)
        found = max(0.0, self._least(at) if best is None else at(best))
        if math.isfinite(self.pure):
            found = min(found, conversions.response_epsilon(self.pure, left))
        if not math.isfinite(found):
            raise CannotBound("no finite epsilon follows from any order", where=f"delta = {delta!r}")
        return found

    def delta(self, epsilon: float) -> float:
        """Return the delta proved at `epsilon` >= 0, by the best order.

        Raises `InvalidParameter`: epsilon is NaN, infinite or negative.
        """
        epsilon = nonnegative("epsilon", epsilon)

        def at(log_t: float) -> float:
            t = math.exp(log_t)
            terms = (self._log_moment(t), -t * epsilon, -t * math.log1p(1.0 / t), -math.log1p(t))
            bound = sum(terms) + ROUNDING * sum(map(abs, terms))
            return bound if math.isfinite(bound) else math.inf

        found = math.nextafter(math.exp(min(0.0, self._least(at))) * (1.0 + ROUNDING), math.inf)
        if math.isfinite(self.pure):
            found = min(found, conversions.response_delta(self.pure, epsilon))
        return min(1.0, math.nextafter(found + self.revealed, math.inf) if self.revealed > 0.0 else found)

    def _least(self, function: Callable[[float], float]) -> float:
        """Return the least value found; there are several minima if a moment is the smaller of two bounds."""
        pairs = (mechanism.dominating_pair() for mechanism in self._composition.others())
        several = any(isinstance(pair, dominating.SparseGaussian) for pair in pairs)
        return min(_least(function, start) for start in ((0.0, 2.0, 4.0, 6.0) if several else (0.0,)))

    @functools.cached_property
    def _whole(self) -> tuple[LogMoment, ...]:
        """The log moments of all outputs when no output reveals everything."""
        return _totals(self._composition, whole_log_moment)

    def _log_moment(self, t: float) -> float:
        return max(direction(t) for direction in self._directions)


def _totals(composition: Composition, moment_of: Callable[..., LogMoment]) -> tuple[LogMoment, ...]:
    """Return the total of all mechanisms' moments, for each order of the pairs."""
    sampled = any(isinstance(mechanism, HiddenSample) for mechanism in composition.others())
    return tuple(
        _total(composition, moment_of, mixture_first=way) for way in ((True, False) if sampled else (True,))
    )


def _total(
    composition: Composition, moment_of: Callable[..., LogMoment], *, mixture_first: bool
) -> LogMoment:
    relation = composition.sampling_relation

    @functools.cache  # plain mechanisms get here only if their columns have NaN
    def moment(mechanism: AnyMechanism) -> LogMoment:
        return moment_of(mechanism, relation, mixture_first=mixture_first)

    def total(t: float) -> float:
        plain = (functools.partial(moments, t) for moments in (gaussian_log_moment, laplace_log_moment))
        return composition.total(Cost(lambda mechanism: moment(mechanism)(t), *plain))

    for mechanism in composition.others():
        moment(mechanism)
    total(1.0)  # refuse a missing moment now, not when the curve is used
    return total


def _least(function: Callable[[float], float], start: float) -> float:
    """Return the least value found of a function of log t with one minimum, infinite only to its right."""

    def rising(log_t: float) -> float:
        # Among values that are all infinite, a search would not know the direction back.
        value = function(float(log_t))
        return value if math.isfinite(value) else _WALL * (4.0 * _EXTREME + log_t)

    least = rising(minimum(rising, *_bracket(function, start), absolute=2e-6))
    return least if least < _WALL else math.inf


def _bracket(function: Callable[[float], float], start: float) -> tuple[float, float]:
    """Walk downhill from t = e^(1 + start) in doubling steps until the function rises or t is extreme."""
    low, here, high = start, start + 1.0, start + 2.0
    at_low, at_here, at_high = function(low), function(here), function(high)
    step = 1.0
    while (at_low < at_here or not math.isfinite(at_here)) and low > -_EXTREME:
        step *= 2.0
        here, high, at_here = low, here, at_low
        low -= step
        at_low = function(low)
        at_high = math.inf
    while at_high < at_here and high < _EXTREME:
        step *= 2.0
        low, here, at_here = here, high, at_high
        high += step
        at_high = function(high)
    return low, high
