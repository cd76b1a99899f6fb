"""Sparse vector with Gaussian noise: its Renyi divergences, from its outcomes or from all noisy values."""

import functools
import itertools
import math
from fractions import Fraction

from dpaudit.accountants.closed_forms.conversions import ROUNDING
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.mechanisms import dominating

_EXACT_STEPS = 4096  # up to this number of steps, the number of outcomes is an exact binomial sum


def sparse_log_moment(pair: dominating.SparseGaussian, t: float) -> float:
    """Return the smaller of two upper bounds on t times the divergence of order 1 + t.

    Proof of the first. Move the threshold along by b, the largest move of a value in one direction; the
    values move by d_i. Write z for the threshold's noise, F and S for the probabilities of no and yes, primes
    for the neighbour's probabilities. By joint convexity the outcome o contributes at most the integral over
    z of p(z)^(1+t) p(z+b)^-t times a product over its noes of F^(1+t) F'^-t and over its yeses of S^(1+t)
    S'^-t. As F' >= F, the first factors are at most 1. A yes depends on noise that moves by b - d_i, so its
    factor is at most e^(t times its divergence). The rest does not depend on the outcome; there are N
    outcomes.

    The second: the noisy values, compared afterwards, are Gaussian releases.
    """
    answers = min(pair.answers, pair.steps)
    both = t * (t + 1.0) / 2.0 if t < 1e150 else math.inf
    outcomes = up(pair.threshold**2 + answers * pair.against**2) * both + log_outcomes(answers, pair.steps)
    values = up(pair.alone**2 * pair.steps) * both if pair.alone else 0.0
    return min(outcomes, values) * (1.0 + ROUNDING)


@functools.lru_cache(maxsize=256)
def log_outcomes(answers: int, steps: int) -> float:
    """Return an upper bound on the log number of sequences of `steps` with at most `answers` yeses.

    A sequence that ended at its last yes is counted with noes after it. If `answers` is at least half of
    `steps`, all sequences count. For more than `_EXACT_STEPS` steps: (e steps/answers) to the power of
    answers.
    """
    if 2 * answers >= steps:
        found = steps * math.log(2.0)
    elif steps <= _EXACT_STEPS:
        found = math.log(
            sum(itertools.accumulate(range(answers), lambda n, i: n * (steps - i) // (i + 1), initial=1))
        )
    else:
        found = answers * (1.0 + math.log(Fraction(steps, answers)))
    return found * (1.0 + ROUNDING)
