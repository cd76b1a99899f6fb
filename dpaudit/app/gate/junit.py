"""A report as JUnit XML, as test dashboards read it: one test case for each check."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from dpaudit.app.gate.report import Finding, Report, outcome


def junit(report: Report) -> str:
    """The report as one test suite; what is inconclusive is skipped, unless it fails the gate."""
    suite = ET.Element("testsuite", name="dpaudit gate")
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    seconds = 0.0
    cases: list[tuple[str, str, Sequence[Finding], float, str]] = [
        (check.name, check.kind, check.findings, check.seconds, f"{check.claim}\n{check.cost}".strip())
        for check in report.checks
    ]
    if report.findings or not cases:
        cases.insert(0, ("configuration", "configuration", report.findings, 0.0, report.summary))
    for name, kind, findings, took, words in cases:
        case = ET.SubElement(suite, "testcase", classname=f"dpaudit.{kind}", name=name, time=f"{took:.3f}")
        tag = _tag(outcome(findings), strict=report.strict)
        if not report.checks and tag is None:
            tag = "failure"  # nothing to check is no success
        if tag is not None:
            counts["skipped" if tag == "skipped" else tag + "s"] += 1
            open_ = [finding for finding in findings if finding.exit_status]
            message = open_[0].message.partition("\n")[0] if open_ else report.summary
            element = ET.SubElement(case, tag, message=message)
            if tag != "skipped":
                element.set("type", open_[0].rule if open_ else "nothing-to-check")
                element.text = "\n".join(map(_line, open_))
        output = [words, *(_line(f) for f in findings if not f.exit_status)]
        ET.SubElement(case, "system-out").text = "\n".join(part for part in output if part)
        counts["tests"] += 1
        seconds += took
    for name, number in counts.items():
        suite.set(name, str(number))
    suite.set("time", f"{seconds:.3f}")
    root = ET.Element("testsuites", dict(suite.attrib))
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _tag(word: str, *, strict: bool) -> str | None:
    if word == "inconclusive":
        return "failure" if strict else "skipped"
    return {"error": "error", "failed": "failure", "unchecked": "failure", "passed": None}[word]


def _line(finding: Finding) -> str:
    waiver = "" if finding.waiver is None else f" [waived: {finding.waiver.reason}]"
    return f"{finding.place.file}:{finding.place.line}: {finding.rule}: {finding.message}{waiver}"
