"""A bar at a terminal, lines in a log, nothing in continuous integration."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dpaudit.app.text import progress
from dpaudit.app.text.progress import progress_shown
from dpaudit.progress import Work

PROGRAM = """
import sys
from dpaudit.app.text.progress import progress_shown
from dpaudit.progress import Work
with progress_shown(), Work("checks", 2) as checks:
    checks(1, "march \\x1b[31m")
    print("what the target printed", file=sys.stderr)
    with Work("auditing it"), Work("runs", 10, lasting=True) as runs:
        runs(10)
print("answer")
"""


def at_a_terminal(program: str, tmp_path: Path, **more: str) -> tuple[str, str]:
    """Its stdout, and what a terminal on stderr gets."""
    terminal, stderr = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR", "COLUMNS"}}
    environment |= {"TERM": "xterm", "COLUMNS": "120", **more}
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr, env=environment
    ) as process:
        os.close(stderr)
        shown = b""
        while True:
            try:
                part = os.read(terminal, 1000)
            except OSError:  # on Linux, the other end's being closed
                break
            if not part:
                break
            shown += part
        out, _ = process.communicate(timeout=300)
    os.close(terminal)
    assert process.returncode == 0, shown
    return out.decode(), shown.decode()


def test_a_bar_at_a_terminal(tmp_path: Path) -> None:
    out, shown = at_a_terminal(PROGRAM, tmp_path)
    assert out == "answer\n"
    assert "what the target printed" in shown
    assert "10 of 10 runs, auditing it, 1 of 2 checks, march \\x1b[31m" in shown
    assert "\x1b[31m" not in shown.replace("\\x1b[31m", "")
    assert shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # gone, and the cursor is back
    assert "\x1b[?25h" in shown


def test_continuous_integration_shows_nothing(tmp_path: Path) -> None:
    out, shown = at_a_terminal(PROGRAM, tmp_path, CI="true")
    assert (out, shown.split()) == ("answer\n", ["what", "the", "target", "printed"])


def test_a_log_has_lines_of_lasting_work_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(progress, "INTERVAL", 1e9)
    with progress_shown():
        with Work("short ones", 3) as short:
            short(3)
        with Work("runs", 1000, lasting=True) as work:
            for done in range(200, 1001, 50):
                work.told = 0.0
                work(done, "so far")
        with Work("checks", 1), Work("runs of a check", 10, lasting=True) as inner:
            inner(10)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" runs")[0] for line in lines] == [f"{n} of 1000" for n in range(200, 1001, 100)]
    assert all(line.endswith("; so far") for line in lines)
    assert "s left" in lines[1]
    assert "s left" not in lines[-1]
