"""`dpaudit --help` answers at once: the libraries that compute are loaded by the verbs that compute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SLOW = {"altair", "dp_accounting", "gymnasium", "matplotlib", "minari", "numpy", "pandas", "pyarrow", "scipy"}
HELP = ("from dpaudit.app.main import main", "main(['--help'], prog_name='dpaudit')")


def show_help(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Ask for help in a fresh interpreter, as the installed command does."""
    return subprocess.run(
        [sys.executable, *options, "-c", "\n".join(HELP)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_loads_no_slow_library(tmp_path: Path) -> None:
    done = show_help(tmp_path, "-X", "importtime")
    assert done.returncode == 0, done.stderr
    assert "Usage: dpaudit" in done.stdout
    loaded = {
        line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line
    }
    assert "dpaudit" in loaded
    assert loaded & SLOW == set()
