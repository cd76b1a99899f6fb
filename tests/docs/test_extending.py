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
PAGES = [page for page in sorted((ROOT / "docs" / "extending").glob("*.md")) if page.stem != "package"]
TREE = ("dpaudit", "accountants", "auditors", "algorithms", "docs", "tests")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "0")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def touched(page: Path) -> list[str]:
    """The files of a page's diff."""
    (diff,) = blocks(page, "diff")
    return re.findall(r"^\+\+\+ b/(.+)$", diff, flags=re.MULTILINE)


def programs(page: Path) -> list[str]:
    """The programs that a page's steps say to run, which write other pages."""
    return re.findall(r"`python (docs/programs/\w+\.py)`", page.read_text(encoding="utf-8"))


def written(page: Path) -> list[str]:
    """What these programs write: the paths that each names in its first line."""
    told = [(ROOT / program).read_text(encoding="utf-8").partition("\n")[0] for program in programs(page)]
    return [path for line in told for path in re.findall(r"docs/[\w./]+\.(?:md|json)", line)]


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
        # With the bytecode, which Python takes only for files as they were when it was made.
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True)
    shutil.copy2(ROOT / "pyproject.toml", copy)
    for page in PAGES:
        (diff,) = blocks(page, "diff")
        # One line of context suffices, so that a changed neighbour of it does not break the page.
        done(["git", "apply", "-C1", "--verbose", "-"], copy, copy, diff)
    return copy


def test_there_is_a_page_for_each() -> None:
    assert [page.stem for page in PAGES] == ["accountant", "algorithm", "auditor", "mechanism"]


@each_page
def test_an_extension_is_one_new_file_and_few_changed_ones(page: Path) -> None:
    """Those that a page's programs write again count as changed."""
    new = [file for file in touched(page) if not (ROOT / file).exists()]
    assert len(new) == 1
    assert len({*touched(page), *written(page)}) <= 6


def test_a_mechanism_added_states_what_exists(tree: Path) -> None:
    done([*PYTEST, "tests/mechanisms/test_facts.py"], tree, tree)


@pytest.mark.nightly
def test_the_programs_of_the_steps_write_what_is_counted(tree: Path) -> None:
    """And nothing else in the tree differs from ours but what the diffs touch."""
    files = {file for page in PAGES for file in (*touched(page), *written(page))}
    for program in (program for page in PAGES for program in programs(page)):
        done([sys.executable, program], tree, tree)
    there, here = ({*root.rglob("*.*")} for root in (tree / "docs", ROOT / "docs"))
    names = {path.relative_to(tree).as_posix() for path in there}
    names |= {path.relative_to(ROOT).as_posix() for path in here}
    differ = {
        name
        for name in names
        if "__pycache__" not in name
        and not (tree / name).is_dir()
        and not ((tree / name).exists() and (tree / name).read_bytes() == (ROOT / name).read_bytes())
    }
    assert differ == {file for file in files if file.startswith("docs/")}
    for name in differ:
        assert "staircase" in (tree / name).read_text(encoding="utf-8")


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
def test_the_tests_of_the_steps_pass(page: Path, tree: Path) -> None:
    for arguments in re.findall(r"`pytest (.+?)`", page.read_text(encoding="utf-8")):
        assert " passed" in done([*PYTEST, *arguments.split()], tree, tree)
