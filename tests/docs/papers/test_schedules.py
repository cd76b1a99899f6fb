"""The program that compares schedules of updates, at a small size, whole and continued."""

import runpy
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "docs" / "programs" / "papers" / "schedules.py"


def test_the_program_prints_both_schedules_and_continues_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--users", "30", "--tuned-at", "25", "--runs", "2"]
    monkeypatch.setattr("sys.argv", [str(PROGRAM), str(tmp_path / "runs"), *sizes])
    main = runpy.run_path(str(PROGRAM))["main"]
    assert main() == 0
    printed = capfd.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("| private")]
    assert [row.split(" | ")[0] for row in rows] == ["| private, rho=10", "| private, fixed schedule, rho=10"]
    assert "doubling loses less by " in printed
    kept = tmp_path / "runs" / "schedules-runs.csv"
    before = kept.read_bytes()
    assert main() == 0
    assert capfd.readouterr().out == printed
    assert kept.read_bytes() == before
