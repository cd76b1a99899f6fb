"""A sampling audit from beginning to end: run, score, test, on each pair; valid if cut short or resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from dpaudit.auditors.sampling.classifier import Learner
from dpaudit.auditors.sampling.combine_pairs import together
from dpaudit.auditors.sampling.exact_ratio import exact_ratio
from dpaudit.auditors.sampling.joint import all_but_own, spares_own_view
from dpaudit.auditors.sampling.plan import FEWEST, Plan, SoFar, TooFewRuns, check_plan
from dpaudit.auditors.sampling.samples import Samples
from dpaudit.auditors.sampling.scores import Score, flatten
from dpaudit.auditors.sampling.trial import Auditable
from dpaudit.auditors.sampling.trials import Trials, run_trials
from dpaudit.auditors.statistics.claim_points import Curve
from dpaudit.auditors.statistics.gdp import gaussian_trade_off
from dpaudit.auditors.statistics.sequential import begin
from dpaudit.auditors.statistics.sequential_feed import Looks
from dpaudit.auditors.statistics.threshold import check_confidence, threshold
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import View
from dpaudit.errors import UsageError

Method: TypeAlias = Literal["threshold", "sequential", "gdp"]


def audit_by_sampling(
    algorithm: Auditable,
    pairs: Sequence[Pair],
    plan: Plan,
    *,
    method: Method = "sequential",
    score: Score | Learner | Literal["exact"] | None = None,
    claim: Claim | None = None,
    curve: Curve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    run_options: Mapping[str, Any] | None = None,
    progress: Callable[[SoFar], None] | None = None,
) -> Audit:
    """Run an algorithm on both sides of each pair and try to refute a claim by what comes out.

    Args:
        algorithm: any callable ``(data, curator) -> output``, or a `Plain`.
        pairs: neighbouring pairs; the error is divided among them.
        plan: how many runs, and where.
        method: which test.
        score: a score of the output; ``"logistic"`` or ``"boosting"`` to have one learned from all the
            output's numbers; ``"exact"`` for the log-likelihood ratio of the releases. Left out, the
            output itself where it is one number, else logistic. Under joint trust a score gets the
            tuple of all views but the changed user's own.
        claim: what to refute; left out, the algorithm's own.
        curve: delta(epsilon) of the claimed guarantee; needed for zCDP, GDP and RDP.
        delta: where to state the bound on epsilon; left out, the claim's, or 1e-5.
        confidence: of bound and verdict together, over all pairs.
        run_options: further arguments of `dpaudit.run`.
        progress: told after each chunk.

    Returns:
        The audit. Cut short by Ctrl-C it is INCONCLUSIVE unless what was run refutes the claim; but a test
        of a fixed number of runs that are kept judges nothing then, since it can still go on.

    Raises:
        InvalidParameter: fewer than 10 trials, no pair, or a parameter out of range.
        UsageError: a score that does not fit the claim, a time limit that leaves too few runs, or a test of
            a fixed number of runs that were looked at when they were fewer or more.
        KeyboardInterrupt: Ctrl-C before anything could be said; its words say what is kept.
        DpauditError: what `run_trials` raises.
    """
    check_confidence(confidence)
    check_plan(plan, pairs)
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    if score == "exact" and claim is not None and claim.view is not View.ALL_RELEASES:
        raise UsageError(
            f"an exact likelihood ratio for a claim about the view {str(claim.view)!r}",
            where="score",
            why="it is a score of all releases, which may reveal more than that view",
            remedy="have a score of the output learned: logistic or boosting",
        )
    share = 1 - (1 - confidence) / len(pairs)
    test = _Test(method, score, claim, curve, delta, share)
    begun = time.monotonic()
    audits: list[Audit] = []
    looked: list[_PairAudit] = []
    for index, pair in enumerate(pairs):
        own = plan
        if plan.time_limit is not None:
            left = max(0.0, plan.time_limit - (time.monotonic() - begun))
            own = replace(own, time_limit=left / (len(pairs) - index))
        if plan.resume is not None and index > 0:
            own = replace(own, resume=plan.resume.with_stem(f"{plan.resume.stem}-pair-{index + 1}"))

        def told(done: int, audit: Audit | None, index: int = index) -> None:
            if progress is not None:
                progress(SoFar(index, len(pairs), done, plan.trials, audit))

        one = _PairAudit(algorithm, pair, own, test, dict(run_options or {}), told)
        audit = one.run()
        if one.interrupted and (one.can_go_on or not (audit or audits)):
            raise KeyboardInterrupt(*one.kept_words())
        audits += [] if audit is None else [audit]
        looked.append(one)
        if one.interrupted:
            break
    for one in looked:
        one.remember()
    whole = together(audits, planned=len(pairs), confidence=confidence)
    if looked[-1].interrupted:
        return _cut_short(whole, looked[-1].done, plan.trials, len(looked) - 1, len(pairs))
    return whole


def _cut_short(audit: Audit, done: int, trials: int, pair: int, pairs: int) -> Audit:
    """What Ctrl-C leaves: a refutation stands; that nothing was refuted means nothing yet."""
    if audit.verdict is Experiment.REFUTED:
        return audit
    where = "" if pairs == 1 else f", on pair {pair + 1} of {pairs}"
    reason = f"interrupted by Ctrl-C after {done} of {trials} runs a side{where}"
    return audit.model_copy(update={"inconclusive": (reason, *audit.inconclusive)})


@dataclass(frozen=True)
class _Test:
    """What is asked of the runs."""

    method: Method
    score: Score | Learner | Literal["exact"] | None
    claim: Claim | None
    curve: Curve | None
    delta: float | None
    confidence: float

    @property
    def learner(self) -> Learner:
        return "boosting" if self.score == "boosting" else "logistic"

    def looks(self, seed: int) -> Looks:
        state = begin(
            claim=self.claim,
            curve=self.curve,
            delta=self.delta,
            confidence=self.confidence,
            seed=seed,
        )
        return Looks(state, self.learner)

    def samples(self, runs: Trials) -> Samples:
        sides = runs.data, runs.neighbour
        if isinstance(self.score, str) and self.score != "exact" and runs.data.ndim == 1:
            sides = runs.data[:, None], runs.neighbour[:, None]
        return Samples(*sides, seed=runs.seed)

    def of_all(self, samples: Samples) -> Audit:
        """The test of a fixed number of runs."""
        if self.method == "gdp":
            return gaussian_trade_off(
                samples, claim=self.claim, confidence=self.confidence, learner=self.learner
            )
        return threshold(
            samples,
            claim=self.claim,
            curve=self.curve,
            delta=self.delta,
            confidence=self.confidence,
            learner=self.learner,
        )


class _PairAudit:
    """One pair's audit while it runs."""

    def __init__(
        self,
        algorithm: Auditable,
        pair: Pair,
        plan: Plan,
        test: _Test,
        options: Mapping[str, Any],
        told: Callable[[int, Audit | None], None],
    ) -> None:
        self._algorithm, self._pair, self._plan = algorithm, pair, plan
        self._test, self._options, self._told = test, options, told
        self._looks = test.looks(plan.seed) if test.method == "sequential" else None
        self._deadline = math.inf if plan.time_limit is None else time.monotonic() + plan.time_limit
        self._ended: Literal["refuted", "clock"] | None = None
        self._remembered = False
        #: Whether Ctrl-C ended it, and after how many runs a side.
        self.interrupted, self.done = False, 0

    def run(self) -> Audit | None:
        """The audit; None where Ctrl-C came before anything could or should be said."""
        runs = self._trials()
        self.done = len(runs)
        self.interrupted = not runs.complete and self._ended is None
        if self.interrupted and (self.can_go_on or len(runs) < FEWEST):
            return None
        if len(runs) < FEWEST:
            raise TooFewRuns(
                f"{len(runs)} runs a side before the time was up",
                where="time limit",
                why=f"an audit needs {FEWEST} at the least",
                remedy="allow more time, or ask for fewer trials in a chunk",
            )
        samples = self._test.samples(runs)
        audit = self._looks.last_look(samples) if self._looks is not None else None
        audit = audit if audit is not None else self._test.of_all(samples)
        changes: dict[str, Any] = {}
        if self._test.score == "exact":
            changes["about"] = "transcript"
        if self.interrupted or self._ended == "clock":
            by = "Ctrl-C" if self.interrupted else "the time limit"
            changes["event"] = (
                f"{audit.event}; ended by {by} after {self.done} of {self._plan.trials} runs a side"
            )
            if self._looks is None:
                limit = Condition(
                    code=Code.STOPPING_TIME, ended_by="interrupt" if self.interrupted else "time-limit"
                )
                changes["not_checked"] = (*audit.not_checked, limit)
        return audit.model_copy(update=changes)

    @property
    def can_go_on(self) -> bool:
        """Whether the runs are kept for a test that may judge them once only."""
        return self._plan.resume is not None and self._looks is None

    def kept_words(self) -> list[str]:
        """What of an interrupted audit is kept."""
        if self._plan.resume is None or not self.done:
            return []
        kept = f"{self.done} of {self._plan.trials} runs a side are kept in {self._plan.resume}"
        return [f"{kept}, where the same command goes on"]

    def remember(self) -> None:
        """Keep with the runs that somebody is about to see what they say."""
        if self._plan.resume is None or self._remembered:
            return
        from dpaudit.auditors.sampling.store import remember_look

        fixed = self._looks is None
        remember_look(self._plan.resume, self.done if fixed else self._plan.trials, fixed=fixed)
        self._remembered = True

    def _trials(self) -> Trials:
        algorithm, plan, score = self._algorithm, self._plan, self._test.score
        chosen: Score = flatten if score is None or isinstance(score, str) else score
        batch, options = plan.batch, self._options
        if score == "exact":
            algorithm = exact_ratio(algorithm, self._pair, seed=plan.seed, run_options=options)
            batch, options = False, {}
        elif spares_own_view(self._test.claim):
            chosen = all_but_own(algorithm, self._pair, chosen, seed=plan.seed, options=options)
            batch = False
        return run_trials(
            algorithm,
            self._pair,
            plan.trials,
            seed=plan.seed,
            score=chosen,
            batch=batch,
            chunk=plan.chunk,
            workers=plan.workers,
            cluster=plan.cluster,
            progress=self._progress,
            resume=plan.resume,
            fixed_size=self._looks is None,
            run_options=options,
        )

    def _progress(self, done: int, total: int, runs: Trials) -> bool:
        audit = None
        if self._looks is not None and FEWEST <= done < total:
            audit = self._looks.look(self._test.samples(runs))
        if audit is not None:
            self.remember()
        self._told(done, audit)
        if done == total:
            return False
        if self._plan.stop_when_refuted and audit is not None and audit.verdict is Experiment.REFUTED:
            self._ended = "refuted"
        elif time.monotonic() >= self._deadline:
            self._ended = "clock"
        return self._ended is not None
