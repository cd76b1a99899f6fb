"""What docs/proving/epsilon.md shows is what happens."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.app.main import main
from dpaudit.mechanisms.described import DESCRIBED
from tests.printed import is_printed

PAGE = (Path(__file__).parents[3] / "docs" / "proving" / "epsilon.md").read_text(encoding="utf-8")
PLANS = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    shown = re.findall(r"```console\n\$ dpaudit (.*?)\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(shown) == 3
    for (command, output), plan in zip(shown, (PLANS[0], *PLANS), strict=False):
        Path("plan.toml").write_text(plan)
        printed = CliRunner().invoke(main, command.split()).stdout
        assert is_printed(printed, output), printed


def test_every_mechanism_that_no_options_describe_is_in_the_plan_with_lists(tmp_path: Path) -> None:
    path = tmp_path / "lists.toml"
    path.write_text(PLANS[2])
    asked = ["epsilon", str(path), "--delta", "1e-5", "--output-format", "json"]
    answered = CliRunner().invoke(main, asked)
    assert answered.exit_code == 0, answered.stderr
    releases = json.loads(answered.stdout)["releases"]
    assert all(release["bounds"] for release in releases)
    # Options describe every other one: their errors ask for a number, or for nothing.
    refused = [kind for kind in DESCRIBED if "DPA105" in CliRunner().invoke(main, ["epsilon", kind]).stderr]
    assert refused == [release["mechanism"]["kind"] for release in sorted(releases, key=_place)]


def _place(release: dict[str, Any]) -> int:
    return list(DESCRIBED).index(release["mechanism"]["kind"])


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
