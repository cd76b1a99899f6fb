"""One event, chosen on a share of the runs and tested on the others.

The scheme is that of DP-Sniper (Bichsel, Steffen, Bogunovic, Vechev 2021) and of Jagielski, Ullman and
Oprea (2020). The first shares give exactly one event (threshold, tail and direction together) and one
classifier. The whole error is spent on a test of that event on the other runs. All
points of a claimed curve are tested with this one event at no further cost: they all follow from the same
claim, and share one p-value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from dpaudit.auditors.statistics.claim_points import ClaimedPoints, PrivacyCurve, claimed_points
from dpaudit.auditors.statistics.clopper_pearson import (
    largest_refutable_epsilon,
    require_fraction,
    trials_needed,
)
from dpaudit.auditors.statistics.learning.classifier import Learner, learned_score, numbered
from dpaudit.auditors.statistics.samples import Samples, rounding
from dpaudit.auditors.statistics.tails import Candidates, candidates, smoothed
from dpaudit.auditors.statistics.two_proportions import Ceiling, by_epsilon, region
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.mechanisms import Array

#: Shares of the runs: to choose an event on; where outcomes are no scores, to learn one from and choose on.
CHOOSING = 0.15
LEARNING = 0.3

LIMITS = (Condition(code=Code.GIVEN_PAIRS), Condition(code=Code.RARE_EVENTS))
ROUNDED = Condition(code=Code.ROUNDED_SCORES)


def threshold(
    samples: Samples,
    *,
    claim: Claim | None = None,
    curve: PrivacyCurve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    learner: Learner = "logistic",
    attack_grid: bool = False,
) -> Audit:
    """Bound epsilon from below, and try to refute a claim, with one threshold on a score.

    Samples are scores [n], for instance log-likelihood ratios, or outcomes from which the `learner` learns a
    score: features [n, k], or of several kinds. The claimed guarantee's curve, delta(epsilon), is needed for
    zCDP, GDP and RDP; the bound is stated at `delta`, by default the claim's, or 1e-5. With at least the
    confidence the bound holds and a true claim is not refuted. With `attack_grid` scores are not rounded, so
    that a differing floating-point grid can be found.

    The bound is the exact one of `two_proportions`, and never more than `largest_refutable_epsilon`, the best
    that Clopper-Pearson intervals can give. `InvalidParameter` is raised for a confidence out of range, or a
    claim that needs a curve and has none.
    """
    require_fraction("confidence", confidence)
    points = claimed_points(claim, curve, delta)
    error = 1 - confidence
    choosing, testing = prepared(samples, learner, attack_grid=attack_grid)
    n = len(testing)
    event, event_delta = event_for_epsilon(choosing, points.epsilons, points.deltas, n, error)
    x, y = event.counts(testing)
    stronger = region(x, y, n, by_epsilon(n, event_delta, error), error)
    largest = largest_refutable_epsilon(n, points.report_delta, confidence)

    def line(epsilon: float) -> Ceiling:
        return lambda q: np.exp(epsilon) * q + points.report_delta

    bound = min(largest, stronger.largest_refuted(line, largest, error))
    inconclusive = () if claim is None else out_of_reach(points, n, len(samples), confidence)
    tested = claim is not None and not inconclusive
    return Audit(
        method="threshold",
        claim=claim,
        pairs=1,
        trials=len(samples),
        seed=samples.seed,
        about="final-output",
        epsilon_lower=bound,
        epsilon_claimed=points.report_epsilon,
        delta=points.report_delta,
        confidence=confidence,
        p_value=stronger.p_value(points.ceiling) if tested else None,
        largest_refutable_epsilon=largest,
        event=f"{event}: in {x} and {y} of {n} runs held out",
        inconclusive=inconclusive,
        not_checked=LIMITS if attack_grid else (*LIMITS, ROUNDED),
    )


def prepared(samples: Samples, learner: Learner, *, attack_grid: bool) -> tuple[Samples, Samples]:
    """Return the runs for the choice and the runs for the test, with scores rounded in the same way.

    They are not rounded where the floating-point grid itself is attacked.
    """
    first, rest = samples.split(CHOOSING)
    # Decided by runs that are not tested, whichever way it is decided.
    if first.ordinary:
        choosing, testing = (numbered(first)(part) for part in (first, rest))
    else:
        first, rest = samples.split(LEARNING)
        score, choosing = learned_score(first, learner)
        testing = score(rest)
    if attack_grid:
        return choosing, testing
    rounded = rounding(np.concatenate([choosing.data, choosing.neighbour]))
    choosing, testing = (
        part.scored(rounded(part.data), rounded(part.neighbour)) for part in (choosing, testing)
    )
    return choosing, testing


def out_of_reach(points: ClaimedPoints, tested: int, trials: int, confidence: float) -> tuple[str, ...]:
    """Return the reason why no outcome could have refuted a claimed point, with the runs needed, if any."""
    if any(epsilon < largest_refutable_epsilon(tested, delta, confidence) for epsilon, delta in points.pairs):
        return ()
    needed = min(trials_needed(epsilon, delta, confidence) for epsilon, delta in points.pairs)
    none = f"{tested} held-out runs a side can refute no point of the claim, whatever they show"
    runs = -(-needed * trials // tested)
    return (f"{none}; it takes at least {needed}, that is {runs} runs a side in all",)


@dataclass(frozen=True)
class ThresholdEvent:
    """Scores at or beyond a threshold: `upper` ones, at least it, or lower ones, at most it.

    `swapped` is whether the event is likelier on the neighbour than on the data.
    """

    threshold: float
    upper: bool
    swapped: bool

    @classmethod
    def of(cls, found: Candidates, index: int) -> ThresholdEvent:
        """Return the event at an index of the candidates."""
        upper, swapped = bool(found.upper[index]), bool(found.swapped[index])
        return cls(float(found.thresholds[index]), upper, swapped)

    def counts(self, samples: Samples) -> tuple[int, int]:
        """Return the number of runs with the event, on the likelier side (x) and on the other (y)."""
        data, neighbour = (
            int(np.sum(side >= self.threshold if self.upper else side <= self.threshold))
            for side in (samples.data, samples.neighbour)
        )
        return (neighbour, data) if self.swapped else (data, neighbour)

    def __str__(self) -> str:
        sign = ">=" if self.upper else "<="
        likelier = "the neighbour" if self.swapped else "the data"
        return f"score {sign} {self.threshold:.6g}, likelier on {likelier}"


def event_for_epsilon(
    samples: Samples, epsilons: Array, deltas: Array, tested: int, error: float
) -> tuple[ThresholdEvent, float]:
    """The event that promises to refute some claimed point by the widest margin, and that point's delta.

    The promise is the lower bound that `tested` runs a side are expected to give at the level `error`, were
    the events as likely as a smooth likelihood ratio says: of events' own frequencies the largest promise
    would be a lucky one. The choice depends on the given runs only; a test of the event on other runs is
    valid whatever they are. The claimed points are epsilons and deltas [k].
    """
    found = candidates(samples)
    x, y = smoothed(samples, found)
    x, y = x[:, None] * tested, y[:, None] * tested
    excess = np.maximum(x - tested * deltas, 1e-9)  # [c, k]
    width = -scipy.special.ndtri(error)
    # Some runs more on the other side, 1 at 95%: no event is chosen because it is hardly expected there.
    share = np.maximum(1 / np.maximum(x, 1e-9) - 1 / tested, 0) * (x / excess) ** 2
    beyond = np.log(_largest_mean(y + 0.37 * width**2, width) / (y + 0.5)) ** 2 * np.maximum(
        1 - y / tested, 0
    )
    promised = np.log(excess / (y + 0.5)) - np.sign(width) * np.sqrt(width**2 * share + beyond) - epsilons
    best = int(np.argmax(promised))
    return ThresholdEvent.of(found, best // len(epsilons)), float(deltas[best % len(epsilons)])


def _largest_mean(counts: Array, width: float) -> Array:
    """About the largest mean of so many events, `width` standard errors up (Wilson and Hilferty 1931).

    It is right of small counts too, whose errors are not symmetric: with no event it is 3 at 95%.
    """
    root = 1 - 1 / (9 * (counts + 1)) + width / (3 * np.sqrt(counts + 1))
    return np.asarray((counts + 1) * np.maximum(root, 0.0) ** 3)


def event_for_mu(samples: Samples, error: float) -> ThresholdEvent:
    """Return the event that promises the largest lower bound on mu; chosen as in `event_for_epsilon`."""
    found = candidates(samples)
    n = len(samples) + 1
    p, q = (found.x + 0.5) / n, (found.y + 0.5) / n
    quantile_p, quantile_q = scipy.special.ndtri(np.clip([p, q], None, 1 - 0.25 / n))

    def variance(share: Array, quantile: Array) -> Array:
        # The delta method: the variance of a proportion over the squared normal density.
        return share * (1 - share) / n * (2 * np.pi) * np.exp(quantile**2)

    spread = np.sqrt(variance(p, quantile_p) + variance(q, quantile_q))
    return ThresholdEvent.of(
        found, int(np.argmax(quantile_p - quantile_q + scipy.special.ndtri(error) * spread))
    )
