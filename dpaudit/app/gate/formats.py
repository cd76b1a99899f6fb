"""A gate's report in every format: for the terminal, GitHub, GitLab, code scanning and test dashboards."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from rich.console import RenderableType

from dpaudit.app.gate.report import RULES, GateFinding, Place, Report, outcome
from dpaudit.app.gate.settings import Waiver
from dpaudit.app.origin import origin
from dpaudit.app.text.conditions import not_checked, sentences, warnings
from dpaudit.app.text.output import bullets, line, table
from dpaudit.certificate.conditions import Condition


def text(report: Report) -> list[RenderableType]:
    """A table of the checks, then what was found, what is waived and what was not checked."""
    parts: list[RenderableType] = []
    if report.checks:
        rows = [(c.name, c.claim, c.cost, c.proof, c.experiment, c.outcome) for c in report.checks]
        columns = ("check", "claim", "cost", "proof", "audit", "outcome")
        parts += [table(columns, rows, whole=columns[3:], spare=("claim", "cost")), line()]
    parts += bullets("Findings", _text_lines([f for f in report.all_findings if f.waiver is None]))
    parts += bullets("Waived", _text_lines([f for f in report.all_findings if f.waiver is not None]))
    parts += [*warnings(_conditions(report)), *not_checked(_conditions(report))]
    return [*parts, line(), line(f"{report.summary} ({_profile(report)})")]


def _conditions(report: Report) -> list[Condition]:
    return [condition for check in report.checks for condition in check.not_checked]


def _profile(report: Report) -> str:
    return f"profile {report.profile}" + ("" if report.seed is None else f", audit seed {report.seed}")


def _text_lines(findings: list[GateFinding]) -> list[str]:
    lines = []
    for finding in findings:
        check = f"{finding.check}: " if finding.check else ""
        waiver = f" [until {finding.waiver.expires}: {finding.waiver.reason}]" if finding.waiver else ""
        lines.append(f"{finding.place}: {finding.rule}: {check}{_one_line(finding.message)}{waiver}")
    return lines


def _one_line(message: str) -> str:
    """The lines of a message, with semicolons between them."""
    return "; ".join(" ".join(part.split()) for part in message.split("\n") if part.strip())


#: GitHub refuses a job summary of more than 1 MiB, and with it the whole of it.
_MOST_OF_SUMMARY = 900_000

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_SIGNS = {"passed": "✅", "failed": "❌", "error": "⛔", "inconclusive": "❔", "unchecked": "❔"}


def workflow_commands(report: Report) -> str:
    """A workflow command for each finding, and one that sums up."""
    lines = [_annotation(finding) for finding in report.all_findings]
    lines.append(f"::notice title=dpaudit gate::{_escaped(report.summary)}")
    return "\n".join(lines) + "\n"


def _annotation(finding: GateFinding) -> str:
    place = finding.place
    properties = {
        "file": place.file,
        "line": str(place.line),
        "title": f"dpaudit {finding.rule}" + (f": {finding.check}" if finding.check else ""),
    }
    escaped = {name: _escaped(value) for name, value in properties.items()}
    written = ",".join(f"{k}={v.replace(':', '%3A').replace(',', '%2C')}" for k, v in escaped.items())
    waiver = f"waived until {finding.waiver.expires} ({finding.waiver.reason}): " if finding.waiver else ""
    return f"::{_COMMANDS[finding.level]} {written}::{_escaped(waiver + finding.message)}"


def _escaped(text: str) -> str:
    """Escaped, so that no foreign text can end the command or begin another one."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def markdown(report: Report) -> str:
    """The report as a Markdown page: a table of checks, then what was found and what was not checked."""
    about = f"{_profile(report)}, exit code {report.exit_status}"
    lines = ["## dpaudit gate", "", f"{_cell(report.summary)} ({about})"]
    if report.checks:
        lines += ["", "| check | claim | cost | proof | audit | |", "|---|---|---|---|---|---|"]
        lines += [
            f"| {_cell(check.name)} | {_cell(check.claim)} | {_cell(check.cost)} | {check.proof or ''} "
            f"| {check.experiment or ''} | {_SIGNS[check.outcome]} {check.outcome} |"
            for check in report.checks
        ]
    if report.all_findings:
        lines += ["", "### Findings", "", *map(_item, report.all_findings)]
    taken = [f"- {_cell(words)}" for words in sentences(_conditions(report))]
    if taken:
        lines += ["", "<details><summary>Not checked</summary>", "", *taken, "", "</details>"]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > _MOST_OF_SUMMARY:
        text = text.encode()[:_MOST_OF_SUMMARY].decode(errors="ignore") + "\n\n(cut short)\n"
    return text


def _item(finding: GateFinding) -> str:
    check = f" {_cell(finding.check)}:" if finding.check else ""
    waiver = finding.waiver
    waived = f" *waived until {waiver.expires}: {_cell(waiver.reason)}*" if waiver else ""
    message = _cell(_one_line(finding.message))
    return f"- **{finding.rule}**{check} {message} ({_cell(str(finding.place))}){waived}"


def _cell(text: str) -> str:
    """Foreign text on one line, with nothing that Markdown or HTML would read as more than text."""
    escaped = "".join("\\" + c if c in "\\`*_[]|#~!" else c for c in " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> str:
    """The report as one SARIF log with one run; a waived finding is a suppressed result."""
    page = origin().page("docs/publishing/gate.md", "findings-and-exit-codes")
    rules = [
        {
            "id": name,
            "shortDescription": {"text": rule.meaning},
            "defaultConfiguration": {"level": rule.level},
            **({} if page is None else {"helpUri": page}),
        }
        for name, rule in RULES.items()
    ]
    driver: dict[str, Any] = {"name": "dpaudit", "rules": rules}
    with suppress(PackageNotFoundError):
        driver["version"] = version("dpaudit")
    invocation = {
        "executionSuccessful": report.only_verdicts,
        "exitCode": report.exit_status,
        "exitCodeDescription": report.summary,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": _sarif_results(report),
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_results(report: Report) -> list[dict[str, Any]]:
    names = list(RULES)
    return [
        {
            "ruleId": finding.rule,
            "ruleIndex": names.index(finding.rule),
            "level": finding.level,
            "message": {"text": f"{finding.check}: {finding.message}" if finding.check else finding.message},
            "locations": [{"physicalLocation": _sarif_location(finding.place)}],
            "partialFingerprints": {"dpauditFinding/v1": fingerprint},
            # If one result states whether it is suppressed, all results must.
            "suppressions": [] if finding.waiver is None else [_sarif_suppression(finding.waiver)],
        }
        for finding, fingerprint in zip(report.all_findings, fingerprints(report), strict=True)
    ]


def _sarif_suppression(waiver: Waiver) -> dict[str, Any]:
    words = f"{waiver.reason} (until {waiver.expires})"
    return {"kind": "external", "status": "accepted", "justification": words}


def _sarif_location(place: Place) -> dict[str, Any]:
    uri = quote(place.file)
    outside = place.file.startswith("/")
    artifact = {"uri": f"file://{uri}"} if outside else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    return {"artifactLocation": artifact, "region": {"startLine": place.line}}


def fingerprints(report: Report) -> list[str]:
    """Return a fingerprint for each finding; it depends on check, rule and file, not on lines or figures."""
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for finding in report.all_findings:
        key = (finding.check, finding.rule, finding.place.file)
        seen[key] += 1
        text = json.dumps([*key, seen[key]])
        found.append(hashlib.sha256(text.encode()).hexdigest())
    return found


def gitlab(report: Report) -> str:
    """The report's findings, waived ones as mere information."""
    issues = [
        {
            "type": "issue",
            "check_name": finding.rule,
            "description": _gitlab_description(finding),
            "fingerprint": fingerprint,
            "severity": _gitlab_severity(finding),
            "location": {"path": finding.place.file, "lines": {"begin": finding.place.line}},
        }
        for finding, fingerprint in zip(report.all_findings, fingerprints(report), strict=True)
    ]
    return json.dumps(issues, indent=2) + "\n"


def _gitlab_description(finding: GateFinding) -> str:
    check = f"{finding.check}: " if finding.check else ""
    waiver = f" (waived until {finding.waiver.expires}: {finding.waiver.reason})" if finding.waiver else ""
    return f"{check}{finding.message}{waiver}"


def _gitlab_severity(finding: GateFinding) -> str:
    if finding.waiver is not None:
        return "info"
    if finding.exit_status in {2, 3}:
        return "blocker"
    return {"error": "critical", "warning": "minor", "note": "info"}[finding.level]


def junit(report: Report) -> str:
    """Return the report as one test suite; an inconclusive check is skipped unless it fails the gate."""
    suite = ET.Element("testsuite", name="dpaudit gate")
    tags = {"error": "error", "failed": "failure", "unchecked": "failure"}
    tags["inconclusive"] = "failure" if report.strict else "skipped"
    cases: list[tuple[str, str, Sequence[GateFinding], float, str]] = [
        (check.name, check.kind, check.findings, check.seconds, f"{check.claim}\n{check.cost}".strip())
        for check in report.checks
    ]
    if report.findings or not cases:
        cases.insert(0, ("configuration", "configuration", report.findings, 0.0, report.summary))
    counts = {"tests": len(cases), "failures": 0, "errors": 0, "skipped": 0}
    for name, kind, findings, took, words in cases:
        case = ET.SubElement(suite, "testcase", classname=f"dpaudit.{kind}", name=name, time=f"{took:.3f}")
        # Nothing to check is no success.
        tag = tags.get(outcome(findings), None if report.checks else "failure")
        if tag is not None:
            counts["skipped" if tag == "skipped" else tag + "s"] += 1
            open_ = [finding for finding in findings if finding.exit_status]
            message = open_[0].message.partition("\n")[0] if open_ else report.summary
            element = ET.SubElement(case, tag, message=message)
            if tag != "skipped":
                element.set("type", open_[0].rule if open_ else "nothing-to-check")
                element.text = "\n".join(map(_junit_line, open_))
        output = [words, *(_junit_line(f) for f in findings if not f.exit_status)]
        ET.SubElement(case, "system-out").text = "\n".join(part for part in output if part)
    for name, number in counts.items():
        suite.set(name, str(number))
    suite.set("time", f"{sum(check.seconds for check in report.checks):.3f}")
    root = ET.Element("testsuites", dict(suite.attrib))
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_line(finding: GateFinding) -> str:
    waiver = "" if finding.waiver is None else f" [waived: {finding.waiver.reason}]"
    return f"{finding.place}: {finding.rule}: {finding.message}{waiver}"


#: Format -> the whole report in it.
FORMATS: Final[dict[str, Callable[[Report], str]]] = {
    "json": lambda report: json.dumps(report.to_json(), indent=2, allow_nan=False) + "\n",
    "github": workflow_commands,
    "markdown": markdown,
    "sarif": sarif,
    "junit": junit,
    "gitlab": gitlab,
}
