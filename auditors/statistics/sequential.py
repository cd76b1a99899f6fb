"""A sequential test of a claim, valid whenever you stop and however often you evaluate it.

For each epsilon of a grid a bettor starts with wealth 1 and stakes it, pair of runs by pair of runs, on
bets that would be fair or worse if (epsilon, delta)-DP held (see `betting`). Every bet is fixed by
earlier runs alone, so the wealth is a nonnegative supermartingale under the claim, and by Ville's
inequality (1939) it ever reaches 1/a with probability at most a. All epsilon below the first whose
wealth has not reached 1/a are refuted: a confidence sequence, valid at all times at once.

Bets are placed block by block, each block a fixed part longer than all before it, and the wealth is
evaluated after fixed numbers of pairs: the result depends on the runs alone, not on how they were handed in.
Two strategies share the initial wealth: one bets on the growth-optimal soft tests of a fitted
log-likelihood ratio, in both directions at once, one on the single event that promises most. All that is
chosen (threshold, tail, direction, stake) is chosen from the past, hence at no cost.

A score that is learned from features is learned again and again, from runs that are past: from the first 64
a side, and each time that there are 128, 256, 512, ... from the first half of them, while the bets to come
are placed on the other half. These numbers do not depend on how many runs are asked for: an audit that is
extended, interrupted or resumed places the very bets that an uninterrupted one places.

References:
    J. Ville. Etude critique de la notion de collectif, 1939.
    I. Waudby-Smith, A. Ramdas. Estimating means of bounded random variables by betting. JRSS-B 2024.
    P. Gruenwald, R. de Heide, W. Koolen. Safe testing. JRSS-B 2024.
"""

import io
import json
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dpaudit.auditors.statistics import betting
from dpaudit.auditors.statistics.betting import FIRST_BLOCK, LOOKS, looks, place
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, PrivacyCurve, claimed_points
from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.auditors.statistics.learning.classifier import Learner, Scoring, learned_score, numbered
from dpaudit.auditors.statistics.samples import Samples, rounding
from dpaudit.auditors.statistics.threshold import LIMITS, ROUNDED, event_for_epsilon
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.errors import DataError
from dpaudit.mechanisms import Array

#: After the first block each is this part of all pairs before it.
BLOCK_GROWTH = 0.15
_GRID = np.round(np.arange(0.0, 12.0, 0.02), 2)
#: Initial wealth of the two strategies: the soft test and the single event.
_PRIOR = np.log([0.75, 0.25])
#: An evaluation costs as much as all runs so far, so each comes when there are this many times as many.
_FURTHER = 1.4
#: The parts of a state that are arrays, and those that are numbers.
_ARRAYS = ("data", "neighbour", "wealth", "settled", "held", "peak")
_NUMBERS = ("confidence", "begun", "bets", "seed", "attack_grid")


def _goal(confidence: float) -> float:
    return float(-np.log(1 - confidence))


@dataclass(frozen=True)
class Sequential:
    """A sequential audit at one moment; `update` gives the next, `audit` the result so far."""

    claim: Claim | None
    points: ClaimedPoints
    confidence: float  # for all results of the audit together
    data: Array  # scores [n] so far
    neighbour: Array  # likewise
    begun: int  # pairs before the present block; its bets follow from these alone
    wealth: Array  # [2, e], log wealth of both strategies at the block's beginning, claim by claim
    settled: Array  # [e], the largest log wealth of both together at any evaluation before the block
    held: Array  # [2, e], log wealth now
    peak: Array  # [e], the largest at any evaluation so far
    bets: int = 0  # pairs that were bet on, under this score or earlier ones
    seed: int = 0
    attack_grid: bool = False  # whether scores are not rounded

    @property
    def separate(self) -> bool:
        """Whether the claim has a wealth of its own, since its points are not at the reported delta."""
        return self.claim is not None and (
            len(self.points.deltas) > 1 or bool(self.points.deltas[0] != self.points.report_delta)
        )

    @property
    def bank(self) -> Array:
        """The epsilons that are tested at the reported delta, [b]; the claimed one is among them."""
        if self.claim is None or self.separate:
            return _GRID
        return np.unique(np.append(_GRID, self.points.epsilons))

    def update(self, data: Array, neighbour: Array) -> Self:
        """The audit after further pairs of runs, [m] scores on either side; the wealth is evaluated, too.

        `DataError` is raised for scores of differing shapes, features instead of scores, or a NaN.
        """
        first, second = (
            np.concatenate([old, np.asarray(new, dtype=np.float64)])
            for old, new in ((self.data, data), (self.neighbour, neighbour))
        )
        if len(first) != len(second) or np.isnan(first).any() or np.isnan(second).any():
            what = f"{len(first)} and {len(second)} scores, or a NaN among them"
            why = "a bet is placed on a pair of runs, one on either data set"
            remedy = "give as many scores of the one side as of the other"
            raise DataError(what, where="sequential", why=why, remedy=remedy)
        x, y = first, second
        if not self.attack_grid:
            rounded = rounding(np.concatenate([first[:FIRST_BLOCK], second[:FIRST_BLOCK]]))
            x, y = rounded(first), rounded(second)
        begun, wealth, settled = self.begun, self.wealth, self.settled
        before = [np.sort(side[:begun]) for side in (x, y)]
        while True:
            end = FIRST_BLOCK if begun == 0 else int(np.ceil(begun * (1 + BLOCK_GROWTH)))
            stop = min(end, len(x))
            peak, gained = settled, np.zeros((*wealth.shape, 1))
            if begun > 0 and stop > begun:
                past = Samples(before[0], before[1])
                gained = self._gains(past, x[begun:stop], y[begun:stop], end - begun, settled)
                reached = int(np.sum(looks(end - begun) <= stop - begun))
                now = np.logaddexp.reduce(wealth[..., None] + gained + _PRIOR[:, None, None], axis=0)
                peak = np.maximum(settled, now[:, :reached].max(axis=1, initial=-np.inf))
            if stop < end:
                break
            # Stable sorting is a merge where the parts are sorted.
            before = [
                np.sort(np.concatenate([old, np.sort(side[begun:end])]), kind="stable")
                for old, side in zip(before, (x, y), strict=True)
            ]
            wealth, settled, begun = wealth + gained[..., -1], peak, end
        bets = self.bets + max(0, len(first) - max(len(self.data), FIRST_BLOCK))
        held = wealth + gained[..., -1]
        grown = replace(self, data=first, neighbour=second, begun=begun, bets=bets)
        return replace(grown, wealth=wealth, settled=settled, held=held, peak=peak)

    def rescored(self, data: Array, neighbour: Array) -> Self:
        """The audit continued with another score and the same wealth.

        The new scores are of past runs [n] on either side that the score was not learned from, at least
        `FIRST_BLOCK`: the next bets follow from them.
        """
        return replace(
            self, data=data, neighbour=neighbour, begun=len(data), wealth=self.held, settled=self.peak
        )

    def _gains(self, past: Samples, x: Array, y: Array, length: int, settled: Array) -> Array:
        """What a block has added to each log wealth by each of its looks, [2, e, looks].

        Later looks show the wealth now. No bets are placed against claims refuted before the block.
        """
        gained = np.zeros((2, len(settled), min(LOOKS, length)))
        bank, delta = self.bank, self.points.report_delta
        open_ = np.flatnonzero(settled[: len(bank)] < _goal(self.confidence))
        error = 1 - self.confidence
        if len(open_):
            event, _ = event_for_epsilon(past, np.zeros(1), np.full(1, delta), len(past), error)
            placed = place(past, event, bank[open_], np.full(len(open_), delta))
            gained[:, open_] = placed.gains(x, y, length)
        if self.separate and settled[-1] < _goal(self.confidence):
            event, at = event_for_epsilon(past, self.points.epsilons, self.points.deltas, len(past), error)
            point = int(np.flatnonzero(self.points.deltas == at)[0])
            placed = place(past, event, self.points.epsilons[[point]], self.points.deltas[[point]])
            gained[:, -1:] = placed.gains(x, y, length)
        return gained

    def audit(self) -> Audit:
        """The result so far; with the audit's confidence all results hold at once."""
        bank, n = self.bank, len(self.data)
        if self.bets:
            n = FIRST_BLOCK + self.bets
        refuted = self.peak[: len(bank)] >= _goal(self.confidence)
        prefix = len(bank) if refuted.all() else int(np.argmin(refuted))
        delta = self.points.report_delta
        p_value: float | None = None
        inconclusive: tuple[str, ...] = ()
        if self.claim is not None:
            at = -1 if self.separate else int(np.searchsorted(bank, self.points.epsilons[0]))
            p_value = float(np.exp(-max(0.0, self.peak[at])))
            needed = min(betting.pairs_needed(*point, self.confidence) for point in self.points.pairs)
            if n < needed:
                none = f"{n} pairs of runs can refute no point of the claim, whatever they show"
                inconclusive = (f"{none}; it takes at least {needed}",)
        return Audit(
            method="sequential",
            claim=self.claim,
            pairs=1,
            trials=n,
            seed=self.seed,
            about="final-output",
            epsilon_lower=float(bank[prefix - 1]) if prefix else 0.0,
            # With a wealth of its own the claim is judged by that alone: one error, spent once.
            epsilon_claimed=None if self.separate else self.points.report_epsilon,
            delta=delta,
            confidence=self.confidence,
            p_value=p_value,
            largest_refutable_epsilon=betting.largest_refutable(n, delta, self.confidence, float(_GRID[-1])),
            event=f"bets on {self.bets} pairs of runs, each placed on what came before",
            inconclusive=inconclusive,
            not_checked=LIMITS if self.attack_grid else (*LIMITS, ROUNDED),
        )

    def to_bytes(self) -> bytes:
        """The whole state, to continue from later: a NumPy archive without pickles."""
        stated = {name: getattr(self, name) for name in _NUMBERS} | {
            "claim": None if self.claim is None else self.claim.to_json(),
            "report": [self.points.report_delta, self.points.report_epsilon],
        }
        file = io.BytesIO()
        np.savez_compressed(
            file,
            state=np.array(json.dumps(stated)),
            epsilons=self.points.epsilons,
            deltas=self.points.deltas,
            **{name: getattr(self, name) for name in _ARRAYS},
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The state that `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            stated = json.loads(str(archive["state"]))
            points = ClaimedPoints(archive["epsilons"], archive["deltas"], *stated["report"])
            arrays = {name: archive[name] for name in _ARRAYS}
        claim = None if stated["claim"] is None else Claim(**stated["claim"])
        return cls(claim=claim, points=points, **arrays, **{name: stated[name] for name in _NUMBERS})


def begin(
    *,
    claim: Claim | None = None,
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    attack_grid: bool = False,
) -> Sequential:
    """A sequential audit before its first run; the arguments and errors are those of `threshold`."""
    require_fraction("confidence", confidence)
    none = np.zeros(0)
    points = claimed_points(claim, curve, delta)
    empty = Sequential(
        claim, points, confidence, none, none, 0, none, none, none, none, seed=seed, attack_grid=attack_grid
    )
    claims = len(empty.bank) + int(empty.separate)
    wealth, peak = np.zeros((2, claims)), np.zeros(claims)
    return replace(empty, wealth=wealth, settled=peak, held=wealth, peak=peak)


class SequentialFeed:
    """A sequential audit that is handed all runs so far, again and again; it learns a score from features.

    Its result after so many runs depends on those runs alone: not on how many are asked for, nor on when it
    was evaluated before.
    """

    def __init__(self, begun: Sequential, learner: Learner) -> None:
        self._begun, self._state, self._learner = begun, begun, learner
        self._score: Scoring | None = None
        self._numbered: bool  # whether it is the number that each run gave
        self._fed = 0
        self._rescore_at = 2 * FIRST_BLOCK
        self._audit: Audit | None = None

    def so_far(self, runs: Samples) -> Audit | None:
        """The result of all runs so far, earlier ones first, computed anew once there are enough new ones.

        It is None before the first.
        """
        return self._audit if len(runs) < max(2, _FURTHER * self._fed) else self.of_all(runs)

    def of_all(self, runs: Samples) -> Audit:
        """The result of all runs so far."""
        self._feed(runs)
        audit = self._state.audit().model_copy(update={"trials": len(runs)})
        if not self._numbered and audit.inconclusive:
            learned = f"the first {FIRST_BLOCK} runs a side, from which a score was learned, do not count"
            audit = audit.model_copy(update={"inconclusive": (*audit.inconclusive, learned)})
        self._audit = audit
        return audit

    def _feed(self, runs: Samples) -> None:
        begin = runs.part(0, min(len(runs), FIRST_BLOCK))
        if self._fed < FIRST_BLOCK:
            # No bets are placed before: the score of these runs may change.
            self._state, self._fed = self._begun, 0
            self._numbered = begin.ordinary
            if self._numbered:
                self._score = numbered(begin)
            elif len(runs) <= FIRST_BLOCK:
                return
            else:
                self._score, self._fed = learned_score(begin, self._learner)[0], FIRST_BLOCK
        while self._fed < len(runs) and self._score is not None:
            to = min(len(runs), self._rescore_at)
            new = self._score(runs.part(self._fed, to))
            self._state = self._state.update(new.data, new.neighbour)
            self._fed = to
            if to == self._rescore_at < len(runs):
                half = to // 2
                first = runs.part(0, half)
                self._numbered = self._numbered and first.ordinary
                if not self._numbered:
                    self._score, _ = learned_score(first, self._learner)
                    past = self._score(runs.part(half, to))
                    self._state = self._state.rescored(past.data, past.neighbour)
                self._rescore_at = 2 * to


def sequential(
    samples: Samples,
    *,
    claim: Claim | None = None,
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    learner: Learner = "logistic",
    attack_grid: bool = False,
) -> Audit:
    """The sequential audit of samples that are all there already; the arguments are those of `threshold`."""
    state = begin(claim=claim, curve=curve, delta=delta, confidence=confidence, attack_grid=attack_grid)
    return SequentialFeed(replace(state, seed=samples.seed), learner).of_all(samples)
