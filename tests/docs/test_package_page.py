"""The package of docs/extending adds one of everything to a new environment; a broken package adds nothing.

The package is built and installed without a network, in a folder that its programs have on their path.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending" / "package.md"
PACKAGE = PAGE.with_suffix("")
PROGRAMS = {"dpaudit": ["-m", "dpaudit.app.main"], "python": []}
Run = Callable[..., subprocess.CompletedProcess[str]]

#: Entry points that cannot be used: nothing to import, another type, one of our names, a subclass of ours.
BROKEN = """
[dpaudit.verbs]
frobnicate = no_such_module:verb
[dpaudit.auditors]
guess = math:pi
[dpaudit.algorithms]
dp-apvi = broken:APVI
[dpaudit.mechanisms]
half = broken:Half
"""
HALF = """
from typing import Literal
from dpaudit import Gaussian


class Half(Gaussian):
    kind: Literal["half"] = "half"

    def sample(self, value, randomness):
        return value
"""
#: The divergence of two queries, whatever their distance, by the density alone; and that of the pair's table.
DIVERGENCES = """
import json
import numpy as np
from staircase.mechanism import Staircase, StaircasePair, best_split
from dpaudit import L1

found = []
for epsilon in (0.3, 1.0, 2.5):
    noise = Staircase(epsilon=epsilon, sensitivity=L1(1.0))
    table = StaircasePair(epsilon).table()
    losses, masses = np.array(table.losses), np.array(table.probabilities)
    steps = np.arange(-150.0, 151.0)
    inside = np.arange(0.0, 150.0) + best_split(epsilon)
    falls = np.concatenate([steps, inside, -inside])
    for move in (0.25, 0.5, 1.0):
        ends = np.unique(np.concatenate([falls, falls + move]))  # between: constant
        middles, widths = 0.5 * (ends[1:] + ends[:-1]), np.diff(ends)
        here, there = (
            widths * np.exp([noise.log_density(np.array([x - by]), np.zeros(1)) for x in middles])
            for by in (0.0, move)
        )
        for at in (0.0, 0.5 * epsilon):
            own = np.maximum(here - np.exp(at) * there, 0.0).sum()
            found.append((move, own, (masses * np.maximum(1.0 - np.exp(at - losses), 0.0)).sum()))
print(json.dumps(found))
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, as pip installs it."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(PACKAGE, folder / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", folder / "installed", folder / "sources"], check=True)
    return folder / "installed"


@pytest.fixture
def run(python: list[str], installed: Path, tmp_path: Path) -> Run:
    """Run a program in a folder of its own, with the package and other folders on its path."""

    def called(command: str, *beside: Path) -> subprocess.CompletedProcess[str]:
        program, *arguments = shlex.split(command)
        path = os.pathsep.join(map(str, (ROOT, installed, *beside)))
        return subprocess.run(
            [*python, *PROGRAMS[program], *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    return called


def test_the_page_shows_the_entries_of_the_package() -> None:
    (shown,) = map(tomllib.loads, blocks("toml"))
    stated = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))
    assert shown["project"]["entry-points"] == stated["project"]["entry-points"]
    files = {path.name for path in (PACKAGE / "staircase").glob("*.py")} - {"__init__.py", "toylib.py"}
    assert (
        set(re.findall(r"^\| `staircase/(\w+\.py)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) == files
    )


def test_every_entry_works(run: Run, tmp_path: Path) -> None:
    for script in blocks("python"):
        (tmp_path / script.partition("\n")[0].removeprefix("# ")).write_text(script, encoding="utf-8")
    (tmp_path / "log.json").write_text(*blocks("json"), encoding="utf-8")
    commands = [part for block in blocks("console") for part in block.split("$ ")[1:]]
    assert len(commands) == 8
    for part in commands:
        command, _, expected = part.partition("\n")
        done = run(command)
        assert expected in done.stdout, (command, done.stdout, done.stderr)
        assert done.returncode == ("REFUTED by" in expected and "NOT_" not in expected), command


def test_its_pair_dominates_its_density(run: Run, tmp_path: Path) -> None:
    (tmp_path / "divergences.py").write_text(DIVERGENCES, encoding="utf-8")
    done = run("python divergences.py")
    for move, own, stated in json.loads(done.stdout or done.stderr):
        assert own <= stated + 1e-12
        if move == 1.0:  # the pair itself
            assert own == pytest.approx(stated, abs=1e-10)


def test_its_noise_follows_its_density(run: Run) -> None:
    """A replay tests the sampler; a fault in it is planted in the same class."""
    done = run("dpaudit certify staircase-count --output-format json")
    assert json.loads(done.stdout)["experiment"] == "NOT_REFUTED", done.stdout
    faulty = (
        "from staircase.mechanism import Staircase; draw = Staircase.sample; "
        "Staircase.sample = lambda m, v, r: v + 0.5 * (draw(m, v, r) - v); "
        "from dpaudit.algorithms.catalogue import CATALOGUE; from dpaudit import audit; "
        "print(audit(CATALOGUE['staircase-count'].example()[0], in_process=True).verdict)"
    )
    done = run(f"python -c {shlex.quote(faulty)}")
    assert done.stdout.strip() == "REFUTED", done.stderr


def test_a_certificate_names_the_package(run: Run, tmp_path: Path) -> None:
    run("dpaudit certify staircase-count -o out")
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))["not_checked"]
    (added,) = [one for one in stated if one["code"] == "added-mechanism"]
    assert added["text"] == "the mechanism staircase of the package dpaudit-staircase 1.0"


def test_without_the_package_its_ledger_is_refused(run: Run, tmp_path: Path, python: list[str]) -> None:
    run("dpaudit certify staircase-count -o out")
    command = [*python, "-m", "dpaudit.app.main", "verify", "out/ledger.jsonl"]
    alone = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown kind 'staircase'" in done.stderr
    assert "install the package that adds it" in done.stderr


def test_a_broken_package_is_named_and_the_rest_works(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "broken-0.1.dist-info").mkdir(parents=True)
    (other / "broken.py").write_text(HALF, encoding="utf-8")
    (other / "broken-0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n", encoding="utf-8"
    )
    (other / "broken-0.1.dist-info" / "entry_points.txt").write_text(BROKEN, encoding="utf-8")
    listed = run("dpaudit list", other)
    assert listed.returncode == 0
    assert "staircase-count" in listed.stdout
    for name in ("frobnicate", "guess", "dp-apvi", "half"):
        assert re.search(rf"error: DPA107 package broken 0\.1: [^\n]*'{name}'", listed.stderr), name
    helped = run("dpaudit --help", other)
    assert re.search(r"frobnicate +broken: ", helped.stdout)
    for command in ("dpaudit staircase --epsilon 1", "dpaudit epsilon gaussian --sigma 1 --delta 1e-5"):
        assert run(command, other).returncode == 0, command
    for command in ("dpaudit frobnicate", "dpaudit audit dp-apvi --method guess", "dpaudit epsilon half"):
        done = run(command, other)
        assert (done.returncode, "DPA107 package broken 0.1" in done.stderr) == (2, True), done.stderr


@pytest.mark.nightly
def test_the_package_has_correct_types() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "-p", "staircase"]
    path = {**os.environ, "MYPYPATH": str(PACKAGE)}
    done = subprocess.run(command, cwd=ROOT, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
