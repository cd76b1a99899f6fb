"""How an audit of its own reads as text: what was refuted, of what, and how far the audit could have seen."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from dpaudit.app.text.output import assured, bullets, counted, line, lower
from dpaudit.app.text.tables import audit_line, could_refute_any, finding_words, not_checked
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.guarantees import GDP

_OF = {"transcript": "the transcript of all releases", "final-output": "the final output"}


def audit_page(audit: Audit) -> list[RenderableType]:
    """The verdict in one line, what it speaks of, the figures behind it, and what was not checked."""
    parts: list[RenderableType] = [audit_line(audit), line(_meaning(audit))]
    parts += bullets("Findings", map(finding_words, audit.findings))
    parts += bullets("Figures", _figures(audit))
    if audit.verdict is Experiment.INCONCLUSIVE:
        parts += bullets("Inconclusive", audit.inconclusive)
    return [*parts, *not_checked(audit.not_checked)]


def audit_json(audit: Audit) -> dict[str, Any]:
    """The audit as plain JSON types, the verdict first; a figure that it does not give is null."""
    fields = audit.model_dump(mode="json", by_alias=True)
    conditions = [condition.to_json() for condition in audit.not_checked]
    return {"verdict": audit.verdict, **fields, "not_checked": conditions}


def _meaning(audit: Audit) -> str:
    of = _OF[audit.speaks_of]
    if audit.claim is None:
        said = "an audit without a claim bounds what is lost"
        return f"{said}: it speaks of {of}"
    guarantee = audit.claim.guarantee
    match audit.verdict:
        case Experiment.REFUTED if set(audit.refuted_by) == {"findings"}:
            return f"the ledger does not describe the algorithm; the figures speak of {of}"
        case Experiment.REFUTED if audit.method == "gdp" and isinstance(guarantee, GDP):
            return f"not {guarantee}: this speaks of {of}, and says nothing of any epsilon"
        case Experiment.REFUTED:
            return f"not {guarantee}: this speaks of {of}"
        case Experiment.NOT_REFUTED:
            return f"nothing speaks against {guarantee} in {of}; that is no evidence of privacy"
        case Experiment.INCONCLUSIVE:
            return f"of {guarantee} this audit can say nothing, either way; it looked at {of}"


def _figures(audit: Audit) -> list[str]:
    sure = "" if audit.confidence is None else f" with confidence {assured(audit.confidence)}"
    figures = []
    if audit.epsilon_lower is not None:
        claimed = "" if audit.epsilon_claimed is None else f"; claimed {audit.epsilon_claimed:.6g}"
        figures.append(f"epsilon >= {lower(audit.epsilon_lower)} at delta {audit.delta:g}{sure}{claimed}")
    if audit.mu_lower is not None:
        claimed = ""
        if audit.claim is not None and isinstance(audit.claim.guarantee, GDP):
            claimed = f"; claimed {audit.claim.guarantee.mu:.6g}"
        figures.append(f"mu >= {lower(audit.mu_lower)}{sure}{claimed}")
    if audit.p_value is not None:
        figures.append(f"p-value of the claim {audit.p_value:.3g}")
    runs = {
        "replay": counted(audit.trials, "replay", "replays") + " in each direction",
        "one-run": counted(audit.trials, "canary", "canaries"),
    }.get(audit.method, counted(audit.trials, "run", "runs") + " a side")
    if audit.largest_refutable_epsilon is None:
        figures.append(runs)
    elif could_refute_any(audit):
        figures.append(f"{runs}: any epsilon could have been refuted")
    else:
        most = f"epsilon {lower(audit.largest_refutable_epsilon)} at delta {audit.delta:g}"
        figures.append(f"{runs}: at most {most} could have been refuted")
    if audit.event is not None:
        figures.append(f"tested: {audit.event}")
    return figures
