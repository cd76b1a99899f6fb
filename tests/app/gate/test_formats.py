"""Every format of the report, over findings of every kind and hostile text, read by a parser of its own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.app.gate.formats import gitlab, junit, markdown, sarif, workflow_commands
from dpaudit.app.gate.report import RULES, Checked, GateFinding, Place, Report
from dpaudit.app.gate.settings import Waiver
from dpaudit.app.origin import Origin
from dpaudit.app.text.conditions import sentences
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Experiment, Proof

#: As OASIS publishes it with the standard: sarif-spec, sarif-2.1/schema.
SCHEMA = json.loads((Path(__file__).parents[2] / "data" / "sarif-schema-2.1.0.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)

WAIVER = Waiver.model_validate(
    {
        "check": "a",
        "finding": "refuted",
        "reason": "until March",
        "expires": __import__("datetime").date(2026, 3, 1),
    }
)
TEXT = st.text(max_size=40) | st.sampled_from(
    [
        "::error::x\n::set-output name=a::b",
        "a%0Ab",
        "]]></failure>",
        "| a | b |\n",
        "<img src=x>",
        "\x00\x1b[2J\ud800",
    ]
)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    def finding(check: str) -> GateFinding:
        return GateFinding(
            draw(st.sampled_from(sorted(RULES))),
            check,
            draw(TEXT),
            Place(
                draw(st.sampled_from(["a b.py", "häuser,1:2.jsonl", "/work/a.py", "d/p.toml"])),
                draw(st.integers(1, 9)),
            ),
            draw(st.sampled_from([None, WAIVER])),
        )

    checks = tuple(
        Checked(
            name,
            draw(st.sampled_from(["target", "ledger"])),
            "mine.py:a",
            tuple(finding(name) for _ in range(draw(st.integers(0, 3)))),
            claim=draw(TEXT),
            proof=draw(st.sampled_from([None, *Proof])),
            experiment=draw(st.sampled_from([None, *Experiment])),
            cost=draw(TEXT),
            not_checked=(Condition(code=Code.STATED, text=draw(TEXT)),),
            seconds=1.5,
        )
        for name in draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    )
    general = tuple(finding("") for _ in range(draw(st.integers(0, 2))))
    return Report("pr", 0, checks, general, draw(st.booleans()))


@given(reports())
def test_sarif_follows_the_standards_schema_and_loses_nothing(report: Report) -> None:
    log = json.loads(sarif(report).encode("utf-8", "surrogatepass"))
    VALIDATOR.validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len(run["results"]) == len(report.all_findings)
    prints = [result["partialFingerprints"]["dpauditFinding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)
    for result, finding in zip(run["results"], report.all_findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.rule
        assert bool(result["suppressions"]) == (finding.waiver is not None)
        place = result["locations"][0]["physicalLocation"]
        assert unquote(place["artifactLocation"]["uri"]).removeprefix("file://") == finding.place.file
        assert place["region"]["startLine"] == finding.place.line
    assert run["invocations"][0]["exitCode"] == report.exit_status


@pytest.mark.parametrize("pages", [None, "https://github.com/owner/dpaudit/blob/abc"])
def test_a_rule_names_its_page_where_one_is_known(pages: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpaudit.app.gate.formats.origin", lambda: Origin(None, pages))
    log = json.loads(sarif(Report("pr", 0, (), ())))
    VALIDATOR.validate(log)
    found = {rule.get("helpUri") for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    assert found == {None if pages is None else f"{pages}/docs/publishing/gate.md#findings-and-exit-codes"}


def test_the_schema_would_refuse_what_is_no_sarif() -> None:
    log = json.loads(sarif(Report("pr", 0, (), (GateFinding("input", "", "x", Place("a", 1)),))))
    del log["runs"][0]["tool"]
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(log)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**log, "runs": [], "version": "2.0.0"})


@given(reports())
def test_junit_counts_what_it_lists(report: Report) -> None:
    root = ET.fromstring(junit(report))  # noqa: S314  (our own)
    (suite,) = root
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.get("tests", ""))
    for tag, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert (
            len(suite.findall(f"testcase/{tag}"))
            == int(suite.get(attribute, ""))
            == int(root.get(attribute, ""))
        )
    red = int(suite.get("failures", "")) + int(suite.get("errors", ""))
    # A dashboard is green exactly where the gate is.
    assert (red == 0) == (report.exit_status == 0)


@given(reports())
def test_gitlab_issues_have_every_field_and_a_print_of_their_own(report: Report) -> None:
    issues = json.loads(gitlab(report))
    assert len(issues) == len(report.all_findings)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    for issue, finding in zip(issues, report.all_findings, strict=True):
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert (issue["severity"] == "info") == (finding.level == "note" or finding.waiver is not None)
        assert issue["location"] == {"path": finding.place.file, "lines": {"begin": finding.place.line}}
        assert issue["check_name"] == finding.rule


COMMAND = re.compile(r"::(error|warning|notice) (?:file=([^,:]*),line=([0-9]+),)?title=([^,:]*)::([^\r\n]*)")


@given(reports())
def test_a_workflow_command_for_each_finding_and_no_foreign_one(report: Report) -> None:
    text = workflow_commands(report)
    lines = text.removesuffix("\n").split("\n")
    assert len(lines) == len(report.all_findings) + 1
    for line, finding in zip(lines, report.all_findings, strict=False):
        parsed = COMMAND.fullmatch(line)
        assert parsed is not None, line
        command, file, number, _, message = parsed.groups()
        assert (file.replace("%2C", ",").replace("%3A", ":").replace("%25", "%"), int(number)) == (
            finding.place.file,
            finding.place.line,
        )
        assert message.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%").endswith(finding.message)
        assert (command == "error") == (finding.level == "error")


@given(reports())
def test_no_foreign_text_adds_to_the_summarys_markup(report: Report) -> None:
    page = markdown(report)
    rows = [line for line in page.split("\n") if line.startswith("|")]
    assert len(rows) == (len(report.checks) + 2 if report.checks else 0)
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 7 for row in rows)
    assert "<img" not in page
    assert page.count("\n- ") == len(report.all_findings) + len(
        sentences(condition for check in report.checks for condition in check.not_checked)
    )


def test_a_long_summary_is_cut_below_githubs_limit() -> None:
    finding = GateFinding("refuted", "a", "ä" * 1000, Place("a.py", 1))
    page = markdown(Report("pr", 0, (Checked("a", "target", "a", (finding,) * 2000),)))
    assert len(page.encode()) < 1024**2
    assert page.endswith("(cut short)\n")


def test_github_gets_annotations_and_a_summary_after_what_is_there(
    gate: Any, dpaudit: Any, target: Any, line_in_mine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate(target("overclaimed") + target("sums"))
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    result = dpaudit("gate", "--output-format", "github")
    line = line_in_mine("return curator.release(rows.sum(axis=0), mechanism")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"::error file={tmp_path.name}/mine.py,line={line},title=")
    assert result.stdout.endswith("::notice title=dpaudit gate::2 checks: 1 failed, 1 passed\n")
    text = page.read_text()
    assert text.startswith("before\n## dpaudit gate\n")
    assert "**release-not-proved** overclaimed:" in text
    page.write_text("")
    dpaudit("gate", "--output-format", "text")
    assert page.read_text() == ""


def test_one_run_writes_as_many_reports_as_are_asked_for(
    gate: Any, dpaudit: Any, target: Any, tmp_path: Path
) -> None:
    gate(target("leaky"))
    kinds = ("json", "sarif", "junit", "gitlab", "markdown", "github")
    options = [word for kind in kinds for word in ("--report", f"{kind}=out.{kind}")]
    result = dpaudit("gate", *options)
    assert result.exit_code == 1
    assert "refuted" in result.stdout
    assert json.loads((tmp_path / "out.json").read_text())["exit_status"] == 1
    VALIDATOR.validate(json.loads((tmp_path / "out.sarif").read_text()))
    assert ET.parse(tmp_path / "out.junit").getroot().get("failures") == "1"  # noqa: S314
    assert all("refuted" in (tmp_path / f"out.{kind}").read_text() for kind in kinds)


@pytest.mark.parametrize(
    "report", ["sarif", "sarif=", "xml=a.xml", "sarif=nowhere/a.sarif", "=a", "a.sarif=sarif"]
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(
    gate: Any, refusal: Any, target: Callable[..., str], report: str
) -> None:
    gate(target("sums"))
    assert "DPA105" in refusal("gate", "--report", report)


def test_a_configuration_that_cannot_be_followed_is_reported_in_every_format(
    alone: None, configure: Any, dpaudit: Any
) -> None:
    configure("[tool.dpaudit.policy]\nmax-epsilom = 1.0")
    shown = {
        kind: dpaudit("gate", "--output-format", kind)
        for kind in ("github", "sarif", "junit", "gitlab", "json", "text", "markdown")
    }
    assert {result.exit_code for result in shown.values()} == {2}
    assert shown["github"].stdout.startswith("::error file=pyproject.toml,line=2,title=dpaudit input::")
    text = shown.pop("text")
    assert (text.stdout, text.stderr.count("did you mean")) == ("", 1)  # once, as every verb says it
    assert all("did you mean" in result.stdout for result in shown.values())
    assert "; why: " in " ".join(shown["markdown"].stdout.split())
    log = json.loads(shown["sarif"].stdout)
    VALIDATOR.validate(log)
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert ET.fromstring(shown["junit"].stdout).get("errors") == "1"  # noqa: S314
