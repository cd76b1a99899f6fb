"""A lower bound on mu, which implies no bound on epsilon.

mu-GDP implies for every event that Phi^-1(p) - Phi^-1(q) <= mu (Dong, Roth, Su 2022, definition 2.6). One
event, chosen on one share of the runs and tested on the other, bounds mu from below without assuming
that anything is Gaussian. But no epsilon at some delta follows from that mu: it would be the epsilon of
another mechanism. Laplace noise of scale 1 is 1-DP and satisfies no mu-GDP with mu below 1.24, yet the
Gaussian mechanism of that mu is not 1-DP. Hence the verdict refutes mu-GDP only.
"""

import numpy as np
import scipy

from dpaudit.auditors.statistics.clopper_pearson import least_enough, require_fraction
from dpaudit.auditors.statistics.learning.classifier import Learner
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import LIMITS, ROUNDED, event_for_mu, prepared
from dpaudit.auditors.statistics.two_proportions import Ceiling, by_mu, region
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP
from dpaudit.errors import InvalidParameter

#: No audit of fewer than 1e15 runs refutes a larger mu.
_LARGEST_MU = 20.0


def require_mu(claim: Claim | None) -> None:
    """Raise `InvalidParameter` for a claim that a bound on mu cannot refute: one that is not mu-GDP."""
    if claim is not None and not isinstance(claim.guarantee, GDP):
        what = f"a bound on mu cannot refute a claim of {claim.guarantee}"
        why = "a mechanism that is not Gaussian has another privacy curve than the Gaussian one of its mu"
        remedy = "audit this claim with the threshold, sequential or one-run method"
        raise InvalidParameter(what, where="claim", why=why, remedy=remedy)


def gaussian_trade_off(
    samples: Samples,
    *,
    claim: Claim | None = None,
    confidence: float = 0.95,
    learner: Learner = "logistic",
    attack_grid: bool = False,
) -> Audit:
    """Bound mu from below with one threshold on a score; the arguments are those of `threshold`.

    `InvalidParameter` is raised for a claim that is not one of mu-GDP, or a confidence out of range.
    """
    require_fraction("confidence", confidence)
    require_mu(claim)
    error = 1 - confidence
    choosing, testing = prepared(samples, learner, attack_grid=attack_grid)
    n = len(testing)
    event = event_for_mu(choosing, error)
    x, y = event.counts(testing)
    bound = region(x, y, n, by_mu(n), error).largest_refuted(_gaussian, _LARGEST_MU, error)
    largest = _largest_refutable_mu(n, error)
    inconclusive: tuple[str, ...] = ()
    if claim is not None and isinstance(claim.guarantee, GDP) and claim.guarantee.mu >= largest:
        claimed = claim.guarantee.mu
        needed = least_enough(lambda tested: _largest_refutable_mu(tested, error) > claimed, 2, 2**40)
        enough = "no feasible number of runs could refute the claim"
        if needed is not None:
            runs = -(-needed * len(samples) // n)
            enough = f"it takes at least {needed}, that is {runs} runs a side in all"
        at_most = f"{n} held-out runs a side can refute no mu above {largest:.4g}, whatever they show"
        inconclusive = (f"{at_most}; {enough}",)
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
    """The mu refuted by the best outcome: an event in every run on the one side and in none on the other."""
    best = region(tested, 0, tested, by_mu(tested), error)
    return best.largest_refuted(_gaussian, _LARGEST_MU, error)


def _gaussian(mu: float) -> Ceiling:
    """1 - G_mu, the trade-off function of mu-GDP as the largest p beside q."""
    return lambda q: np.asarray(scipy.special.ndtr(scipy.special.ndtri(q) + mu))
