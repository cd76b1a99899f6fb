"""Targets in processes of their own: what crosses from one run to another, and what ends without a result."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import dpaudit
from dpaudit import (
    L1,
    L2,
    ZCDP,
    Audit,
    Claim,
    Curator,
    Experiment,
    Gaussian,
    OpaquePureDP,
    Pair,
    Proof,
    PureDP,
    RandomizedResponse,
    ReportNoisyMax,
    Shuffled,
    SparseVector,
)
from dpaudit.auditors.sampling.workers import processes
from dpaudit.certificate.conditions import Code
from dpaudit.errors import InvalidParameter, ScheduleBroken, TargetDied, TargetRaised
from dpaudit.ledger.ledger import Header, Noise
from dpaudit.processes.host import NO_LIMITS, Host, Limits, Served, Started
from dpaudit.processes.hosted import HostedData
from dpaudit.processes.hosting import hosting
from dpaudit.processes.wire import value_of
from dpaudit.processes.worker import rehearse
from tests.certified import certified

CLAIM = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=4.0, sensitivity=L2(2.0))
ZEROS = np.zeros((40, 3))
PAIR = Pair(ZEROS, np.vstack([np.ones((1, 3)), ZEROS[1:]]), "one row", unit=0)
Target = Callable[[Any, Curator], Any]


def sums(data: Any, curator: Curator) -> Any:
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="sums")


def audited(target: Target, **options: Any) -> Audit:
    return dpaudit.replay(target, [PAIR], claim=CLAIM, replays=1, extreme_outputs=False, **options)


def never(*_: Any, **__: Any) -> Audit:
    raise AssertionError("a run that did not end is not audited")


def quickly(target: Any, pairs: Any, **options: Any) -> Audit:
    """An auditor that makes few runs, where something else is tested."""
    return dpaudit.replay(target, pairs, claim=options["claim"], replays=1, extreme_outputs=False)


def kinds(audit: Audit) -> set[str]:
    return {finding.kind for finding in audit.findings}


# Memos, module state and patched libraries.

_DATA: list[Any] = []


@functools.lru_cache
def raw_mean(size: int) -> float:
    return float(_DATA[-1].mean())


def memo(data: Any, curator: Curator) -> Any:
    _DATA.append(data)
    return sums(data, curator), raw_mean(len(data))


@functools.lru_cache
def public_size(size: int) -> int:
    return size + 1


def innocent_memo(data: Any, curator: Curator) -> Any:
    return sums(data, curator), public_size(len(data))


_KEPT: dict[str, Any] = {}


def module_state(data: Any, curator: Curator) -> Any:
    return sums(data, curator), float(_KEPT.setdefault("mean", data.mean()))


@pytest.mark.parametrize("target", [memo, module_state])
def test_a_raw_mean_behind_a_memo_is_found(target: Target) -> None:
    raw_mean.cache_clear()
    _KEPT.clear()
    assert kinds(audited(target)) == {"leak"}
    assert not _KEPT
    assert raw_mean.cache_info().currsize == 0


def test_a_raw_mean_behind_a_memo_hides_in_one_process() -> None:
    """What processes are for; the certificate says where they were not used."""
    raw_mean.cache_clear()
    assert audited(memo, in_process=True).verdict is Experiment.NOT_REFUTED
    raw_mean.cache_clear()


def test_a_memo_of_public_values_is_innocent() -> None:
    assert audited(innocent_memo).verdict is Experiment.NOT_REFUTED


def test_a_patched_library_stays_where_it_was_patched() -> None:
    real = np.random.default_rng

    def patches(data: Any, curator: Curator) -> Any:
        np.random.default_rng = lambda *_: real(0)  # type: ignore[assignment]
        return sums(data, curator)

    runs = [dpaudit.certify(patches, ZEROS, claim=CLAIM, pairs=PAIR, auditor=quickly) for _ in range(2)]
    assert np.random.default_rng is real
    assert runs[0].ledger_hash != runs[1].ledger_hash
    assert runs[0].publishable


def draws_itself(data: Any, curator: Curator) -> Any:
    noise = OpaquePureDP(epsilon=0.5, justification="the Laplace mechanism")
    return curator.release_opaque(0.0, lambda value, drawn: value + drawn.laplace(), noise, label="own")


@pytest.mark.parametrize("in_process", [False, True])
@pytest.mark.parametrize("target", [sums, draws_itself])
def test_no_patched_library_has_a_part_in_live_noise(
    monkeypatch: pytest.MonkeyPatch, target: Target, *, in_process: bool
) -> None:
    """Two runs that share their noise are one in 2^50, where a target's own code draws it, too."""
    real = np.random.default_rng
    released: list[Any] = []

    def patches(data: Any, curator: Curator) -> Any:
        monkeypatch.setattr(np.random, "default_rng", lambda *_: real(0))
        monkeypatch.setattr(os, "urandom", bytes)
        return target(data, curator)

    for _ in range(2):
        made = certified(patches, ZEROS, claim=CLAIM, pairs=(), curves=False, in_process=in_process)
        released.append(made.run.output)
    assert (np.asarray(released[0]) != np.asarray(released[1])).all()


# No success without completion; each with an innocent twin.


def exits(data: Any, curator: Curator) -> Any:
    sums(data, curator)
    os._exit(0)


def is_killed(data: Any, curator: Curator) -> Any:
    sums(data, curator)
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(data: Any, curator: Curator) -> Any:
    sums(data, curator)
    threading.Event().wait()


def fills(data: Any, curator: Curator) -> Any:
    sums(data, curator)
    return float(np.ones(10**9).sum())


def quits(data: Any, curator: Curator) -> Any:
    sums(data, curator)
    sys.exit(0)


def releases_in_a_thread(data: Any, curator: Curator) -> Any:
    errors: list[BaseException] = []

    def release() -> None:
        try:
            sums(data, curator)
        except ScheduleBroken as error:
            errors.append(error)

    thread = threading.Thread(target=release)
    thread.start()
    thread.join()
    raise errors[0]


def releases_in_a_fork(data: Any, curator: Curator) -> Any:
    pid = os.fork()
    if pid == 0:
        try:
            sums(data, curator)
        except ScheduleBroken:
            os._exit(7)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return sums(data, curator), status


def closes_all(data: Any, curator: Curator) -> Any:
    os.closerange(3, 1024)
    return sums(data, curator)


def returns_twice(data: Any, curator: Curator) -> Any:
    """A fork that goes on as if it were the run itself."""
    os.fork()
    return sums(data, curator)


LIMITS = {hangs: Limits(timeout=1), fills: Limits(memory=3 * 2**30)}


@pytest.mark.parametrize(
    ("target", "error", "says"),
    [
        (exits, TargetDied, "exit status 0 before it returned"),
        (is_killed, TargetDied, "killed by SIGKILL"),
        (hangs, TargetDied, "did not end within 1 s"),
        (fills, TargetRaised, "MemoryError"),
        (quits, TargetRaised, "SystemExit"),
        (releases_in_a_thread, ScheduleBroken, "in another thread"),
        (closes_all, TargetDied, "closed the channel"),
    ],
)
def test_a_target_that_does_not_return_is_never_certified(
    target: Target, error: type[Exception], says: str
) -> None:
    limits = LIMITS.get(target, Limits())
    with pytest.raises(error, match=says):
        dpaudit.certify(target, ZEROS, claim=CLAIM, pairs=PAIR, auditor=never, limits=limits)
    with pytest.raises(error, match=says):
        audited(target, limits=limits)


def is_late_on_one_side(data: Any, curator: Curator) -> Any:
    released = sums(data, curator)
    if np.asarray(data).any():
        threading.Event().wait()
    return released


def test_a_run_that_is_late_on_one_side_is_no_evidence_against_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the other run may have been about as slow; only the one that hangs is hurried."""
    hurried: list[Started] = []

    def started(self: Host, order: Mapping[str, Any]) -> Started:
        begun = start(self, order)
        if str(order.get("data")).startswith("neighbour"):
            begun.waited(0.5 - 600.0)
            hurried.append(begun)
        return begun

    start = Host.start
    monkeypatch.setattr(Host, "start", started)
    with pytest.raises(TargetDied, match="did not end within 600 s"):
        audited(is_late_on_one_side, limits=Limits(timeout=600))
    assert len(hurried) == 1


def test_a_fork_of_a_target_cannot_release() -> None:
    certificate = dpaudit.certify(releases_in_a_fork, ZEROS, claim=CLAIM, pairs=PAIR, auditor=quickly)
    assert len(certificate.releases) == 1
    made = dpaudit.certify(returns_twice, ZEROS, claim=CLAIM, pairs=())
    assert len(made.releases) == 1


def computes_in_a_pool(data: Any, curator: Curator) -> Any:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        squares = pool.map(abs, [1, 2, 3])
    return sums(data, curator), squares


def computes_in_threads(data: Any, curator: Curator) -> Any:
    found: list[int] = []
    threads = [threading.Thread(target=found.append, args=(1,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums(data, curator), sum(found)


def takes_its_time(data: Any, curator: Curator) -> Any:
    time.sleep(0.01)
    return sums(data, curator)


@pytest.mark.parametrize("target", [computes_in_a_pool, computes_in_threads, takes_its_time])
def test_processes_threads_and_time_are_innocent_by_themselves(target: Target) -> None:
    limits = Limits(timeout=300, memory=2**36)
    found = audited(target, limits=limits)
    assert found.verdict is Experiment.NOT_REFUTED


def releases_with_joblib(data: Any, curator: Curator) -> Any:
    return joblib.Parallel(n_jobs=2)(joblib.delayed(sums)(data, curator) for _ in range(2))


def releases_in_joblibs_threads(data: Any, curator: Curator) -> Any:
    return joblib.Parallel(n_jobs=2, prefer="threads")(joblib.delayed(sums)(data, curator) for _ in range(2))


def releases_in_a_fresh_interpreter(data: Any, curator: Curator) -> Any:
    other = multiprocessing.get_context("spawn").Process(target=sums, args=(data, curator))
    other.start()
    return sums(data, curator)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (releases_with_joblib, "a copy of Curator"),
        (releases_in_joblibs_threads, "in another thread"),
        (releases_in_a_fresh_interpreter, "a copy of Curator"),
    ],
)
def test_no_other_process_or_thread_gets_a_curator(target: Target, says: str) -> None:
    opened = hosting(target, ZEROS, [PAIR], in_process=False, limits=Limits())
    with opened as hosted, pytest.raises((TargetRaised, InvalidParameter)) as caught:
        dpaudit.run(hosted.algorithm, hosted.data, claim=CLAIM)
    assert says in getattr(caught.value, "traceback", str(caught.value))


def test_computing_with_joblib_is_innocent() -> None:
    def computes(data: Any, curator: Curator) -> Any:
        squares = joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(i) for i in range(3))
        return sums(data, curator), squares

    with processes(1) as pool:  # of the holder's own, which no fork of it has
        assert pool.submit(lambda: 1).result() == 1
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(i) for i in range(3)) == [0, 1, 2]
    with hosting(computes, ZEROS, [PAIR], in_process=False, limits=Limits()) as hosted:
        made = dpaudit.run(hosted.algorithm, hosted.data, claim=CLAIM)
    assert made.output[1] == [0, 1, 2]
    assert len(made.ledger.releases) == 1


def dies_on_the_neighbour(data: Any, curator: Curator) -> Any:
    output = sums(data, curator)
    if data.any():
        os._exit(0)
    return output


def test_a_side_that_ends_without_a_result_is_a_finding() -> None:
    found = audited(dies_on_the_neighbour)
    assert kinds(found) == {"control-flow"}
    assert "one side raises TargetDied" in found.findings[0].detail


def test_what_a_target_raises_keeps_its_words_to_itself() -> None:
    def raises(data: Any, curator: Curator) -> Any:
        raise KeyError("patient 4711")

    with pytest.raises(TargetRaised) as caught:
        dpaudit.certify(raises, ZEROS, claim=CLAIM, pairs=PAIR, auditor=quickly)
    assert "4711" not in str(caught.value)
    assert "4711" in caught.value.text
    assert caught.value.place.rpartition(":")[0] == __file__


def test_one_of_our_errors_comes_back_as_itself() -> None:
    def refuses(data: Any, curator: Curator) -> Any:
        return curator.release(np.nan, NOISE, label="mean")

    with pytest.raises(InvalidParameter, match="not finite") as caught:
        dpaudit.certify(refuses, ZEROS, claim=CLAIM, pairs=PAIR, auditor=quickly)
    assert caught.value.where == "release 'mean'"

    def speaks(data: Any, curator: Curator) -> Any:
        raise InvalidParameter("patient 4711")

    with pytest.raises(TargetRaised) as other:
        dpaudit.certify(speaks, ZEROS, claim=CLAIM, pairs=PAIR, auditor=quickly)
    assert "4711" not in str(other.value)


def test_randomness_of_its_own_is_found_where_it_is_drawn() -> None:
    def draws(data: Any, curator: Curator) -> Any:
        return sums(data, curator), random.random()  # noqa: S311  (the planted fault)

    found = audited(draws)
    assert kinds(found) == {"nondeterminism"}
    assert any(Path(__file__).name in finding.where for finding in found.findings)


def test_an_output_that_cannot_be_sent_is_not_compared() -> None:
    def returns_a_function(data: Any, curator: Curator) -> Any:
        sums(data, curator)
        return lambda: data

    found = audited(returns_a_function)
    assert found.verdict is Experiment.INCONCLUSIVE
    assert "function" in found.inconclusive[0]


def test_outputs_are_compared_as_they_were_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where they are the same, none of them is read; where one differs, its place is found."""
    read: list[int] = []
    monkeypatch.setattr(
        "dpaudit.processes.hosted.value_of", lambda data: read.append(len(data)) or value_of(data)
    )

    def nested(data: Any, curator: Curator, extra: float = 0.0) -> Any:
        sums(data, curator)
        return [{"place": i, "values": (i, [0.5])} for i in range(100)] + [extra]

    assert audited(nested).verdict is Experiment.NOT_REFUTED
    assert not read

    def leaks(data: Any, curator: Curator) -> Any:
        return nested(data, curator, data.sum())

    (leak,) = audited(leaks).findings
    assert leak.kind == "leak"
    assert "output[100]" in leak.detail
    assert read


class Colour(Enum):
    RED = 1
    BLUE = 2


def test_sets_of_any_members_are_sent() -> None:
    def colours(data: Any, curator: Curator) -> Any:
        return sums(data, curator), {Colour.RED}

    assert audited(colours).verdict is Experiment.NOT_REFUTED
    assert dpaudit.certify(colours, ZEROS, claim=CLAIM, pairs=PAIR, auditor=quickly).proof is Proof.PROVED

    def leaks(data: Any, curator: Curator) -> Any:
        return sums(data, curator), {Colour.RED if data.any() else Colour.BLUE}

    assert audited(leaks).verdict is not Experiment.NOT_REFUTED


def test_a_caught_refusal_is_the_very_one(tmp_path: Path) -> None:
    """A target that catches what the holder raises goes on with what it has; the budget stays spent."""
    from dpaudit.accountants.filters.filters import ZCDPFilter

    def spends(data: Any, curator: Curator) -> Any:
        made = 0
        try:
            for _ in range(5):
                sums(data, curator)
                made += 1
        except dpaudit.DpauditError as error:
            return made, type(error).__name__
        return made, ""

    budget = ZCDPFilter(0.25)
    claim = CLAIM.model_copy(update={"guarantee": ZCDP(rho=0.25)})
    certificate = dpaudit.certify(spends, ZEROS, claim=claim, pairs=PAIR, auditor=quickly, budget=budget)
    assert len(certificate.releases) == 2
    assert certificate.proof is Proof.PROVED


def test_in_process_the_certificate_says_so() -> None:
    made = dpaudit.certify(sums, ZEROS, claim=CLAIM, pairs=(), in_process=True)
    assert made.process.kind == "in-process"
    assert Code.IN_PROCESS in {condition.code for condition in made.not_checked}
    other = dpaudit.certify(sums, ZEROS, claim=CLAIM, pairs=())
    assert Code.IN_PROCESS not in {condition.code for condition in other.not_checked}


def selecting(data: Any, curator: Curator) -> Any:
    comparisons = curator.sparse_vector(
        SparseVector(epsilon=0.2, sensitivity=L1(1.0)), "above", threshold=0.5, claimed=PureDP(epsilon=0.2)
    )
    best = curator.select(data[:3, 0], ReportNoisyMax(epsilon=0.2), label="best", score_sensitivity=1.0)
    counts = curator.release_shuffled(
        data[:, 0], Shuffled(local=RandomizedResponse(epsilon=0.2), users=len(data)), label="answers"
    )
    return comparisons.above(data[0, 0]), best, counts


def test_choices_comparisons_and_counts_cross_to_the_holder() -> None:
    audit = audited(selecting)
    assert (audit.verdict, audit.findings) == (Experiment.NOT_REFUTED, ())
    made = dpaudit.run(selecting, ZEROS, claim=CLAIM)
    assert [release.mechanism.kind for release in made.ledger.releases] == [
        "sparse-vector",
        "report-noisy-max",
        "shuffled",
    ]


def test_hosts_end_in_any_order_and_while_they_start() -> None:
    first, second = (Host(lambda: Served(sums, {}, {})) for _ in range(2))
    first.close()
    second.close()

    def garbles() -> Any:
        from dpaudit.processes import wire

        wire._written = lambda *_: "{}"
        return Served(sums, {}, {})

    with pytest.raises(TargetDied):
        Host(garbles)


def forks(target: Target, child: Callable[[], object]) -> Served:
    """What a module does that forks while it is imported."""
    if os.fork() == 0:
        child()
    return Served(target, {"data": ZEROS}, {})


def fails() -> None:
    raise KeyError("in a fork")


def is_let_go(target: Target) -> Served:
    """A module whose process ends, and leaves its fork behind."""
    if os.fork():
        os._exit(0)
    return Served(target, {"data": ZEROS}, {})


def ignores_children(target: Target) -> Served:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return Served(target, {"data": ZEROS}, {})


def opened(prepare: Callable[[], Served], limits: Limits = NO_LIMITS) -> Any:
    with Host(prepare, limits) as host:
        return host.call(np.sum, HostedData("data")).result()


@pytest.mark.parametrize("child", [lambda: os._exit(0), lambda: None, fails])
def test_a_module_that_forks_is_imported_once(child: Callable[[], object]) -> None:
    """What a fork of it leaves on the channel would be read as the answer to the next question."""
    with Host(functools.partial(forks, sums, child)) as host:
        time.sleep(0.1)
        for _ in range(5):
            assert host.call(np.sum, HostedData("data")).result() == 0.0
            with pytest.raises(TargetDied, match="killed by SIGKILL"):
                host.call(signal.raise_signal, signal.SIGKILL).result()


def test_a_module_that_leaves_a_fork_in_its_place_has_ended() -> None:
    with pytest.raises(TargetDied, match="the target's module ended with exit status 0"):
        opened(functools.partial(is_let_go, sums))


def test_children_that_a_module_ignores_are_waited_for() -> None:
    assert opened(functools.partial(ignores_children, sums)) == 0.0
    with (
        pytest.raises(TargetDied, match="killed by SIGKILL"),
        Host(functools.partial(ignores_children, sums)) as host,
    ):
        host.call(signal.raise_signal, signal.SIGKILL).result()


def test_the_limit_on_time_holds_while_a_target_is_opened() -> None:
    with pytest.raises(TargetDied, match=r"opening the target did not end within 0\.5 s"):
        opened(lambda: time.sleep(10_000), Limits(timeout=0.5))  # type: ignore[arg-type, func-returns-value]
    quick = functools.partial(Served, sums, {"data": ZEROS}, {})
    assert opened(quick, Limits(timeout=600.0)) == 0.0


INTERRUPTED = """
import os, signal, sys, threading, time
from dpaudit.processes.host import Host
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    Host(lambda: time.sleep(10_000))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_while_a_target_is_imported_ends_both() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "interrupted\n"


@pytest.mark.parametrize(("whose", "ends"), [(os.getpid, True), (os.getppid, False)])
def test_an_interrupt_ends_the_run_that_gets_it_and_not_the_next_ones(
    whose: Callable[[], int], *, ends: bool
) -> None:
    def interrupted(data: Any, curator: Curator) -> Any:
        os.kill(whose(), signal.SIGINT)
        return sums(data, curator)

    with hosting(interrupted, None, [PAIR], in_process=False, limits=Limits()) as target:
        for _ in range(2):
            if not ends:
                dpaudit.run(target.replayed, target.pairs[0].data, claim=CLAIM)
                continue
            with pytest.raises(TargetRaised) as caught:
                dpaudit.run(target.replayed, target.pairs[0].data, claim=CLAIM)
            assert caught.value.kind == "KeyboardInterrupt"


HELPED = """
import multiprocessing, os, signal
import numpy as np
from dpaudit import L1, Claim, Laplace, Pair, PureDP

MANAGER = multiprocessing.Manager()
with open("helpers", "w") as file:
    file.write(str(MANAGER._process.pid))

def forgets(data, curator):
    if os.fork() == 0:
        with open("helpers", "a") as file:
            file.write(f" {os.getpid()}")
        signal.pause()
    return curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="count")

forgets.claim = Claim(PureDP(epsilon=1.0), unit="row", neighbouring="replace-one")

def pair():
    return Pair(np.zeros(2), np.array([0.0, 1.0]))
"""


def test_what_a_target_starts_and_forgets_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpaudit.app.options.processes import open_target

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(HELPED)
    with open_target("mine.py:forgets", pair="mine.py:pair", parameters={}) as opened:
        dpaudit.run(opened.algorithm, opened.data, claim=opened.claim)
        ends = time.monotonic() + 100
        pids: list[
            int
        ] = []  # of the manager, and of a fork of worker and of twin, which write them themselves
        while len(pids) < 3 and time.monotonic() < ends:
            time.sleep(0.01)
            pids = [int(pid) for pid in (tmp_path / "helpers").read_text().split()]
        assert len(pids) == 3
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    ends = time.monotonic() + 100
    while (left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not left


@pytest.mark.parametrize(
    "about",
    [
        {},
        {"trust_model": "joint"},
        {"trust_model": "local", "users": 2},
        {"trust_model": "local"},  # of how many users nobody says: it cannot be held
        {"noise": Noise(sampler="dpaudit-exact")},
        {"noise": Noise(source="replayed")},
    ],
)
def test_the_rehearsal_goes_all_the_way(about: dict[str, Any]) -> None:
    stated = {"algorithm": "any", "unit": "row", "neighbouring": "replace-one", **about}
    assert rehearse(Header(**stated)) is (about != {"trust_model": "local"})
