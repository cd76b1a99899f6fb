"""A report for the terminal."""

from __future__ import annotations

from rich.console import RenderableType

from dpaudit.app.gate.report import Finding, Report
from dpaudit.app.text.conditions import sentences
from dpaudit.app.text.output import bullets, line, table


def text(report: Report) -> list[RenderableType]:
    """A table of the checks, then what was found, what is waived and what was not checked."""
    parts: list[RenderableType] = []
    if report.checks:
        rows = [
            (check.name, check.claim, check.cost, check.proof, check.experiment, check.outcome)
            for check in report.checks
        ]
        columns = ("check", "claim", "cost", "proof", "audit", "outcome")
        parts += [table(columns, rows, whole=("proof", "audit", "outcome")), line()]
    open_ = [finding for finding in report.all_findings if finding.waiver is None]
    waived = [finding for finding in report.all_findings if finding.waiver is not None]
    parts += bullets("Findings", _lines(open_))
    parts += bullets("Waived", _lines(waived))
    parts += bullets("Not checked", sentences(c for check in report.checks for c in check.not_checked))
    seed = "" if report.seed is None else f", audit seed {report.seed}"
    return [*parts, line(), line(f"{report.summary} (profile {report.profile}{seed})")]


def _lines(findings: list[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        check = f"{finding.check}: " if finding.check else ""
        waiver = f" [until {finding.waiver.expires}: {finding.waiver.reason}]" if finding.waiver else ""
        place = f"{finding.place.file}:{finding.place.line}"
        first, _, rest = finding.message.partition("\n")
        more = "".join(f"; {part.strip()}" for part in rest.split("\n") if part.strip())
        lines.append(f"{place}: {finding.rule}: {check}{first}{more}{waiver}")
    return lines
