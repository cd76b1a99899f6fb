"""The conformance suite of docs/spec is read as it says, and ledgers of other languages verify."""

import json
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ApproxDP, Claim, Ledger, account, verify
from dpaudit.certificate.verdicts import Proof
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, PureDP
from dpaudit.errors import DpauditError

SPEC = Path(__file__).parents[2] / "docs" / "spec"
SUITE = SPEC / "conformance"
CASES: list[dict[str, Any]] = json.loads((SUITE / "expected.json").read_text(encoding="utf-8"))
SCALES = {"pure-dp": lambda x: PureDP(epsilon=x), "zcdp": lambda x: ZCDP(rho=x), "gdp": lambda x: GDP(mu=x)}
#: The codes of dpaudit's errors under each reason of the specification.
CODES = {
    "json": {"DPA201"},
    "record": {"DPA201"},
    "field": {"DPA101", "DPA201"},
    "value": {"DPA101", "DPA102", "DPA103"},
    "version": {"DPA202"},
    "no hashes": {"DPA203"},
    "cut short": {"DPA205"},
    "hash": {"DPA206"},
    "number": {"DPA206"},
    "footer": {"DPA206"},
    "after the footer": {"DPA207"},
    "sample": {"DPA101"},
    "claim": {"DPA401"},
    "trust": {"DPA405"},
    "noise": {"DPA404"},
    "budget": {"DPA404"},
}


def of(answer: str) -> list[Any]:
    return [pytest.param(case, id=Path(case["file"]).stem) for case in CASES if case["answer"] == answer]


@pytest.mark.parametrize("case", of("valid"))
def test_a_valid_ledger_is_read_and_costs_what_the_suite_says(case: dict[str, Any]) -> None:
    ledger = Ledger.read(SUITE / case["file"])
    account(ledger, Claim(ApproxDP(epsilon=1.0, delta=1e-6)))
    for scale, total in case.get("totals", {}).items():
        made: Any = SCALES[scale]

        def verdict(figure: AnyGuarantee) -> Proof | None:
            return account(ledger, Claim(figure)).verdict

        assert verdict(made(total * (1 + 2e-9))) is Proof.PROVED
        assert verdict(made(total * (1 - 1e-6))) is Proof.NOT_PROVED


@pytest.mark.parametrize("case", of("invalid"))
def test_an_invalid_ledger_is_refused_for_its_reason(case: dict[str, Any]) -> None:
    path = SUITE / case["file"]
    with pytest.raises(DpauditError) as caught:
        verify(path)
    assert caught.value.code in CODES[case["reason"]]
    assert str(path) in caught.value.where or case["reason"] in {"sample", "noise", "budget"}


def test_the_suite_is_what_its_program_writes() -> None:
    made = runpy.run_path(str(SPEC.parent / "programs" / "make_conformance.py"))
    files = dict(made["written"](made["suite"]()))
    assert len(files) >= 200
    stored = {path.relative_to(SUITE).as_posix(): path.read_bytes() for path in SUITE.rglob("*.json*")}
    assert stored == files, "run: python docs/programs/make_conformance.py"


@pytest.mark.parametrize("program", [("node", "ledger.js"), ("perl", "ledger.pl")], ids=lambda one: one[0])
def test_a_ledger_that_another_language_wrote_verifies(program: tuple[str, str], tmp_path: Path) -> None:
    source = SPEC / "examples" / program[1]
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 40
    made = subprocess.run([program[0], str(source)], check=True, capture_output=True, timeout=120)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(made.stdout)
    assert verify(path).accounting.verdict is Proof.PROVED
