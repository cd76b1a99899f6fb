"""The table in docs/auditing/zoo.md is what its command prints, but for the seconds."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.app.main import main

PAGE = (Path(__file__).parents[3] / "docs" / "auditing" / "zoo.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_command_prints_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    command, shown = re.findall(r"^```\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    printed = CliRunner().invoke(main, command.split()[1:])
    assert printed.exit_code == 0, printed.output
    assert _without_seconds(printed.stdout) == _without_seconds(shown)


def _without_seconds(table: str) -> list[list[str]]:
    return [re.sub(r" +[\d.]+$", "", line).split() for line in table.splitlines() if "─" not in line]
