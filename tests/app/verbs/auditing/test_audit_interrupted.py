"""`dpaudit audit` cut short, its workers killed, and on a cluster."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
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
    # Ctrl-C comes in a trial of the third chunk; counted in a file, as what a function holds is part of it.
    with open("@FLAG@.calls", "a") as calls:
        calls.write(".")
        count = calls.tell()
    if count == 230:
        os.kill(os.getpid(), __import__("signal").SIGINT)
        time.sleep(5.0)
    return faulty(data, curator)

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
def own(module: Any, tmp_path: Path) -> Own:
    made: Own = module(MODULE.replace("@FLAG@", str(tmp_path / "flag")))
    return made


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
        assert found["inconclusive"][0].startswith("interrupted by Ctrl-C after 100 of 1000 runs a side")
    # What was done is what those trials would have been.
    whole = answer("audit", own("faulty"), "--pair", own("pair"), "--trials", 100, *options)[1]
    if method == "threshold":
        assert found["event"] == f"{whole['event']}; ended by Ctrl-C after 100 of 1000 runs a side"
        assert found["epsilon_lower"] == whole["epsilon_lower"]
    assert ({"code": "stopping-time", "ended_by": "interrupt"} in found["not_checked"]) == (
        method == "threshold"
    )


@pytest.mark.parametrize("method", ["threshold", "gdp"])
def test_a_fixed_number_of_kept_runs_is_judged_at_one_size(
    dpaudit: Any, own: Own, tmp_path: Path, method: str
) -> None:
    kept = tmp_path / "kept.sqlite"
    claim = ("--mu", 9) if method == "gdp" else ("--epsilon", 9)
    options = ("--resume", kept, *claim, "--output-format", "json")

    def looks(*further: object) -> Any:
        return dpaudit(*command(own, "faulty", *options, "--method", method, *further))

    first = looks("--trials", 100)
    assert first.exit_code == 0
    for further in (("--trials", 200), ("--trials", 50)):
        refused = looks(*further)
        assert (refused.exit_code, refused.stdout) == (2, "")
        words = " ".join(refused.stderr.split())
        assert f"{kept}: its runs were evaluated when they were 100 a side, and would be" in words
        assert "ask for 100 trials again" in words
        assert "the method sequential" in words
    # Another fixed test at another size is a second look as well; the same size says the same again.
    other = ("--method", "gdp" if method == "threshold" else "threshold", "--mu", 9)
    trials = ("--trials", 200, "--resume", kept)
    assert "100 a side" in dpaudit(*command(own, "faulty", *other, *trials)).stderr
    assert looks("--trials", 100).stdout == first.stdout
    # A sequential audit may go on; what it showed is a look at its size, too.
    sequential = ("--method", "sequential", "--epsilon", 9, "--trials", 200, "--resume", kept)
    assert dpaudit(*command(own, "faulty", *sequential)).exit_code == 0
    assert "200 a side" in looks("--trials", 100).stderr


@pytest.mark.nightly
def test_a_fixed_test_of_the_size_a_sequential_audit_was_planned_for(
    dpaudit: Any, own: Own, tmp_path: Path
) -> None:
    kept = ("--resume", tmp_path / "kept.sqlite", "--epsilon", 9)
    assert dpaudit(*command(own, "faulty", "--method", "sequential", *kept)).exit_code == 0
    fixed = dpaudit(*command(own, "faulty", "--method", "threshold", *kept))
    assert (fixed.exit_code, fixed.stderr.count("1000 of 1000")) == (0, 1)


def test_ctrl_c_before_the_judgement_of_kept_runs_is_no_look(dpaudit: Any, own: Own, tmp_path: Path) -> None:
    kept = tmp_path / "kept.sqlite"
    options = ("--method", "threshold", "--epsilon", 5, "--resume", kept)
    stopped = dpaudit(*command(own, "interrupted", *options))
    assert (stopped.exit_code, stopped.stdout) == (130, "")
    said = f"nothing was judged; 100 of 1000 runs a side are kept in {kept}; the same command continues from"
    assert said in stopped.stderr
    # Nothing was shown, so that even another size may be asked for.
    assert dpaudit(*command(own, "interrupted", *options, "--trials", 500)).exit_code in {0, 1}
    assert "500 a side" in dpaudit(*command(own, "interrupted", *options)).stderr


def test_runs_that_the_clock_ended_are_judged_at_their_size(dpaudit: Any, own: Own, tmp_path: Path) -> None:
    options = ("--method", "threshold", "--epsilon", 9, "--resume", tmp_path / "kept.sqlite")
    ended = dpaudit(*command(own, "faulty", *options, "--time-limit", 1e-9))
    assert ended.exit_code == 0
    assert "ended by the time limit after 50 of 1000 runs a side" in " ".join(ended.stdout.split())
    assert "50 a side" in dpaudit(*command(own, "faulty", *options)).stderr
    assert dpaudit(*command(own, "faulty", *options, "--trials", 50)).exit_code == 0


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
    assert refuted or found["inconclusive"][0].startswith("interrupted by Ctrl-C after")


@pytest.mark.nightly
def test_a_killed_worker_is_replaced(dpaudit: Any, own: Own, tmp_path: Path) -> None:
    options = ("--method", "threshold", "--epsilon", 1, "--trials", 200, "--output-format", "json")
    killed = dpaudit(*command(own, "dies_once", *options, "--workers", 2))
    assert (tmp_path / "flag").exists()
    assert killed.exit_code == 0
    assert killed.stdout == dpaudit(*command(own, "honest", *options)).stdout


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # the cluster's libraries warn of each other
def test_a_cluster_says_the_same(dpaudit: Any, own: Own) -> None:
    distributed = import_module("distributed")
    options = ("--method", "threshold", "--epsilon", 1, "--trials", 200, "--output-format", "json")
    settings: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **settings) as cluster:
        there = dpaudit(*command(own, "honest", *options, "--dask", cluster.scheduler_address))
    assert there.stdout == dpaudit(*command(own, "honest", *options)).stdout
    assert json.loads(there.stdout)["verdict"] == "NOT_REFUTED"


@pytest.mark.filterwarnings("default")
def test_a_cluster_that_is_not_there(refusal: Any, own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpaudit.auditors.sampling.workers._CONNECTING", "1s")
    assert "no scheduler answers" in refusal(
        *command(own, "honest", "--method", "threshold", "--dask", "tcp://127.0.0.1:9")
    )
