"""A lower bound on mu: not for epsilon, whose curve it says nothing of.

mu-GDP says of every event that Phi^-1(p) - Phi^-1(q) <= mu (Dong, Roth, Su 2022, definition 2.6). One
event, chosen on one share of the runs and tested on the other, bounds mu from below without assuming
that anything is Gaussian. What may not be done is to read off an epsilon at some delta from that mu:
it would be the epsilon of another mechanism. Laplace noise of scale 1 is 1-DP, and no mu below 1.24
fits it; the Gaussian mechanism of that mu is anything but 1-DP. Hence the verdict refutes mu-GDP only.
"""

from __future__ import annotations

from scipy.special import ndtr, ndtri

from dpaudit.auditors.sampling.classifier import Learner, learned
from dpaudit.auditors.sampling.samples import Array, Samples
from dpaudit.auditors.statistics.threshold import LEARNING, LIMITS, ROUNDED, check_confidence, prepared
from dpaudit.auditors.statistics.threshold_events import event_for_mu
from dpaudit.auditors.statistics.two_proportions import Ceiling, by_mu, region
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP
from dpaudit.errors import InvalidParameter

#: No audit of fewer than 1e15 runs reaches further.
_LARGEST_MU = 20.0


def gaussian_trade_off(
    samples: Samples,
    *,
    claim: Claim | None = None,
    confidence: float = 0.95,
    learner: Learner = "logistic",
    attack_grid: bool = False,
) -> Audit:
    """Bound mu from below with one threshold on a score; a refutation reads "not mu-GDP".

    Args:
        samples: scores [n] or features [n, k].
        claim: a claim of mu-GDP, if there is one.
        confidence: with at least this probability the bound holds and a true claim is not refuted.
        learner: what learns a score from features.
        attack_grid: leave scores as they are, down to the last bit of a float.

    Raises:
        InvalidParameter: the claim is not one of mu-GDP, or the confidence is out of range.
    """
    check_confidence(confidence)
    if claim is not None and not isinstance(claim.guarantee, GDP):
        raise InvalidParameter(
            f"a bound on mu says nothing of a claim of {claim.guarantee}",
            where="claim",
            why="a mechanism that is not Gaussian has another curve than the Gaussian one of its mu",
            remedy="audit this claim with the threshold, sequential or one-run method",
        )
    error = 1 - confidence
    scored = learned(samples, learner, LEARNING) if samples.data.ndim == 2 else samples
    choosing, testing = prepared(scored, attack_grid=attack_grid)
    n = len(testing)
    event = event_for_mu(choosing, error)
    x, y = event.counts(testing)
    bound = region(x, y, n, by_mu(n), error).largest_refuted(_gaussian, _LARGEST_MU, error)
    largest = _largest_refutable_mu(n, error)
    inconclusive: tuple[str, ...] = ()
    if claim is not None and isinstance(claim.guarantee, GDP) and claim.guarantee.mu >= largest:
        needed = _trials_needed(claim.guarantee.mu, error)
        enough = (
            "no number of runs within reach could"
            if needed is None
            else f"it takes at least {needed}, that is {-(-needed * len(samples) // n)} runs a side in all"
        )
        inconclusive = (
            f"{n} held-out runs a side can refute no mu above {largest:.4g}, whatever they show; {enough}",
        )
    return Audit(
        method="gdp",
        claim=claim,
        pairs=1,
        trials=len(samples),
        seed=samples.seed,
        about="final-output",
        mu_lower=bound,
        confidence=confidence,
        event=f"{event}: in {x} and {y} of {n} runs held out, which could refute mu {largest:.4g} at most",
        inconclusive=inconclusive,
        not_checked=(Condition(code=Code.MU_ONLY), *LIMITS, *(() if attack_grid else (ROUNDED,))),
    )


def _largest_refutable_mu(tested: int, error: float) -> float:
    """What the best outcome refutes: an event in every run on the one side and in none on the other."""
    best = region(tested, 0, tested, by_mu(tested), error)
    return best.largest_refuted(_gaussian, _LARGEST_MU, error)


def _trials_needed(mu: float, error: float) -> int | None:
    """How many held-out runs it takes before any outcome refutes mu; None past 2^40."""
    high = 2
    while _largest_refutable_mu(high, error) <= mu:
        high *= 2
        if high > 2**40:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _largest_refutable_mu(middle, error) > mu else (middle, high)
    return high


def _gaussian(mu: float) -> Ceiling:
    """1 - G_mu, the trade-off function of mu-GDP as the largest p beside q."""

    def ceiling(q: Array) -> Array:
        highest: Array = ndtr(ndtri(q) + mu)
        return highest

    return ceiling
