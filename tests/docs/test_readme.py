"""What the README shows is what happens."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def _dpaudit(python: list[str], command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = command.partition("#")[0].split()[2:]
    return subprocess.run(
        [*python, "-m", "dpaudit.app.main", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_names_every_verb_that_makes_a_ledger_or_judges_one() -> None:
    """Of `import` it says what for, and where the commands with their output stand, which tests hold."""
    verbs = ("certify", "verify", "audit", "gate", "init", "import", "sign")
    assert [verb for verb in verbs if f"dpaudit {verb}" not in README] == []
    assert "`dpaudit import` ([docs/proving/importing.md](docs/proving/importing.md))" in README


def test_the_first_screen_is_true(python: list[str], tmp_path: Path) -> None:
    shown = next(block for block in _blocks("console") if "utility:" in block).splitlines()
    ran = _dpaudit(python, shown[0], tmp_path)
    assert ran.returncode == 0, ran.stderr
    random = re.compile(r"utility: suboptimality .*")
    printed = [random.sub("utility: suboptimality", line) for line in ran.stdout.splitlines()]
    assert printed == [random.sub("utility: suboptimality", line) for line in shown[1:]]


def test_the_commands_on_ones_own_algorithm_work(python: list[str], tmp_path: Path) -> None:
    source = next(block for block in _blocks("python") if block.startswith("# means.py"))
    (tmp_path / "means.py").write_text(source, encoding="utf-8")
    commands = next(block for block in _blocks("console") if "means.py" in block).splitlines()
    for command in commands:
        ran = _dpaudit(python, command, tmp_path)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"


def test_the_python_snippet_runs_as_printed_and_says_what_its_comments_say(
    python: list[str], tmp_path: Path
) -> None:
    own, snippet = (block for block in _blocks("python") if "column_sums" in block)
    (tmp_path / "means.py").write_text(own, encoding="utf-8")
    (tmp_path / "snippet.py").write_text(snippet, encoding="utf-8")
    ran = subprocess.run([*python, "snippet.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == re.findall(r"# (\w+)$", snippet, flags=re.MULTILINE)
    assert (tmp_path / "column_sums.jsonl").exists()
