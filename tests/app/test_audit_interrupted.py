"""`dpaudit audit` cut short, its workers killed, and on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODULE = """
import os, time
import numpy as np
from dpaudit import L1, Laplace

def count(scale, pause=0.0):
    def algorithm(data, curator):
        time.sleep(pause)
        return curator.release(data.sum(), Laplace(scale=scale, sensitivity=L1(1.0)), label="count")
    return algorithm

honest, faulty, unhurried = count(1.0), count(0.2), count(0.2, 0.001)

def interrupted(data, curator):
    # Ctrl-C comes in a trial of the third chunk.
    interrupted.calls += 1
    if interrupted.calls == 230:
        os.kill(os.getpid(), __import__("signal").SIGINT)
        time.sleep(5.0)
    return faulty(data, curator)
interrupted.calls = 0

def at_once(data, curator):
    raise KeyboardInterrupt

def dies_once(data, curator):
    if data.sum() and not os.path.exists("@FLAG@"):
        open("@FLAG@", "w").close()
        os.kill(os.getpid(), 9)
    return honest(data, curator)

def pair():
    return np.array([0.0, 0.0]), np.array([0.0, 1.0])
"""

Own = Callable[[str], str]


@pytest.fixture
def own(tmp_path: Path) -> Own:
    path = tmp_path / "audited.py"
    path.write_text(MODULE.replace("@FLAG@", str(tmp_path / "flag")))
    return lambda name: f"{path}:{name}"


def command(own: Own, name: str, *options: object) -> list[object]:
    return ["audit", own(name), "--pair", own("pair"), "--chunk", 50, "--trials", 1000, *options]


@pytest.mark.parametrize("method", ["threshold", "sequential"])
@pytest.mark.parametrize(("epsilon", "status", "verdict"), [(1, 1, "REFUTED"), (5, 0, "INCONCLUSIVE")])
def test_ctrl_c_keeps_what_was_done(
    answer: Any, own: Own, method: str, epsilon: float, status: int, verdict: str
) -> None:
    options = ("--method", method, "--epsilon", epsilon)
    found_status, found = answer(*command(own, "interrupted", *options))
    assert (found_status, found["verdict"], found["trials"]) == (status, verdict, 100)
    if verdict == "INCONCLUSIVE":
        assert found["inconclusive"].startswith("interrupted after 100 of 1000 runs a side")
    # What was done is what those trials would have been.
    whole = answer("audit", own("faulty"), "--pair", own("pair"), "--trials", 100, *options)[1]
    if method == "threshold":
        assert found["event"] == whole["event"]
        assert found["epsilon_lower"] == whole["epsilon_lower"]


def test_ctrl_c_is_inconclusive_under_strict(dpaudit: Any, own: Own) -> None:
    options = ("--method", "sequential", "--epsilon", 5, "--strict")
    assert dpaudit(*command(own, "interrupted", *options)).exit_code == 4


def test_ctrl_c_before_anything_was_done(dpaudit: Any, own: Own) -> None:
    result = dpaudit(*command(own, "at_once", "--method", "sequential", "--epsilon", 1))
    assert (result.exit_code, result.stdout) == (130, "")
    assert "nothing was judged" in result.stderr


def test_ctrl_c_at_a_terminal_reaches_every_process(own: Own, tmp_path: Path) -> None:
    options = ("--workers", 2, "--method", "sequential", "--epsilon", 1, "--output-format", "json")
    program = [sys.executable, "-c", "from dpaudit.app.main import main; main(prog_name='dpaudit')"]
    arguments = [*command(own, "unhurried", *options), "--trials", 100_000]
    with subprocess.Popen(
        [*program, *map(str, arguments)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        # Its own word that it has begun, however long that takes; it is far from its end then.
        assert "of 100000 runs a side" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=300)
    found = json.loads(out)
    assert "Traceback" not in said
    assert 50 <= found["trials"] < 100_000
    refuted = found["verdict"] == "REFUTED"
    assert process.returncode == (1 if refuted else 0)
    assert refuted or found["inconclusive"].startswith("interrupted after")


def test_a_killed_worker_is_replaced(dpaudit: Any, own: Own, tmp_path: Path) -> None:
    options = ("--method", "threshold", "--epsilon", 1, "--trials", 200, "--output-format", "json")
    killed = dpaudit(*command(own, "dies_once", *options, "--workers", 2))
    assert (tmp_path / "flag").exists()
    assert killed.exit_code == 0
    assert killed.stdout == dpaudit(*command(own, "honest", *options)).stdout


@pytest.mark.filterwarnings("default")  # the cluster's libraries warn of each other
def test_a_cluster_says_the_same(dpaudit: Any, own: Own) -> None:
    distributed = pytest.importorskip("distributed")
    options = ("--method", "threshold", "--epsilon", 1, "--trials", 200, "--output-format", "json")
    settings: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **settings) as cluster:
        there = dpaudit(*command(own, "honest", *options, "--dask", cluster.scheduler_address))
    assert there.stdout == dpaudit(*command(own, "honest", *options)).stdout
    assert json.loads(there.stdout)["verdict"] == "NOT_REFUTED"


@pytest.mark.filterwarnings("default")
def test_a_cluster_that_is_not_there(dpaudit: Any, own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("dpaudit.auditors.workers._CONNECTING", "1s")
    result = dpaudit(*command(own, "honest", "--method", "threshold", "--dask", "tcp://127.0.0.1:9"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no scheduler answers" in result.stderr
