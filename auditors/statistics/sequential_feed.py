"""Looking at an audit while its runs come in, without paying for it: a sequential audit, fed as they come.

A score that is learned is learned again and again, from runs that are past: from the first 64 a side, and
each time that there are 128, 256, 512, ... from the first half of them, while the bets to come are placed
on the other half. These numbers are fixed, whatever is asked for: an audit that is extended, interrupted or
resumed places the very bets that an uninterrupted one places, and all its looks together have one error.
"""

from __future__ import annotations

from collections.abc import Callable

from dpaudit.auditors.sampling.classifier import Learner, learned_score
from dpaudit.auditors.sampling.samples import Array, Samples
from dpaudit.auditors.statistics.blocks import FIRST_BLOCK
from dpaudit.auditors.statistics.claim_points import Curve
from dpaudit.auditors.statistics.sequential import Sequential, begin
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim

#: A look costs as much as all runs so far, so each comes when there are this many times as many.
_FURTHER = 1.4


class Looks:
    """A sequential audit and how far it has been fed.

    What it says after so many runs depends on those runs alone: not on how many are asked for, nor on when it
    looked before.

    Args:
        begun: the audit before its first run.
        learner: what learns a score from features.
    """

    def __init__(self, begun: Sequential, learner: Learner) -> None:
        self._state, self._learner = begun, learner
        self._score: Callable[[Array], Array] | None = None
        self._fed = 0
        self._rescore_at = 2 * FIRST_BLOCK
        #: What is known by now; None before the first look.
        self.audit: Audit | None = None

    def look(self, runs: Samples) -> Audit | None:
        """What is known by now; before enough new runs have come, what was known at the last look.

        Args:
            runs: all runs so far; those of earlier looks come first.
        """
        if len(runs) < max(2, _FURTHER * self._fed):
            return self.audit
        return self.last_look(runs)

    def last_look(self, runs: Samples) -> Audit:
        """What all runs say, whether enough of them are new or not."""
        features = runs.data.ndim == 2
        if features:
            self._feed_features(runs)
        else:
            self._state = self._state.update(runs.data[self._fed :], runs.neighbour[self._fed :])
            self._fed = len(runs)
        audit = self._state.audit().model_copy(update={"trials": len(runs)})
        if features and audit.inconclusive:
            learned = f"the first {FIRST_BLOCK} runs a side, from which a score was learned, do not count"
            audit = audit.model_copy(update={"inconclusive": (*audit.inconclusive, learned)})
        self.audit = audit
        return audit

    def _feed_features(self, runs: Samples) -> None:
        if self._score is None:
            if len(runs) <= FIRST_BLOCK:
                return
            self._score, self._fed = self._learned(runs, FIRST_BLOCK), FIRST_BLOCK
        while self._fed < len(runs):
            to = min(len(runs), self._rescore_at)
            new = (side[self._fed : to] for side in (runs.data, runs.neighbour))
            self._state = self._state.update(*map(self._score, new))
            self._fed = to
            if to == self._rescore_at < len(runs):
                half = to // 2
                self._score = self._learned(runs, half)
                past = (side[half:to] for side in (runs.data, runs.neighbour))
                self._state = self._state.rescored(*map(self._score, past))
                self._rescore_at = 2 * to

    def _learned(self, runs: Samples, first: int) -> Callable[[Array], Array]:
        return learned_score(runs.split(first / len(runs))[0], self._learner)


def sequential(
    samples: Samples,
    *,
    claim: Claim | None = None,
    curve: Curve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    learner: Learner = "logistic",
    attack_grid: bool = False,
) -> Audit:
    """The sequential audit of samples that are all there already; the arguments are those of `threshold`."""
    state = begin(
        claim=claim,
        curve=curve,
        delta=delta,
        confidence=confidence,
        seed=samples.seed,
        attack_grid=attack_grid,
    )
    return Looks(state, learner).last_look(samples)
