"""An audit as text and as JSON: its verdict and its detection limit."""

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dpaudit.app.text.conditions import not_checked, warnings
from dpaudit.app.text.output import assured, bullets, counted, line, lower
from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON
from dpaudit.certificate.verdicts import Audit, Experiment, Finding
from dpaudit.claims.guarantees import GDP

_OF = {"transcript": "the transcript of all releases", "final-output": "the final output"}


def audit_line(audit: Audit) -> Text:
    """The audit's verdict, what it compared, and its seed."""
    compared = counted(audit.pairs, "pair", "pairs") + " of neighbouring data"
    if audit.method == "one-run":
        compared = counted(audit.trials, "canary", "canaries")
    return line("audit", audit.verdict, f"by {audit.method} on {compared}, audit seed {audit.seed}")


def audit_words(audit: Audit) -> list[RenderableType]:
    """The audit's verdict, seed and findings, and the reason if it is inconclusive."""
    parts: list[RenderableType] = [audit_line(audit)]
    if audit.epsilon_lower is not None:
        parts.append(line(f"epsilon >= {lower(audit.epsilon_lower)} at delta {audit.delta:g}"))
    parts += [*warnings(audit.not_checked), *bullets("Findings", map(finding_words, audit.findings))]
    return [*parts, *_inconclusive(audit)]


def audit_page(audit: Audit) -> list[RenderableType]:
    """The verdict in one line, what it covers, the figures behind it, and what was not checked."""
    parts: list[RenderableType] = [audit_line(audit), line(_meaning(audit)), *warnings(audit.not_checked)]
    parts += bullets("Findings", map(finding_words, audit.findings)) + bullets("Figures", _figures(audit))
    return [*parts, *_inconclusive(audit), *not_checked(audit.not_checked)]


def _inconclusive(audit: Audit) -> list[RenderableType]:
    reasons = audit.inconclusive if audit.verdict is Experiment.INCONCLUSIVE else ()
    return bullets("Inconclusive", reasons)


def audit_json(audit: Audit) -> dict[str, Any]:
    """Return the audit as plain JSON types, verdict first; a missing figure is null."""
    conditions = [condition.to_json() for condition in audit.not_checked]
    fields = audit.model_dump(mode="json", by_alias=True)
    return {"verdict": audit.verdict, **fields, "not_checked": conditions}


def finding_words(finding: Finding) -> str:
    """A finding's kind, release, detail and place."""
    label = f" in {finding.label!r}" if finding.label else ""
    place = f" ({finding.where})" if finding.where else ""
    return f"{finding.kind}{label}: {finding.detail}{place}"


def could_refute_any(audit: Audit) -> bool:
    """Return whether any epsilon could have been refuted: the figure is only the numerical limit."""
    return (audit.largest_refutable_epsilon or 0.0) >= LARGEST_EPSILON


def _meaning(audit: Audit) -> str:
    of = _OF[audit.about]
    if audit.claim is None:
        return f"no claim was audited; the figures are about {of}"
    guarantee = audit.claim.guarantee
    match audit.verdict:
        case Experiment.REFUTED if set(audit.refuted_by) == {"findings"}:
            return f"the ledger does not describe the algorithm; the figures are about {of}"
        case Experiment.REFUTED if audit.method in {"gdp", "one-run"} and isinstance(guarantee, GDP):
            return f"the audit refutes {guarantee} in {of}; this says nothing about epsilon"
        case Experiment.REFUTED:
            return f"the audit refutes {guarantee} in {of}"
        case Experiment.NOT_REFUTED:
            found = f"the audit found no evidence against {guarantee} in {of}"
            return f"{found}; this does not show that the claim is true"
        case Experiment.INCONCLUSIVE:
            return f"the audit cannot tell whether {guarantee} is violated in {of}"


def _figures(audit: Audit) -> list[str]:
    sure = "" if audit.confidence is None else f" with confidence {assured(audit.confidence)}"
    figures = []
    if audit.epsilon_lower is not None:
        claimed = "" if audit.epsilon_claimed is None else f"; claimed {audit.epsilon_claimed:.6g}"
        figures.append(f"epsilon >= {lower(audit.epsilon_lower)} at delta {audit.delta:g}{sure}{claimed}")
    if audit.mu_lower is not None:
        guarantee = audit.claim and audit.claim.guarantee
        claimed = f"; claimed {guarantee.mu:.6g}" if isinstance(guarantee, GDP) else ""
        figures.append(f"mu >= {lower(audit.mu_lower)}{sure}{claimed}")
    if audit.epsilon_if_gaussian is not None:
        gaussian = f"epsilon >= {lower(audit.epsilon_if_gaussian)} at delta {audit.delta:g}"
        figures.append(f"{gaussian}{sure}, if the privacy curve is Gaussian")
    if audit.p_value is not None:
        figures.append(f"p-value of the claim {audit.p_value:.3g}")
    names = {"replay": ("replay", "replays"), "one-run": ("canary", "canaries")}
    runs = counted(audit.trials, *names.get(audit.method, ("run", "runs")))
    runs += {"replay": " in each direction", "one-run": ""}.get(audit.method, " a side")
    if could_refute_any(audit):
        runs += ": any epsilon could have been refuted"
    elif audit.largest_refutable_epsilon is not None:
        most = f"epsilon {lower(audit.largest_refutable_epsilon)} at delta {audit.delta:g}"
        runs += f": at most {most} could have been refuted"
    return [*figures, runs, *tested(audit)]


def tested(audit: Audit) -> list[str]:
    """Return one line each for the tests, the search and the smallest refuting pair."""
    told = {"tested": audit.event, "searched": audit.searched, "smallest pair": audit.smallest_pair}
    return [f"{name}: {words}" for name, words in told.items() if words]
