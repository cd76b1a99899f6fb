"""A report as GitLab's code quality artifact: a list of issues."""

from __future__ import annotations

import json

from dpaudit.app.gate.report import Finding, Report
from dpaudit.app.gate.sarif import fingerprints


def gitlab(report: Report) -> str:
    """The report's findings, waived ones as mere information."""
    issues = [
        {
            "type": "issue",
            "check_name": finding.rule,
            "description": _description(finding),
            "fingerprint": fingerprint,
            "severity": _severity(finding),
            "location": {"path": finding.place.file, "lines": {"begin": finding.place.line}},
        }
        for finding, fingerprint in zip(report.all_findings, fingerprints(report), strict=True)
    ]
    return json.dumps(issues, indent=2) + "\n"


def _description(finding: Finding) -> str:
    check = f"{finding.check}: " if finding.check else ""
    waiver = f" (waived until {finding.waiver.expires}: {finding.waiver.reason})" if finding.waiver else ""
    return f"{check}{finding.message}{waiver}"


def _severity(finding: Finding) -> str:
    if finding.waiver is not None:
        return "info"
    if finding.exit_status in {2, 3}:
        return "blocker"
    return {"error": "critical", "warning": "minor", "note": "info"}[finding.level]
