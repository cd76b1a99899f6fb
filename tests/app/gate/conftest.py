"""A folder with a user's module and a configuration, and the gate called in it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Few trials: what these tests plant shows in the first one.
QUICK = "[tool.dpaudit.audit]\ntrials = 3\n"


def rewrite(path: Path, *changes: tuple[str, str]) -> None:
    """Change a module's text where it stands; the module is then loaded anew."""
    text = path.read_text()
    for old, new in changes:
        text = text.replace(old, new)
    path.write_text(text)
    for name in [name for name in sys.modules if name.startswith("dpaudit_target_")]:
        del sys.modules[name]


@pytest.fixture
def configure(tmp_path: Path) -> Callable[..., Path]:
    """Write a pyproject.toml."""

    def write(*tables: str, quick: bool = True) -> Path:
        path = tmp_path / "pyproject.toml"
        path.write_text("\n".join([*tables, QUICK if quick else ""]), encoding="utf-8")
        return path

    return write


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No continuous integration around the test but the one that it sets up."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gate(alone: None, dpaudit: Any, mine: Any, configure: Any) -> Callable[..., tuple[int, Any]]:
    """Write a configuration and call the gate for JSON; stdout holds nothing else."""

    def invoke(configuration: str, *options: str, quick: bool = True) -> tuple[int, Any]:
        configure(configuration, quick=quick)
        result = dpaudit("gate", "--output-format", "json", *options)
        return result.exit_code, json.loads(result.stdout)

    return invoke


@pytest.fixture
def findings() -> Callable[[Any], list[tuple[str, str, int]]]:
    """Every finding's rule, file and line, from a report as JSON."""

    def read(report: Any) -> list[tuple[str, str, int]]:
        found = [*report["findings"], *(f for check in report["checks"] for f in check["findings"])]
        return [(finding["rule"], finding["file"], finding["line"]) for finding in found]

    return read


@pytest.fixture
def target() -> Callable[..., str]:
    """The table of a target in mine.py."""

    def write(name: str, claim: str = "{ rho = 0.125 }", *more: str) -> str:
        lines = [
            f'[tool.dpaudit.targets.{name}]\ntarget = "mine.py:{name}"',
            'pair = "mine.py:pair"',
            f"claim = {claim}" if claim else "",
            *more,
        ]
        return "\n".join([*lines, ""])

    return write


@pytest.fixture
def line_in_mine(tmp_path: Path) -> Callable[[str], int]:
    """The line of mine.py that starts with a text."""

    def find(start: str) -> int:
        lines = (tmp_path / "mine.py").read_text().split("\n")
        return next(number for number, line in enumerate(lines, start=1) if line.strip().startswith(start))

    return find
