"""An auditor: `dpaudit audit TARGET --method fixed-event` tests one event that was fixed in advance."""

from dpaudit import Audit, Claim, PureDP
from dpaudit.auditors.statistics.clopper_pearson import epsilon_lower, largest_refutable_epsilon
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import LIMITS
from dpaudit.errors import InvalidParameter


def fixed_event(samples: Samples, *, claim: Claim | None, confidence: float) -> Audit:
    """Bound epsilon from below by how often the score is above zero on either side.

    Nothing is chosen on the runs, so all of them test; the two directions share the error.

    Args:
        samples: scores [n, 1] of the runs on either data set.
        claim: a claim of pure differential privacy.
        confidence: with at least this probability a true claim is not refuted.

    Raises:
        InvalidParameter: the claim is of another kind.
    """
    if claim is None or not isinstance(claim.guarantee, PureDP):
        remedy = "audit it by the threshold method"
        raise InvalidParameter("no claim of pure differential privacy", where="fixed-event", remedy=remedy)
    n, error = len(samples), (1.0 - confidence) / 2.0
    here, there = int((samples.data > 0).sum()), int((samples.neighbour > 0).sum())
    lower = max(
        epsilon_lower(here, n, there, n, delta=0.0, error=error),
        epsilon_lower(there, n, here, n, delta=0.0, error=error),
    )
    return Audit(
        method="fixed-event",
        claim=claim,
        pairs=1,
        trials=n,
        seed=samples.seed,
        about="final-output",
        epsilon_lower=lower,
        epsilon_claimed=claim.guarantee.epsilon,
        delta=0.0,
        confidence=confidence,
        largest_refutable_epsilon=largest_refutable_epsilon(n, 0.0, 1.0 - error),
        not_checked=LIMITS,
    )
