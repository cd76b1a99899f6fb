"""A report as GitHub Actions reads it: workflow commands that annotate lines, and a job summary."""

from __future__ import annotations

from dpaudit.app.gate.report import Finding, Report
from dpaudit.app.text.conditions import sentences

#: GitHub refuses a job summary of more than 1 MiB, and with it the whole of it.
_MOST_OF_SUMMARY = 900_000

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_SIGNS = {
    "passed": "✅",
    "failed": "❌",
    "error": "⛔",
    "inconclusive": "❔",
    "unchecked": "❔",
}


def workflow_commands(report: Report) -> str:
    """A workflow command for each finding, and one that sums up."""
    lines = [_annotation(finding) for finding in report.all_findings]
    lines.append(f"::notice title=dpaudit gate::{_message(report.summary)}")
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding) -> str:
    place = finding.place
    properties = {
        "file": place.file,
        "line": str(place.line),
        "title": f"dpaudit {finding.rule}" + (f": {finding.check}" if finding.check else ""),
    }
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    waiver = f"waived until {finding.waiver.expires} ({finding.waiver.reason}): " if finding.waiver else ""
    return f"::{_COMMANDS[finding.level]} {written}::{_message(waiver + finding.message)}"


def _message(text: str) -> str:
    """Escaped, so that no foreign text can end the command or begin another one."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def markdown(report: Report) -> str:
    """The report as a Markdown page: a table of checks, then what was found and what was not checked."""
    seed = "" if report.seed is None else f", audit seed {report.seed}"
    lines = [
        "## dpaudit gate",
        "",
        f"{_cell(report.summary)} (profile {report.profile}{seed}, exit code {report.exit_status})",
    ]
    if report.checks:
        lines += ["", "| check | claim | cost | proof | audit | |", "|---|---|---|---|---|---|"]
        lines += [
            f"| {_cell(check.name)} | {_cell(check.claim)} | {_cell(check.cost)} | {check.proof or ''} "
            f"| {check.experiment or ''} | {_SIGNS[check.outcome]} {check.outcome} |"
            for check in report.checks
        ]
    findings = report.all_findings
    if findings:
        lines += ["", "### Findings", ""]
        lines += [_item(finding) for finding in findings]
    taken = sentences(condition for check in report.checks for condition in check.not_checked)
    if taken:
        lines += ["", "<details><summary>Not checked</summary>", ""]
        lines += [f"- {_cell(line)}" for line in taken]
        lines += ["", "</details>"]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > _MOST_OF_SUMMARY:
        text = text.encode()[:_MOST_OF_SUMMARY].decode(errors="ignore") + "\n\n(cut short)\n"
    return text


def _item(finding: Finding) -> str:
    check = f" {_cell(finding.check)}:" if finding.check else ""
    waiver = (
        f" *waived until {finding.waiver.expires}: {_cell(finding.waiver.reason)}*" if finding.waiver else ""
    )
    place = f"{finding.place.file}:{finding.place.line}"
    return f"- **{finding.rule}**{check} {_cell(finding.message)} ({_cell(place)}){waiver}"


def _cell(text: str) -> str:
    """Foreign text on one line, with nothing that Markdown or HTML would read as more than text."""
    escaped = "".join("\\" + c if c in "\\`*_[]|#~!" else c for c in " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
