"""Several runs that write to one folder at once: one at a time, and never files of two runs together."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture.conftest import sizes
from tests.torture.tools import Program, faults_of_output, keep_figure, printed, together

pytestmark = pytest.mark.usefixtures("own_processes", "runs_in_threads", "undrawn")

COMMAND = ("certify", "own.py:sums", "--pair", "own.py:pair", "--rho", "3", "--unit", "row", "-o", "../out")


@sizes(1, 60)
def test_one_writer_at_a_time(work: Callable[[str], Path], tmp_path: Path, number: int) -> None:
    folders = [work(name) for name in ("one", "other", "third")]
    draw = random.Random(11)  # noqa: S311  (no secret)
    states: list[str] = []
    faults: list[str] = []
    for _ in range(number):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        started = []
        for folder in folders:
            started.append(Program.start(folder, *COMMAND))
            time.sleep(draw.uniform(0.0, 0.05))
        statuses = [program.wait() for program in started]
        for folder, status in zip(folders, statuses, strict=True):
            refused = status == 2 and "is writing there" in printed(folder, "err")
            states.append("wrote" if status == 0 else "refused" if refused else f"exit code {status}")
        faults += faults_of_output(tmp_path / "out")
        faults += [] if 0 in statuses else ["nobody wrote"]
        faults += [] if (tmp_path / "out" / "certificate.json").exists() else ["no certificate"]
        faults += [] if not (tmp_path / "out" / ".dpaudit.lock").exists() else ["a lock is left"]
    keep_figure("writers at once", cases=3 * number, states=together(states), faults=len(faults))
    assert faults == []
    assert set(states) <= {"wrote", "refused"}
