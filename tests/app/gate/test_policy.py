"""Policies and waivers: what they fail, what they let pass, what they never hide."""

import datetime as dt
import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from dpaudit.app.gate import policy
from dpaudit.app.gate.audit_plan import AuditPlan
from dpaudit.app.gate.settings import Effort, Gate
from tests import make
from tests.app.gate.conftest import rewrite

pytestmark = pytest.mark.usefixtures("undrawn")

TODAY = dt.date(2026, 3, 10)


@pytest.fixture(autouse=True)
def day(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpaudit.app.gate import checks

    for module in (checks, policy):
        monkeypatch.setattr(module, "today", lambda: TODAY)


def ledger(name: str = "ledger.jsonl", *more: str) -> str:
    return "\n".join([f'[tool.dpaudit.ledgers.kept]\nledger = "{name}"', *more, ""])


def with_policy(*lines: str) -> str:
    return "\n".join(["[tool.dpaudit.policy]", *lines, ""])


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Balle and Wang 2018: delta(e) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)."""
    return float(
        brentq(lambda e: ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(-mu / 2 - e / mu) - delta, 0.0, 50.0)
    )


@pytest.mark.parametrize(("factor", "status"), [(1.001, 0), (0.999, 1)])
def test_max_epsilon_is_that_of_the_releases_at_the_policys_delta(
    gate: Any, ledger_file: Any, findings: Any, factor: float, status: int
) -> None:
    ledger_file(0.25, 0.25)  # rho 0.5 of Gaussian noise: mu = 1
    limit = factor * gaussian_epsilon(1.0, 1e-5)
    lines = [f"max-epsilon = {limit}", "delta-at-most = 1e-5"]
    found, report = gate(with_policy(*lines) + ledger())
    assert found == status
    assert findings(report) == ([("max-epsilon", "ledger.jsonl", 1)] if status else [])


def test_no_epsilon_at_all_is_a_finding(gate: Any, tmp_path: Path, findings: Any) -> None:
    from dpaudit import ApproxDP, Claim, OpaqueApproxDP

    opaque = OpaqueApproxDP(epsilon=1.0, delta=1e-2, justification="a theorem")
    claimed = ApproxDP(epsilon=1.0, delta=2e-2)
    kept = make.ledger(
        make.release(opaque, claimed=claimed), neighbouring="replace-one", claim=Claim(claimed)
    )
    kept.write(tmp_path / "ledger.jsonl")
    assert gate(ledger())[0] == 0
    status, report = gate(with_policy("max-epsilon = 9.0", "delta-at-most = 1e-3") + ledger())
    assert status == 1
    assert {rule for rule, _, _ in findings(report)} == {"max-epsilon", "delta-at-most"}


@pytest.mark.parametrize(("n", "status"), [(1000, 0), (1001, 1)])
def test_delta_at_most_one_over_n(gate: Any, ledger_file: Any, findings: Any, n: int, status: int) -> None:
    ledger_file(0.001)
    check = ledger("ledger.jsonl", "claim = { epsilon = 1.0, delta = 0.001 }", f"n = {n}")
    found, report = gate(check + with_policy('delta-at-most = "1/n"'))
    assert found == status
    assert [rule for rule, _, _ in findings(report)] == (["delta-at-most"] if status else [])


@pytest.mark.parametrize(("sampler", "status"), [("numpy-float64", 0), ("opendp-discrete", 1)])
def test_allowed_samplers(gate: Any, ledger_file: Any, findings: Any, sampler: str, status: int) -> None:
    ledger_file(0.25)
    found, report = gate(with_policy(f'allowed-samplers = ["{sampler}"]') + ledger())
    assert found == status
    assert findings(report) == ([("allowed-samplers", "ledger.jsonl", 1)] if status else [])


def test_fail_on_increase_against_a_baseline_certificate(
    gate: Any, target: Any, dpaudit: Any, mine: Any, findings: Any, line_in_mine: Any, tmp_path: Path
) -> None:
    made = dpaudit("certify", mine("sums"), "--pair", mine("pair"), "--rho", 1, "-o", tmp_path / "base")
    assert made.exit_code == 0, made.stderr
    held = with_policy("fail-on-increase = true")
    own = target("sums", "{ rho = 1.0 }", 'baseline = "base/certificate.json"')
    assert gate(held + own)[0] == 0
    # The claim of rho 1 still holds with noise of 3.9 in place of 4; the cost has risen all the same.
    rewrite(tmp_path / "mine.py", ("sigma=4.0", "sigma=3.9"))
    status, report = gate(held + own)
    assert (status, findings(report)) == (
        1,
        [("fail-on-increase", "mine.py", line_in_mine("return curator.release(rows.sum"))],
    )
    # A certificate about another unit compares with nothing, and an edited one is none.
    assert gate(held + target("sums", '{ rho = 1.0, unit = "user" }', own.split("\n")[-2]))[0] == 2
    certificate = tmp_path / "base" / "certificate.json"
    certificate.write_text(certificate.read_text().replace('"PROVED"', '"NOT_PROVED"'))
    assert gate(held + own)[0] == 2
    certificate.unlink()
    assert gate(held + own)[0] == 2


def test_a_baseline_is_held_to_the_ledger_beside_it(
    gate: Any, target: Any, dpaudit: Any, mine: Any, findings: Any, line_in_mine: Any, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    assert dpaudit("certify", mine("sums"), "--pair", mine("pair"), "--rho", 1, "-o", base).exit_code == 0
    own = target("sums", "{ rho = 1.0 }", 'baseline = "base/certificate.json"')
    held = with_policy("fail-on-increase = true") + own
    rewrite(tmp_path / "mine.py", ("sigma=4.0", "sigma=3.9"))
    status, report = gate(held)
    assert (status, findings(report)) == (
        1,
        [("fail-on-increase", "mine.py", line_in_mine("return curator.release(rows.sum"))],
    )
    # A baseline that states more than it cost would let the increase pass, and one that states less is false.
    certificate = base / "certificate.json"
    honest = certificate.read_text()

    def stated(times: float) -> None:
        record = json.loads(honest)
        for bound in record["bounds"]:
            bound["guarantee"]["rho"] *= times
        certificate.write_text(json.dumps(record))

    for times in (1.5, 0.5):
        stated(times)
        status, report = gate(held)
        assert (status, findings(report)) == (3, [("integrity", "pyproject.toml", 3)])
        assert "computed again" in json.dumps(report)
    # Without its ledger it is believed, and that is said.
    stated(1.5)
    assert "baseline" not in json.dumps(report["checks"][0]["not_checked"])
    (base / "ledger.jsonl").unlink()
    status, report = gate(held)
    assert (status, findings(report)) == (0, [])
    said = [c for c in report["checks"][0]["not_checked"] if c.get("path") == "base/certificate.json"]
    assert len(said) == 1


def waiver(finding: str, expires: str, check: str = "kept") -> str:
    return (
        f'[[tool.dpaudit.waivers]]\ncheck = "{check}"\nfinding = "{finding}"\n'
        f'reason = "agreed: see the minutes"\nexpires = {expires}\n'
    )


FAILING = ledger("ledger.jsonl", "claim = { rho = 0.1 }")


def test_a_waived_finding_passes_and_stays_visible(gate: Any, dpaudit: Any, ledger_file: Any) -> None:
    ledger_file(0.25)
    assert gate(FAILING)[0] == 1
    status, report = gate(FAILING + waiver("not-proved", "2026-03-10"))
    assert (status, report["summary"]) == (0, "1 check: 1 passed, 1 finding waived")
    (finding,) = report["checks"][0]["findings"]
    assert (finding["rule"], finding["level"]) == ("not-proved", "warning")
    assert finding["waiver"]["reason"] == "agreed: see the minutes"
    for kind in ("text", "github", "markdown", "sarif", "junit", "gitlab"):
        shown = dpaudit("gate", "--output-format", kind).stdout
        assert "not-proved" in shown
        assert "minutes" in shown
    assert report["checks"][0]["proof"] == "NOT_PROVED"


def test_an_expired_waiver_fails_even_where_there_is_nothing_left_to_waive(
    gate: Any, ledger_file: Any, findings: Any
) -> None:
    ledger_file(0.25)
    expired = waiver("not-proved", "2026-03-09")
    status, report = gate(FAILING + expired)
    assert status == 1
    assert {rule for rule, _, _ in findings(report)} == {"not-proved", "expired-waiver"}
    status, report = gate(ledger() + expired)
    assert (status, findings(report)) == (1, [("expired-waiver", "pyproject.toml", 7)])


def test_a_waiver_that_covers_nothing_is_mentioned(gate: Any, ledger_file: Any, findings: Any) -> None:
    ledger_file(0.25)
    status, report = gate(ledger() + waiver("max-epsilon", "2026-04-01"))
    assert (status, findings(report)) == (0, [("unused-waiver", "pyproject.toml", 3)])


def test_a_waiver_covers_its_own_check_and_finding_alone(gate: Any, ledger_file: Any, findings: Any) -> None:
    ledger_file(0.25, claimed=0.2)
    status, report = gate(FAILING + waiver("not-proved", "2026-04-01"))
    assert status == 1
    levels = {f["rule"]: f["level"] for f in report["checks"][0]["findings"]}
    assert levels == {"not-proved": "warning", "release-not-proved": "error"}


@pytest.mark.parametrize("rule", ["input", "integrity", "expired-waiver", "nothing-to-check"])
def test_no_waiver_can_name_an_error(gate: Any, ledger_file: Any, rule: str) -> None:
    ledger_file(0.25)
    status, report = gate(ledger() + waiver(rule, "2026-04-01"))
    assert status == 2
    assert "waivers.0.finding" in json.dumps(report)


def test_no_waiver_hides_an_edited_ledger(gate: Any, ledger_file: Any) -> None:
    path = ledger_file(0.25)
    path.write_bytes(path.read_bytes().replace(b"query", b"quart"))
    assert gate(FAILING + waiver("not-proved", "2026-04-01") + waiver("refuted", "2026-04-01"))[0] == 3


@pytest.mark.parametrize("targets", [1, 2, 7])
def test_the_error_is_divided_among_the_targets(targets: int) -> None:
    table = {f"t{i}": {"target": "dp-apvi"} for i in range(targets)}
    gate = Gate.model_validate({"targets": table, "audit": {"confidence": 0.9}})
    plans = [AuditPlan.of(gate, "pr", Effort(), 0) for _ in gate.targets]
    assert math.isclose(sum(1 - plan.confidence for plan in plans), 0.1)


def test_a_targets_effort_goes_before_the_profiles_before_the_gates() -> None:
    gate = Gate.model_validate(
        {
            "targets": {"t": {"target": "dp-apvi", "audit": {"seed": 3}}},
            "audit": {"trials": 10, "time-limit": 5, "seed": 1},
            "profile": {"nightly": {"trials": 20}},
        }
    )
    own = gate.targets["t"].audit
    pr, nightly = AuditPlan.of(gate, "pr", own, 1), AuditPlan.of(gate, "nightly", own, 1)
    assert (pr.trials, pr.seconds, pr.seed) == (10, 5.0, 3)
    assert (nightly.trials, nightly.seconds, nightly.seed) == (20, 5.0, 3)
    assert (pr.search_pairs, nightly.search_pairs) == (False, True)
    assert not AuditPlan.of(gate, "nightly", Effort(method="threshold"), 1).search_pairs
    assert AuditPlan.of(Gate.model_validate({}), "pr", Effort(), 0).trials is None  # as many as may decide
    stated = Gate.model_validate({"audit": {"trials": 100}})  # a hundred that is stated is a hundred
    assert AuditPlan.of(stated, "pr", Effort(), 0).trials == 100
    assert AuditPlan.of(Gate.model_validate({}), "nightly", Effort(), 0).trials == 1_000
    # Trials are meant for the method in force where they stand.
    sampled = AuditPlan.of(gate, "pr", Effort(method="threshold"), 1)
    assert sampled.trials == 20_000
    assert AuditPlan.of(gate, "pr", Effort(method="replay"), 1).trials == 10
    assert AuditPlan.of(gate, "pr", Effort(method="threshold", trials=7), 1).trials == 7
    fresh = {AuditPlan.of(gate, "pr", Effort(seed="fresh"), 1).seed for _ in range(3)}
    assert len(fresh) > 1
    assert pr.confidence == nightly.confidence == pytest.approx(1 - 1e-6)
