"""One run, many canaries: an audit of algorithms that are too expensive to run again.

m canaries are each put in or left out by a fair coin before the one run. Afterwards the auditor guesses
r of the coins, abstaining from the others. `dpaudit.auditors.statistics.right_guesses` bounds the number of
right guesses under a privacy curve, with the theorems and their conditions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.random import SeedSequence
from numpy.typing import NDArray

from dpaudit.auditors.sampling.elsewhere import in_trials, unnamed
from dpaudit.auditors.sampling.scores import flatten
from dpaudit.auditors.sampling.trial import Auditable, Side, require_seed
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, Judged, PrivacyCurve, claimed_points
from dpaudit.auditors.statistics.clopper_pearson import least_enough, require_fraction
from dpaudit.auditors.statistics.gaussian_pair import epsilon_below
from dpaudit.auditors.statistics.right_guesses import (
    Family,
    GuessPlan,
    Hypothesis,
    best_count,
    curve_floor,
    largest_parameter,
    planned,
)
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.clipping import require_unmasked
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array
from dpaudit.processes.hosted import Hosted

#: The largest number of guesses that is considered feasible.
_MOST_GUESSES = 2**14
#: Coins are refused if fair coins would be so uneven with at most this probability.
_UNFAIR = 1e-9
#: Coins, and the order of equal scores, are drawn independently of every trial's noise, whose sides are 0, 1.
_COINS, _TIES = 2, 3
LIMITS = (Condition(code=Code.INDEPENDENT_CANARIES),)

#: One run's [m], or one of each of several runs.
Scores: TypeAlias = Array | Sequence[Array]
Coins: TypeAlias = NDArray[np.bool_] | Sequence[NDArray[np.bool_]]


def one_run(
    scores: Scores,
    included: Coins,
    *,
    guesses: int | None = None,
    claim: Claim | None = None,
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> Audit:
    """Guess which canaries were in the one run, and test a claim by the number of right guesses.

    `scores` [m] are higher for canaries that seem to be included, and the coins `included` [m] are fair and
    independent of everything else. Lists of such arrays describe several independent runs; their canaries
    are pooled by their ranks in their own runs. The highest scores are guessed as included, the lowest as
    excluded, equally many; `seed` draws the order of equal scores.

    `guesses` is the number of guesses, fixed before the run. By default it is chosen for the tested claim,
    and for each epsilon or mu that a bound refutes, never by the scores. For a GDP claim the bound is on mu,
    otherwise on epsilon at `delta`; neither assumes anything about the mechanism. The other arguments are as
    in `threshold`.

    Raises `DataError` if scores and coins differ in shape, a score is NaN or the coins are implausible for
    fair coins; raises `InvalidParameter` for no guesses or more guesses than canaries.
    """
    require_fraction("confidence", confidence)
    standings, coins = _pooled(
        scores, included, np.random.default_rng(SeedSequence((require_seed(seed), _TIES)))
    )
    m, error = len(coins), 1 - confidence
    about = f"about {m} canar{'y' if m == 1 else 'ies'}"
    if guesses is not None and not 1 <= guesses <= m:
        raise InvalidParameter(f"{guesses} guesses {about}", where="guesses", remedy="guess 1 to all of them")
    order = np.argsort(standings, kind="stable")
    highest, lowest = np.cumsum(coins[order[::-1]]), np.cumsum(~coins[order])

    def correct(count: int) -> int:
        return int(highest[(count + 1) // 2 - 1]) + (int(lowest[count // 2 - 1]) if count > 1 else 0)

    tested = _Tested.of(claim, claimed_points(claim, curve, delta), m, error, guesses)
    bound, count = largest_parameter(tested.family, tested.plan, m, correct, error)
    most, _ = largest_parameter(tested.family, tested.plan, m, lambda all_of_them: all_of_them, error)
    p_value: float | None = None
    inconclusive: tuple[str, ...] = ()
    if tested.hypothesis is not None:
        count = tested.count
        p_value = tested.hypothesis.p_value(m, count, correct(count))
        if not tested.hypothesis.refuted(m, count, count, error):
            least = _guesses_needed(m / count, tested.hypothesis, error)
            useless = f"{count} guesses {about} can refute no point of the claim, even if all are right"
            inconclusive = (f"{useless}; {least}",)
    event = f"{correct(count)} of {count} guesses {about} are right"
    return Audit(
        method="one-run",
        claim=claim,
        pairs=0,
        trials=m,
        seed=seed,
        about="final-output",
        epsilon_claimed=tested.points.report_epsilon,
        delta=tested.points.report_delta,
        confidence=confidence,
        p_value=p_value,
        inconclusive=inconclusive,
        **tested.figures(bound, most, event),
    )


@dataclass(frozen=True)
class _Tested:
    """The hypotheses for the number of right guesses: a claim, and the family of a bound.

    A claim's verdict and its bound must share one budget of error. Either both count the same guesses, so
    that what refutes most is one event; or the claim is a member of the family, and is refuted exactly where
    the bound exceeds it.
    """

    points: ClaimedPoints
    family: Family
    plan: GuessPlan
    hypothesis: Hypothesis | None
    count: int

    @classmethod
    def of(
        cls, claim: Claim | None, points: ClaimedPoints, canaries: int, error: float, guesses: int | None
    ) -> "_Tested":
        guarantee = claim and claim.guarantee
        hypothesis: Hypothesis | None = None
        family = Family(points.report_delta)
        plan, count, fixed = planned(family, canaries, error), canaries, guesses
        match guarantee:
            case GDP():
                family = Family()
                plan, hypothesis = planned(family, canaries, error), family.member(guarantee.mu)
                count = plan(guarantee.mu)
            case PureDP() | ApproxDP():
                # The claim's own delta plans for both: the bound's may be another.
                own = Family(guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0)
                plan, hypothesis = planned(own, canaries, error), own.member(guarantee.epsilon)
                count = plan(guarantee.epsilon)
            case None:
                pass
            case _:
                hypothesis = Hypothesis(curve_floor(points.pairs))
                fixed = best_count(hypothesis, canaries, error) if guesses is None else guesses
        if fixed is not None:
            plan, count = _always(fixed), fixed
        return cls(points, family, plan, hypothesis, count)

    def figures(self, bound: float, most: float, event: str) -> dict[str, Any]:
        """Return the bound, the detection limit and the unchecked conditions, as fields of an `Audit`."""
        if self.family.delta is None:
            return {
                "mu_lower": bound,
                "epsilon_if_gaussian": epsilon_below(self.points.report_delta, bound),
                "event": f"{event}; mu {most:.4g} could be refuted at most",
                "not_checked": (*LIMITS, Condition(code=Code.GAUSSIAN_CURVE)),
            }
        figures = {"epsilon_lower": bound, "largest_refutable_epsilon": most, "event": event}
        falls = (Condition(code=Code.CANARIES_TIMES_DELTA),) if self.family.delta else ()
        return {**figures, "not_checked": (*LIMITS, *falls)}


def _always(count: int) -> GuessPlan:
    return lambda _: count


def _pooled(scores: Scores, included: Coins, ties: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Return the canaries' ranks in their runs, scaled to (0, 1), and their coins; [m] over all runs.

    Equal scores get a random order, because their given order may depend on their coins.
    """
    several = isinstance(scores, Sequence) and len(scores) > 0 and np.ndim(scores[0]) == 1
    runs: list[tuple[Any, Any]] = [(scores, included)]
    if several:
        if not isinstance(included, Sequence) or len(included) != len(scores):
            what = f"scores of {len(scores)} runs, and not as many arrays of coins"
            raise DataError(what, where="one_run", remedy="give two lists of arrays of the same length")
        runs = list(zip(scores, included, strict=True))
    found = [_standings(*run, ties) for run in runs]
    standings, coins = (np.concatenate(column) for column in zip(*found, strict=True))
    heads = int(min(coins.sum(), (~coins).sum()))
    if 2 * float(scipy.special.bdtr(heads, len(coins), 0.5)) < _UNFAIR:
        what = f"{int(coins.sum())} of {len(coins)} canaries were included"
        why = f"fair coins fall so unevenly with a probability below {_UNFAIR:g}"
        remedy = "include each canary with probability 1/2, independently of the others"
        raise DataError(what, where="included", why=why, remedy=remedy)
    return standings, coins


def _standings(scores: Any, included: Any, ties: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    why, remedy = "each canary has one score and one coin", "give scores [m] without NaN and booleans [m]"
    require_unmasked((scores, included), "one_run")
    try:
        values, coins = np.asarray(scores), np.asarray(included)
    except ValueError as error:
        raise DataError(f"not arrays: {error}", where="one_run", why=why, remedy=remedy) from error
    number = np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)
    fits = values.ndim == 1 and len(values) > 0 and (number or values.dtype == np.bool_)
    if not (fits and coins.shape == values.shape and coins.dtype == np.bool_) or np.isnan(values).any():
        what = f"scores of shape {values.shape} and type {values.dtype}"
        what = f"{what}, coins of shape {coins.shape} and type {coins.dtype}"
        raise DataError(what, where="one_run", why=why, remedy=remedy)
    ranks = np.empty(len(values))
    ranks[np.lexsort((ties.random(len(values)), values))] = np.arange(len(values)) + 0.5
    return ranks / len(values), coins


def _guesses_needed(ratio: float, hypothesis: Hypothesis, error: float) -> str:
    """How many guesses it takes if all are right, with as many canaries a guess, as the end of a sentence."""

    def enough(guesses: int) -> bool:
        return hypothesis.refuted(max(guesses, round(ratio * guesses)), guesses, guesses, error)

    # More canaries also mean a larger term in delta: there may be no number that is enough.
    least = least_enough(enough, 1, _MOST_GUESSES)
    if least is None:
        return f"nor can {_MOST_GUESSES} guesses about {round(ratio * _MOST_GUESSES)}"
    return f"it takes at least {least} guesses about {max(least, round(ratio * least))}"


@dataclass(frozen=True)
class Canaries:
    """A `number` of records, m, each in the data or not, and each a separate unit of privacy."""

    number: int
    #: From m booleans to the data set that holds exactly these canaries. For a claim under replace-one, a
    #: canary that is out is replaced by another record.
    insert: Callable[[NDArray[np.bool_]], Any]
    score: Callable[
        [Any], Any
    ]  # computes [m] numbers from the output, higher for canaries that seem to be included


def coin_relation(claim: Claim | None) -> Neighbouring:
    """Return the relation of data sets that differ in one coin: the claim's, or add-or-remove-one."""
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

    A claim without a relation is read as add-or-remove-one. The root seed determines the coins and the run.
    The other arguments and the errors are as in `audit_by_sampling` and `one_run`.
    """
    m = canaries.number
    if m < 1:
        raise InvalidParameter(f"{m!r} canaries", where="canaries", remedy="put in 1 or more")
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
    judged: Judged = {"claim": claim, "curve": curve, "delta": delta, "confidence": confidence}
    return one_run(scores, coins, guesses=guesses, seed=seed, **judged)


def _scores(
    algorithm: Auditable, canaries: Canaries, coins: NDArray[np.bool_], seed: int, options: Mapping[str, Any]
) -> Array:
    """Return the canaries' scores [m] after the one run."""
    side = Side(algorithm, canaries.insert(coins), 0, seed, canaries.score, options=options)
    return np.atleast_1d(flatten(side.one(0)))
