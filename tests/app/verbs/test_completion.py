import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PROGRAM = "from dpaudit.app.main import main; main(prog_name='dpaudit')"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(dpaudit: Any, shell: str) -> None:
    result = dpaudit("completion", shell)
    assert result.exit_code == 0
    assert f"_DPAUDIT_COMPLETE={shell}_complete" in result.stdout
    assert "_dpaudit_completion" in result.stdout


def test_other_shells_are_refused(dpaudit: Any) -> None:
    for arguments in (["ksh"], []):
        assert dpaudit("completion", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("cal", ["calibrate"]),
        ("epsilon gau", ["gaussian", "gaussian-process", "gaussian-sparse-vector"]),
        ("epsilon gaussian --si", ["--sigma", "--size"]),
        ("calibrate plan", ["plan"]),
    ],
)
def test_what_is_typed_is_completed(python: list[str], typed: str, expected: list[str]) -> None:
    words = f"dpaudit {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    environment = os.environ | asked | {"_DPAUDIT_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [*python, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


def test_bash_reads_the_script(dpaudit: Any, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(dpaudit("completion", "bash").stdout)
    done = subprocess.run(
        [str(shutil.which("bash")), "--norc", "-c", f"source {script} && complete -p dpaudit"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_dpaudit_completion dpaudit" in done.stdout, done.stderr
