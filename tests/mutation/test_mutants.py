"""The mutation run changes what it says, and what it does not notice is explained of lines that exist."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants, mutated

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "tests" / "mutation" / "session.py"
SOURCE = '''
"""A page of its own."""
LIMIT: int = 3
STEP = 2.0 * 5e-3

def larger(a: int | None, b: int = 1) -> int:
    """Two numbers."""
    if a is None:
        raise ValueError(f"{b + 1}" + "no number")
    b += 1
    return max(a, -b) if a < b or not b else LIMIT
'''


def test_each_mutant_is_another_program_with_one_change() -> None:
    found = list(mutants(SOURCE))
    assert [(one.line, one.change) for one in found] == [
        (4, "* to / before 0.005"),
        (4, "2.0 to 3.0"),
        (8, "is to is not before None"),
        (10, "+= to -="),
        (10, "1 to 2"),
        (11, "or to and"),
        (11, "< to <= before b"),
        (11, "< to > before b"),
        (11, "not dropped before b"),
        (11, "max to min"),
        (11, "- dropped before b"),
    ]
    texts = {ast.unparse(mutated(SOURCE, one)) for one in found}
    assert len(texts) == len(found)
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    assert found[5].function == "larger"
    assert found[0].function == ""


def test_what_is_explained_is_there() -> None:
    """An entry whose line or change has gone explains nothing, and would hide what comes in its place."""
    entries = tomllib.loads((SESSION.parent / "explained.toml").read_text(encoding="utf-8"))["explained"]
    known = {file: list(mutants((ROOT / file).read_text())) for file in {entry["file"] for entry in entries}}
    for entry in entries:
        there = [
            one.change
            for one in known[entry["file"]]
            if entry.get("text", one.text) == one.text and entry.get("function", one.function) == one.function
        ]
        changes = entry.get("changes", there)
        assert there, entry
        assert set([changes] if isinstance(changes, str) else changes) <= set(there), entry
        assert entry["why"].endswith(".")


def test_the_page_has_the_figures_of_a_whole_run_without_survivors() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `?([\w/.]+)`? \|" + r" ([0-9,]+) \|" * 5 + "$", page, re.MULTILINE)
    *files, (name, *whole) = [(row[0], *(int(number.replace(",", "")) for number in row[1:])) for row in rows]
    assert name == "all"
    assert [sum(column) for column in zip(*(numbers for _, *numbers in files), strict=True)] == whole
    assert all(noticed + explained == tried and not left for _, _, tried, noticed, explained, left in files)
    listed = re.findall(r'^    "dpaudit/([\w/.]+)": ', SESSION.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(file for file, *_ in files) == sorted(listed)


@pytest.mark.nightly
def test_each_planted_fault_of_a_small_file_is_noticed() -> None:
    """Each mutant of one small file is noticed by a test, and none survives."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SESSION), "relations.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\| `claims/relations.py` \| \d+ \| (\d+) \| \1 \| 0 \| 0 \|", done.stdout)
