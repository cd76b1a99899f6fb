"""Trials in processes of their own: the same scores, and nothing that one side leaves for the other."""

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L1, Claim, Curator, Experiment, Laplace, Pair, PureDP
from dpaudit.accountants.filters.filters import PureFilter
from dpaudit.app.options.processes import open_target
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.claims.relations import TrustModel
from dpaudit.curator.views import UserViews
from dpaudit.errors import ScoreShape, TargetDied, TargetRaised, TrialFailed
from dpaudit.processes.host import AVAILABLE, Limits, Started

pytestmark = [
    pytest.mark.skipif(not AVAILABLE, reason="targets have processes of their own on Linux"),
    pytest.mark.usefixtures("own_processes"),
]

CLAIM = Claim(PureDP(epsilon=1.0), unit="row", neighbouring="replace-one")
NOISE = Laplace(scale=1.0, sensitivity=L1(1.0))
JOINT = CLAIM.model_copy(update={"trust_model": TrustModel.JOINT})
PAIR = Pair(np.zeros(2), np.array([0.0, 1.0]), unit=1)
TRIALS, CHUNK = 20, 10
Target = Callable[[Any, Curator], Any]


def noisy(data: Any, curator: Curator) -> Any:
    return curator.release(data.sum(), NOISE, label="count")


class InBatches:
    claim = CLAIM

    def __call__(self, data: Any, curator: Curator) -> Any:
        return noisy(data, curator)

    def batch(self, data: Any, curator: Curator, trials: int) -> Any:
        return curator.release(np.full(trials, data.sum()), NOISE, label="count", count=trials)


def views(data: Any, curator: Curator) -> UserViews:
    return UserViews(tuple((noisy(data, curator), float(row)) for row in data))


def audited(target: Any, **options: Any) -> dpaudit.Audit:
    given: dict[str, Any] = {"claim": CLAIM, "method": "threshold", "trials": TRIALS, "chunk": CHUNK}
    return dpaudit.audit(target, PAIR, **{**given, **options})


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (noisy, {}),
        (noisy, {"workers": 3}),
        (noisy, {"method": "sequential", "score": lambda output: abs(output) + 1.0}),
        (noisy, {"score": "exact"}),
        (noisy, {"budget": PureFilter(1.0)}),
        (InBatches(), {}),
        (views, {"claim": JOINT}),
        (Plain(lambda data, generator: data.sum() + generator.laplace(), claim=CLAIM), {}),
    ],
)
def test_the_audit_is_that_of_one_process(target: Any, options: dict[str, Any]) -> None:
    here = {name: value for name, value in options.items() if name != "workers"}
    assert audited(target, **options) == audited(target, **here, in_process=True)


def test_one_run_is_that_of_one_process() -> None:
    canaries = Canaries(50, lambda coins: coins.astype(float), lambda output: output)

    def released(data: Any, curator: Curator) -> Any:
        return curator.release(data, NOISE, label="all")

    one, other = (dpaudit.one_run(released, canaries, claim=CLAIM, in_process=here) for here in (None, True))
    assert one == other


def test_kept_runs_are_resumed_by_either(tmp_path: Path) -> None:
    def fails(data: Any, curator: Curator) -> Any:
        raise AssertionError("all runs are kept")

    path = tmp_path / "runs.sqlite"
    found = audited(noisy, resume=path)
    kept = path.read_bytes()
    assert audited(noisy, resume=path, in_process=True) == found
    with pytest.raises(dpaudit.DpauditError, match="algorithm"):
        audited(fails, resume=path)
    assert path.read_bytes() == kept


# What one side leaves for the other; with an innocent twin.

_DATA: list[Any] = []


@functools.lru_cache
def raw_sum(size: int) -> float:
    return float(_DATA[-1].sum())


def memo(data: Any, curator: Curator) -> Any:
    _DATA.append(data)
    return noisy(data, curator) + 100.0 * raw_sum(len(data))


@functools.lru_cache
def public_size(size: int) -> int:
    return 100 * size


def innocent_memo(data: Any, curator: Curator) -> Any:
    return noisy(data, curator) + public_size(len(data))


@pytest.mark.parametrize("target", [memo, innocent_memo])
def test_a_memo_of_one_side_does_not_reach_the_other(target: Target) -> None:
    verdicts = []
    for here in (None, True):
        raw_sum.cache_clear()
        verdicts.append(audited(target, in_process=here, trials=200, chunk=100).verdict)
    raw_sum.cache_clear()
    apart = Experiment.REFUTED if target is memo else Experiment.NOT_REFUTED
    assert verdicts == [apart, Experiment.NOT_REFUTED]


# Runs that do not return; with an innocent twin.

_RUNS: list[int] = []


def on_seventh_run(what: Callable[[], object]) -> Target:
    def target(data: Any, curator: Curator) -> Any:
        _RUNS.append(0)
        if data.any() and len(_RUNS) == 7:
            what()
        return noisy(data, curator)

    return target


def exits() -> None:
    os._exit(0)


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    threading.Event().wait()


@pytest.mark.parametrize(
    ("what", "says"), [(exits, "exit status 0"), (is_killed, "SIGKILL"), (hangs, "did not end within 600 s")]
)
def test_a_run_that_does_not_return_is_named_and_counted_for_nothing(
    what: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def received(self: Started) -> Any:
        if seen.count(("note", 6)) == 2:  # on the second side, where it is known to hang: no need to wait
            self.waited(-600.0)
        seen.append(receive(self))
        return seen[-1]

    receive = Started.receive
    monkeypatch.setattr(Started, "receive", received)
    limits = Limits(timeout=600) if what is hangs else Limits()
    with pytest.raises(TargetDied, match=says) as caught:
        audited(on_seventh_run(what), limits=limits)
    assert caught.value.where == "seed 0, side 1, trial 6"
    assert "distribution" in (caught.value.why or "")


def test_a_limit_on_time_is_for_one_run_and_not_for_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every message counts as 400 s: one run's may, and two runs' may not, come within 600 s."""

    def takes_its_time(data: Any, curator: Curator) -> Any:
        time.sleep(0.02)  # where its time is over, it is waited for no longer than a millisecond
        return noisy(data, curator)

    def received(self: Started) -> Any:
        found = receive(self)
        self.waited(-400.0)
        return found

    receive = Started.receive
    monkeypatch.setattr(Started, "receive", received)
    found = audited(takes_its_time, trials=10, chunk=10, workers=2, limits=Limits(timeout=600))
    assert found.trials == 10


def test_what_a_trial_raises_keeps_its_words_to_itself() -> None:
    def raises() -> None:
        raise KeyError("patient 4711")

    # That a run raises is an outcome; a score that raises is an error of the audit.
    assert audited(on_seventh_run(raises)).trials == TRIALS

    def score(output: Any) -> Any:
        _RUNS.append(0)
        if len(_RUNS) == 7:
            raises()
        return output

    with pytest.raises(TrialFailed, match="raised KeyError") as caught:
        audited(noisy, score=score)
    assert (caught.value.side, caught.value.index) == (0, 6)
    cause = caught.value.__cause__
    assert isinstance(cause, TargetRaised)
    assert cause.text == repr("patient 4711")
    assert "4711" not in str(caught.value)


def test_what_is_no_number_is_an_outcome_as_in_one_process() -> None:
    found = [
        audited(lambda data, curator: str(noisy(data, curator) > 1), in_process=here) for here in (None, True)
    ]
    assert found[0].model_dump(exclude={"process"}) == found[1].model_dump(exclude={"process"})
    for here in (None, True):
        with pytest.raises(ScoreShape, match="nothing to compare"):
            audited(lambda data, curator: [], in_process=here)


MODULE = """
import numpy as np
from dpaudit import Pair
from dpaudit.auditors.sampling.one_run import Canaries

def mechanism(data, generator):
    return data.sum() + generator.laplace()

def pair():
    return Pair(np.zeros(2), np.ones(2))

def score(output):
    return -output

def canaries(number):
    return Canaries(number, lambda coins: coins.astype(float), score)
"""


def test_the_command_imports_nothing_of_the_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    imported = set(sys.modules)

    def keep() -> dict[str, Any]:
        from dpaudit.app.options.audit_options import Settings

        return Settings(score=f"{path}:score").functions("threshold")

    given: dict[str, Any] = {"parameters": {}, "pair": f"{path}:pair", "plain": True, "needs_data": False}
    with open_target(f"{path}:mechanism", keep=keep, **given) as opened:
        assert opened.plain
        found = dpaudit.audit(opened.algorithm, opened.pairs, trials=20, score=opened.kept["score"])
    assert found.method == "sequential"
    assert not {name for name in set(sys.modules) - imported if "dpaudit_target" in name}
