"""`dpaudit init` writes what the gate then passes, and changes nothing that is there."""

import math
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dpaudit.app.origin import Origin

WORKFLOW = Path(".github", "workflows", "dpaudit.yml")
INIT = ("init", "--max-epsilon", "2", "--install", "dpaudit==0.2.0")


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_what_it_writes_passes_the_gate_and_then_stays(dpaudit: Any, tmp_path: Path) -> None:
    first = dpaudit(*INIT)
    assert first.exit_code == 0, first.stderr
    written = files(tmp_path)
    assert set(written) == {"pyproject.toml", WORKFLOW.as_posix()}
    again = dpaudit(*INIT)
    assert (again.exit_code, again.stdout.count("kept as it was")) == (0, 2)
    assert files(tmp_path) == written
    gate = dpaudit("gate")
    assert gate.exit_code == 0, gate.stdout + gate.stderr


@pytest.mark.parametrize("content", ["", "[project]\nname = 'a'", "\ufeff[project]\r\nname = 'a'\r\n"])
def test_an_existing_file_is_added_to_at_its_end(dpaudit: Any, tmp_path: Path, content: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content.encode())
    assert dpaudit(*INIT).exit_code == 0
    assert path.read_bytes().startswith(content.encode())
    document = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    assert set(document["tool"]["dpaudit"]) >= {"policy", "targets"}
    assert ("project" in document) == bool(content)


def test_an_own_configuration_and_an_own_workflow_stay(dpaudit: Any, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.dpaudit.policy]\nmax-epsilon = 1\ndelta-at-most = 0.1\n")
    (tmp_path / WORKFLOW).parent.mkdir(parents=True)
    (tmp_path / WORKFLOW).write_text("mine")
    before = files(tmp_path)
    assert dpaudit(*INIT).exit_code == 0
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "content", [b"[tool.dpaudit]\nnonsense = 1\n", b"a = b = c", b"tool = {}\n", b"\xff", b"tool = 3"]
)
def test_a_file_that_nothing_can_be_added_to_is_refused_and_nothing_written(
    refusal: Any, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    before = files(tmp_path)
    assert "DPA105" in refusal(*INIT)
    assert files(tmp_path) == before


def test_a_folder_that_cannot_hold_the_workflow_gets_nothing(dpaudit: Any, tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file")
    assert dpaudit(*INIT).exit_code == 2
    assert dpaudit(*INIT, tmp_path / "nowhere").exit_code == 2
    assert files(tmp_path) == {".github": b"a file"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--install", "dpaudit"), "--max-epsilon"),
        (("--install", "dpaudit", "--max-epsilon", "0"), "positive and finite"),
        (("--install", "dpaudit", "--max-epsilon", "nan"), "positive and finite"),
        (("--install", "dpaudit", "--max-epsilon", "inf"), "positive and finite"),
        (("--install", "dpaudit", "--max-epsilon", "many"), "not a valid float"),
        (("--install", "a\nb", "--max-epsilon", "2"), "cannot be printed"),
    ],
)
def test_what_it_cannot_know_it_asks_for_and_writes_nothing(
    dpaudit: Any, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    result = dpaudit("init", *options)
    assert (result.exit_code, files(tmp_path)) == (2, {})
    assert words in " ".join(result.stderr.split())


def test_a_folder_of_this_machine_is_nothing_that_a_workflow_can_install(
    dpaudit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpaudit.app.verbs.init.origin", lambda: Origin(None))
    refused = dpaudit("init", "--max-epsilon", 2)
    assert (refused.exit_code, "--install" in refused.stderr, files(tmp_path)) == (2, True, {})
    monkeypatch.setattr("dpaudit.app.verbs.init.origin", lambda: Origin("dpaudit @ git+https://x/y@1"))
    assert dpaudit("init", "--max-epsilon", 2).exit_code == 0
    assert "dpaudit @ git+https://x/y@1" in (tmp_path / WORKFLOW).read_text()


@pytest.mark.parametrize("requirement", ["dpaudit>=0.2", 'a "b" $HOME `id`', "it's", "a: b # c"])
def test_the_requirement_reaches_pip_as_one_word(dpaudit: Any, tmp_path: Path, requirement: str) -> None:
    assert dpaudit("init", "--max-epsilon", 2, "--install", requirement).exit_code == 0
    steps = yaml.safe_load((tmp_path / WORKFLOW).read_text())["jobs"]["gate"]["steps"]
    (command,) = (step["run"] for step in steps if "pip install" in step.get("run", ""))
    assert shlex.split(command) == ["pip", "install", requirement]


@pytest.mark.parametrize("limit", [1e-3, 0.3, 2.0, 50.0, 1e4])
def test_the_example_is_within_the_limit(dpaudit: Any, tmp_path: Path, limit: float) -> None:
    assert dpaudit("init", "--max-epsilon", limit, "--install", "dpaudit").exit_code == 0
    table = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["dpaudit"]
    rho = table["targets"]["example"]["claim"]["rho"]
    assert table["policy"]["max-epsilon"] == limit
    # (epsilon, delta) of rho-zCDP by Bun and Steinke 2016, which is above the one that is proved.
    assert 0.5 * limit < rho + 2 * math.sqrt(rho * math.log(1e6)) < 2 * limit


@pytest.mark.nightly
def test_the_workflow_runs_the_gate_and_uploads_what_it_wrote(dpaudit: Any, tmp_path: Path) -> None:
    dpaudit(*INIT)
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
