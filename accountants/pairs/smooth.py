"""Gaussian noise with a scale that follows the data smoothly: its exact worst case and divergence.

The pairs are P = N(q, s^2 I), Q = N(q', s'^2 I) in d dimensions with b = |log s^2 - log s'^2| <= beta and
|q - q'| <= min(s, s')/alpha. With k = s^2/s'^2 - 1 and lambda = |q - q'|^2/s'^2,

    log E_P[e^(sL)] = -(d/2) [s log(1 + k) + log(1 - k s)] + s (s + 1) lambda / (2 (1 - k s)),    k s < 1,

(Gil, Alajaji and Linder 2013, Table 2) and infinite beyond. This gives, for one pair, delta(epsilon) by the
contour integral, and the Renyi divergence. Over all pairs:

* delta grows with |q - q'|. The best event is a ball or its outside, centred on the axis of q and q', and
moving
  P's mean changes P of that event through the distance to a centre that only gets farther, or nearer
  (Anderson 1955; the event itself may be held fixed, as it is optimal).
* Larger scale first, |q - q'| fixed in units of s: delta grows with b. The best event is the outside of
  a ball around q', since log P/Q <= 0 <= epsilon at q', and shrinking s' shrinks Q there.
* Smaller scale first: from s^2 to a smaller r^2 the density of P grows at most by (s/r)^d.
* The Renyi divergence of every order is largest for the larger scale first, b = beta, |q - q'| = s'/alpha.
  Its shift term is alpha_R lambda/(2 (1 - k (alpha_R - 1))), and the derivatives of both orders' other
  terms over b differ only in a denominator, alpha_R e^b - alpha_R + 1 >= 1 against alpha_R -
  (alpha_R - 1) e^b <= 1.

If delta alone is not monotone in b, the interval [0, beta] is cut into cells. These facts bound each cell,
and cells are cut until the largest bound is attained up to a stated slack. Rigour: `float-pessimistic`.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpaudit.accountants.closed_forms.conversions import ROUNDING
from dpaudit.accountants.closed_forms.gaussian import gaussian_log_delta
from dpaudit.accountants.closed_forms.ranges import nonnegative, positive, probability
from dpaudit.accountants.closed_forms.search import root
from dpaudit.accountants.privacy_loss.contour.contour import lay
from dpaudit.accountants.privacy_loss.contour.factors import UNIT, Along, Cumulant, Vector
from dpaudit.accountants.privacy_loss.contour.planning import chernoff_constant, saddle_for_epsilon
from dpaudit.accountants.privacy_loss.solve import SEARCH, contour_log_delta
from dpaudit.accountants.privacy_loss.terms import LARGEST_PARAMETER
from dpaudit.errors import CannotBound

SLACK = 1e-6  # the cells are refined until log delta is known to this accuracy
_MOST_CELLS = 200
_LARGEST_ALPHA = 1e150  # larger ones, whose square overflows, count as this: they hide more
_VANISHING = -800.0  # below this log delta, Chernoff's bound is enough, as delta is no double
_MOST_DIMENSIONS = 10**12  # with more, delta is bounded by 1


def smooth_log_moment(t: float, alpha: float, beta: float, dimension: int) -> float:
    """Return an upper bound on t times the divergence of order 1 + t; infinite past 1/(e^beta - 1)."""
    if beta > 700.0 or not math.expm1(beta) * t < 1.0 - 1e-9 or dimension > _MOST_DIMENSIONS:
        return math.inf
    if alpha < 1.0 / _LARGEST_ALPHA:  # nothing is hidden
        return math.inf
    alpha = min(alpha, _LARGEST_ALPHA)
    cumulant = _Pair(math.expm1(beta), alpha**-2.0, dimension).cumulant(t)
    return cumulant.value + cumulant.error


@lru_cache(maxsize=4096)
def smooth_delta(epsilon: float, alpha: float, beta: float, dimension: int) -> float:
    """Return an upper bound on delta at `epsilon` >= 0 nats of smooth Gaussian noise, over all its pairs.

    It exceeds the worst pair's delta by `SLACK` relative, or more if the cells run out. alpha > 0 is the
    least ratio of scale to shift, beta >= 0 the largest change of the log variance. Raises
    `InvalidParameter`: an argument is out of range.
    """
    epsilon, alpha = nonnegative("epsilon", epsilon), positive("alpha", alpha)
    beta = nonnegative("beta", beta)
    if alpha < 1e-6 or beta > 30.0 or dimension > _MOST_DIMENSIONS:  # nothing is hidden
        return 1.0
    # Arguments past every double are replaced by ones that hide less, or allow less.
    alpha, epsilon = min(alpha, _LARGEST_ALPHA), min(epsilon, LARGEST_PARAMETER)
    widest = _log_delta(epsilon, math.expm1(beta), alpha**-2.0, dimension)
    best = max(gaussian_log_delta(epsilon, 1.0 / alpha), widest)
    cells: list[tuple[float, float, float, int]] = []

    # A cell is widened by more than the rounding of its ends' exponentials.
    def larger_first(low: float, high: float) -> float:
        high *= 1.0 + 1e-14
        return _log_delta(epsilon, math.expm1(high), math.exp(high - low) / alpha**2, dimension, best)

    def smaller_first(low: float, high: float) -> float:
        low *= 1.0 - 1e-14
        growth = 0.5 * dimension * (high - low) * (1.0 + 1e-12)
        left = epsilon - growth
        shift = math.exp(-low) / alpha**2
        log_delta = _log_delta(max(left, 0.0), math.expm1(-low), shift, dimension, best - growth)
        if left < 0.0:  # P(A) - e^left Q(A) <= P(A) - Q(A) + 1 - e^left
            log_delta = math.log(math.exp(log_delta) - math.expm1(left)) + 1e-15
        return min(0.0, log_delta + growth)

    orders: tuple[Callable[[float, float], float], ...] = (larger_first, smaller_first)
    for order, bound in enumerate(orders):
        heapq.heappush(cells, (-bound(0.0, beta), 0.0, beta, order))
    for _ in range(_MOST_CELLS):
        worst, low, high, order = cells[0]
        middle = 0.5 * (low + high)
        if -worst <= best + SLACK or not low < middle < high:
            break
        bound = orders[order]
        best = max(best, bound(high, high))
        heapq.heapreplace(cells, (-bound(low, middle), low, middle, order))
        heapq.heappush(cells, (-bound(middle, high), middle, high, order))
    # Above 0, even where the exponential underflows.
    return min(1.0, math.nextafter(math.exp(-cells[0][0]) * (1.0 + ROUNDING), 1.0))


def smooth_alpha(epsilon: float, delta: float, dimension: int, beta: float) -> float:
    """Return the least alpha, up to 1e-6 relative, for which smooth Gaussian noise is (epsilon, delta)-DP.

    The target is epsilon > 0 in nats and delta in (0, 1); `smooth_delta` verifies the answer. Raises
    `InvalidParameter`: an argument is out of range; `CannotBound`: with this beta no alpha meets the target,
    because the change of scale alone reveals too much.
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    beta = nonnegative("beta", beta)
    k, target = math.expm1(min(beta, 700.0)), math.log(delta)

    def excess(log_alpha: float) -> float:
        return _log_delta(epsilon, k, math.exp(-2.0 * log_alpha), dimension) - target

    low, high = 0.0, 0.0
    while excess(high) > 0.0:
        high += 2.0
        if high > 60.0:
            what = f"no alpha meets ({epsilon}, {delta}) in {dimension} dimensions at beta = {beta}"
            remedy = "use a smoother bound on the local sensitivity: a smaller beta"
            raise CannotBound(what, where="beta", remedy=remedy)
    while excess(low) <= 0.0 and low > -13.0:
        low -= 2.0
    log_alpha = root(excess, low, high, 1e-9) if low > -13.0 else low
    step = 1e-8
    while True:  # the search used one pair; the returned value is verified over all
        alpha = math.exp(log_alpha)
        if smooth_delta(epsilon, alpha, beta, dimension) <= delta:
            return alpha
        log_alpha, step = log_alpha + step, 2.0 * step
        if log_alpha > 60.0:
            raise CannotBound(f"no alpha meets ({epsilon}, {delta}) at beta = {beta}", where="beta")


def _log_delta(
    epsilon: float, k: float, squared_shift: float, dimension: int, enough: float = -math.inf
) -> float:
    """Return an upper bound on log delta of one pair; Chernoff's if at most `enough`, or no double."""
    if k == 0.0:
        return gaussian_log_delta(epsilon, math.sqrt(squared_shift) * (1.0 + 1e-15))
    pair = _Pair(k, squared_shift * (1.0 + 1e-15), dimension)
    point = saddle_for_epsilon([pair], epsilon)
    # Past the largest loss, or at the pole, there is no saddle; any tilt gives a bound.
    settled = math.isfinite(point.log_delta) and point.c < 1e12
    c = point.c if settled else 0.5 / abs(k)
    # If all abscissae to the right lie past the pole, there is no valid line.
    settled = settled and any(pair.cumulant(a).value < math.inf for a in (1.1 * c, c + 2.0 / point.sigma))
    cumulant = pair.cumulant(c)
    chernoff = chernoff_constant(cumulant.value + cumulant.error, c) - c * epsilon * (1.0 - 4.0 * UNIT)
    if chernoff <= max(enough, _VANISHING) or not settled:
        return min(0.0, chernoff)
    quick = lay([pair], point, epsilon, math.inf, SEARCH).curve(epsilon)
    if quick.log_upper <= enough or quick.log_upper - quick.log_lower <= 0.1 * SLACK:
        return quick.log_upper
    return min(0.0, contour_log_delta([pair], epsilon, math.inf).upper)


@dataclass(frozen=True)
class _Pair:
    """N(q, (1 + k) I) against N(0, I), |q|^2 = squared_shift, as a factor on the contour."""

    k: float
    squared_shift: float
    dimension: int

    def cost(self, c: float, end: float) -> float:
        """Return the cost of a node: a few formulas."""
        del c, end
        return 4.0

    def cumulant(self, c: float) -> Cumulant:
        """Return the module's formula and its derivatives."""
        k, d, shift = self.k, self.dimension, self.squared_shift
        left = 1.0 - k * c
        if left <= 1e-9:
            return Cumulant(math.inf, math.inf, math.inf, 0.0)
        moved = 0.5 * shift * c * (c + 1.0) / left
        terms = (-0.5 * d * c * math.log1p(k), -0.5 * d * math.log1p(-k * c), moved)
        slope = -0.5 * d * (math.log1p(k) - k / left) + 0.5 * shift * (2.0 * c + 1.0 - k * c * c) / left**2
        curvature = 0.5 * d * (k / left) ** 2 + shift * (1.0 + k) / left**3
        # Where 1 - k c cancels, it loses a factor 1/left.
        error = 32.0 * UNIT / min(left, 1.0) * (sum(map(abs, terms)) + 0.5 * d)
        return Cumulant(sum(terms), slope, curvature, error)

    def along(self, c: float, t: Vector) -> Along:
        """Return the factor along the line, with 1 - k s = (1 - k c) (1 - i w), w = k t/(1 - k c)."""
        k, d, shift = self.k, self.dimension, self.squared_shift
        left = 1.0 - k * c
        w = k / left * t
        log_modulus = self._log_modulus(left, t)
        turn, bend = 0.5 * d * math.log1p(k) * t, 0.5 * d * np.arctan(w)
        first = 0.5 * shift * (2.0 * c + 1.0 - k * c * c) / left**2 * t / (1.0 + w * w)
        second = 0.5 * shift * k / left**2 * t**3 / (1.0 + w * w)
        phase = bend - turn + first - second
        size = np.abs(turn) + np.abs(bend) + np.abs(first) + np.abs(second) - log_modulus
        return Along(log_modulus, phase, 64.0 * UNIT / min(left, 1.0) * size)

    def decay(self, c: float, lower: Vector, upper: Vector) -> Vector:
        """Return the largest modulus in each interval, at `lower`, since the modulus falls in t."""
        del upper
        left = 1.0 - self.k * c
        modulus = self._log_modulus(left, np.minimum(lower, 1e100))
        return np.minimum(modulus * (1.0 - 64.0 * UNIT / min(left, 1.0)), 0.0)

    def _log_modulus(self, left: float, t: Vector) -> Vector:
        """Return -(d/4) log(1 + w^2) - (shift/2) t^2 (1 + k)/(left^3 (1 + w^2)), at most 0."""
        w = self.k / left * t
        moved = 0.5 * self.squared_shift * (1.0 + self.k) / left**3 * t * t / (1.0 + w * w)
        return np.asarray(-0.25 * self.dimension * np.log1p(w * w) - moved)
