"""Private selection: the divergences of the best of a random number of trials, from one trial's divergences.

Let f be the generating function of K, and q, q' the probabilities of at most a given score. An output with
probabilities p, p' in one trial has p f'(q) and p' f'(q'), averaged equally over ties. By joint convexity the
moment of the best is at most the trial's times the largest f'(q)^alpha f'(q')^(1 - alpha) that its privacy
allows, plus P(K = 0) (Papernot and Steinke 2022, Lemma 7, Theorems 2 and 6).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from dpaudit.accountants.closed_forms.conversions import ROUNDING
from dpaudit.accountants.closed_forms.search import minimum
from dpaudit.mechanisms.selecting.tuning import NegativeBinomial, Poisson

_FURTHEST = 60.0  # logarithm of the largest order tried


def selected_log_moment(
    repetitions: NegativeBinomial | Poisson, trial: Callable[[float], float], pure: float
) -> Callable[[float], float]:
    """Return t -> an upper bound on t times the divergence of order 1 + t of the best trial.

    `trial` is the same for one trial, in either order of the data sets; `pure` is its epsilon, or infinite.
    """
    if isinstance(repetitions, Poisson):
        return functools.partial(_poisson, repetitions.mean, trial)
    mean = _up(math.log(repetitions.mean))
    constant = (1.0 + repetitions.eta) * _cheapest(trial, pure, -math.log(repetitions.gamma))

    def moment(t: float) -> float:
        return _up(trial(t) + t * constant * (1.0 + ROUNDING) + mean)

    return moment


def _cheapest(trial: Callable[[float], float], pure: float, log_inverse: float) -> float:
    """Return the least (1 - 1/b) epsilon(b) + log(1/gamma)/b over orders b; b = 1 and infinity are known."""

    def cost(log_t: float) -> float:
        t = math.exp(log_t)
        return (trial(t) + log_inverse) / (1.0 + t)

    return _up(min(_least(cost), pure, log_inverse))


def _poisson(mean: float, trial: Callable[[float], float], t: float) -> float:
    # Rounded down: a smaller epsilon has a larger delta.
    epsilon = math.log1p(1.0 / t) * (1.0 - ROUNDING)
    moment = trial(t) + t * mean * curve(trial, epsilon) + math.log(mean)
    # log(e^moment + e^-mean); the second term is for no trial at all.
    return _up(moment + math.log1p(math.exp(-mean - moment)))


def curve(moment: Callable[[float], float], epsilon: float) -> float:
    """Return delta at epsilon that log moments imply (Canonne, Kamath and Steinke 2020, Proposition 12)."""

    def log_delta(log_t: float) -> float:
        t = math.exp(log_t)
        terms = (moment(t), -t * epsilon, -t * math.log1p(1.0 / t), -math.log1p(t))
        return sum(terms) + ROUNDING * sum(map(abs, terms))

    best = _least(log_delta)
    return 1.0 if best >= 0.0 else math.exp(best) * (1.0 + ROUNDING)


def _least(function: Callable[[float], float]) -> float:
    """Return a value near the least of a function of log t with one minimum, infinite only to its right."""
    here = 0.0
    while not (at_here := function(here)) < math.inf and here > -_FURTHEST:
        here -= 1.0
    for side in (-1.0, 1.0):
        while abs(here) < _FURTHEST and (beside := function(here + side)) < at_here:
            here, at_here = here + side, beside
    found = minimum(lambda x: min(function(x), 1e300), here - 1.0, here + 1.0, 1e-4)
    return min(at_here, function(found))


def _up(figure: float) -> float:
    return figure + ROUNDING * (1.0 + abs(figure))
