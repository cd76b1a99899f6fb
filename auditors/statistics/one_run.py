"""One run, many canaries: for algorithms too dear to run again.

m canaries are each put in or left out by a fair coin before the one run. Afterwards the auditor guesses
r of the coins, abstaining from the others. Under (epsilon, delta)-DP the number v of right guesses is,
up to a term in delta, no larger than a binomial of r trials at e^epsilon / (1 + e^epsilon).

References:
    T. Steinke, M. Nasr, M. Jagielski. Privacy auditing with one (1) training run. NeurIPS 2023,
    theorem 5.2: P[V >= v] <= P[X >= v] + 2 m delta max_i P[v > X >= v - i] / i.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc
from scipy.stats import binom

from dpaudit.auditors.sampling.samples import Array
from dpaudit.auditors.statistics.claim_points import Curve, claimed_points
from dpaudit.auditors.statistics.threshold import check_confidence
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.errors import DataError, InvalidParameter

_LARGEST = 50.0
#: Past so many, nobody puts in canaries.
_MOST_GUESSES = 2**14
LIMITS = (Condition(code=Code.INDEPENDENT_CANARIES), Condition(code=Code.CANARIES_TIMES_DELTA))


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """A bound on the probability of so many right guesses under (epsilon, delta)-DP.

    >>> f"{one_run_p_value(1000, 100, 90, 1.0, 0.0):.4e}"
    '2.7358e-05'

    Args:
        canaries: m, how many coins were tossed.
        guesses: r, how many were guessed; fixed before the run.
        correct: v, how many guesses were right.
        epsilon: claimed.
        delta: claimed.

    Raises:
        InvalidParameter: not 0 <= correct <= guesses <= canaries, or epsilon or delta out of range.
    """
    if not (0 <= correct <= guesses <= canaries and canaries >= 1):
        raise InvalidParameter(
            f"{correct} right of {guesses} guesses about {canaries} canaries", where="one_run"
        )
    if not (math.isfinite(epsilon) and epsilon >= 0 and 0 <= delta < 1):
        raise InvalidParameter(f"epsilon {epsilon}, delta {delta}", where="one_run")
    if correct == 0:
        return 1.0
    right = 1 / (1 + math.exp(-epsilon))
    beyond = float(bdtrc(correct - 1, guesses, right))
    below = np.arange(1, correct + 1)  # i
    within = np.cumsum(binom.pmf(correct - below, guesses, right))  # P[v > X >= v - i]
    steepest = float(np.max(within / below))
    return min(1.0, (beyond + 2 * canaries * delta * steepest) * (1 + 1e-9))


def one_run_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The largest epsilon that so many right guesses refute at `delta`.

    >>> round(one_run_epsilon_lower(1000, 100, 90, 0.0, 0.05), 5)
    1.63082

    Raises:
        InvalidParameter: as `one_run_p_value`, or an error outside (0, 1).
    """
    check_confidence(error)

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) <= error

    # Whatever refutes epsilon refutes every smaller one, the stronger claims: climb from below. (The
    # p-value need not be monotone where delta > 0; every epsilon it refutes may be taken as the bound.)
    low, step = 0.0, 0.25
    if not refuted(0.0):
        return 0.0
    while step > 1e-7:
        if low + step <= _LARGEST and refuted(low + step):
            low += step
        else:
            step /= 2
    return low


def one_run(
    scores: Array,
    included: NDArray[np.bool_],
    *,
    guess_in: int,
    guess_out: int,
    claim: Claim | None = None,
    curve: Curve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Guess which canaries were in the one run, and bound epsilon by how many guesses are right.

    Args:
        scores: [m], higher where the canary looks as if it had been in.
        included: [m], the coins; each fair and independent of everything else.
        guess_in: how many of the highest scores are guessed in; fixed before the run.
        guess_out: how many of the lowest are guessed out; fixed before the run.
        claim: what to refute, if anything.
        curve: delta(epsilon) of the claimed guarantee; needed for zCDP, GDP and RDP.
        delta: where to state the bound; left out, the claim's, or 1e-5.
        confidence: with at least this probability the bound holds and a true claim is not refuted.
        seed: the run's root seed.

    Raises:
        DataError: scores and coins differ in shape, or a score is NaN.
        InvalidParameter: more guesses than canaries, none at all, or a parameter out of range.
    """
    check_confidence(confidence)
    values, coins = np.asarray(scores, dtype=np.float64), np.asarray(included)
    if values.ndim != 1 or coins.shape != values.shape or coins.dtype != np.bool_ or np.isnan(values).any():
        raise DataError(
            f"scores of shape {values.shape}, coins of shape {coins.shape} and type {coins.dtype}",
            where="one_run",
            why="each canary has one score and one coin",
            remedy="give scores [m] without NaN and booleans [m]",
        )
    m, guesses = len(values), guess_in + guess_out
    if guess_in < 0 or guess_out < 0 or not 1 <= guesses <= m:
        raise InvalidParameter(f"{guess_in} and {guess_out} guesses about {m} canaries", where="one_run")
    order = np.argsort(values, kind="stable")
    correct = int(np.sum(coins[order[m - guess_in :]])) + int(np.sum(~coins[order[:guess_out]]))
    points = claimed_points(claim, curve, delta)
    pairs = list(zip(points.epsilons.tolist(), points.deltas.tolist(), strict=True))
    error = 1 - confidence
    p_value: float | None = None
    inconclusive: tuple[str, ...] = ()
    if claim is not None:
        # Each point bounds the same tail of the same count: the least bound is one, too.
        p_value = min(one_run_p_value(m, guesses, correct, *pair) for pair in pairs)
        if min(one_run_p_value(m, guesses, guesses, *pair) for pair in pairs) > error:
            reason = (
                f"{guesses} guesses about {m} canar{'y' if m == 1 else 'ies'} can refute no point of "
                f"the claim, even if all of them are right; {_guesses_needed(m / guesses, pairs, error)}"
            )
            inconclusive = (reason,)
    return Audit(
        method="one-run",
        claim=claim,
        pairs=0,
        trials=m,
        seed=seed,
        about="final-output",
        epsilon_lower=one_run_epsilon_lower(m, guesses, correct, points.report_delta, error),
        epsilon_claimed=points.report_epsilon,
        delta=points.report_delta,
        confidence=confidence,
        p_value=p_value,
        largest_refutable_epsilon=one_run_epsilon_lower(m, guesses, guesses, points.report_delta, error),
        event=f"{correct} of {guesses} guesses about {m} canar{'y' if m == 1 else 'ies'} are right",
        inconclusive=inconclusive,
        not_checked=LIMITS,
    )


def _guesses_needed(ratio: float, pairs: Sequence[tuple[float, float]], error: float) -> str:
    """How many guesses it takes if all are right, with as many canaries a guess, in words."""

    def enough(guesses: int) -> bool:
        canaries = max(guesses, round(ratio * guesses))
        return min(one_run_p_value(canaries, guesses, guesses, *pair) for pair in pairs) <= error

    high = 1
    while not enough(high):
        high *= 2
        # More canaries also mean a larger term in delta: there may be no number that is enough.
        if high > _MOST_GUESSES:
            return f"nor can {_MOST_GUESSES} guesses about {round(ratio * _MOST_GUESSES)}"
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return f"it takes at least {high} guesses about {max(high, round(ratio * high))}"
