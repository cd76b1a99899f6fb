"""Joint claims: no audit compares what the changed user sees, whoever calls it, and each finds a leak.

False alarms: fixed seeds; a true claim is refuted with probability 1e-6 at most.
"""

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit import audit
from dpaudit.app.main import main
from tests.sweeps import sweep

ROOT = Path(__file__).parents[2]
METHODS = ("replay", "threshold", "sequential")
SURE = 1 - 1e-6
TRIALS = {"replay": 3, "threshold": 200, "sequential": 200}
CLAIM = ["--epsilon", "1", "--unit", "user", "--neighbouring", "replace-one", "--trust-model", "joint"]


def module(path: Path) -> Any:
    found = importlib.util.spec_from_file_location("billboard", path)
    assert found is not None
    assert found.loader is not None
    loaded = importlib.util.module_from_spec(found)
    found.loader.exec_module(loaded)
    return loaded


@sweep("method", METHODS, everyday=(0, 1))
def test_called_from_python(billboard: Path, method: Any) -> None:
    own = module(billboard)
    for algorithm, verdict in ((own.honest, "NOT_REFUTED"), (own.leaking, "REFUTED")):
        how = {"method": method, "trials": TRIALS[method], "confidence": SURE}
        found = audit(algorithm, own.pair(), claim=own.CLAIM, **how)
        assert found.verdict == verdict


@sweep("method", METHODS, everyday=(0, 1))
def test_by_the_verb(billboard: Path, method: str) -> None:
    for name, status in (("honest", 0), ("leaking", 1)):
        options = ["--pair", f"{billboard}:pair", "--method", method, "--trials", str(TRIALS[method]), *CLAIM]
        options += ["--confidence", str(SURE)]
        result = CliRunner().invoke(main, ["audit", f"{billboard}:{name}", *options], prog_name="dpaudit")
        assert result.exit_code == status, result.output


def test_by_the_gate(billboard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tables = [
        f"[tool.dpaudit.targets.{name}-{method}]\n"
        f'target = "{billboard}:{name}"\npair = "{billboard}:pair"\n'
        'claim = { epsilon = 1.0, unit = "user", neighbouring = "replace-one", trust-model = "joint" }\n'
        f'audit = {{ method = "{method}", trials = {TRIALS[method]} }}\n'
        for name in ("honest", "leaking")
        for method in METHODS
    ]
    (tmp_path / "pyproject.toml").write_text("\n".join(tables))
    result = CliRunner().invoke(main, ["gate", "--output-format", "json"], prog_name="dpaudit")
    found = {check["name"]: check["experiment"] for check in json.loads(result.stdout)["checks"]}
    assert found == {
        f"{name}-{method}": verdict
        for name, verdict in (("honest", "NOT_REFUTED"), ("leaking", "REFUTED"))
        for method in METHODS
    }


SESSION = """
import pytest
import billboard

CASES = [("replay", 3), ("threshold", 200), ("sequential", 200)]

@pytest.mark.parametrize(("method", "trials"), CASES)
@pytest.mark.parametrize("name", ["honest", "leaking"])
@pytest.mark.dp_claim(billboard.CLAIM)
def test_billboard(dp_audit, name, method, trials):
    dp_audit(getattr(billboard, name), billboard.pair(), method=method, trials=trials)
"""


@sweep("method", METHODS, everyday=(0,))
def test_by_pytest(billboard: Path, python: list[str], tmp_path: Path, method: str) -> None:
    (tmp_path / "test_session.py").write_text(SESSION)
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    command = [*python, "-m", "pytest", "-p", "dpaudit.app.testing.pytest_plugin", "-rA", "-q"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-k", method, "test_session.py"],
        cwd=tmp_path,
        env={
            **environment,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    case = f"{method}-{TRIALS[method]}"
    assert f"PASSED test_session.py::test_billboard[honest-{case}]" in done.stdout, done.stdout
    assert f"FAILED test_session.py::test_billboard[leaking-{case}]" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
