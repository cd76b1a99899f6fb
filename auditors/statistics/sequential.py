"""Anytime-valid: look whenever you like, stop when you like, go on tomorrow.

For each epsilon of a grid a bettor starts with wealth 1 and stakes it, pair of runs by pair of runs, on
bets that would be fair or worse if (epsilon, delta)-DP held (see `betting`). Every bet is fixed by
earlier runs alone, so the wealth is a nonnegative supermartingale under the claim, and by Ville's
inequality (1939) it ever reaches 1/a with probability at most a. All epsilon below the first whose
wealth has not reached 1/a are refuted: a confidence sequence, valid at all times at once.

Bets are placed block by block, each block a fixed part longer than all before it, and the wealth is looked
at after fixed numbers of pairs: what is found depends on the runs alone, not on how they were handed in.
Two strategies share the initial wealth: one bets on the growth-optimal soft tests of a fitted
log-likelihood ratio, in both directions at once, one on the single event that promises most. All that is
chosen (threshold, tail, direction, stake) is chosen from the past, hence at no cost.

References:
    J. Ville. Etude critique de la notion de collectif, 1939.
    I. Waudby-Smith, A. Ramdas. Estimating means of bounded random variables by betting. JRSS-B 2024.
    P. Gruenwald, R. de Heide, W. Koolen. Safe testing. JRSS-B 2024.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace

import numpy as np

from dpaudit.auditors.sampling.samples import Array, Samples, rounding
from dpaudit.auditors.statistics.blocks import (
    FIRST_BLOCK,
    LOOKS,
    largest_refutable,
    looks,
    pairs_needed,
    place,
)
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, Curve, claimed_points
from dpaudit.auditors.statistics.threshold import LIMITS, ROUNDED, check_confidence
from dpaudit.auditors.statistics.threshold_events import event_for_epsilon
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.errors import DataError

#: After the first block each is this part of all pairs before it.
BLOCK_GROWTH = 0.15
_GRID = np.round(np.arange(0.0, 12.0, 0.02), 2)
#: Initial wealth of the two strategies: the soft test and the single event.
_PRIOR = np.log([0.75, 0.25])


@dataclass(frozen=True)
class Sequential:
    """A sequential audit at one moment; `update` gives the next, `audit` what is known by now.

    Attributes:
        claim: what to refute, if anything.
        points: what the claim says.
        confidence: for everything the audit will ever say.
        data: scores [n] so far.
        neighbour: scores [n] so far.
        begun: pairs before the present block; its bets follow from these alone.
        wealth: [2, e], log wealth of both strategies at the block's beginning, claim by claim.
        settled: [e], the largest log wealth of both together at any look before the present block.
        held: [2, e], log wealth of both strategies by now.
        peak: [e], the largest log wealth of both together at any look so far.
        bets: pairs that were bet on, under this score or earlier ones.
        seed: root seed of the runs.
        attack_grid: whether scores are left as they are.
    """

    claim: Claim | None
    points: ClaimedPoints
    confidence: float
    data: Array
    neighbour: Array
    begun: int
    wealth: Array
    settled: Array
    held: Array
    peak: Array
    bets: int = 0
    seed: int = 0
    attack_grid: bool = False

    @property
    def separate(self) -> bool:
        """Whether the claim's points are not on the bank's delta, so that it has a wealth of its own."""
        return self.claim is not None and (
            len(self.points.deltas) > 1 or bool(self.points.deltas[0] != self.points.report_delta)
        )

    @property
    def bank(self) -> Array:
        """The epsilons that are tested at the reported delta, [b]; the claimed one is among them."""
        if self.claim is None or self.separate:
            return _GRID
        return np.unique(np.append(_GRID, self.points.epsilons))

    def update(self, data: Array, neighbour: Array) -> Sequential:
        """The audit after further pairs of runs, [m] scores on either side; this is a look as well.

        Raises:
            DataError: scores of differing shapes, features instead of scores, or a NaN.
        """
        first, second = (
            np.concatenate([old, np.asarray(new, dtype=np.float64)])
            for old, new in ((self.data, data), (self.neighbour, neighbour))
        )
        if len(first) != len(second) or np.isnan(first).any() or np.isnan(second).any():
            raise DataError(
                f"{len(first)} and {len(second)} scores, or a NaN among them",
                where="sequential",
                why="a bet is placed on a pair of runs, one on either data set",
                remedy="give as many scores of the one side as of the other",
            )
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
        return replace(
            self,
            data=first,
            neighbour=second,
            begun=begun,
            wealth=wealth,
            settled=settled,
            held=held,
            peak=peak,
            bets=bets,
        )

    def rescored(self, data: Array, neighbour: Array) -> Sequential:
        """The audit that goes on with another score, its wealth kept.

        Args:
            data: what the new score makes of runs that are past and that it was not chosen by, [n], at least
                `FIRST_BLOCK`: the next bets are placed on them.
            neighbour: of the other side.
        """
        return replace(
            self,
            data=data,
            neighbour=neighbour,
            begun=len(data),
            wealth=self.held,
            settled=self.peak,
        )

    def _gains(self, past: Samples, x: Array, y: Array, length: int, settled: Array) -> Array:
        """What a block has added to each log wealth by each of its looks, [2, e, looks].

        Looks that are still to come show the wealth by now. Claims refuted before the block are left alone.
        """
        gained = np.zeros((2, len(settled), min(LOOKS, length)))
        bank, delta = self.bank, self.points.report_delta
        open_ = np.flatnonzero(settled[: len(bank)] < self._goal)
        error = 1 - self.confidence
        if len(open_):
            event, _ = event_for_epsilon(past, np.zeros(1), np.full(1, delta), len(past), error)
            placed = place(past, event, bank[open_], np.full(len(open_), delta))
            gained[:, open_] = placed.gains(x, y, length)
        if self.separate and settled[-1] < self._goal:
            event, at = event_for_epsilon(past, self.points.epsilons, self.points.deltas, len(past), error)
            point = int(np.flatnonzero(self.points.deltas == at)[0])
            placed = place(past, event, self.points.epsilons[[point]], self.points.deltas[[point]])
            gained[:, -1:] = placed.gains(x, y, length)
        return gained

    @property
    def _goal(self) -> float:
        return float(-np.log(1 - self.confidence))

    def audit(self) -> Audit:
        """What is known by now; true of all looks at once with the audit's confidence."""
        bank, n = self.bank, len(self.data)
        if self.bets:
            n = FIRST_BLOCK + self.bets
        refuted = self.peak[: len(bank)] >= self._goal
        prefix = len(bank) if refuted.all() else int(np.argmin(refuted))
        delta = self.points.report_delta
        p_value: float | None = None
        inconclusive: tuple[str, ...] = ()
        if self.claim is not None:
            at = -1 if self.separate else int(np.searchsorted(bank, self.points.epsilons[0]))
            p_value = float(np.exp(-max(0.0, self.peak[at])))
            pairs = zip(self.points.epsilons.tolist(), self.points.deltas.tolist(), strict=True)
            needed = min(pairs_needed(epsilon, own, self.confidence) for epsilon, own in pairs)
            if n < needed:
                reason = (
                    f"{n} pairs of runs can refute no point of the claim, whatever they show; "
                    f"it takes at least {needed}"
                )
                inconclusive = (reason,)
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
            largest_refutable_epsilon=largest_refutable(n, delta, self.confidence, float(_GRID[-1])),
            event=f"bets on {self.bets} pairs of runs, each placed on what came before",
            inconclusive=inconclusive,
            not_checked=LIMITS if self.attack_grid else (*LIMITS, ROUNDED),
        )

    def to_bytes(self) -> bytes:
        """The whole state, to go on from later: a NumPy archive without pickles."""
        stated = {
            "claim": None if self.claim is None else self.claim.to_json(),
            "confidence": self.confidence,
            "begun": self.begun,
            "bets": self.bets,
            "seed": self.seed,
            "attack_grid": self.attack_grid,
            "report": [self.points.report_delta, self.points.report_epsilon],
        }
        file = io.BytesIO()
        np.savez_compressed(
            file,
            state=np.array(json.dumps(stated)),
            points=np.stack([self.points.epsilons, self.points.deltas]),
            scores=np.stack([self.data, self.neighbour]),
            wealth=np.stack([self.wealth, self.held]),
            peak=np.stack([self.settled, self.peak]),
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Sequential:
        """The state that `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            stated = json.loads(str(archive["state"]))
            (epsilons, deltas), scores = archive["points"], archive["scores"]
            (wealth, held), (settled, peak) = archive["wealth"], archive["peak"]
        claim = None if stated["claim"] is None else Claim(**stated["claim"])
        return cls(
            claim=claim,
            points=ClaimedPoints(epsilons, deltas, *stated["report"]),
            confidence=stated["confidence"],
            data=scores[0],
            neighbour=scores[1],
            begun=stated["begun"],
            wealth=wealth,
            settled=settled,
            held=held,
            peak=peak,
            bets=stated["bets"],
            seed=stated["seed"],
            attack_grid=stated["attack_grid"],
        )


def begin(
    *,
    claim: Claim | None = None,
    curve: Curve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    attack_grid: bool = False,
) -> Sequential:
    """A sequential audit before its first run; the arguments are those of `threshold`.

    Raises:
        InvalidParameter: a confidence out of range, or a claim that needs a curve and has none.
    """
    check_confidence(confidence)
    none = np.zeros(0)
    points = claimed_points(claim, curve, delta)
    empty = Sequential(
        claim, points, confidence, none, none, 0, none, none, none, none, seed=seed, attack_grid=attack_grid
    )
    claims = len(empty.bank) + int(empty.separate)
    wealth, peak = np.zeros((2, claims)), np.zeros(claims)
    return replace(empty, wealth=wealth, settled=peak, held=wealth, peak=peak)
