"""The pages on extending dpaudit: every diff applies to a copy of the tree, has correct types and works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "extending").glob("*.md"))
TREE = ("dpaudit", "accountants", "auditors", "algorithms", "docs", "tests")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def touched(page: Path) -> list[str]:
    """The files of a page's diff."""
    (diff,) = blocks(page, "diff")
    return re.findall(r"^\+\+\+ b/(.+)$", diff, flags=re.MULTILINE)


def done(command: list[str], folder: Path, tree: Path, text: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    found = subprocess.run(
        command, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree to which all diffs were applied, one after another."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in TREE:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignored)
    shutil.copy2(ROOT / "pyproject.toml", copy)
    for page in PAGES:
        (diff,) = blocks(page, "diff")
        done(["git", "apply", "--verbose", "-"], copy, copy, diff)
    return copy


def test_there_is_a_page_for_each() -> None:
    assert [page.stem for page in PAGES] == ["accountant", "algorithm", "auditor", "mechanism"]


@each_page
def test_an_extension_is_one_new_file_and_few_changed_ones(page: Path) -> None:
    new = [file for file in touched(page) if not (ROOT / file).exists()]
    assert len(new) == 1
    assert len(touched(page)) <= 5


@pytest.mark.nightly
def test_the_extended_tree_has_correct_types(tree: Path) -> None:
    cache = ROOT / ".mypy_cache"  # where the tree was checked, only what the diffs change is checked anew
    done([sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}"], tree, tree)


@each_page
def test_what_was_added_works(page: Path, tree: Path, python: list[str], tmp_path: Path) -> None:
    """The page's scripts, saved under the names in their first lines, and the commands that run them."""
    for script in blocks(page, "python"):
        name = script.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(script, encoding="utf-8")
    programs = {"dpaudit": ["-m", "dpaudit.app.main"], "python": []}
    for block in blocks(page, "console"):
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")
            program, *arguments = shlex.split(command)
            output = done([*python, *programs[program], *arguments], tmp_path, tree)
            assert expected in output


@pytest.mark.nightly
@each_page
def test_the_tests_of_the_diff_pass(page: Path, tree: Path, python: list[str]) -> None:
    tests = [file for file in touched(page) if file.startswith("tests/")]
    (new,) = (Path(file).stem for file in touched(page) if not (ROOT / file).exists())
    if tests:
        done([*python, "-m", "pytest", "-q", "-k", new, *tests], tree, tree)
