"""Each module is imported under one name: a second copy of a class would fail every isinstance."""

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


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder outside of the tree."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_importing_everything_leaves_no_second_copy(python: list[str], tmp_path: Path) -> None:
    done = run([*python, "-c", IMPORT_EVERYTHING.format(folders=FOLDERS)], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_this_test_run_holds_no_second_copy(folder: str) -> None:
    assert [name for name in sys.modules if name.split(".")[0] == folder] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_top_level_module_can_be_found_elsewhere(folder: str, tmp_path: Path) -> None:
    find = f"import importlib.util; print(importlib.util.find_spec({folder!r}))"
    done = run([sys.executable, "-I", "-c", find], tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stdout + done.stderr
