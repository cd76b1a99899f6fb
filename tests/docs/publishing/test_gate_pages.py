"""What docs/publishing/gate.md and docs/publishing/pytest.md show is what happens."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def run(python: list[str], folder: Path, *words: str, columns: int = 90) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(columns)}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    environment.pop("CI", None)  # there pytest shortens no summary
    program = [*python, "-m", *words]
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly
def test_the_page_on_the_gate(python: list[str], tmp_path: Path) -> None:
    source = next(block for block in blocks("README.md", "python") if block.startswith("# means.py"))
    (tmp_path / "means.py").write_text(source, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(blocks("docs/publishing/gate.md", "toml")[0], encoding="utf-8")
    certify = ("certify", "means.py:column_sums", "--pair", "means.py:pair", "-o", "out")
    assert run(python, tmp_path, "dpaudit.app.main", *certify).returncode == 0
    (tmp_path / "ledgers").mkdir()
    (tmp_path / "out" / "ledger.jsonl").rename(tmp_path / "ledgers" / "march.jsonl")
    text, github = blocks("docs/publishing/gate.md", "console")[:2]

    done = run(python, tmp_path, "dpaudit.app.main", "gate")
    assert done.returncode == 1, done.stderr
    printed = re.sub(r"Not checked\n(  .*\n)*", "", done.stdout)
    assert printed == text.partition("\n")[2]
    done = run(python, tmp_path, "dpaudit.app.main", *github.partition("\n")[0].split()[2:])
    assert done.stdout.startswith(github.split("\n")[1])
    assert (tmp_path / "dpaudit.sarif").exists()


def test_the_readmes_configuration_is_one(tmp_path: Path) -> None:
    from dpaudit.app.gate.configuration import read_configuration

    path = tmp_path / "pyproject.toml"
    path.write_text(blocks("README.md", "toml")[0], encoding="utf-8")
    gate = read_configuration(path).gate
    assert gate is not None
    assert set(gate.targets) == {"means"}


@pytest.mark.nightly
def test_the_page_on_tests(python: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_means.py").write_text(
        blocks("docs/publishing/pytest.md", "python")[0], encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugin = ("-p", "dpaudit.app.testing.pytest_plugin", "-p", "no:cacheprovider")
    done = run(python, tmp_path, "pytest", "-q", *plugin, columns=80)
    shown = blocks("docs/publishing/pytest.md", "console")[0].partition("\n")[2]
    seconds = re.compile(r" in [0-9.]+s.*| - Failed:.*")  # the short line is as wide as the terminal
    assert seconds.sub("", done.stdout) == seconds.sub("", shown)
