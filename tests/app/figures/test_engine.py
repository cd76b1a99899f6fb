"""A figure's command that is interrupted."""

import csv
import subprocess
import sys
from pathlib import Path

from tests.sweeps import sweep

FIGURE = "qiao-wang-2023-figure-1b"

#: Ctrl-C at a terminal, which reaches every process of the command: as soon as the fourth run is kept.
INTERRUPTED = """
import os, signal
from dpaudit.algorithms.figures import run_cache
append, kept = run_cache._append, []
def counted(path, found):
    append(path, found)
    kept.extend(found)
    if len(kept) == 4:
        os.killpg(0, signal.SIGINT)
run_cache._append = counted
from dpaudit.app.main import main
main(prog_name="dpaudit")
"""


@sweep("workers", ["1", "2"], everyday=(0,))
def test_interrupted_it_keeps_its_runs_and_goes_on(python: list[str], tmp_path: Path, workers: str) -> None:
    arguments = ["reproduce", FIGURE, "-o", "out", "--workers", workers]
    arguments += ["--episodes", "20", "--episodes", "40", "--runs"]
    stopped = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *arguments, "500"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert stopped.returncode == 130, stopped.stderr
    assert "interrupted: 4 of 5000 runs are kept" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{FIGURE}-runs.csv"]
    # Going on, with fewer runs asked for, it finds those that were finished, whichever they were.
    with (tmp_path / "out" / f"{FIGURE}-runs.csv").open() as file:
        runs = 1 + max(int(cell["seed"]) for cell in csv.DictReader(file))
    again = subprocess.run(
        [*python, "-m", "dpaudit.app.main", *arguments, str(runs)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stderr.startswith(f"4 of {10 * runs} runs")
