"""Targets in fresh interpreters: the same verdicts as in forks, and what cannot be sent is said."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dpaudit
from dpaudit import ZCDP, Audit, Claim, Curator, Experiment, Pair, Proof
from dpaudit.errors import TargetDied, TargetRaised, UsageError
from dpaudit.processes import fresh, host
from dpaudit.processes.host import Limits
from tests.certified import certified

MINE = """
import functools, os, signal, sys, threading

from dpaudit import L2, ZCDP, Claim, Gaussian

_DATA = []


@functools.lru_cache
def raw_mean(rows):
    return float(_DATA[-1].mean())


@functools.lru_cache
def public_size(rows):
    return rows + 1


def sums(data, curator):
    noise = Gaussian(sigma=4.0, sensitivity=L2(2.0))
    return curator.release_sum(data, bound=1.0, mechanism=noise, label="sums"), public_size(len(data))


def unclaimed(data, curator):
    return sums(data, curator)


def memo(data, curator):
    _DATA.append(data)
    return sums(data, curator), raw_mean(len(data))


def in_an_order_of_its_own(data, curator):
    return sums(data, curator), list({f"{i}" for i in range(20)})


def finds_loaded(data, curator):
    return sums(data, curator), {"narwhals", "polars"} & set(sys.modules)


def exits(data, curator):
    sums(data, curator)
    os._exit(0)


def is_killed(data, curator):
    sums(data, curator)
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(data, curator):
    sums(data, curator)
    threading.Event().wait()


def raises(data, curator):
    raise KeyError("patient 4711")


for each in (sums, memo, finds_loaded, in_an_order_of_its_own, exits, is_killed, hangs, raises):
    each.claim = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")
"""

THREADED = MINE + "\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"

ZEROS = np.zeros((40, 3))
PAIR = Pair(ZEROS, np.vstack([np.ones((1, 3)), ZEROS[1:]]), "one row", unit=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("targets")
    (folder / "dpaudit_spawned.py").write_text(MINE)
    (folder / "dpaudit_threaded.py").write_text(THREADED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@pytest.fixture(scope="module")
def mine(folder: Path) -> ModuleType:
    return importlib.import_module("dpaudit_spawned")


@pytest.fixture(params=["fork", "spawn"])
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DPAUDIT_PROCESSES", request.param)
    return str(request.param)


def quickly(target: Any, pairs: Any, **options: Any) -> Audit:
    return dpaudit.replay(target, pairs, claim=options["claim"], replays=1, extreme_outputs=False)


@pytest.mark.usefixtures("start")
def test_a_proof_and_a_refutation_are_the_same(mine: ModuleType) -> None:
    made = dpaudit.certify(mine.sums, ZEROS, pairs=PAIR, auditor=quickly)
    assert (made.proof, made.process.kind) == (Proof.PROVED, "twin")
    assert [audit.verdict for audit in made.audits] == [Experiment.NOT_REFUTED]
    found = quickly(mine.memo, [PAIR], claim=mine.memo.claim)
    assert {finding.kind for finding in found.findings} == {"leak"}


@pytest.mark.usefixtures("start")
def test_a_claim_that_was_set_on_an_imported_function_is_judged(mine: ModuleType) -> None:
    mine.unclaimed.claim = claim = Claim(ZCDP(rho=0.25), unit="row", neighbouring="replace-one")
    made = dpaudit.certify(mine.unclaimed, ZEROS, pairs=PAIR, auditor=quickly)
    assert made.proof is Proof.PROVED
    assert made.claim is not None
    assert made.claim.guarantee == claim.guarantee


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("exits", TargetDied, "exit status 0 before it returned"),
        pytest.param("is_killed", TargetDied, "killed by SIGKILL", marks=pytest.mark.nightly),
        pytest.param("hangs", TargetDied, "did not end within 3 s", marks=pytest.mark.nightly),
        pytest.param("raises", TargetRaised, "KeyError", marks=pytest.mark.nightly),
    ],
)
def test_a_target_that_does_not_return_is_never_certified(
    mine: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception], says: str
) -> None:
    monkeypatch.setenv("DPAUDIT_PROCESSES", "spawn")
    limits = Limits(timeout=3 if name == "hangs" else None)
    with pytest.raises(error, match=says):
        dpaudit.certify(getattr(mine, name), ZEROS, pairs=PAIR, auditor=quickly, limits=limits)


def test_each_run_is_a_fresh_interpreter_where_the_target_starts_threads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPAUDIT_PROCESSES", "spawn")
    threaded = importlib.import_module("dpaudit_threaded")
    assert dpaudit.certify(threaded.sums, ZEROS, pairs=()).proof is Proof.PROVED
    with pytest.raises(TargetDied, match="exit status 0 before it returned"):
        dpaudit.certify(threaded.exits, ZEROS, pairs=())


def test_runs_do_not_each_import_what_this_process_has_loaded(
    mine: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with a table took most of its time for the imports of its libraries."""
    import dpaudit.tables.local  # noqa: F401

    monkeypatch.setenv("DPAUDIT_PROCESSES", "spawn")
    assert certified(mine.finds_loaded, ZEROS, pairs=PAIR, auditor=quickly).run.output[1] == {"narwhals"}


@pytest.mark.nightly
def test_fresh_interpreters_come_to_the_same_verdicts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of text are in the same order in all of them: that is no randomness of the algorithm's."""
    monkeypatch.setenv("DPAUDIT_PROCESSES", "spawn")
    threaded = importlib.import_module("dpaudit_threaded")

    def once(target: Any) -> Audit:
        return dpaudit.replay(target, [PAIR], replays=1, extreme_outputs=False)

    assert once(threaded.in_an_order_of_its_own).verdict is Experiment.NOT_REFUTED
    assert {finding.kind for finding in once(threaded.memo).findings} == {"leak"}
    with pytest.raises(TargetDied, match="did not end within 5 s"):
        dpaudit.certify(threaded.hangs, ZEROS, pairs=PAIR, auditor=quickly, limits=Limits(timeout=5))


def test_what_cannot_be_sent_is_said(mine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPAUDIT_PROCESSES", "spawn")
    lock = threading.Lock()

    def holds_a_lock(data: Any, curator: Curator) -> Any:
        with lock:
            return mine.sums(data, curator)

    with pytest.raises(UsageError, match="cannot be sent to a fresh interpreter"):
        dpaudit.certify(holds_a_lock, ZEROS, claim=mine.sums.claim, pairs=PAIR, auditor=quickly)

    def holds_nothing(data: Any, curator: Curator) -> Any:
        return mine.sums(data, curator)

    made = dpaudit.certify(holds_nothing, ZEROS, claim=mine.sums.claim, pairs=())
    assert made.proof is Proof.PROVED


def test_what_is_not_there_to_be_imported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPAUDIT_PROCESSES", "spawn")
    path = tmp_path / "dpaudit_nowhere.py"
    path.write_text(MINE)
    specification: Any = importlib.util.spec_from_file_location("dpaudit_nowhere", path)
    nowhere: Any = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "dpaudit_nowhere", nowhere)
    specification.loader.exec_module(nowhere)
    with pytest.raises(UsageError, match=r"cannot be imported by name \(ModuleNotFoundError: 'dpaudit_now"):
        dpaudit.certify(nowhere.sums, ZEROS, pairs=PAIR, auditor=quickly)


def test_a_setting_that_is_none_is_refused(mine: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPAUDIT_PROCESSES", "thread")
    with pytest.raises(UsageError, match="DPAUDIT_PROCESSES='thread'"):
        dpaudit.certify(mine.sums, ZEROS, pairs=PAIR, auditor=quickly)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_on_macos_nothing_is_a_fork_of_the_process_that_asks(
    mine: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """As far as another system can show it."""
    monkeypatch.delenv("DPAUDIT_PROCESSES", raising=False)
    started: list[str] = []

    def starts(entry: str, *channels: socket.socket) -> int:
        started.append(entry)
        return fresh.start_interpreter(entry, *channels)

    monkeypatch.setattr(host, "start_interpreter", starts)
    monkeypatch.setattr(sys, "platform", platform)
    assert dpaudit.certify(mine.sums, ZEROS, pairs=()).proof is Proof.PROVED
    assert started == (["serve_fresh"] if platform == "darwin" else [])
    if platform == "darwin":  # where no process is held to it
        with pytest.raises(UsageError, match="a limit on memory"):
            dpaudit.certify(mine.sums, ZEROS, pairs=(), limits=Limits(memory=2**36))


@pytest.mark.parametrize("threads", [0, 1])
def test_macos_is_asked_whether_a_process_ever_had_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    system = SimpleNamespace(pthread_is_threaded_np=lambda: threads)
    monkeypatch.setattr(fresh, "ctypes", SimpleNamespace(CDLL=lambda _: system))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert fresh.is_threaded() is bool(threads)


#: Every Python that is started says that it runs on macOS, once it has loaded what is built for this system.
MACOS = """
import ctypes, multiprocessing, platform, socket, subprocess, sys, sysconfig, threading
import numpy, pydantic, scipy.special

class System(ctypes.CDLL):
    def __getattr__(self, name):
        if name == "pthread_is_threaded_np":
            return lambda: threading.active_count() > 1
        if name == "prctl":
            raise AttributeError(name)
        return super().__getattr__(name)

ctypes.CDLL = System
sysconfig.get_config_vars()
sys.platform = "darwin"
"""


@pytest.mark.nightly
def test_the_commands_come_to_their_verdicts_where_every_process_believes_in_macos(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(MACOS)
    (tmp_path / "dpaudit_spawned.py").write_text(MINE)
    (tmp_path / "pairs.py").write_text(PAIRS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DPAUDIT_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), *sys.path])
    about = "--pair", "pairs.py:pair", "--trials", "1"
    for name, status in (("sums", 0), ("memo", 1), ("exits", 2)):
        command = [sys.executable, "-m", "dpaudit", "audit", f"dpaudit_spawned.py:{name}", *about]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr


GATE = """
[tool.dpaudit.audit]
trials = 1

[tool.dpaudit.targets.good]
target = "dpaudit_spawned.py:sums"
pair = "pairs.py:pair"

[tool.dpaudit.targets.bad]
target = "dpaudit_spawned.py:memo"
pair = "pairs.py:pair"
"""

PAIRS = """
import numpy as np
from dpaudit import Pair


def pair():
    zeros = np.zeros((40, 3))
    return Pair(zeros, np.vstack([np.ones((1, 3)), zeros[1:]]))
"""


@pytest.mark.parametrize("start", ["spawn", pytest.param("fork", marks=pytest.mark.nightly)], indirect=True)
@pytest.mark.usefixtures("start", "few_runs")
def test_the_commands_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpaudit.app.main import main

    (tmp_path / "dpaudit_spawned.py").write_text(MINE)
    (tmp_path / "pairs.py").write_text(PAIRS)
    (tmp_path / "pyproject.toml").write_text(GATE)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["gate", "--output-format", "json"], prog_name="dpaudit")
    assert done.exit_code == 1, done.output
    found = {check["name"]: json.dumps(check["findings"]) for check in json.loads(done.stdout)["checks"]}
    assert found["good"] == "[]"
    assert "leak" in found["bad"]
