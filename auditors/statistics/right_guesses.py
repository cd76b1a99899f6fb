"""How many of an auditor's guesses about one run may be right under a privacy curve, and how many to make.

In one run each of m canaries is in the data or not by a fair coin of its own. After the run exactly r of the
coins are guessed, a number that is fixed before it; which ones and how may depend on all of the output. N is
the number of right guesses. The mechanism is f-DP for each coin: of two data sets that differ in one coin, an
event of probability y on either has at least the probability g(y) on the other. g, the inverse of 1 - f, is
nondecreasing and convex. Nothing else is supposed, least of all that canaries do not act on each other.

Lemma. Fix a coin l and the others. "l is guessed rightly, and N is in I" is an event of the output. Once l is
flipped, the same outputs are those where l is guessed wrongly and N + 1 is in I. Averaged over l and over all
coins the first has the probability (1/m) sum_I i P[N = i] and the second (1/m) sum_I (r-i+1) P[N = i-1]; by
convexity (Jensen) the second is at least g of the first.

Theorem 1 (after Mahloujifar, Melis and Chaudhuri 2024). Suppose P[N >= v] >= a. Let tail = a, right = v a,
and for j = v-1, ..., 0 in turn

    more = max(0, (m g(right / m) + right - r tail) / (r - j)),  tail += more,  right += j more.

Then tail <= P[N >= j] after each step, so that tail > 1 is a contradiction: P[N >= v] < a.
Proof. Write T = P[N >= j], R = sum_{i >= j} i P[N = i]. Throughout T >= tail and R - right >= j (T - tail):
at first because R >= v T. In a step both sides of the second grow by j times what T and tail grow by, and
before it R - right >= (j+1) (T - tail). The lemma with I = {j+1, ...} gives
(r - j) P[N = j] >= m g(R / m) + R - r T, so that after it T' - tail' >= (T - tail) (j + 1 - j) / (r - j). All
of this remains true where `more` and g are rounded down. The sums are integers here, and exact.

Theorem 2. Under (epsilon, delta)-DP, for X binomial of r trials at e^epsilon / (1 + e^epsilon),

    P[N >= v] <= P[X >= v] + m delta max_{1 <= k <= v} P[X >= v] P[X < k] / (k P[X = k]).

Proof. Let b_i = binom(r, i) e^(i epsilon), B their sum, so that P[X = i] = b_i / B, and u_i = P[N = i] / b_i.
As i b_i = e^epsilon (r-i+1) b_{i-1}, u_i - u_{i-1} <= m s_i / (i b_i) with
m s_i = max(0, i P[N = i] - e^epsilon (r-i+1) P[N = i-1]), and sum s_i <= delta by the lemma, I being where it
is positive. Sum u_i <= u_j + sum_{j < k <= i} m s_k / (k b_k), times b_i b_j / B, over i >= v > j:
P[N >= v] P[X < v] <= P[N < v] P[X >= v] + sum_k m s_k P[X >= max(k, v)] P[X < min(k, v)] / (k P[X = k]). The
terms of k > v are at most that of k = v, since P[X >= k] / P[X = k] falls with k.

With delta = 0 this is the bound of Steinke, Nasr and Jagielski 2023. It stands in place of their theorem 5.2,
P[X >= v] + 2 m delta max_i P[v > X >= v - i] / i, and is mostly smaller. That one fails for small v: at
m = r = 2, v = 1 and epsilon > ln 2 a mechanism exceeds it, and attains theorem 2.

Several independent runs are one run: each coin acts on one of them, which is f-DP for it, and the others are
noise beside it.

References:
    S. Mahloujifar, L. Melis, K. Chaudhuri. Auditing f-differential privacy in one run. ICML 2025,
    arXiv 2410.22235.
    T. Steinke, M. Nasr, M. Jagielski. Privacy auditing with one (1) training run. NeurIPS 2023.
"""

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy

from dpaudit.auditors.statistics.clopper_pearson import largest_refuted, require_fraction
from dpaudit.errors import InvalidParameter

#: From the probability of an event on one side to a lower bound on that on the other: g, rounded down.
Floor: TypeAlias = Callable[[float], float]

#: m, r and v: canaries, guesses and right guesses.
_Counts: TypeAlias = tuple[int, int, int]

#: Probabilities are integers over 2^200 in theorem 1; an error below 2^-100 is taken to be that.
_BITS = 200
_ONE = 1 << _BITS
_LEAST_ERROR = 2.0**-100
#: Relative. The normal distribution function, its inverse and exponentials are off by some 1e-15.
_MARGIN = 1e-13
#: Exponents are cut there, to the safe side; e^700 is finite.
_MOST_EXPONENT = 700.0


def gaussian_floor(mu: float) -> Floor:
    """g of mu-GDP: Phi(Phi^-1(y) - mu) (Dong, Roth and Su 2022, definition 2.6)."""

    def floor(y: float) -> float:
        quantile = float(scipy.special.ndtri(y))
        if math.isinf(quantile):
            return 0.0 if quantile < 0 else 1.0
        argument = quantile - mu - _MARGIN * (1.0 + abs(quantile) + mu)
        return float(scipy.special.ndtr(argument)) * (1.0 - _MARGIN * (1.0 + argument * argument))

    return lambda y: max(0.0, floor(y))


def approximate_floor(epsilon: float, delta: float) -> Floor:
    """g of (epsilon, delta)-DP: of the event, and of its complement on the other side."""
    up = math.exp(min(epsilon, _MOST_EXPONENT)) * (1.0 + _MARGIN)
    down = math.exp(-epsilon) * (1.0 - _MARGIN)
    return lambda y: max(0.0, (y - delta) * down, (1.0 - delta) * (1.0 - _MARGIN) - up * (1.0 - y))


def curve_floor(points: Sequence[tuple[float, float]]) -> Floor:
    """g of a mechanism that is (epsilon, delta)-DP at each of the points."""
    epsilons, deltas = (np.array(column) for column in zip(*points, strict=True))
    ups = np.exp(np.minimum(epsilons, _MOST_EXPONENT)) * (1.0 + _MARGIN)
    downs, most = np.exp(-epsilons) * (1.0 - _MARGIN), (1.0 - deltas) * (1.0 - _MARGIN)

    def floor(y: float) -> float:
        return max(0.0, float(np.max((y - deltas) * downs)), float(np.max(most - ups * (1.0 - y))))

    return floor


def beyond(canaries: int, guesses: int, correct: int, floor: Floor, error: float) -> bool:
    """Whether P[N >= v] is proved to be below `error`, by theorem 1.

    `floor` is g of the curve; 0 <= v <= r <= m, as in `one_run_p_value`. False proves nothing.
    """
    _require_counts(canaries, guesses, correct)
    tail = math.floor(math.ldexp(error, _BITS))
    right, last = correct * tail, _ONE
    for j in range(correct - 1, -1, -1):
        least = math.nextafter(right / (canaries * _ONE), 0.0)
        other = math.floor(math.ldexp(floor(least), _BITS))
        more = (canaries * other + right - guesses * tail) // (guesses - j)
        if more <= 0:  # steps of 0 stay 0
            return False
        tail += more
        if tail > _ONE:
            return True
        # Where steps shrink as many as are left hardly reach 1.
        if more < last and more * j < _ONE - tail:
            return False
        right, last = right + j * more, more
    return False


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """A bound on the probability of v right guesses under (epsilon, delta)-DP, by theorem 2.

    >>> f"{one_run_p_value(1000, 100, 90, 1.0, 0.0):.4e}"
    '2.7358e-05'

    With m canaries and r guesses, a number that is fixed before the run; `InvalidParameter` is raised for not
    0 <= v <= r <= m, or epsilon or delta out of range.
    """
    _require_counts(canaries, guesses, correct)
    require_fraction("delta", delta, zero=True)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InvalidParameter(f"epsilon {epsilon} is not a finite number >= 0", where="epsilon")
    if correct == 0:
        return 1.0
    odds = math.exp(-epsilon)
    # The least positive number stands for what underflows.
    known = max(5e-324, float(scipy.special.bdtrc(correct - 1, guesses, 1 / (1 + odds))))
    below, steepest = 0.0, 0.0  # P[X < k] / P[X = k], and the largest such ratio over k
    for k in range(1, correct + 1) if delta > 0 else ():
        below = (1 + below) * k * odds / (guesses - k + 1)
        steepest = max(steepest, below / k)
    return min(1.0, known * (1 + canaries * delta * steepest) * (1 + 1e-9))


@dataclass(frozen=True)
class Hypothesis:
    """A privacy curve: `floor` is its g, and each of `points`, pairs (epsilon, delta), is implied by it.

    Both theorems bound the same tail of the same count, so that the lesser bound is one, too.
    """

    floor: Floor
    points: tuple[tuple[float, float], ...] = ()

    def refuted(self, canaries: int, guesses: int, correct: int, error: float) -> bool:
        """Whether so many right guesses have at most the probability `error`."""
        counts = (canaries, guesses, correct)
        return any(one_run_p_value(*counts, *point) <= error for point in self.points) or beyond(
            *counts, self.floor, error
        )

    def p_value(self, canaries: int, guesses: int, correct: int) -> float:
        """A bound on the probability of so many right guesses, or more."""
        counts = (canaries, guesses, correct)
        known = min((one_run_p_value(*counts, *point) for point in self.points), default=1.0)
        # By bisection on a logarithmic scale; each number that is kept is one that is proved.
        low, high = math.log(_LEAST_ERROR), math.log(known) if known > _LEAST_ERROR else -math.inf
        best = known
        while high - low > 1e-6:
            middle = (low + high) / 2
            if beyond(*counts, self.floor, math.exp(middle)):
                high, best = middle, math.exp(middle)
            else:
                low = middle
        return best


@dataclass(frozen=True)
class Family:
    """Privacy curves in one parameter, each implied by those of smaller parameters.

    (epsilon, delta)-DP by epsilon at one `delta`, which supposes nothing of the mechanism; mu-GDP by mu where
    that is None.
    """

    delta: float | None = None

    def member(self, parameter: float) -> Hypothesis:
        """The curve of one epsilon or mu, >= 0."""
        if self.delta is None:
            return Hypothesis(gaussian_floor(parameter))
        return Hypothesis(approximate_floor(parameter, self.delta), ((parameter, self.delta),))


#: Between two of these one number of guesses is planned; no larger parameter is refuted.
EDGES = (0.0, *(0.05 * 1.2**k for k in range(38)), 50.0)
#: How many guesses test a parameter: a number that is fixed before the scores are looked at.
GuessPlan: TypeAlias = Callable[[float], int]


def planned(family: Family, canaries: int, error: float) -> GuessPlan:
    """A plan for each member of a family: one number of guesses between two of `EDGES`, by `best_count`."""
    return lambda parameter: _planned(family, bisect_right(EDGES[:-1], parameter), canaries, error)


@functools.lru_cache(maxsize=4096)
def _planned(family: Family, edge: int, canaries: int, error: float) -> int:
    return best_count(family.member(EDGES[edge]), canaries, error)


def best_count(hypothesis: Hypothesis, canaries: int, error: float) -> int:
    """The number of guesses that refutes a curve by the weakest Gaussian leak; the most where none can.

    Of scores N(mu, 1) of the canaries that are in and N(0, 1) of the others, r of m are guessed, the clearest
    on either end, with a share s of right guesses: mu = Phi^-1(s r/m) - Phi^-1((1 - s) r/m). The least clear
    are never guessed: at most m/sqrt(2) are. All that only makes the test powerful; it is valid whatever the
    scores are.
    """
    candidates = [max(1, round(canaries * 2 ** (-k / 2))) for k in range(1, 2 * canaries.bit_length())]
    best, least = candidates[0], math.inf
    for guesses in candidates:
        likely = range(guesses // 2, guesses + 1)
        enough = functools.partial(_refuted_by, hypothesis, canaries, guesses, error)
        correct = likely.start + bisect_left(likely, x=True, key=enough)
        if correct > guesses:
            continue
        share = float(scipy.special.betaincinv(correct, guesses - correct + 1, 0.5))
        parts = np.array([share, 1 - share]) * guesses / canaries
        leak = float(np.subtract(*scipy.special.ndtri(parts)))
        if leak < least:
            best, least = guesses, leak
    return best


def _refuted_by(hypothesis: Hypothesis, canaries: int, guesses: int, error: float, correct: int) -> bool:
    return hypothesis.refuted(canaries, guesses, correct, error)


def largest_parameter(
    family: Family, plan: GuessPlan, canaries: int, correct: Callable[[int], int], error: float
) -> tuple[float, int]:
    """The parameter below which all members are refuted, each by its own count, and the count of the last.

    `correct` is the number of right guesses by the number of guesses. The bound exceeds a true parameter only
    where the count that was planned for that parameter refutes it: with probability at most `error`.
    """
    bound, counted = 0.0, plan(0.0)
    for low, top in pairwise(EDGES):
        guesses = plan(low)
        counts = (canaries, guesses, correct(guesses))

        def refuted(share: float, low: float = low, top: float = top, counts: _Counts = counts) -> bool:
            parameter = top if share == 1.0 else low + share * (top - low)
            return family.member(parameter).refuted(*counts, error)

        if refuted(1.0):
            bound, counted = top, guesses
            continue
        share = largest_refuted(refuted, 1.0, 30)
        return (low + share * (top - low), guesses) if share > 0 else (bound, counted)
    return bound, counted


def _require_counts(canaries: int, guesses: int, correct: int) -> None:
    if not (0 <= correct <= guesses <= canaries and canaries >= 1):
        what = f"{correct} right of {guesses} guesses about {canaries} canaries"
        raise InvalidParameter(what, where="one_run", remedy="give 0 <= correct <= guesses <= canaries")
