"""A report as SARIF 2.1.0 (OASIS Standard, 2020), which code-scanning services read."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from dpaudit.app.gate.report import RULES, Finding, Place, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(report: Report) -> str:
    """The report as one SARIF log with one run; a waived finding is a suppressed result."""
    driver: dict[str, Any] = {"name": "dpaudit", "rules": [_rule(name) for name in RULES]}
    with_version = _version()
    if with_version is not None:
        driver["version"] = with_version
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                # Whether it could judge what it was to judge, not whether it liked it.
                "executionSuccessful": report.exit_status not in {2, 3},
                "exitCode": report.exit_status,
                "exitCodeDescription": report.summary,
            }
        ],
        "results": _results(report),
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    return {
        "id": name,
        "shortDescription": {"text": rule.meaning},
        "defaultConfiguration": {"level": rule.level},
    }


def _results(report: Report) -> list[dict[str, Any]]:
    names = list(RULES)
    results = []
    for finding, fingerprint in zip(report.all_findings, fingerprints(report), strict=True):
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "ruleIndex": names.index(finding.rule),
            "level": finding.level,
            "message": {"text": f"{finding.check}: {finding.message}" if finding.check else finding.message},
            "locations": [{"physicalLocation": _location(finding.place)}],
            "partialFingerprints": {"dpauditFinding/v1": fingerprint},
        }
        # Where one result is marked as not suppressed, all others must be as well.
        result["suppressions"] = [] if finding.waiver is None else [_suppression(finding)]
        results.append(result)
    return results


def _suppression(finding: Finding) -> dict[str, Any]:
    waiver = finding.waiver
    assert waiver is not None  # noqa: S101  (the caller has looked)
    return {
        "kind": "external",
        "status": "accepted",
        "justification": f"{waiver.reason} (until {waiver.expires})",
    }


def _location(place: Place) -> dict[str, Any]:
    artifact = {"uri": quote(place.file)}
    if not place.file.startswith("/"):
        artifact["uriBaseId"] = "%SRCROOT%"
    else:
        artifact["uri"] = f"file://{artifact['uri']}"
    return {"artifactLocation": artifact, "region": {"startLine": place.line}}


def fingerprints(report: Report) -> list[str]:
    """One for each finding, the same from run to run while check, rule and file stay: no line, no figure."""
    seen: dict[tuple[str, ...], int] = {}
    found = []
    for finding in report.all_findings:
        key = (finding.check, finding.rule, finding.place.file)
        seen[key] = seen.get(key, 0) + 1
        text = json.dumps([*key, seen[key]])
        found.append(hashlib.sha256(text.encode()).hexdigest())
    return found


def _version() -> str | None:
    try:
        return version("dpaudit")
    except PackageNotFoundError:
        return None
