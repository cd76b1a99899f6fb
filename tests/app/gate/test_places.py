"""Where findings are annotated: at the claim, at the release that grew, never outside the repository."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from dpaudit.app.gate.places import claim_in_source, definition
from tests.app.gate.conftest import rewrite

pytestmark = pytest.mark.usefixtures("undrawn")

OWN = """
import functools
import numpy as np
from dpaudit import L2, ZCDP, Claim, Gaussian

SMALL = Claim(ZCDP(rho=0.01), unit="row", neighbouring="replace-one")

def two(data, curator):
    rows = np.clip(data, -1, 1)
    for step in range(2):
        curator.release(float(rows.mean()), Gaussian(sigma=9.0, sensitivity=L2(2.0)), label=f"step {step}")
    return curator.release(float(rows.sum()), Gaussian(sigma=8.0, sensitivity=L2(2.0)), label="sum")  # sum

two.claim = Claim(ZCDP(rho=9.0), unit="row", neighbouring="replace-one")
two.claim = SMALL  # of two

class Kind:
    claim: Claim = SMALL  # of Kind
    def __call__(self, data, curator):
        return two(data, curator)

class Asked(Kind):
    @property
    def claim(self):  # of Asked
        return SMALL

class Given:
    def __init__(self, claim):
        self.claim = claim
    def __call__(self, data, curator):
        return two(data, curator)

kind, asked = Kind(), Asked()
given = Given(
    claim=SMALL,  # of given
)
bound = functools.partial(two)
bound.claim = SMALL  # of bound

def pair():
    return np.zeros((4, 1)), np.eye(4, 1)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def line_with(path: Path, text: str) -> int:
    return next(i for i, line in enumerate(path.read_text().split("\n"), start=1) if text in line)


@pytest.mark.parametrize("name", ["two", "kind", "asked", "given", "bound"])
def test_a_total_that_is_not_proved_points_to_the_claim(
    gate: Any, own: Path, findings: Any, name: str
) -> None:
    status, report = gate(f'[tool.dpaudit.targets.a]\ntarget = "own.py:{name}"\npair = "own.py:pair"\n')
    spelled = {"kind": "Kind", "asked": "Asked"}.get(name, name)
    assert status == 1
    assert findings(report) == [("not-proved", "own.py", line_with(own, f"# of {spelled}"))]


def test_a_claim_in_the_configuration_leaves_the_algorithms_line(gate: Any, own: Path, findings: Any) -> None:
    table = '[tool.dpaudit.targets.a]\ntarget = "own.py:two"\npair = "own.py:pair"\n'
    status, report = gate(f'{table}claim = {{ rho = 0.01, unit = "row" }}\n')
    assert (status, findings(report)) == (1, [("not-proved", "own.py", line_with(own, "def two"))])


def test_the_policy_points_to_the_claim(gate: Any, own: Path, findings: Any) -> None:
    own.write_text(OWN.replace("rho=0.01", "rho=0.2"))
    policy = "[tool.dpaudit.policy]\nmax-epsilon = 0.1\ndelta-at-most = 1e-6\n"
    table = '[tool.dpaudit.targets.a]\ntarget = "own.py:two"\npair = "own.py:pair"\n'
    assert findings(gate(policy + table)[1]) == [("max-epsilon", "own.py", line_with(own, "# of two"))]


def test_what_grew_over_the_baseline_is_named_at_its_line_in_every_report(
    gate: Any, dpaudit: Any, own: Path, findings: Any, tmp_path: Path
) -> None:
    own.write_text(OWN.replace("rho=0.01", "rho=0.2"))
    certify = ("certify", f"{own}:two", "--pair", f"{own}:pair", "-o", tmp_path / "base")
    assert dpaudit(*certify).exit_code == 0
    held = (
        "[tool.dpaudit.policy]\nfail-on-increase = true\n"
        '[tool.dpaudit.targets.a]\ntarget = "own.py:two"\npair = "own.py:pair"\n'
        'baseline = "base/certificate.json"\n'
    )
    assert gate(held)[0] == 0
    rewrite(own, ("sigma=8.0", "sigma=7.0"))
    line = line_with(own, "# sum")
    status, report = gate(held, "--report", "sarif=s.json", "--report", "junit=j.xml")
    assert (status, findings(report)) == (1, [("fail-on-increase", "own.py", line)])
    message = report["checks"][0]["findings"][0]["message"]
    assert "release 'sum': rho 0.0408164, at the baseline rho 0.03125 (sigma 8 -> 7)" in message
    sarif = json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"][0]["locations"][0]
    assert sarif["physicalLocation"]["region"]["startLine"] == line
    assert f"own.py:{line}" in ET.tostring(ET.parse(tmp_path / "j.xml").getroot(), encoding="unicode")  # noqa: S314
    # A release more, in the loop: one finding for each label that is new.
    rewrite(own, ("sigma=7.0", "sigma=8.0"), ("range(2)", "range(3)"))
    status, report = gate(held)
    steps = line_with(own, 'label=f"step')
    assert (status, findings(report)) == (1, [("fail-on-increase", "own.py", steps)])
    assert "release 'step 2': rho 0.0246914, new" in report["checks"][0]["findings"][0]["message"]


def test_a_ledger_that_grew_points_to_the_line_of_its_release(
    gate: Any, dpaudit: Any, ledger_file: Any, own: Path, findings: Any, tmp_path: Path
) -> None:
    own.write_text(OWN.replace("rho=0.01", "rho=0.2"))
    base = tmp_path / "base"
    assert dpaudit("certify", f"{own}:two", "--pair", f"{own}:pair", "-o", base).exit_code == 0
    (tmp_path / "kept.jsonl").write_bytes((base / "ledger.jsonl").read_bytes())
    held = (
        "[tool.dpaudit.policy]\nfail-on-increase = true\n"
        '[tool.dpaudit.ledgers.a]\nledger = "kept.jsonl"\nbaseline = "base/certificate.json"\n'
    )
    assert gate(held)[0] == 0
    rewrite(own, ("sigma=8.0", "sigma=7.0"))
    other = tmp_path / "other"
    assert dpaudit("certify", f"{own}:two", "--pair", f"{own}:pair", "-o", other).exit_code == 0
    (tmp_path / "kept.jsonl").write_bytes((other / "ledger.jsonl").read_bytes())
    # The header is the first line, then two steps.
    assert findings(gate(held)[1]) == [("fail-on-increase", "kept.jsonl", 4)]


def test_what_lies_outside_the_root_has_no_place(own: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    assert definition(json.dumps, tmp_path) is None
    assert claim_in_source("json:dumps", json.dumps, tmp_path) is None
    assert claim_in_source(f"{own}:two", print, tmp_path) is not None
    assert claim_in_source(f"{own}:two", print, inside) is None
    own.write_text("def broken(:")
    assert claim_in_source(f"{own}:two", print, tmp_path) is None
