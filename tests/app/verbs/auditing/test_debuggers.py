"""Debuggers and coverage tools beside targets in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from dpaudit.processes.host import AVAILABLE
from tests.app.conftest import Invoke

pytestmark = [
    pytest.mark.skipif(not AVAILABLE, reason="targets have processes of their own on Linux"),
    pytest.mark.usefixtures("own_processes"),
]

MODULE = """
import numpy as np
from dpaudit import L1, Claim, Laplace, Pair, PureDP

def single(data, curator):
    return curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")

def asks(data, curator):
    breakpoint()
    return single(data, curator)

single.claim = asks.claim = Claim(PureDP(epsilon=1.0), unit="row", neighbouring="replace-one")

def pair():
    return Pair(np.zeros(2), np.array([0.0, 1.0]))
"""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


@pytest.mark.parametrize(("name", "code"), [("asks", 2), ("single", 0)])
def test_a_breakpoint_that_nobody_answers_names_the_option(
    dpaudit: Invoke, target: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)  # not pytest's own
    given = "--method", "threshold", "--trials", 10
    done = dpaudit("audit", f"{target}:{name}", "--pair", f"{target}:pair", *given)
    assert done.exit_code == code
    assert ("in a terminal with --in-process" in done.stderr) == (name == "asks")


@pytest.mark.nightly
def test_coverage_counts_the_lines_of_a_target(target: Path) -> None:
    folder = target.parent
    (folder / ".coveragerc").write_text("[run]\npatch = fork, _exit\nparallel = true\ninclude = mine.py\n")

    def python(*words: str) -> str:
        command = [sys.executable, "-m", *words]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout

    certify = "dpaudit.app.main", "certify", "mine.py:single", "--pair", "mine.py:pair"
    python("coverage", "run", "-m", *certify)
    python("coverage", "combine", "-q")
    missing = python("coverage", "report", "-m").splitlines()[2].rpartition("%")[2]
    assert missing.split() == ["9-10"]


@pytest.mark.nightly
def test_a_debugger_of_the_command_goes_on(target: Path) -> None:
    command = [sys.executable, "-m", "pdb", "-m", "dpaudit.app.main", "certify", "mine.py:single"]
    command += ["--pair", "mine.py:pair"]
    done = subprocess.run(
        command, cwd=target.parent, check=False, input="c\nq\n", capture_output=True, text=True
    )
    assert "PROVED" in done.stdout
    assert "Exit status: 0" in done.stdout
