"""What the exact losses of several directions say together: one bound, one p-value, one error budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.auditors.replay.exact_loss import DEFAULT_DELTA, Losses
from dpaudit.auditors.replay.fixed_pair import FixedPair
from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP, PureDP
from dpaudit.claims.relations import View


@dataclass(frozen=True)
class Direction:
    """One pair in one direction: its losses by sampling, and what is known in closed form."""

    losses: Losses
    fixed: FixedPair


def loss_figures(
    directions: Sequence[Direction], claim: Claim | None, delta: float | None, confidence: float
) -> dict[str, Any]:
    """The fields of an `Audit` that speak of the exact loss.

    The error is split evenly over the directions, and between the bound on epsilon and the p-value where
    they are not one and the same test. What holds in closed form costs none.

    Args:
        directions: at least one.
        claim: what is claimed, if anything.
        delta: where to bound epsilon; left out, the claim's own, or 1e-5.
        confidence: of everything together.
    """
    guarantee = None if claim is None else claim.guarantee
    own = 0.0 if isinstance(guarantee, PureDP) else getattr(guarantee, "delta", None)
    at = delta if delta is not None else DEFAULT_DELTA if own is None else own
    # At the claim's own delta the p-value and the bound are two readings of one test.
    tests = len(directions) * (1 if guarantee is None or at == own else 2)
    error = (1.0 - confidence) / tests
    figures: dict[str, Any] = {
        "epsilon_lower": max(max(d.fixed.epsilon(at), d.losses.epsilon_lower(at, error)) for d in directions),
        "delta": at,
        "confidence": confidence,
        # The number of replays sets no limit: a loss that is certain, or that was seen, is one of any size.
        "largest_refutable_epsilon": LARGEST_EPSILON,
    }
    mu = max(d.fixed.mu for d in directions)
    count = len(directions[0].losses.losses)
    closed = f"; in closed form at least mu = {mu:.6g}" if mu > 0.0 else ""
    figures["event"] = f"the exact loss of {count} replays in each of {len(directions)} directions{closed}"
    if claim is None or guarantee is None:
        return figures | {"mu_lower": mu}
    if claim.view is not View.ALL_RELEASES:
        reason = (
            f"the claim is about the view {str(claim.view)!r}, the exact loss about all releases, "
            "which may reveal more"
        )
        return figures | {"inconclusive": [reason]}
    if isinstance(guarantee, PureDP | ApproxDP) and own is not None and at >= own:
        # Of a smaller delta (epsilon, delta)-DP says nothing.
        figures["epsilon_claimed"] = guarantee.epsilon
    certain = any(d.fixed.contradicts(guarantee, CLAIM_TOLERANCE) for d in directions)
    p_value = min(1.0, tests * min(d.losses.p_value(guarantee) for d in directions))
    return figures | {"mu_lower": mu, "p_value": 0.0 if certain else p_value}
