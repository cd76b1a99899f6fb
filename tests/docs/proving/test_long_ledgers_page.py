"""What docs/proving/long-ledgers.md shows of a folder of ledgers is what `dpaudit verify` prints."""

import re
import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit.app.main import main
from tests.printed import is_printed

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "proving" / "long-ledgers.md").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_a_folder_of_ledgers_is_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    runpy.run_path(str(ROOT / "benchmarks" / "long_ledgers.py"))["users"](Path("users"))
    shown = re.findall(r"--users users\n\$ dpaudit (verify users .*?)\n(.*?)```", PAGE, flags=re.DOTALL)
    for command, output in shown:
        answer = CliRunner().invoke(main, command.split())
        assert answer.exit_code == 1
        assert is_printed(answer.stdout, output), answer.stdout
    assert len(shown) == 1
