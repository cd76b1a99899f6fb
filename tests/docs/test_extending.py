"""The page on accountants: its diff applies to a copy of the tree, has correct types and works."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending" / "accountant.md"
TREE = ("dpaudit", "accountants", "auditors", "algorithms")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(found)


def done(command: list[str], folder: Path, tree: Path, text: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    found = subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree to which the diff was applied."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in TREE:
        # With the bytecode, which Python takes only for files as they were when it was made.
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True)
    shutil.copy2(ROOT / "pyproject.toml", copy)
    # One line of context suffices, so that a changed neighbour of it does not break the page.
    done(["git", "apply", "-C1", "--verbose", "-"], copy, copy, block("diff"))
    return copy


def test_an_accountant_is_one_new_file_and_one_changed_one() -> None:
    touched = re.findall(r"^\+\+\+ b/(.+)$", block("diff"), flags=re.MULTILINE)
    assert [(ROOT / file).exists() for file in touched] == [False, True]


@pytest.mark.nightly
def test_the_extended_tree_has_correct_types(tree: Path) -> None:
    cache = ROOT / ".mypy_cache"  # where the tree was checked, only what the diff changes is checked anew
    done([sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}"], tree, tree)


def test_what_was_added_works(tree: Path, python: list[str], tmp_path: Path) -> None:
    """The page's script, saved under the name in its first line, and the command that runs it."""
    script = block("python")
    (tmp_path / script.partition("\n")[0].removeprefix("# ")).write_text(script, encoding="utf-8")
    command, _, expected = block("console").removeprefix("$ ").partition("\n")
    assert expected in done([*python, *shlex.split(command)[1:]], tmp_path, tree)
