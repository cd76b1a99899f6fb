"""docs/python.md: its session prints what it shows, and its table names every function of the pipeline."""

import doctest
import inspect
import re
from pathlib import Path

import dpaudit

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_session_prints_what_is_shown() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 10
    assert failed == 0


def test_every_public_function_shows_itself_at_work() -> None:
    """Their examples are run as doctests: `testpaths` in pyproject.toml names the package."""
    functions = [name for name in dpaudit.__all__ if inspect.isfunction(getattr(dpaudit, name))]
    assert [name for name in functions if ">>> " not in (getattr(dpaudit, name).__doc__ or "")] == []
    assert "certify" in functions


def test_the_table_names_functions_that_are_there() -> None:
    names = re.findall(r"^\| `(\w+)\(", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert names
    assert set(names) == {name for name in dpaudit.__all__ if name.islower() and name != "judge"}
