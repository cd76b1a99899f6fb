"""What docs/proving/epsilon.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.app.main import main
from tests.printed import is_printed

PAGE = (Path(__file__).parents[3] / "docs" / "proving" / "epsilon.md").read_text(encoding="utf-8")


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (plan,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    Path("plan.toml").write_text(plan)
    shown = re.findall(r"```console\n\$ dpaudit (.*?)\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(shown) == 2
    for command, output in shown:
        printed = CliRunner().invoke(main, command.split()).stdout
        assert is_printed(printed, output), printed


def test_the_python_gives_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102  (the page's own code)
    epsilon, method = capsys.readouterr().out.split()
    stated = re.search(r"# ([0-9.]+)\.\.\., (\w+)", snippet)
    assert stated is not None
    assert epsilon.startswith(stated[1])
    assert method == stated[2]
    assert names["bound"].at_least <= float(epsilon)
