"""Each module is imported under one name: a second copy of a class would fail every isinstance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDERS = ("accountants", "auditors", "algorithms")

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import dpaudit
modules = [module.name for module in pkgutil.walk_packages(dpaudit.__path__, "dpaudit.")]
for name in modules:
    if not name.endswith(".__main__"):
        importlib.import_module(name)
for folder in {folders!r}:
    assert f"dpaudit.{{folder}}" in modules, f"dpaudit.{{folder}} was never seen"
    copies = [name for name in sys.modules if name.split(".")[0] == folder]
    assert not copies, copies
"""


def python(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, isolated from the caller's folder and environment."""
    return subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )


def test_importing_everything_leaves_no_second_copy(tmp_path: Path) -> None:
    done = python(IMPORT_EVERYTHING.format(folders=FOLDERS), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_this_test_run_holds_no_second_copy(folder: str) -> None:
    assert [name for name in sys.modules if name.split(".")[0] == folder] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_top_level_module_can_be_found_elsewhere(folder: str, tmp_path: Path) -> None:
    done = python(f"import importlib.util; print(importlib.util.find_spec({folder!r}))", tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stdout + done.stderr
