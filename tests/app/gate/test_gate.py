"""The gate's verdicts: each fault planted beside an innocent twin, and the exit code that follows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.sweeps import sweep


def test_an_honest_target_passes_and_says_what_was_not_checked(gate: Any, target: Any, findings: Any) -> None:
    status, report = gate(target("sums"))
    assert (status, report["exit_status"], findings(report)) == (0, 0, [])
    (check,) = report["checks"]
    assert (check["proof"], check["experiment"], check["outcome"]) == ("PROVED", "NOT_REFUTED", "passed")
    assert check["cost"] == "rho 0.125 by zcdp"
    assert check["not_checked"]


@pytest.mark.parametrize(
    ("name", "claim", "rule", "start"),
    [
        ("sums", "{ rho = 0.12 }", "not-proved", "def sums"),
        (
            "overclaimed",
            "{ rho = 0.125 }",
            "release-not-proved",
            "return curator.release(rows.sum(axis=0), mech",
        ),
        ("unclipped", "{ rho = 0.125 }", "refuted", "return curator.release(data.sum"),
        ("leaky", "{ rho = 0.125 }", "refuted", "def leaky"),
        ("premised", "{ rho = 1.0 }", "not-proved", "def premised"),
    ],
)
def test_a_planted_fault_fails_and_points_to_its_line(
    gate: Any, target: Any, findings: Any, line_in_mine: Any, name: str, claim: str, rule: str, start: str
) -> None:
    status, report = gate(target(name, claim))
    assert status == 1
    assert (rule, "mine.py", line_in_mine(start)) in findings(report)
    assert {found for found, _, _ in findings(report)} == {rule}


def test_an_object_that_is_callable_is_found_at_its_class(
    gate: Any, target: Any, findings: Any, line_in_mine: Any
) -> None:
    status, report = gate(target("frozen", "{ rho = 0.12 }"))
    assert status == 1
    assert findings(report) == [("not-proved", "mine.py", line_in_mine("@dataclass(frozen=True)"))]


def test_a_built_in_target_points_to_its_line_of_the_configuration(gate: Any, findings: Any) -> None:
    status, report = gate('\n[tool.dpaudit.targets.a]\nclaim = { rho = 0.5 }\ntarget = "dp-apvi"\n')
    assert (status, findings(report)) == (1, [("not-proved", "pyproject.toml", 3)])


def ledger(path: Path | str, *more: str, name: str = "kept") -> str:
    return "\n".join([f'[tool.dpaudit.ledgers.{name}]\nledger = "{Path(path).name}"', *more, ""])


def test_a_ledger_passes_on_its_own_claim_and_fails_on_a_smaller_one(
    gate: Any, ledger_file: Any, findings: Any
) -> None:
    path = ledger_file(0.25, 0.25)
    assert gate(ledger(path))[0] == 0
    status, report = gate(ledger(path, "claim = { rho = 0.49 }"))
    assert (status, findings(report)) == (1, [("not-proved", "ledger.jsonl", 1)])


@pytest.mark.parametrize("number", [3, 50])
def test_failing_releases_of_a_ledger_are_shown_on_their_lines(
    gate: Any, tmp_path: Path, findings: Any, number: int
) -> None:
    from dpaudit import L2, ZCDP, Claim, Gaussian

    # Every second one fails; those that look alike are told apart by their place.
    noise = Gaussian(sigma=1.0, sensitivity=L2(1.0, "proved"))
    queries = [
        make.release(noise, label=f"query {index % 3}", claimed=ZCDP(rho=0.1 if index % 2 else 1.0))
        for index in range(number)
    ]
    kept = make.ledger(*queries, neighbouring="replace-one", claim=Claim(ZCDP(rho=100.0)))
    kept.write(tmp_path / "ledger.jsonl")
    text = (tmp_path / "ledger.jsonl").read_text().split("\n")
    expected = [i for i, line in enumerate(text, start=1) if '"rho":0.1}' in line]
    assert len(expected) == number // 2
    status, report = gate(ledger("ledger.jsonl"))
    lines = [line for _, _, line in findings(report)]
    assert status == 1
    assert lines == (expected if number == 3 else [*expected[:20], 1])
    assert ("and 5 more releases" in json.dumps(report)) == (number == 50)


def test_nothing_to_check_is_never_a_success(gate: Any, ledger_file: Any, target: Any, findings: Any) -> None:
    assert gate("")[0] == 5
    assert gate("[tool.dpaudit]")[0] == 5
    status, report = gate(ledger(ledger_file(claim=0.5)))
    assert (status, findings(report)) == (5, [("nothing-to-check", "ledger.jsonl", 1)])
    assert gate(ledger(ledger_file(0.25, claim=None)))[0] == 5
    status, report = gate(target("silent"))
    assert (status, report["checks"][0]["outcome"]) == (5, "unchecked")
    assert gate(target("silent") + target("overclaimed"))[0] == 1


def test_an_error_in_one_check_leaves_the_others_judged(
    gate: Any, target: Any, ledger_file: Any, findings: Any, tmp_path: Path
) -> None:
    whole = ledger_file(0.25, 0.25)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(whole.read_bytes().splitlines(keepends=True)[:-1]))
    edited = tmp_path / "edited.jsonl"
    edited.write_bytes(whole.read_bytes().replace(b"query 1", b"query 2"))

    status, report = gate(target("failing") + target("overclaimed") + target("sums"))
    assert status == 1
    assert [check["outcome"] for check in report["checks"]] == ["failed", "failed", "passed"]
    assert "KeyError" in report["checks"][0]["findings"][0]["message"]

    both = ledger(cut, name="cut") + ledger(edited, name="edited") + target("failing")
    status, report = gate(both)
    assert status == 3
    assert ("integrity", "edited.jsonl", 3) in findings(report)
    assert "DPA205" in json.dumps(report)


@pytest.mark.parametrize("option", ["--exit-zero", "--strict"])
def test_exit_zero_hides_no_error(gate: Any, target: Any, ledger_file: Any, option: str) -> None:
    path = ledger_file(0.25)
    path.write_bytes(path.read_bytes()[:-20])
    assert gate(ledger(path), option)[0] == 3
    assert gate(target("failing"), option)[0] == 1
    assert gate("[tool.dpaudit]\nnonsense = 1", option)[0] == 2
    assert gate(target("overclaimed"), option)[0] == (0 if option == "--exit-zero" else 1)


def test_what_could_not_tell_fails_under_strict_alone(
    gate: Any, target: Any, findings: Any, tmp_path: Path
) -> None:
    unaudited = target("sums", "{ rho = 0.125 }", 'data = "rows.csv"').replace('pair = "mine.py:pair"', "")
    (tmp_path / "rows.csv").write_text("1,0,0\n0,1,0\n")
    status, report = gate(unaudited)
    assert (status, [rule for rule, _, _ in findings(report)]) == (0, ["inconclusive"])
    assert report["checks"][0]["outcome"] == "inconclusive"
    assert gate(unaudited, "--strict")[0] == 4
    assert gate(target("sums"), "--strict")[0] == 0


def test_a_ledger_written_by_hand_is_judged_but_never_certifiable(
    gate: Any, ledger_file: Any, tmp_path: Path, findings: Any
) -> None:
    records = [json.loads(line) for line in ledger_file(0.25).read_text().splitlines()]
    by_hand = "".join(
        json.dumps({k: v for k, v in record.items() if k != "hash"}) + "\n" for record in records
    )
    (tmp_path / "hand.jsonl").write_text(by_hand)
    assert gate(ledger("hand.jsonl"))[0] == 2
    allowed = ledger("hand.jsonl", "allow-unhashed = true")
    status, report = gate(allowed)
    assert (status, findings(report)) == (0, [("inconclusive", "hand.jsonl", 1)])
    assert gate(allowed, "--strict")[0] == 4


def test_the_same_seeds_give_the_same_report(gate: Any, target: Any) -> None:
    def without_time(report: Any) -> Any:
        for check in report["checks"]:
            del check["seconds"]
        return report

    runs = [without_time(gate(target("sums") + target("leaky"))[1]) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0]["seed"] == 0
    nights = [without_time(gate(target("sums"), "--profile", "nightly")[1]) for _ in range(2)]
    assert nights[0]["seed"] != nights[1]["seed"]
    again = gate(target("sums"), "--profile", "nightly", "--seed", str(nights[0]["seed"]))[1]
    assert without_time(again) == nights[0]


def test_an_algorithm_that_takes_too_long_is_inconclusive(
    gate: Any, tmp_path: Path, target: Any, findings: Any
) -> None:
    (tmp_path / "mine.py").write_text(
        (tmp_path / "mine.py").read_text() + "import time\n\nruns = []\n\n"
        "def slow(data, curator):\n"
        "    runs.append(1)\n"
        "    if len(runs) > 1:\n"
        "        time.sleep(60)\n"
        "    return sums(data, curator)\n"
    )
    slow = target("slow", "{ rho = 0.125 }", "audit = { time-limit = 0.3 }")
    status, report = gate(slow)
    assert (status, [rule for rule, _, _ in findings(report)]) == (0, ["inconclusive"])
    assert "time limit of 0.3 seconds" in json.dumps(report)
    assert report["checks"][0]["proof"] == "PROVED"
    assert report["checks"][0]["outcome"] == "inconclusive"
    codes = [condition["code"] for condition in report["checks"][0]["not_checked"]]
    assert "audit-judged-nothing" in codes


BROKEN = """
import numpy as np
from dpaudit import L1, L2, Laplace, Gaussian

def one_row():
    return np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])

def honest(data, curator):
    return curator.release(float(data[1, 0]), Laplace(scale=1.0, sensitivity=L1(1.0)), label="last")

def halved(data, curator):
    honest(data, curator)
    return curator.release(float(data[1, 0]), Laplace(scale=1.0, sensitivity=L1(0.25)), label="last again")
"""


@sweep("method", ["threshold", "sequential"], everyday=(0,))
def test_a_sampling_audit_refutes_the_fault_and_not_its_twin(
    gate: Any, tmp_path: Path, findings: Any, method: str
) -> None:
    # False alarms: confidence 1 - 1e-6 over both audits together, at a fixed seed.
    (tmp_path / "broken.py").write_text(BROKEN)

    def one(name: str, epsilon: float) -> str:
        return (
            f'[tool.dpaudit.targets.{name}]\ntarget = "broken.py:{name}"\npair = "broken.py:one_row"\n'
            f'claim = {{ epsilon = {epsilon}, unit = "row" }}\n'
            f'audit = {{ method = "{method}", trials = 800 }}\n'
        )

    # halved: the noise of its second release is that of epsilon 1, and 0.25 is what its ledger says.
    status, report = gate(one("honest", 1.0) + one("halved", 0.25))
    honest, halved = report["checks"]
    assert (status, honest["outcome"], honest["experiment"]) == (1, "passed", "NOT_REFUTED")
    assert halved["experiment"] == "REFUTED"
    assert ("refuted", "broken.py", 11) in findings(report)


def test_the_gate_runs_from_the_folder_of_its_configuration(
    dpaudit: Any,
    gate: Any,
    target: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    findings: Callable[..., Any],
) -> None:
    gate(target("overclaimed"))
    elsewhere = tmp_path.parent
    monkeypatch.chdir(elsewhere)
    config = Path(tmp_path.name, "pyproject.toml")
    result = dpaudit("gate", "--config", config, "--output-format", "json")
    assert result.exit_code == 1
    assert {file for _, file, _ in findings(json.loads(result.stdout))} == {f"{tmp_path.name}/mine.py"}
    assert Path.cwd() == elsewhere


@pytest.mark.parametrize(
    "lines",
    [
        'target = "nowhere.py:x"',
        'target = "mine.py:nothing"',
        'target = "mine.py:number"',
        'target = "mine.py"',
        'target = "no.such.module:x"',
        'target = "dp-apvii"',
        'target = "mine.py:badly_claimed"',
        'target = "mine.py:sums"\npair = "mine.py:no_pair"',
        'target = "mine.py:sums"\npair = "mine.py:failing_pair"',
        'target = "mine.py:sums"\npair = "mine.py:absent"',
        'target = "mine.py:sums"\ndata = "absent.csv"',
        'target = "mine.py:sums"\ndata = "."',
        'target = "mine.py:sums"\nparameters = { x = 1 }',
        'target = "dp-apvi"\nparameters = { x = 1 }',
        'target = "dp-apvi"\nparameters = { rho = "much" }',
        'target = "mine.py:sums"\nusers = 3',
        'target = "mine.py:sums"\nbudget-rho = 1.0\nbudget-mu = 1.0',
        'target = "mine.py:frozen"\nclaim = { rho = 1.0, unit = "row" }',
        'target = "mine.py:sums"\naudit = { method = "threshold", trials = 1 }',
    ],
)
def test_what_cannot_be_run_is_a_named_error(gate: Any, findings: Any, lines: str) -> None:
    table = f"[tool.dpaudit.targets.bad]\n{lines}\n"
    table += "" if "pair" in lines or "dp-apvi" in lines else 'pair = "mine.py:pair"\n'
    table += "" if "claim" in lines else "claim = { rho = 1.0 }\n"
    status, report = gate(table)
    assert status == 2
    ((rule, file, line),) = findings(report)
    assert rule == "input"
    assert file in {"pyproject.toml", "mine.py"}
    assert line >= 1
    message = report["checks"][0]["findings"][0]["message"]
    assert "Traceback" not in message
    assert all(part in message for part in ("DPA", "why:", "do:"))


@pytest.mark.parametrize("more", ["", "budget-rho = 0.01"])
@pytest.mark.parametrize("name", ["leaving", "failing", "sums"])
def test_a_run_that_does_not_end_is_a_finding(
    gate: Any, target: Any, findings: Any, line_in_mine: Any, name: str, more: str
) -> None:
    status, report = gate(target(name, "{ rho = 0.125 }", more))
    if name == "sums" and not more:
        assert (status, findings(report)) == (0, [])
        return
    assert status == 1
    lines = line_in_mine(f"def {name}"), line_in_mine(f"def {name}") + 10
    ((rule, file, line),) = findings(report)
    assert (rule, file, lines[0] <= line < lines[1]) == ("incomplete", "mine.py", True)
    assert report["checks"][0]["outcome"] == "failed"


def test_an_interrupt_judges_nothing(
    dpaudit: Any, mine: Any, configure: Any, target: Any, alone: None
) -> None:
    configure(target("stopping"))
    result = dpaudit("gate", "--output-format", "json")
    assert (result.exit_code, result.stdout) == (130, "")


@pytest.mark.parametrize(("powerless", "status"), [([0, 0], 0), ([1, 0], 0), ([1, 1], 4)])
def test_strict_goes_by_the_verdict_on_all_pairs_together(
    gate: Any, target: Any, monkeypatch: pytest.MonkeyPatch, powerless: list[int], status: int
) -> None:
    """A pair on which a sampling audit had no power is inconclusive only if the others were as well."""
    from dpaudit.app.gate.audit_plan import AuditPlan
    from dpaudit.auditors.sampling.sampling import combine_pairs
    from dpaudit.certificate.verdicts import Audit

    def audited(self: AuditPlan, algorithm: Any, pairs: Any, /, **options: Any) -> Audit:
        about: dict[str, Any] = {"claim": options["claim"], "seed": options["seed"], "about": "final-output"}
        each = [
            Audit(method="threshold", pairs=1, trials=10, inconclusive=("too few",) if one else (), **about)
            for one in powerless
        ]
        return combine_pairs(each, planned=len(each), confidence=self.confidence)

    monkeypatch.setattr(AuditPlan, "audit", audited)
    assert gate(target("sums"), "--strict")[0] == status
    assert gate(target("sums"))[0] == 0
