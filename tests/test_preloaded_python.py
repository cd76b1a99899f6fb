"""A program started by `preloaded_python` sees and does what it does as a Python of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SEEN = (
    "import os, sys; print(__name__, sys.argv, sys.path[0], os.getcwd(), os.environ['X'], sys.stdin.read())"
)


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (["-c", SEEN, "a", "b"], 0),
        (["seen.py", "a"], 0),
        (["-m", "seen", "a"], 0),
        (["-c", "import sys; sys.exit(3)"], 3),
        (["-c", "import sys; sys.exit('said')"], 1),
        (["-c", "raise ValueError('raised')"], 1),
        (["-c", "import atexit; atexit.register(print, 'last'); print('first')"], 0),
        (["-c", "import os; os.kill(os.getpid(), 9)"], -signal.SIGKILL),
        (["-c", "import signal; signal.raise_signal(signal.SIGTERM)"], -signal.SIGTERM),
    ],
    ids=lambda given: " ".join(given)[:20] if isinstance(given, list) else None,
)
def test_it_does_what_python_does(program: list[str], status: int, python: list[str], tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN, encoding="utf-8")
    own, preloaded = (
        subprocess.run(
            [*start, *program],
            cwd=tmp_path,
            env={**os.environ, "X": "y"},
            input="given",
            capture_output=True,
            text=True,
            check=False,
        )
        for start in ([sys.executable], python)
    )
    assert own.returncode == preloaded.returncode == status
    assert own.stdout == preloaded.stdout
    assert own.stderr.splitlines()[-1:] == preloaded.stderr.splitlines()[-1:]


def test_another_tree_on_the_path_is_imported_anew(python: list[str], tmp_path: Path) -> None:
    (tmp_path / "tree" / "dpaudit").mkdir(parents=True)
    (tmp_path / "tree" / "dpaudit" / "__init__.py").write_text("print('another')\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "tree")}
    command = [*python, "-c", "import dpaudit"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "another\n"
