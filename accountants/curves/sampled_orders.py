"""Renyi divergences of Poisson-sampled Gaussian noise alone: all releases at once, with few orders.

Newton's method needs a third of the orders that a derivative-free search evaluates.
"""

import math
from collections.abc import Sequence

from dpaudit.accountants.closed_forms.conversions import UNDERFLOW
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.pairs.moments import LogMoment
from dpaudit.accountants.privacy_loss.contour.factors import Factor
from dpaudit.accountants.privacy_loss.contour.planning import total_cumulant
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor
from dpaudit.claims.relations import Neighbouring
from dpaudit.mechanisms import dominating

_LARGEST_MU, _MOST_RUNS = 1e3, 10**12
_NEAR = 1e-8  # distance in log t; the bound loses about its square
_NEGLIGIBLE = 1e-12  # relative to epsilon
_START, _LONGEST = 2.0, 2.0  # start and longest step, in log t


def sampled_factors(composition: Composition) -> tuple[tuple[Factor, ...], ...]:
    """Return the factors in both orders of the pairs; none if other noise occurs or units are replaced."""
    others = composition.others()
    replaced = composition.sampling_relation is Neighbouring.REPLACE_ONE
    if composition.split or replaced or not others or len(others) != composition.distinct:
        return ()
    rows: list[tuple[float, float, float]] = []
    for mechanism, count in composition.exposures()[0].others().items():
        pair = mechanism.dominating_pair()
        moved = pair.own if isinstance(pair, dominating.Sampled) else None
        if not (isinstance(pair, dominating.Sampled) and isinstance(moved, dominating.Gaussian)):
            return ()
        mu, runs = up(moved.mu), count * pair.times
        if not (0.0 < mu <= _LARGEST_MU and 0.0 < pair.rate < 1.0 and runs <= _MOST_RUNS):
            return ()
        rows.append((mu, pair.rate, float(runs)))
    orders = (True, False)
    return tuple(tuple(SampledGaussianFactor(*row, mixture_first=way) for row in rows) for way in orders)


def moment_of(factors: Sequence[Factor]) -> LogMoment:
    """Return the log moment of all releases in one order, rounded up."""

    def moment(t: float) -> float:
        total = total_cumulant(factors, t)
        return max(0.0, total.value + total.error) + UNDERFLOW

    return moment


def best_order(directions: Sequence[Sequence[Factor]], target: float) -> float | None:
    """Return log t of the least epsilon at delta = e^-target; None if another search may find less.

    There the increasing function t K' - K + log(1 + t) equals `target`; K belongs to the order of the pairs
    with the larger K. Every order is sound, so this choice need not be proved.
    """
    left, log_t, right = -math.inf, _START, math.inf
    for _ in range(60 if directions else 0):
        t = math.exp(log_t)
        total = total_cumulant(directions[0], t)
        gained = t * total.slope - total.value + math.log1p(t)
        rise = t * (t * total.curvature + 1.0 / (1.0 + t))
        if not (0.0 < gained < math.inf and 0.0 < rise < math.inf):
            return None
        step = (math.log(target) - math.log(gained)) * gained / rise
        if abs(step) < _NEAR:
            least = total.slope - math.log1p(1.0 / t)  # epsilon at this order
            clear = total.error <= _NEGLIGIBLE * least * t
            return log_t if clear and total_cumulant(directions[1], t).value <= total.value else None
        left, right = (log_t, right) if step > 0.0 else (left, log_t)
        log_t += max(-_LONGEST, min(_LONGEST, step))
        if not left < log_t < right:
            log_t = 0.5 * (left + right)
    return None
