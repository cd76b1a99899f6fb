"""One event, chosen on a share of the runs and tested on the others.

The scheme is that of DP-Sniper (Bichsel, Steffen, Bogunovic, Vechev 2021) and of Jagielski, Ullman and
Oprea (2020). The budget of error has one entry: exactly one event (threshold, tail and direction
together) and one classifier come out of the first shares, and the whole error is spent on testing that
event on runs that had no part in choosing it. All points of a claimed curve are tested with this one
event at no further cost: they all follow from the same claim, and one p-value speaks of all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpaudit.auditors.sampling.classifier import Learner, learned
from dpaudit.auditors.sampling.samples import Samples, rounding
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, Curve, claimed_points
from dpaudit.auditors.statistics.clopper_pearson import largest_refutable_epsilon, trials_needed
from dpaudit.auditors.statistics.threshold_events import event_for_epsilon
from dpaudit.auditors.statistics.two_proportions import Ceiling, by_epsilon, region
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.errors import InvalidParameter

#: Shares of the runs: to learn a score from (features only), and of the others to choose an event on.
LEARNING = 0.3
CHOOSING = 0.2

LIMITS = (Condition(code=Code.GIVEN_PAIRS), Condition(code=Code.RARE_EVENTS))
ROUNDED = Condition(code=Code.ROUNDED_SCORES)


def threshold(
    samples: Samples,
    *,
    claim: Claim | None = None,
    curve: Curve | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    learner: Learner = "logistic",
    attack_grid: bool = False,
) -> Audit:
    """Bound epsilon from below, and try to refute a claim, with one threshold on a score.

    Args:
        samples: scores [n], for instance log-likelihood ratios, or features [n, k] to learn one from.
        claim: what to refute, if anything.
        curve: delta(epsilon) of the claimed guarantee; needed for zCDP, GDP and RDP.
        delta: where to state the bound on epsilon; left out, the claim's, or 1e-5.
        confidence: with at least this probability the bound holds and a true claim is not refuted.
        learner: what learns a score from features.
        attack_grid: leave scores as they are, down to the last bit of a float.

    Returns:
        The audit. The bound is the exact one of `two_proportions`, and never more than
        `largest_refutable_epsilon`, the best that Clopper-Pearson intervals can give.

    Raises:
        InvalidParameter: a confidence out of range, or a claim that needs a curve and has none.
    """
    check_confidence(confidence)
    points = claimed_points(claim, curve, delta)
    error = 1 - confidence
    scored = learned(samples, learner, LEARNING) if samples.data.ndim == 2 else samples
    choosing, testing = prepared(scored, attack_grid=attack_grid)
    n = len(testing)
    event, event_delta = event_for_epsilon(choosing, points.epsilons, points.deltas, n, error)
    x, y = event.counts(testing)
    stronger = region(x, y, n, by_epsilon(n, event_delta, error), error)
    largest = largest_refutable_epsilon(n, points.report_delta, confidence)
    bound = min(largest, stronger.largest_refuted(_lines(points.report_delta), largest, error))
    inconclusive = () if claim is None else out_of_reach(points, n, len(samples), confidence)
    p_value = None
    if claim is not None and not inconclusive:
        p_value = stronger.p_value(points.ceiling)
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
        p_value=p_value,
        largest_refutable_epsilon=largest,
        event=f"{event}: in {x} and {y} of {n} runs held out",
        inconclusive=inconclusive,
        not_checked=LIMITS if attack_grid else (*LIMITS, ROUNDED),
    )


def prepared(samples: Samples, *, attack_grid: bool) -> tuple[Samples, Samples]:
    """The runs to choose on and the runs to test on, rounded alike unless the grid is attacked."""
    choosing, testing = samples.split(CHOOSING)
    if attack_grid:
        return choosing, testing
    rounded = rounding(np.concatenate([choosing.data, choosing.neighbour]))
    whole = Samples(rounded(samples.data), rounded(samples.neighbour), samples.seed)
    return whole.split(CHOOSING)


def _lines(delta: float) -> Callable[[float], Ceiling]:
    """Epsilon -> the ceiling e^epsilon q + delta."""

    def line(epsilon: float) -> Ceiling:
        return lambda q: np.exp(epsilon) * q + delta

    return line


def out_of_reach(points: ClaimedPoints, tested: int, trials: int, confidence: float) -> tuple[str, ...]:
    """Why no outcome could have refuted any claimed point, and how many runs it takes; else nothing."""
    pairs = list(zip(points.epsilons.tolist(), points.deltas.tolist(), strict=True))
    if any(epsilon < largest_refutable_epsilon(tested, delta, confidence) for epsilon, delta in pairs):
        return ()
    needed = min(trials_needed(epsilon, delta, confidence) for epsilon, delta in pairs)
    reason = (
        f"{tested} held-out runs a side can refute no point of the claim, whatever they show; "
        f"it takes at least {needed}, that is {-(-needed * trials // tested)} runs a side in all"
    )
    return (reason,)


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1).

    Raises:
        InvalidParameter: it is.
    """
    if not 0 < confidence < 1:
        raise InvalidParameter(f"confidence {confidence} is not in (0, 1)", where="confidence")
