"""Several audits of one claim, on several pairs: one verdict and one bound, the error divided beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpaudit.certificate.verdicts import Audit


def together(audits: Sequence[Audit], *, planned: int, confidence: float) -> Audit:
    """What audits of the same claim on different pairs say together.

    Args:
        audits: at least one, by the same method, each made with an error of (1 - confidence) / planned.
        planned: how many there were to be; some may have been cut off.
        confidence: of everything together.

    Returns:
        The largest bounds, and the least p-value times `planned` (Bonferroni); inconclusive where no
        audit could have told.
    """
    strongest = max(audits, key=lambda audit: (audit.epsilon_lower or 0.0, audit.mu_lower or 0.0))
    if planned == 1:
        return strongest
    p_value = _most(-audit.p_value for audit in audits if audit.p_value is not None)
    told = any(not audit.inconclusive for audit in audits)
    reasons = () if told else dict.fromkeys(reason for audit in audits for reason in audit.inconclusive)
    return strongest.model_copy(
        update={
            "pairs": len(audits),
            "trials": min(audit.trials for audit in audits),
            "epsilon_lower": _most(audit.epsilon_lower for audit in audits),
            "mu_lower": _most(audit.mu_lower for audit in audits),
            "p_value": None if p_value is None else min(1.0, -planned * p_value),
            "largest_refutable_epsilon": _most(audit.largest_refutable_epsilon for audit in audits),
            "confidence": confidence,
            "not_checked": tuple(dict.fromkeys(limit for audit in audits for limit in audit.not_checked)),
            "inconclusive": tuple(reasons),
        }
    )


def _most(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)
