"""What docs/auditing/libraries.md shows is what happens."""

import re
import subprocess
from pathlib import Path

import pytest

from dpaudit.auditors.libraries.routed import LIBRARIES
from tests.printed import is_printed

PAGE = (Path(__file__).parents[3] / "docs" / "auditing" / "libraries.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_every_library_has_a_row() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(LIBRARIES)


@pytest.mark.nightly
def test_the_command_and_the_python_do_what_is_shown(python: list[str], tmp_path: Path) -> None:
    own, snippet = _blocks("python")
    (tmp_path / "theirs.py").write_text(own, encoding="utf-8")
    [shown] = _blocks("console")
    command, printed = shown.split("\n", 1)
    program = [*python, "-m", "dpaudit.app.main", *command.split()[2:]]
    ran = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert is_printed(ran.stdout, printed), ran.stdout + ran.stderr
    label = "coefs[2][i, i] in _construct_regression_obj"
    checks = f"assert audit.findings[0].label == {label!r}"
    (tmp_path / "program.py").write_text(f"{own}\n{snippet}\n{checks}\n", encoding="utf-8")
    subprocess.run([*python, "program.py"], cwd=tmp_path, check=True)
