"""What the README shows is what happens."""

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
        [*python, "-m", "dpaudit.app.main", *words], cwd=folder, capture_output=True, text=True, check=False
    )


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
