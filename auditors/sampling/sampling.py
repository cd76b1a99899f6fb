"""A sampling audit from beginning to end: run, score, test, on each pair; valid if cut short or resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from dpaudit.auditors.sampling.elsewhere import sides_of
from dpaudit.auditors.sampling.exact_ratio import exact_ratio
from dpaudit.auditors.sampling.scores import Score, flatten, has_unseen
from dpaudit.auditors.sampling.store import remember_look
from dpaudit.auditors.sampling.trial import Auditable, Side
from dpaudit.auditors.sampling.trials import Trials, run_trials
from dpaudit.auditors.statistics.claim_points import Judged, PrivacyCurve
from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.auditors.statistics.gdp import gaussian_trade_off, require_mu
from dpaudit.auditors.statistics.learning.classifier import Learner, require_learner
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import SequentialFeed, begin
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import TrustModel, View
from dpaudit.curator.views import UserViews
from dpaudit.errors import InvalidParameter, ScoreShape, TrialFailed, UsageError
from dpaudit.processes.host import Host
from dpaudit.processes.hosted import Hosted

Method: TypeAlias = Literal["threshold", "sequential", "gdp"]

#: A test of a fixed number of runs: ``(samples, *, claim, confidence) -> Audit``.
Auditor: TypeAlias = Callable[..., Audit]

#: With fewer runs a side the shares to learn, to choose and to test on cannot all hold one.
FEWEST = 10


class TooFewRuns(UsageError):
    """The time limit left fewer runs than an audit needs."""


@dataclass(frozen=True)
class SoFar:
    """The progress of a sampling audit: `done` of `trials` runs a side on one of the pairs, numbered from 0.

    `audit` is this pair's result so far, of a sequential audit only. A test of a fixed number of runs shows
    nothing before its end: a user who watched it could stop it at a lucky moment.
    """

    pair: int
    pairs: int
    done: int
    trials: int
    audit: Audit | None


@dataclass(frozen=True)
class SamplingPlan:
    """How the runs are made; the fields are those of `run_trials`, and what ends them early.

    `resume` is a file that keeps finished chunks; that of a second pair has ``-pair-2`` in its name. After
    `time_limit` seconds no further chunk is begun; `stop_when_refuted` ends a sequential audit as soon as its
    claim is refuted.
    """

    trials: int
    seed: int = 0
    batch: bool | None = None
    chunk: int | None = None
    workers: int = 1
    cluster: str | None = None
    resume: Path | None = None
    time_limit: float | None = None
    stop_when_refuted: bool = False

    def require_sensible(self, pairs: Sequence[Pair]) -> None:
        """Raise `InvalidParameter` for fewer than 10 trials, no pair, or a time limit not above 0."""
        if self.trials < FEWEST or not pairs:
            what = f"{self.trials} trials on {len(pairs)} pairs"
            why = "an event is chosen on some of the runs and tested on others"
            remedy = f"ask for {FEWEST} trials or more, on at least one pair"
            raise InvalidParameter(what, where="trials", why=why, remedy=remedy)
        if self.time_limit is not None and not (self.time_limit > 0 and math.isfinite(self.time_limit)):
            what = f"{self.time_limit} seconds"
            raise InvalidParameter(what, where="time limit", remedy="give a positive number")

    def of_pair(self, index: int, remaining: int, begun: float) -> SamplingPlan:
        """The plan of one pair: its share of the time that is left, and a file of its own."""
        limit, resume = self.time_limit, self.resume
        if limit is not None:
            limit = max(0.0, limit - (time.monotonic() - begun)) / remaining
        if resume is not None and index > 0:
            resume = resume.with_stem(f"{resume.stem}-pair-{index + 1}")
        return replace(self, time_limit=limit, resume=resume)


def audit_by_sampling(
    algorithm: Auditable,
    pairs: Sequence[Pair],
    plan: SamplingPlan,
    *,
    method: Method | Auditor = "sequential",
    score: Score | Learner | Literal["exact"] | None = None,
    claim: Claim | None = None,
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    run_options: Mapping[str, Any] | None = None,
    progress: Callable[[SoFar], None] | None = None,
) -> Audit:
    """Run an algorithm on both sides of each pair and try to refute a claim by the outputs.

    The arguments are those of `dpaudit.audit`, and `curve`: delta(epsilon) of the claimed guarantee, needed
    for zCDP, GDP and RDP. The error is divided among the pairs; the confidence is of bound and verdict
    together. A score is of the output; ``"logistic"`` and ``"boosting"`` learn one from all the output's
    numbers, ``"exact"`` is the log-likelihood ratio of the releases. Left out it is the output itself where
    that is one number, else logistic. Under joint trust it gets the tuple of all views but the changed user's
    own.

    Ended early by Ctrl-C the audit is INCONCLUSIVE unless the runs refute the claim; but a test of a fixed
    number of runs that are kept gives no result then, since it can still be completed.

    Raises:
        InvalidParameter: fewer than 10 trials, no pair, or a parameter out of range.
        UsageError: a score that does not fit the claim, a time limit that leaves too few runs, or a test of
            a fixed number of runs that were evaluated when they were fewer or more.
        KeyboardInterrupt: Ctrl-C before there was a result; its message says what is kept.
        DpauditError: as `run_trials`.
    """
    require_fraction("confidence", confidence)
    if method == "gdp":  # before any run is made
        require_mu(claim)
    plan.require_sensible(pairs)
    if score == "boosting":
        require_learner(score)
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    if score == "exact" and claim is not None and claim.view is not View.ALL_RELEASES:
        what = f"an exact likelihood ratio for a claim about the view {str(claim.view)!r}"
        why = "it is a score of all releases, which may reveal more than that view"
        remedy = "have a score of the output learned: logistic or boosting"
        raise UsageError(what, where="score", why=why, remedy=remedy)
    share = 1 - (1 - confidence) / len(pairs)
    test = _Test(method, score, {"claim": claim, "curve": curve, "delta": delta, "confidence": share})
    begun = time.monotonic()
    audits: list[Audit] = []
    ended: list[_PairAudit] = []
    for index, pair in enumerate(pairs):

        def report(done: int, audit: Audit | None, index: int = index) -> None:
            if progress is not None:
                progress(SoFar(index, len(pairs), done, plan.trials, audit))

        own = plan.of_pair(index, len(pairs) - index, begun)
        one = _PairAudit(algorithm, pair, own, test, dict(run_options or {}), report)
        audit = one.run()
        if one.interrupted and (one.can_go_on or not (audit or audits)):
            raise KeyboardInterrupt(*one.kept_words())
        audits += [] if audit is None else [audit]
        ended.append(one)
        if one.interrupted:
            break
    for one in ended:
        one.remember()
    whole = combine_pairs(audits, planned=len(pairs), confidence=confidence)
    if any(one.unseen for one in ended):
        whole = whole.model_copy(update={"inconclusive": (*whole.inconclusive, _UNSEEN)})
    if not ended[-1].interrupted or whole.verdict is Experiment.REFUTED:
        return whole
    # A refutation stands; that nothing was refuted yet is no result.
    where = "" if len(pairs) == 1 else f", on pair {len(ended)} of {len(pairs)}"
    reason = f"interrupted by Ctrl-C after {ended[-1].done} of {plan.trials} runs a side{where}"
    return whole.model_copy(update={"inconclusive": (reason, *whole.inconclusive)})


def combine_pairs(audits: Sequence[Audit], *, planned: int, confidence: float) -> Audit:
    """The result of audits of one claim on different pairs, by one method.

    Each was made with an error of (1 - confidence) / planned, where `planned` is the number of pairs; some of
    them may not have been audited. Combined are the largest bounds, and the least p-value times `planned`
    (Bonferroni); the result is inconclusive where no audit could have refuted the claim.
    """
    strongest = max(audits, key=lambda audit: (audit.epsilon_lower or 0.0, audit.mu_lower or 0.0))
    if planned == 1:
        return strongest
    p_value = _largest(-audit.p_value for audit in audits if audit.p_value is not None)
    conclusive = any(not audit.inconclusive for audit in audits)
    reasons = () if conclusive else dict.fromkeys(reason for audit in audits for reason in audit.inconclusive)
    return strongest.model_copy(
        update={
            "pairs": len(audits),
            "trials": min(audit.trials for audit in audits),
            "epsilon_lower": _largest(audit.epsilon_lower for audit in audits),
            "mu_lower": _largest(audit.mu_lower for audit in audits),
            "p_value": None if p_value is None else min(1.0, -planned * p_value),
            "largest_refutable_epsilon": _largest(audit.largest_refutable_epsilon for audit in audits),
            "confidence": confidence,
            "not_checked": tuple(dict.fromkeys(limit for audit in audits for limit in audit.not_checked)),
            "inconclusive": tuple(reasons),
        }
    )


def _largest(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)


_UNSEEN: Final = (
    "an output holds an object whose content is not seen, such as a function, a generator or an open file: "
    "return values, or give a score"
)


@dataclass(frozen=True)
class _Test:
    """A test of runs, with the claim, curve, delta and confidence that all tests take."""

    method: Method | Auditor
    score: Score | Learner | Literal["exact"] | None
    arguments: Judged

    @property
    def learner(self) -> Learner:
        return "boosting" if self.score == "boosting" else "logistic"

    def samples(self, runs: Trials) -> Samples:
        """The runs as a learner's features [n, k], or as scores [n], also of arrays of one number."""
        learn = self.score in {"logistic", "boosting"}
        data, neighbour = runs.data, runs.neighbour
        if data.ndim == 1:
            data, neighbour = data[:, None], neighbour[:, None]
        return Samples(data, neighbour, runs.seed, runs.kinds, learn)

    def of_all(self, samples: Samples) -> Audit:
        """The test of a fixed number of runs."""
        if self.method == "threshold":
            return threshold(samples, **self.arguments, learner=self.learner)
        claim, confidence = self.arguments["claim"], self.arguments["confidence"]
        if callable(self.method):
            return self.method(samples, claim=claim, confidence=confidence)
        return gaussian_trade_off(samples, claim=claim, confidence=confidence, learner=self.learner)


@dataclass
class _PairAudit:
    """One pair's audit while it runs."""

    algorithm: Auditable
    pair: Pair
    plan: SamplingPlan
    test: _Test
    options: Mapping[str, Any]
    report: Callable[[int, Audit | None], None]
    #: Whether Ctrl-C ended it, and after how many runs a side.
    interrupted: bool = False
    done: int = 0
    #: Whether an output held what no score was made of.
    unseen: bool = False

    def __post_init__(self) -> None:
        limit = self.plan.time_limit
        self._deadline = math.inf if limit is None else time.monotonic() + limit
        self._feed: SequentialFeed | None = None  # of a test of a fixed number of runs
        if self.test.method == "sequential":
            state = begin(**self.test.arguments, seed=self.plan.seed)
            self._feed = SequentialFeed(state, self.test.learner)
        self._ended: Literal["refuted", "clock"] | None = None
        self._remembered = False

    def run(self) -> Audit | None:
        """The audit; None where Ctrl-C came before there could or should be a result."""
        algorithm, plan, score = self.algorithm, self.plan, self.test.score
        chosen: Score = flatten if score is None or isinstance(score, str) else score
        batch, options = plan.batch, self.options
        host = algorithm.host if isinstance(algorithm, Hosted) else None
        if score == "exact":
            algorithm = exact_ratio(algorithm, self.pair, seed=plan.seed, run_options=options)
            batch, options = False, {}
        elif spares_own_view(self.test.arguments["claim"]):
            chosen = all_but_own(algorithm, self.pair, chosen, seed=plan.seed, options=options, host=host)
            batch = False
        how = {name: getattr(plan, name) for name in ("seed", "chunk", "workers", "cluster", "resume")}
        how |= {"score": chosen, "batch": batch, "progress": self._progress, "run_options": options}
        how |= {"host": host}
        runs = run_trials(algorithm, self.pair, plan.trials, fixed_size=self._feed is None, **how)
        self.done, self.unseen = len(runs), has_unseen(runs.kinds)
        self.interrupted = not runs.complete and self._ended is None
        if self.interrupted and (self.can_go_on or len(runs) < FEWEST):
            return None
        if len(runs) < FEWEST:
            what = f"{len(runs)} runs a side before the time was up"
            remedy = "allow more time, or ask for fewer trials in a chunk"
            raise TooFewRuns(what, where="time limit", why=f"an audit needs at least {FEWEST}", remedy=remedy)
        samples = self.test.samples(runs)
        audit = (self.test if self._feed is None else self._feed).of_all(samples)
        changes: dict[str, Any] = {}
        if score == "exact":
            changes["about"] = "transcript"
        if self.interrupted or self._ended == "clock":
            by = "Ctrl-C" if self.interrupted else "the time limit"
            changes["event"] = f"{audit.event}; ended by {by} after {self.done} of {plan.trials} runs a side"
            if self._feed is None:
                limit = Condition(
                    code=Code.STOPPING_TIME, ended_by="interrupt" if self.interrupted else "time-limit"
                )
                changes["not_checked"] = (*audit.not_checked, limit)
        return audit.model_copy(update=changes)

    @property
    def can_go_on(self) -> bool:
        """Whether the runs are kept for a test that may evaluate them only once."""
        return self.plan.resume is not None and self._feed is None

    def kept_words(self) -> list[str]:
        """What is kept of an interrupted audit, as a message."""
        if self.plan.resume is None or not self.done:
            return []
        kept = f"{self.done} of {self.plan.trials} runs a side are kept in {self.plan.resume}"
        return [f"{kept}; the same command continues from there"]

    def remember(self) -> None:
        """Record in the file of the runs, before any result is shown, that they were evaluated."""
        if self.plan.resume is not None and not self._remembered:
            fixed = self._feed is None
            remember_look(self.plan.resume, self.done if fixed else self.plan.trials, fixed=fixed)
            self._remembered = True

    def _progress(self, done: int, total: int, runs: Trials) -> bool:
        audit = None
        if self._feed is not None and FEWEST <= done < total:
            audit = self._feed.so_far(self.test.samples(runs))
            if audit is not None:
                self.remember()
        self.report(done, audit)
        if done < total:
            if self.plan.stop_when_refuted and audit is not None and audit.verdict is Experiment.REFUTED:
                self._ended = "refuted"
            elif time.monotonic() >= self._deadline:
                self._ended = "clock"
        return self._ended is not None


#: Trials a side that may raise before one returns the views.
_TRIED = 20


def spares_own_view(claim: Claim | None) -> bool:
    """Whether a claim does not cover what the changed user sees."""
    return claim is not None and (claim.trust_model is TrustModel.JOINT or claim.view is View.ALL_BUT_OWN)


@dataclass(frozen=True)
class AllButOwn:
    """A score of the views that the claim covers: `score` takes the tuple of the other users' views.

    `unit` is the changed user and `users` the number of users on the side that has that user; a side with
    fewer lacks that user, and all its views are compared.
    """

    score: Score
    unit: int
    users: int

    def __call__(self, output: Any) -> Any:
        """The score of one output; `ScoreShape` if it is not `UserViews`."""
        views = _views(output)
        return self.score(views.without(self.unit) if len(views.views) == self.users else views.views)


def all_but_own(
    algorithm: Auditable,
    pair: Pair,
    score: Score,
    *,
    seed: int,
    options: Mapping[str, Any],
    host: Host | None = None,
) -> AllButOwn:
    """The score for a pair, whose numbers of users are those of the first trials.

    `UsageError` is raised where the pair does not name the changed user, `ScoreShape` for other outputs.
    """
    if pair.unit is None:
        what, where = "the pair does not name the changed user", f"pair {pair.description!r}"
        why = "under joint trust the changed user's own view is not compared"
        raise UsageError(what, where=where, why=why, remedy="return Pair(data, neighbour, unit=POSITION)")
    sides = (
        sides_of(host)(algorithm, data, side, seed, _users, options=options)
        for side, data in enumerate((pair.data, pair.neighbour))
    )
    return AllButOwn(score, pair.unit, max(map(_first, sides)))


def _first(side: Side) -> int:
    """The score of the first of a few trials that does not raise."""
    for index in range(_TRIED - 1):
        with suppress(TrialFailed):
            return int(side.one(index))
    return int(side.one(_TRIED - 1))


def _users(output: Any) -> int:
    return len(_views(output).views)


def _views(output: Any) -> UserViews:
    if isinstance(output, UserViews):
        return output
    what = f"an output of type {type(output).__name__} under joint trust"
    why = "the changed user's own view is not compared, and cannot be found in it"
    raise ScoreShape(what, where="output", why=why, remedy="return UserViews, one view for each user")
