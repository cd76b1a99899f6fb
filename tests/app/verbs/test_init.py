"""`dpaudit init` writes what the gate then passes, and changes nothing that is there."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOW = Path(".github", "workflows", "dpaudit.yml")


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_what_it_writes_passes_the_gate_and_then_stays(dpaudit: Any, tmp_path: Path) -> None:
    first = dpaudit("init")
    assert first.exit_code == 0, first.stderr
    written = files(tmp_path)
    assert set(written) == {"pyproject.toml", WORKFLOW.as_posix()}
    again = dpaudit("init")
    assert (again.exit_code, again.stdout.count("kept as it was")) == (0, 2)
    assert files(tmp_path) == written
    gate = dpaudit("gate")
    assert gate.exit_code == 0, gate.stdout + gate.stderr


@pytest.mark.parametrize("content", ["", "[project]\nname = 'a'", "\ufeff[project]\r\nname = 'a'\r\n"])
def test_an_existing_file_is_added_to_at_its_end(dpaudit: Any, tmp_path: Path, content: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content.encode())
    assert dpaudit("init").exit_code == 0
    assert path.read_bytes().startswith(content.encode())
    document = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    assert set(document["tool"]["dpaudit"]) >= {"policy", "targets"}
    assert ("project" in document) == bool(content)


def test_an_own_configuration_and_an_own_workflow_stay(dpaudit: Any, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.dpaudit.policy]\nmax-epsilon = 1\ndelta-at-most = 0.1\n")
    (tmp_path / WORKFLOW).parent.mkdir(parents=True)
    (tmp_path / WORKFLOW).write_text("mine")
    before = files(tmp_path)
    assert dpaudit("init").exit_code == 0
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "content",
    [b"[tool.dpaudit]\nnonsense = 1\n", b"a = b = c", b"tool = {}\n", b"\xff", b"tool = 3"],
)
def test_a_file_that_nothing_can_be_added_to_is_refused_and_nothing_written(
    dpaudit: Any, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    before = files(tmp_path)
    result = dpaudit("init")
    assert result.exit_code == 2
    assert "DPA105" in result.stderr
    assert files(tmp_path) == before


def test_a_folder_that_cannot_hold_the_workflow_gets_nothing(dpaudit: Any, tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file")
    assert dpaudit("init").exit_code == 2
    assert dpaudit("init", tmp_path / "nowhere").exit_code == 2
    assert files(tmp_path) == {".github": b"a file"}


@pytest.mark.nightly
def test_the_workflow_runs_the_gate_and_uploads_what_it_wrote(dpaudit: Any, tmp_path: Path) -> None:
    dpaudit("init")
    workflow = yaml.safe_load((tmp_path / WORKFLOW).read_text())
    assert set(workflow[True]) == {"pull_request", "push", "schedule"}  # YAML 1.1 reads `on` as true
    steps = workflow["jobs"]["gate"]["steps"]
    (run,) = (step["run"] for step in steps if step.get("name") == "dpaudit gate")
    command, _, profile = run.strip().partition(" --profile ")
    assert "nightly" in profile
    assert "'pr'" in profile
    done = dpaudit(*command.split()[1:], "--profile", "pr")
    assert done.exit_code == 0
    (upload,) = (step["with"]["sarif_file"] for step in steps if "upload-sarif" in step.get("uses", ""))
    assert (tmp_path / upload).exists()
