"""One run, many canaries: an audit of algorithms that are too expensive to run again.

m canaries are each put in or left out by a fair coin before the one run. Afterwards the auditor guesses
r of the coins, abstaining from the others. Under (epsilon, delta)-DP the number v of right guesses is,
up to a term in delta, no larger than a binomial of r trials at e^epsilon / (1 + e^epsilon).

References:
    T. Steinke, M. Nasr, M. Jagielski. Privacy auditing with one (1) training run. NeurIPS 2023,
    theorem 5.2: P[V >= v] <= P[X >= v] + 2 m delta max_i P[v > X >= v - i] / i.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.random import SeedSequence
from numpy.typing import NDArray

from dpaudit.auditors.sampling.elsewhere import in_trials, unnamed
from dpaudit.auditors.sampling.scores import flatten
from dpaudit.auditors.sampling.trial import Auditable, Side, require_seed
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, PrivacyCurve, claimed_points
from dpaudit.auditors.statistics.clopper_pearson import least_enough, require_fraction
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array
from dpaudit.processes.hosted import Hosted

_LARGEST = 50.0
#: The largest number of guesses that is considered feasible.
_MOST_GUESSES = 2**14
#: The share of the canaries that is guessed by default: the clearest tenth on either end.
GUESSED = 0.2
#: Coins are drawn independently of every trial's noise, whose sides are 0 and 1.
_COINS = 2
LIMITS = (Condition(code=Code.INDEPENDENT_CANARIES), Condition(code=Code.CANARIES_TIMES_DELTA))


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """A bound on the probability of v right guesses under (epsilon, delta)-DP.

    >>> f"{one_run_p_value(1000, 100, 90, 1.0, 0.0):.4e}"
    '2.7358e-05'

    With m canaries and r guesses, a number that is fixed before the run; `InvalidParameter` is raised for not
    0 <= v <= r <= m, or epsilon or delta out of range.
    """
    if not (0 <= correct <= guesses <= canaries and canaries >= 1):
        what = f"{correct} right of {guesses} guesses about {canaries} canaries"
        raise InvalidParameter(what, where="one_run", remedy="give 0 <= correct <= guesses <= canaries")
    require_fraction("delta", delta, zero=True)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise InvalidParameter(f"epsilon {epsilon} is not a finite number >= 0", where="epsilon")
    if correct == 0:
        return 1.0
    right = 1 / (1 + math.exp(-epsilon))
    beyond = float(scipy.special.bdtrc(correct - 1, guesses, right))
    below = np.arange(1, correct + 1)  # i
    within = np.cumsum(_binomial(guesses, correct - below, epsilon))  # P[v > X >= v - i]
    steepest = float(np.max(within / below))
    return min(1.0, (beyond + 2 * canaries * delta * steepest) * (1 + 1e-9))


def _binomial(trials: int, successes: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """Upper bounds on the probabilities of so many successes at e^epsilon / (1 + e^epsilon)."""
    whole, parts = scipy.special.gammaln(trials + 1.0), (successes + 1.0, trials - successes + 1.0)
    chosen = whole - scipy.special.gammaln(parts[0]) - scipy.special.gammaln(parts[1])
    powers = trials * math.log1p(math.exp(-epsilon)) + (trials - successes) * epsilon
    # gammaln is taken to be within 16 u, relative; no other term is less exact.
    return np.exp(chosen - powers + 2.0**-49 * (3.0 * whole + powers))


def one_run_epsilon_lower(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The largest epsilon that so many right guesses refute at `delta`.

    >>> round(one_run_epsilon_lower(1000, 100, 90, 0.0, 0.05), 5)
    1.63082
    """
    require_fraction("error", error)

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) <= error

    # Whatever refutes epsilon refutes every smaller one, the stronger claims: search upwards. (The
    # p-value need not be monotone where delta > 0; every epsilon it refutes may be taken as the bound.)
    if not refuted(0.0):
        return 0.0
    low, step = 0.0, 0.25
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
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Guess which canaries were in the one run, and bound epsilon by the number of right guesses.

    From scores [m], higher where the canary looks as if it had been in, and coins `included` [m], each fair
    and independent of everything else. The highest `guess_in` scores are guessed in and the lowest
    `guess_out` are guessed out: numbers that must be fixed before the run. The other arguments are those of
    `threshold`, and the run's root seed. `DataError` is raised where scores and coins differ in shape, or a
    score is NaN; `InvalidParameter` for more guesses than canaries, or none at all.
    """
    require_fraction("confidence", confidence)
    values, coins = np.asarray(scores, dtype=np.float64), np.asarray(included)
    if values.ndim != 1 or coins.shape != values.shape or coins.dtype != np.bool_ or np.isnan(values).any():
        what = f"scores of shape {values.shape}, coins of shape {coins.shape} and type {coins.dtype}"
        why = "each canary has one score and one coin"
        raise DataError(what, where="one_run", why=why, remedy="give scores [m] without NaN and booleans [m]")
    m, guesses = len(values), guess_in + guess_out
    about = f"about {m} canar{'y' if m == 1 else 'ies'}"
    if guess_in < 0 or guess_out < 0 or not 1 <= guesses <= m:
        what = f"{guess_in} and {guess_out} guesses {about}"
        raise InvalidParameter(what, where="one_run", remedy="guess 1 to all of them")
    order = np.argsort(values, kind="stable")
    correct = int(np.sum(coins[order[m - guess_in :]])) + int(np.sum(~coins[order[:guess_out]]))
    points = claimed_points(claim, curve, delta)
    error = 1 - confidence
    p_value: float | None = None
    inconclusive: tuple[str, ...] = ()
    if claim is not None:
        # Each point bounds the same tail of the same count: the least bound is one, too.
        p_value = min(one_run_p_value(m, guesses, correct, *pair) for pair in points.pairs)
        if min(one_run_p_value(m, guesses, guesses, *pair) for pair in points.pairs) > error:
            least = _guesses_needed(m / guesses, points, error)
            useless = f"{guesses} guesses {about} can refute no point of the claim, even if all are right"
            inconclusive = (f"{useless}; {least}",)
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
        event=f"{correct} of {guesses} guesses {about} are right",
        inconclusive=inconclusive,
        not_checked=LIMITS,
    )


def _guesses_needed(ratio: float, points: ClaimedPoints, error: float) -> str:
    """How many guesses it takes if all are right, with as many canaries a guess, as the end of a sentence."""

    def enough(guesses: int) -> bool:
        canaries = max(guesses, round(ratio * guesses))
        return min(one_run_p_value(canaries, guesses, guesses, *pair) for pair in points.pairs) <= error

    # More canaries also mean a larger term in delta: there may be no number that is enough.
    least = least_enough(enough, 1, _MOST_GUESSES)
    if least is None:
        return f"nor can {_MOST_GUESSES} guesses about {round(ratio * _MOST_GUESSES)}"
    return f"it takes at least {least} guesses about {max(least, round(ratio * least))}"


@dataclass(frozen=True)
class Canaries:
    """A `number` of records, m, each in the data or not, and each a unit of privacy of its own."""

    number: int
    #: From m booleans to the data set that holds exactly these canaries. For a claim under replace-one, a
    #: canary that is out is replaced by another record.
    insert: Callable[[NDArray[np.bool_]], Any]
    score: Callable[[Any], Any]  # from the output to [m] numbers, higher where a canary seems to be in


def coin_relation(claim: Claim | None) -> Neighbouring:
    """The relation of two data sets that differ in one coin: the claim's, or adding or removing a canary."""
    return (claim and claim.neighbouring) or Neighbouring.ADD_OR_REMOVE_ONE


def audit_in_one_run(
    algorithm: Auditable,
    canaries: Canaries,
    *,
    guesses: int | None = None,
    claim: Claim | None = None,
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    run_options: Mapping[str, Any] | None = None,
) -> Audit:
    """Toss the coins, run the algorithm once, guess the coins.

    By default a fifth of the coins is guessed, half of them "in". A claim without a relation is
    taken to be about that of a coin: adding or removing a unit. The root seed is that of the coins and of the
    run; the other arguments and the errors are those of `audit_by_sampling` and `one_run`.
    """
    m = canaries.number
    if m < 1:
        raise InvalidParameter(f"{m!r} canaries", where="canaries", remedy="put in 1 or more")
    guessed = max(1, round(GUESSED * m)) if guesses is None else guesses
    coins = np.random.default_rng(SeedSequence((require_seed(seed), _COINS))).random(m) < 0.5
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    relation = coin_relation(claim)
    if claim is not None:
        claim = claim.model_copy(update={"neighbouring": relation})
    options = {"neighbouring": relation, **(run_options or {})}
    if isinstance(algorithm, Hosted):
        run = algorithm.host.call(unnamed, _scores, algorithm, canaries, coins, seed, options)
        scores = in_trials(run, seed, 0, 0, 1)
    else:
        scores = _scores(algorithm, canaries, coins, seed, options)
    judged: Any = {"claim": claim, "curve": curve, "delta": delta, "confidence": confidence, "seed": seed}
    return one_run(scores, coins, guess_in=(guessed + 1) // 2, guess_out=guessed // 2, **judged)


def _scores(
    algorithm: Auditable, canaries: Canaries, coins: NDArray[np.bool_], seed: int, options: Mapping[str, Any]
) -> Array:
    """The canaries' scores [m] after the one run."""
    side = Side(algorithm, canaries.insert(coins), 0, seed, canaries.score, options=options)
    return np.atleast_1d(flatten(side.one(0)))
