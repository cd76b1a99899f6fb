"""The privacy curve of one Gaussian pair, N(0, 1) against N(mu, 1), bounded from either side.

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8). Deliberately not the accountants' code, which bounds it from above and
as closely as doubles go: an audit that shared it could not find its faults, and a proof and an
experiment that rest on one function are not two pieces of evidence. Here each of the two terms is moved,
to the safe side, by far more than its rounding error.
"""

import math
from collections.abc import Callable

import scipy

#: Relative to a term, and to the magnitudes of its logarithm. scipy's log_ndtr and the exponential are
#: off by some 1e-15; a hundred times that is still negligible beside what an audit measures.
MARGIN = 1e-13
#: The largest bound on epsilon that is stated; it also stands for an infinite one.
LARGEST_EPSILON = 1e6


def delta_below(epsilon: float, mu: float) -> float:
    """A lower bound on delta(epsilon) of the pair; epsilon and mu finite, >= 0."""
    return max(0.0, _term(epsilon, mu, -1.0) - _other(epsilon, mu, 1.0)) if mu > 0.0 else 0.0


def delta_above(epsilon: float, mu: float) -> float:
    """An upper bound on delta(epsilon) of the pair, at most 1; above 0 also where the truth underflows."""
    return min(1.0, max(5e-324, _term(epsilon, mu, 1.0) - _other(epsilon, mu, -1.0))) if mu > 0.0 else 0.0


def epsilon_below(delta: float, mu: float) -> float:
    """A lower bound on the least epsilon that holds for the pair at `delta`; a positive delta below 1.

    It is 0 where rounding leaves no positive bound, and at most `LARGEST_EPSILON`.
    """
    return largest_rejected(lambda epsilon: delta_below(epsilon, mu) > delta)


def largest_rejected(too_small: Callable[[float], bool]) -> float:
    """About the largest epsilon that is too small, and so are all below it: one of them, or 0.

    It is at most `LARGEST_EPSILON`.
    """
    if not too_small(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while too_small(high):
        low, high = high, 2.0 * high
        if high > LARGEST_EPSILON:
            return low
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return low


def _term(epsilon: float, mu: float, side: float) -> float:
    return _exponential(float(scipy.special.log_ndtr(0.5 * mu - epsilon / mu)), 0.5 * mu + epsilon / mu, side)


def _other(epsilon: float, mu: float, side: float) -> float:
    argument = -0.5 * mu - epsilon / mu
    return _exponential(epsilon + float(scipy.special.log_ndtr(argument)), epsilon + abs(argument), side)


def _exponential(logarithm: float, size: float, side: float) -> float:
    """e^logarithm, moved to the side; `size` bounds the argument of the normal distribution function.

    The logarithm of Phi(-t) is at most t^2 + 1 in size, and an argument off by 1e-15 t moves it by about
    as much relative to t^2.
    """
    return math.exp(min(0.0, logarithm + side * MARGIN * (1.0 + size * size)))
