"""What docs/auditing/auditing.md shows of the command line is what happens; its Python runs."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.printed import is_printed

PAGE = (Path(__file__).parents[3] / "docs" / "auditing" / "auditing.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.nightly
def test_the_commands_print_what_is_shown(python: list[str], tmp_path: Path) -> None:
    source = next(block for block in _blocks("python") if block.startswith("# count.py"))
    (tmp_path / "count.py").write_text(source, encoding="utf-8")
    shown = [block.split("\n", 1) for block in _blocks("console")]
    assert len(shown) == 3
    for command, printed in shown:
        ran = subprocess.run(
            [*python, "-m", "dpaudit.app.main", *command.split()[2:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert is_printed(ran.stdout, printed), f"{command}\n{ran.stdout}\n{ran.stderr}"


def test_one_run_prints_what_is_shown(python: list[str], tmp_path: Path) -> None:
    (snippet,) = (block for block in _blocks("python") if "dpaudit.one_run" in block)
    (tmp_path / "program.py").write_text(snippet, encoding="utf-8")
    ran = subprocess.run([*python, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    (shown,) = _blocks("text")
    assert is_printed(ran.stdout, shown), ran.stdout + ran.stderr


@pytest.mark.nightly
def test_the_table_of_one_run_is_what_its_benchmark_prints(python: list[str]) -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "one_run.py"
    ran = subprocess.run([*python, str(script)], capture_output=True, text=True, check=True)
    assert ran.stdout in PAGE


@pytest.mark.nightly
def test_the_python_runs(python: list[str], tmp_path: Path) -> None:
    own, snippet = (block for block in _blocks("python") if "neighbours()" in block)
    program = f"{own}\n{snippet.replace('workers=2', 'workers=1')}\nassert 1.0 < audit.epsilon_lower < 2.0\n"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    subprocess.run([*python, "program.py"], cwd=tmp_path, check=True)
