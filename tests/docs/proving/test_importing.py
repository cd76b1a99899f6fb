"""What docs/proving/importing.md shows is what happens."""

import doctest
import json
import re
from pathlib import Path

import opendp.prelude as dp
import pytest
from click.testing import CliRunner

from dpaudit.app.main import main

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "proving" / "importing.md"


def test_the_session_prints_what_it_shows() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False)
    dp.disable_features("contrib")
    assert results.attempted > 6
    assert results.failed == 0


def test_the_commands_print_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    printed = ""
    for line in block.splitlines():
        if line.startswith("$ dpaudit "):
            result = CliRunner().invoke(main, line.split()[2:])
            assert result.exit_code == 0, result.output
            printed = result.stdout
        else:
            assert line in printed.splitlines()


def test_the_epsilons_of_accumulated_batches_are_those_of_their_commands() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    found = re.findall(r"([\d.]+) \(`dpaudit (epsilon [^`]*)`\)", text)
    assert len(found) == 2
    for figure, command in found:
        answer = json.loads(CliRunner().invoke(main, [*command.split(), "--output-format", "json"]).stdout)
        assert f"{answer['bounds'][0]['epsilon']:.4g}" == figure
