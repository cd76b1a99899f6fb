"""Commands, gate and pytest: a target that does not end is told, and never passes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("own_processes", "few_runs")

TARGETS = """
import os, threading
import numpy as np
from dpaudit import L2, ZCDP, Claim, Gaussian

def pair():
    zeros = np.zeros((20, 2))
    return zeros, np.vstack([np.ones((1, 2)), zeros[1:]])

NOISE = Gaussian(sigma=4.0, sensitivity=L2(2.0))

def good(data, curator):
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="sums")

def exits(data, curator):
    good(data, curator)
    os._exit(0)

def hangs(data, curator):
    good(data, curator)
    threading.Event().wait()

def raises(data, curator):
    good(data, curator)
    raise KeyError("patient 4711")

def parts(data, curator):
    return good(data, curator), None if data.sum() < 30 else good(data, curator)

for one in (good, exits, hangs, raises, parts):
    one.claim = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")
"""

GATE = """
[tool.dpaudit.targets.one]
target = "mine.py:{name}"
pair = "mine.py:pair"
[tool.dpaudit.audit]
trials = 1
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TARGETS)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("exits", (), "exit status 0 before it returned"),
        ("hangs", ("--timeout", "1"), "did not end within 1 s"),
        ("raises", (), "KeyError while running it"),
    ],
)
def test_a_target_that_does_not_return_is_no_success(
    dpaudit: Any, mine: Path, name: str, options: tuple[str, ...], says: str
) -> None:
    target = f"mine.py:{name}", "--pair", "mine.py:pair", *options
    for verb in (("certify", *target, "-o", "out"), ("audit", *target, "--trials", 1)):
        result = dpaudit(*verb)
        assert result.exit_code == 2, result.stdout + result.stderr
        assert says in " ".join(result.stderr.split()).replace(" while auditing it", " while running it")
        assert "4711" not in result.stdout + result.stderr
    assert not (mine / "out" / "certificate.json").exists()
    (mine / "pyproject.toml").write_text(GATE.format(name=name))
    gated = dpaudit("gate", *options, "--report", "sarif=out.sarif")
    assert gated.exit_code == 1
    assert says in " ".join(gated.stdout.split())
    assert dpaudit("gate", "--exit-zero", *options).exit_code == 1
    report = json.loads((mine / "out.sarif").read_text())
    assert "4711" not in json.dumps(report)
    assert len(report["runs"][0]["results"]) == 1


def test_an_innocent_target_passes_everywhere(dpaudit: Any, mine: Path, undrawn: None) -> None:
    target = "mine.py:good", "--pair", "mine.py:pair", "--timeout", 600, "--memory", 65536
    made = dpaudit("certify", *target, "-o", "out")
    assert made.exit_code == 0, made.stderr
    certificate = json.loads((mine / "out" / "certificate.json").read_text())
    assert certificate["process"] == {"kind": "twin", "stand_in": "the neighbour in the given pair"}
    assert dpaudit("audit", *target, "--trials", 1).exit_code == 0
    (mine / "pyproject.toml").write_text(GATE.format(name="good"))
    assert dpaudit("gate").exit_code == 0
    assert dpaudit("report", "out/certificate.json").exit_code == 0


def test_a_run_that_parts_from_its_twin_is_told_on_stderr_alone(dpaudit: Any, mine: Path) -> None:
    import numpy as np

    np.save(mine / "data.npy", np.ones((20, 2)))
    target = "mine.py:parts", "--pair", "mine.py:pair", "--data", "data.npy", "--rho", 0.25
    made = dpaudit("certify", *target, "-o", "out")
    assert made.exit_code == 1
    assert "for the data's holder alone: control-flow" in made.stderr
    assert "control-flow" not in made.stdout
    for name in ("certificate.json", "ledger.jsonl", "output.json", "report.html"):
        assert "control-flow" not in (mine / "out" / name).read_text()
    assert len(json.loads((mine / "out" / "certificate.json").read_text())["releases"]) == 1
    alone = dpaudit("certify", *target, "--in-process", "-o", "alone")
    assert len(json.loads((mine / "alone" / "certificate.json").read_text())["releases"]) == 2
    assert alone.exit_code == 0


def test_the_commands_process_never_imports_the_target(mine: Path, python: list[str]) -> None:
    program = (
        "import sys\n"
        "from dpaudit.app.main import main\n"
        "try:\n"
        "    main(['audit', 'mine.py:good', '--pair', 'mine.py:pair', '--trials', '1'])\n"
        "finally:\n"
        "    print([name for name in sys.modules if name.startswith('dpaudit_target')], file=sys.stderr)\n"
    )
    done = subprocess.run([*python, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_an_audit_in_pytest_runs_elsewhere(mine: Path, python: list[str]) -> None:
    # There too the samplers are tested with few draws.
    (mine / "conftest.py").write_text(
        "from dpaudit.auditors.replay import sampler_check\n"
        "for name in ('DRAWS', 'SLOW_DRAWS', 'CHOICES'):\n"
        "    setattr(sampler_check, name, getattr(sampler_check, name) // 10)\n"
    )
    (mine / "test_mine.py").write_text(
        "import sys\n"
        "sys.path.insert(0, '.')\n"
        "import mine, pytest\n"
        "@pytest.mark.dp_claim(rho=0.125, unit='row')\n"
        "@pytest.mark.parametrize('target', [mine.good, mine.exits])\n"
        "def test_one(dp_audit, target):\n"
        "    dp_audit(target, mine.pair(), trials=1)\n"
    )
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0", "test_mine.py"]
    done = subprocess.run([*python, "-m", "pytest", *arguments], capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "exit status 0 before it returned" in done.stdout
