"""The hook of .pre-commit-hooks.yaml, run by pre-commit itself in a repository of its own."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PRE_COMMIT_HOME": str(folder / ".cache"),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path, python: list[str]) -> Path:
    """A repository whose configuration names the hook, with dpaudit as it is here."""
    (hook,) = yaml.safe_load(MANIFEST.read_text())
    program, _, verb = hook["entry"].partition(" ")
    assert (program, verb) == ("dpaudit", "verify")
    hook |= {"language": "system", "entry": f"{shlex.join(python)} -m dpaudit.app.main {verb}"}
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    assert command(tmp_path, "git", "init", "-q").returncode == 0
    return tmp_path


def run(repository: Path) -> subprocess.CompletedProcess[str]:
    command(repository, "git", "add", "-A", ":!.cache")
    return command(repository, sys.executable, "-m", "pre_commit", "run", "--all-files", "--color=never")


def test_the_manifest_is_valid() -> None:
    done = command(ROOT, sys.executable, "-m", "pre_commit", "validate-manifest", str(MANIFEST))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_passes_a_sound_ledger_and_fails_an_edited_and_an_overclaimed_one(
    repository: Path, ledger_file: Any
) -> None:
    path = ledger_file(0.25, 0.25)
    sound = run(repository)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    assert "Passed" in sound.stdout
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"query 1", b"query 2"))
    edited = run(repository)
    assert edited.returncode != 0
    assert "DPA206" in edited.stdout
    path.write_bytes(whole)
    ledger_file(0.25, 0.5, name="ledger-2.jsonl")
    overclaimed = run(repository)
    assert overclaimed.returncode != 0
    assert "NOT_PROVED" in overclaimed.stdout


def test_the_hook_leaves_other_files_alone(repository: Path) -> None:
    (repository / "data.jsonl").write_text("no ledger")
    done = run(repository)
    assert (done.returncode, "no files to check" in done.stdout) == (0, True)
