"""Exact binomial bounds, and the largest epsilon that a number of trials can refute.

C. J. Clopper, E. S. Pearson. The use of confidence or fiducial limits illustrated in the case of the
binomial. Biometrika 26, 1934. Numbers out of range raise `InvalidParameter`.
"""

import math
from bisect import bisect_left
from collections.abc import Callable

import scipy

from dpaudit.errors import InvalidParameter

#: Relative error allowed for in the inverse of the incomplete beta function.
_ROUNDING = 1e-12


def proportion_lower(successes: int, trials: int, error: float) -> float:
    """Return a lower bound on a proportion that fails with probability at most `error`.

    >>> round(proportion_lower(300, 1000, 0.025), 6)
    0.271721
    """
    _check(successes, trials, error)
    if successes == 0:
        return 0.0
    return float(scipy.special.betaincinv(successes, trials - successes + 1, error)) * (1 - _ROUNDING)


def proportion_upper(successes: int, trials: int, error: float) -> float:
    """Return an upper bound on a proportion that fails with probability at most `error`.

    >>> round(proportion_upper(100, 1000, 0.025), 6)
    0.120288
    """
    _check(successes, trials, error)
    if successes == trials:
        return 1.0
    # The bound on the failures' proportion from below, so that small errors keep their digits.
    share = float(scipy.special.betaincinv(successes + 1, trials - successes, 1 - error))
    return min(1.0, share * (1 + _ROUNDING))


def epsilon_lower(
    successes_p: int, trials_p: int, successes_q: int, trials_q: int, delta: float, error: float
) -> float:
    """Return a lower bound on epsilon at `delta` from the counts of one event on both sides.

    Of `trials_p` runs on the data the event happened in `successes_p`, of `trials_q` runs on the neighbour in
    `successes_q`; it must not have been chosen on these runs. (epsilon, delta)-DP implies
    p <= e^epsilon q + delta for every event; half of the error, the probability with which the bound may
    fail, is spent on bounding p from below, half on q from above: max(0, log((p_low - delta) / q_high)).

    >>> round(epsilon_lower(300, 1000, 100, 1000, delta=1e-5, error=0.05), 5)
    0.81485
    """
    require_fraction("delta", delta, zero=True)
    low = proportion_lower(successes_p, trials_p, error / 2)
    high = proportion_upper(successes_q, trials_q, error / 2)
    return math.log((low - delta) / high) if low - delta > high else 0.0


def largest_refutable_epsilon(trials: int, delta: float, confidence: float) -> float:
    """Return the largest epsilon that any outcome of `trials` held-out trials a side can refute.

    The best outcome is an event in every run on the one side and in none on the other.

    >>> round(largest_refutable_epsilon(10_000, 1e-5, 0.95), 4)
    7.9048
    """
    require_fraction("delta", delta, zero=True)
    return epsilon_lower(trials, trials, 0, trials, delta, 1 - confidence)


def trials_needed(epsilon: float, delta: float, confidence: float) -> int:
    """Return the least number of held-out trials a side with which an outcome can refute epsilon at `delta`.

    >>> [trials_needed(epsilon, 0.0, 0.95) for epsilon in (1.0, 2.0, 4.0, 8.0)]
    [12, 30, 204, 10999]
    """
    require_fraction("delta", delta, zero=True)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InvalidParameter(f"epsilon {epsilon} is not a finite number >= 0", where="epsilon")
    require_fraction("confidence", confidence)
    # r = (error/2)^(1/n) must satisfy r - delta >= e^epsilon (1 - r).
    short = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return math.ceil(math.log((1 - confidence) / 2) / math.log1p(-short))


def least_enough(enough: Callable[[int], bool], first: int, most: int) -> int | None:
    """Return the least number that is enough, by doubling from `first` and bisection; None above `most`.

    If k is enough every larger number must be.
    """
    high = first
    while not enough(high):
        high *= 2
        if high > most:
            return None
    return bisect_left(range(high), x=True, lo=high // 2 + 1, key=enough)


def largest_refuted(refuted: Callable[[float], bool], highest: float, steps: int) -> float:
    """The largest number in [0, highest] that is refuted like all below it, by bisection; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    if refuted(highest):
        return highest
    low, high = 0.0, highest
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def require_fraction(name: str, value: float, *, zero: bool = False) -> None:
    """Raise `InvalidParameter` for a number outside (0, 1), or outside [0, 1) where 0 is allowed."""
    if not (0 < value < 1 or (zero and value == 0)):
        interval = "[0, 1)" if zero else "(0, 1)"
        what, remedy = f"{name} {value} is not in {interval}", f"give a number in {interval}"
        raise InvalidParameter(what, where=name, remedy=remedy)


def _check(successes: int, trials: int, error: float) -> None:
    if not 0 <= successes <= trials or trials < 1:
        raise InvalidParameter(f"{successes} successes of {trials} trials", where="successes")
    require_fraction("error", error)
