"""Looking at an audit while its runs come in, without paying for it: a sequential audit, fed as they come."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpaudit.auditors.classifier import Learner, learned_score
from dpaudit.auditors.samples import Array, Samples
from dpaudit.auditors.sequential import Sequential
from dpaudit.auditors.threshold import LEARNING
from dpaudit.verdicts import Audit

#: A look costs as much as all runs so far, so each comes when there are this many times as many.
_FURTHER = 1.4


class Looks:
    """A sequential audit and how far it has been fed.

    When it looks depends on the number of runs alone, so that one that is resumed looks at the same moments.

    Args:
        begun: the audit before its first run.
        learner: what learns a score from features.
        requested: how many runs a side are asked for; of features the first 30% are learned from.
    """

    def __init__(self, begun: Sequential, learner: Learner, requested: int) -> None:
        self._state, self._learner = begun, learner
        self._learning = max(1, round(LEARNING * requested))
        self._score: Callable[[Array], Array] | None = None
        self._fed = 0
        #: What is known by now; None before the first look.
        self.audit: Audit | None = None

    def look(self, runs: Samples, *, last: bool = False) -> Audit | None:
        """What is known by now; before enough new runs have come, what was known at the last look.

        Args:
            runs: all runs so far; those of earlier looks come first.
            last: whether no more will come.
        """
        if not last and len(runs) < max(2, _FURTHER * self._fed):
            return self.audit
        features = runs.data.ndim == 2
        if features and self._score is None:
            if len(runs) <= self._learning + 1:
                if not last:
                    return None
                # Cut short before a single look: nothing that was seen decides what is learned from.
                self._learning = max(1, math.floor(LEARNING * len(runs)))
            first, _ = runs.split(self._learning / len(runs))
            self._score = learned_score(first, self._learner)
            self._fed = self._learning
        new = (side[self._fed :] for side in (runs.data, runs.neighbour))
        data, neighbour = (self._score(side) if self._score is not None else side for side in new)
        self._state = self._state.update(data, neighbour)
        self._fed = len(runs)
        audit = self._state.audit().model_copy(update={"trials": len(runs)})
        if features and audit.inconclusive is not None:
            words = f"{audit.inconclusive}, beside the {self._learning} a side that a score was learned from"
            audit = audit.model_copy(update={"inconclusive": words})
        self.audit = audit
        return audit
