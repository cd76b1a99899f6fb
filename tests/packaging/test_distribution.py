"""What others install dpaudit by: the action, the container, the recipe and the citation say the same."""

import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def step(name: str) -> dict[str, Any]:
    (found,) = (step for step in ACTION["runs"]["steps"] if step["name"] == name)
    return dict(found)


def run(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step: bash that stops at the first failure."""
    environment = {**os.environ, "RUNNER_TEMP": str(folder), **more}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def started(python: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_runs: None) -> None:
    """`dpaudit` is a command whose libraries are imported already."""
    command = tmp_path / "bin" / "dpaudit"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join([*python, "-m", "dpaudit.app.main"])} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose gate checks one built-in algorithm, which is 1-zCDP."""
    (tmp_path / "pyproject.toml").write_text(
        "[tool.dpaudit.policy]\nmax-epsilon = 8\ndelta-at-most = 1e-6\n"
        '[tool.dpaudit.targets.built-in]\ntarget = "dp-apvi"\n'
    )
    return tmp_path


GATE = {"CONFIG": "pyproject.toml", "PROFILE": "pr", "ARGUMENTS": "", "SARIF": "a.sarif", "BASE": ""}


@pytest.mark.usefixtures("started")
def test_the_action_runs_the_gate_and_writes_what_it_comments(project: Path) -> None:
    done = run(step("Run the gate")["run"], project, **GATE)
    assert done.returncode == 0, done.stderr
    assert (project / "a.sarif").exists()
    assert (project / "dpaudit.md").read_text().startswith("## dpaudit gate")


@pytest.mark.usefixtures("started")
def test_the_action_fails_where_the_gate_does(project: Path) -> None:
    table = (project / "pyproject.toml").read_text().replace("max-epsilon = 8", "max-epsilon = 1")
    (project / "pyproject.toml").write_text(table)
    done = run(step("Run the gate")["run"], project, **GATE)
    assert (done.returncode, "::error file=" in done.stdout) == (1, True)
    assert "max-epsilon" in (project / "dpaudit.md").read_text()


def test_what_the_action_is_given_is_never_read_as_a_script(project: Path) -> None:
    """Every input reaches the shell as a variable: an expression in a script would run what is in it."""
    assert all("${{" not in part.get("run", "") for part in ACTION["runs"]["steps"])
    done = run(step("Run the gate")["run"], project, **{**GATE, "PROFILE": "pr; touch broken"})
    assert (done.returncode, (project / "broken").exists()) == (2, False)


def test_the_action_installs_this_repository_with_the_extras(tmp_path: Path) -> None:
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": "/a b"}
    for extras, last in (("", "/a b"), ("parquet,book", "/a b[parquet,book]")):
        done = run(step("Install dpaudit")["run"], tmp_path, EXTRAS=extras, **path)
        assert done.stdout == f"-m pip install --quiet {last}\n"


def test_the_recipe_asks_for_what_the_project_does() -> None:
    recipe = yaml.safe_load((ROOT / "conda.recipe" / "meta.yaml").read_text())
    asked = [needed.replace(" ", "") for needed in recipe["requirements"]["run"]]
    assert asked == [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]
    assert recipe["build"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]


def test_one_version_and_one_license_everywhere() -> None:
    recipe = yaml.safe_load((ROOT / "conda.recipe" / "meta.yaml").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    versions = {PROJECT["version"], recipe["package"]["version"], citation["version"]}
    hook = re.search(r"rev: v([0-9.]+)", (ROOT / "docs" / "publishing" / "gate.md").read_text())
    newest = re.search(r"^## ([0-9.]+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions |= {found[1] for found in (hook, newest) if found}
    assert hook
    assert newest
    assert versions == {PROJECT["version"]}
    assert {PROJECT["license"], recipe["about"]["license"], citation["license"]} == {"Apache-2.0"}


def test_the_container_is_given_all_that_a_wheel_is_built_from() -> None:
    """`.dockerignore` admits by name: what is built from, and nothing else that lies in the folder."""
    lines = (ROOT / ".dockerignore").read_text().split()
    admitted = {line[1:] for line in lines if line.startswith("!")}
    links = {path.resolve().name for path in (ROOT / "dpaudit").iterdir() if path.is_symlink()}
    assert admitted == {"dpaudit", *links, "pyproject.toml", "README.md", "LICENSE"}
