"""No record stops a run unseen: whatever a worker does, its run ends, and nothing of it may be published."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import dpaudit
from dpaudit import (
    L1,
    L2,
    ApproxDP,
    Claim,
    Curator,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Frobenius,
    Gaussian,
    Laplace,
    MatrixMechanism,
    Pair,
    PoissonSampled,
    RandomizedResponse,
    ReportNoisyMax,
    RunDiverged,
    Shuffled,
    SparseVector,
    SymmetricGaussian,
    Toeplitz,
    TreeAggregation,
)
from dpaudit.certificate.conditions import Code
from dpaudit.errors import TargetDied, TargetRaised
from dpaudit.processes.host import Limits, Started
from dpaudit.processes.hosted import _Lockstep
from dpaudit.processes.hosting import hosting
from tests.certified import certified
from tests.sweeps import sweep

CLAIM = Claim(ApproxDP(epsilon=1e4, delta=0.5), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=1.0, sensitivity=L2(2.0))
DATA, STAND_IN = np.ones(5), np.zeros(5)
PAIR = Pair(STAND_IN, STAND_IN, "one row", unit=0)
PATIENT = "4711"


def raises(error: BaseException) -> Callable[[], NoReturn]:
    def stop() -> NoReturn:
        raise error

    return stop


def signals(number: int) -> Callable[[], None]:
    def stop() -> None:
        faulthandler.disable()  # pytest's would print where the process was
        os.kill(os.getpid(), number)

    return stop


class Wordless(Exception):
    """An exception whose words cannot be had."""

    def __str__(self) -> str:
        raise ValueError(PATIENT)


def recurses() -> NoReturn:
    recurses()
    raise AssertionError


def nests() -> None:
    deep: Any = []
    for _ in range(10**5):
        deep = [deep]
    repr(deep)


def overflows() -> None:
    float(int("9" * 400))


def fills_the_memory() -> None:
    np.ones(10**11)


def closes_files() -> None:
    os.closerange(3, 256)


def sleeps() -> None:
    time.sleep(3600)


STOPS: dict[str, Callable[[], Any]] = {
    "an exception": raises(KeyError(f"patient {PATIENT}")),
    "an exit": raises(SystemExit(int(PATIENT))),
    "Ctrl-C": raises(KeyboardInterrupt(PATIENT)),
    "the end of a generator": raises(GeneratorExit(PATIENT)),
    "a group of exceptions": raises(BaseExceptionGroup("several", [ValueError(PATIENT)])),
    "no words": raises(Wordless()),
    "an exit of the process": lambda: os._exit(71),
    "an exit of the process with success": lambda: os._exit(0),
    "SIGKILL": signals(signal.SIGKILL),
    "SIGSEGV": signals(signal.SIGSEGV),
    "SIGSTOP": signals(signal.SIGSTOP),
    "recursion": recurses,
    "deep nesting": nests,
    "overflow": overflows,
    "memory": fills_the_memory,
    "no memory": raises(MemoryError()),
    "closed files": closes_files,
    "sleep": sleeps,
}
#: These end at the limit on time.
SLOW = {"sleep", "SIGSTOP"}
LIMITS = Limits(timeout=600.0, memory=4 << 30)


def stopping(name: str) -> Any:
    """An algorithm that a record stops before its release."""

    def total(data: Any, curator: Curator) -> Any:
        if data.any():
            STOPS[name]()
        return float(curator.release(0.0, NOISE, label="total"))

    return total


def in_lockstep(target: Any, data: Any = DATA) -> tuple[Any, list[Any], list[str]]:
    """The output of one run with live noise, how it diverged, and the worker's own words."""
    with hosting(target, data, [PAIR], in_process=False, limits=LIMITS) as hosted:
        made = dpaudit.run(hosted.algorithm, hosted.data, claim=CLAIM)
        return made.output, hosted.algorithm.findings, hosted.algorithm.raised


def time_is_over_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the limit of a worker pass as soon as it is waited for."""
    follow = _Lockstep.follow

    def followed(self: Any, twin: Started) -> Any:
        self._worker.waited(-600.0)
        return follow(self, twin)

    monkeypatch.setattr(_Lockstep, "follow", followed)


@sweep("name", list(STOPS), everyday=(0, 1, 2, 5, 6, 8, 11, 14, 16, 17))
def test_whatever_stops_the_worker_the_run_ends_and_has_diverged(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line, the exception's type and the exit status are the worker's: in public all stops are alike."""
    if name in SLOW:
        time_is_over_for_workers(monkeypatch)
    output, (finding,), (its_words,) = in_lockstep(stopping(name))
    assert isinstance(output, float)
    assert (finding.kind, finding.label) == ("control-flow", "total")
    assert "it ends where its twin asks for release 'total'; from there on" in finding.detail
    assert finding.where.endswith(f"test_divergence.py:{RELEASED}")
    assert its_words


RELEASED = stopping.__code__.co_firstlineno + 6


def test_an_innocent_run_has_not_diverged() -> None:
    _, findings, raised = in_lockstep(stopping("an exception"), STAND_IN)
    assert findings == raised == []


def test_a_stop_after_the_last_release_diverges_too() -> None:
    def late(data: Any, curator: Curator) -> Any:
        noisy = float(curator.release(0.0, NOISE, label="total"))
        if data.any():
            raise KeyError(PATIENT)
        return noisy

    _, (finding,), (its_words,) = in_lockstep(late)
    assert "it ends otherwise than its twin" in finding.detail
    assert its_words.startswith(f"raised KeyError: '{PATIENT}'")


#: Values that records may make of a release's.
VALUES: dict[str, Any] = {
    "10**400": 10**400,
    "-10**400": -(10**400),
    "a fraction of it": Fraction(10**400, 3),
    "a decimal of it": Decimal("1e400"),
    "a long double": np.longdouble("1e4000"),
    "2**63": 2**63,
    "the largest uint64": np.uint64(2**64 - 1),
    "NaN": float("nan"),
    "infinity": float("inf"),
    "1e308": 1e308,
    "a complex number": 1j,
    "no number": "x",
    "None": None,
    "no time": np.datetime64("NaT"),
    "NaNs": np.full(3, np.nan),
    "objects": np.array([10**400] * 3, dtype=object),
    "seven of three": np.ones(7),
    "none of three": np.ones(0),
    "a table": np.ones((3, 3)),
    "large integers": np.full(3, 2**63 - 1),
    "ragged rows": [[1.0], [1.0, 2.0]],
    "deeply nested": [[[[[[1.0]]]]]],
}
SUM = Gaussian(sigma=1.0, sensitivity=L2(2.0))
ONE, COUNT = L2(1.0), DiscreteGaussian(sigma=1.0, sensitivity=L2(1.0))
TREE = TreeAggregation(sigma=1.0, steps=3, sensitivity=ONE)
FACTORED = MatrixMechanism(sigma=1.0, strategy=Toeplitz(coefficients=(1.0, 0.5)), steps=3, sensitivity=ONE)
SAMPLED = PoissonSampled(mechanism=SUM, rate=0.5)
ANSWERS = RandomizedResponse(epsilon=1.0, categories=3)
SHUFFLED = Shuffled(local=ANSWERS, users=3)
WHOLE = DiscreteLaplace(scale=1.0, sensitivity=L1(1.0))
SPARSE = SparseVector(epsilon=1.0, sensitivity=L1(1.0))
SELECTED: Any = {"label": "x", "score_sensitivity": 1.0}
SYMMETRIC = SymmetricGaussian(sigma=1.0, dimension=3, sensitivity=Frobenius(1.0))
#: What the twin gives to each kind of release, and the release.
RELEASES: dict[str, tuple[Any, Callable[[Curator, Any], Any]]] = {
    "gaussian": (0.0, lambda c, v: c.release(v, NOISE, label="x")),
    "gaussians": (np.zeros(3), lambda c, v: c.release(v, NOISE, label="x")),
    "laplace": (0.0, lambda c, v: c.release(v, Laplace(scale=1.0, sensitivity=L1(1.0)), label="x")),
    "discrete gaussian": (0, lambda c, v: c.release(v, COUNT, label="x")),
    "discrete gaussians": (np.zeros(3, dtype=int), lambda c, v: c.release(v, COUNT, label="x")),
    "discrete laplace": (0, lambda c, v: c.release(v, WHOLE, label="x")),
    "sum": (np.zeros((5, 3)), lambda c, v: c.release_sum(v, bound=1.0, mechanism=SUM, label="x")),
    "sampled sum": (np.zeros((5, 3)), lambda c, v: c.release_sum(v, bound=1.0, mechanism=SAMPLED, label="x")),
    "counts": (
        np.zeros((5, 1), dtype=int),
        lambda c, v: c.release_counts(v, shape=(3,), bound=1.0, mechanism=SUM, label="x"),
    ),
    "exponential": (np.zeros(3), lambda c, v: c.select(v, Exponential(epsilon=1.0), **SELECTED)),
    "noisy max": (np.zeros(3), lambda c, v: c.select(v, ReportNoisyMax(epsilon=1.0), **SELECTED)),
    "responses": (np.zeros(3, dtype=int), lambda c, v: c.release(v, ANSWERS, label="x")),
    "shuffled": (np.zeros(3, dtype=int), lambda c, v: c.release_shuffled(v, SHUFFLED, label="x")),
    "tree": (0.0, lambda c, v: c.stream(TREE, "x").add(v)),
    "matrix": (0.0, lambda c, v: c.stream(FACTORED, "x").add(v)),
    "sparse vector": (0.0, lambda c, v: c.sparse_vector(SPARSE, "x").above(v)),
    "symmetric": (np.zeros((3, 3)), lambda c, v: c.release(v, SYMMETRIC, label="x")),
}
#: Values that a kind of release can take as they are.
TAKEN = {
    "sum": {"a table"},
    "sampled sum": {"a table"},
    "exponential": {"large integers"},
    "noisy max": {"large integers"},
    "sparse vector": {"2**63", "the largest uint64", "1e308", "deeply nested"},
    "symmetric": {"a table"},
}


@pytest.mark.parametrize("release", RELEASES)
def test_no_value_of_the_workers_ends_the_run(release: str) -> None:
    """Each value in the place of the twin's; where it cannot be taken, the answer is to the twin's."""
    zero, make = RELEASES[release]
    taken = set()
    for name, value in VALUES.items():

        def target(data: Any, curator: Curator, value: Any = value) -> Any:
            return make(curator, value if data.any() else zero)

        output, findings, _ = in_lockstep(target)
        assert np.abs(np.asarray(output, dtype=float)).max() < 1e6
        if not findings:
            taken.add(name)
    assert taken == TAKEN.get(release, set())


def certified_run(target: Any, data: Any = DATA, **options: Any) -> Any:
    stated: Any = {"claim": CLAIM, "pairs": PAIR, "curves": False, "limits": LIMITS, **options}
    return certified(target, data, **stated)


def test_the_holders_certificate_says_that_nothing_may_be_published() -> None:
    diverged = certified_run(stopping("an exception"))
    innocent = certified_run(stopping("an exception"), STAND_IN)
    assert diverged.certificate.diverged
    assert not diverged.certificate.publishable
    assert diverged.certificate.to_json()["diverged"] is True
    assert innocent.certificate.publishable
    assert "diverged" not in innocent.certificate.to_json()  # what is published says nothing of it
    assert "diverged from its twin" in diverged.certificate._repr_html_()
    assert "not to be published" not in innocent.certificate._repr_html_()
    # The claim is proved of the ledger all the same: it is the run that is not to be shown.
    assert diverged.certificate.all_proved


def test_it_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    for data, mode in ((DATA, 0o600), (STAND_IN, 0o644)):
        before = os.umask(0o022)
        try:
            path = certified_run(stopping("an exception"), data).certificate.write(
                tmp_path / "certificate.json"
            )
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == mode
        assert dpaudit.Certificate.read(path).diverged is (True if data is DATA else None)


def test_a_certificate_without_a_twin_cannot_say_that_it_diverged() -> None:
    alone = certified_run(stopping("an exception"), STAND_IN, in_process=True).certificate
    with pytest.raises(dpaudit.DpauditError, match="a run that diverged, and had no twin"):
        dpaudit.Certificate.from_record(alone.to_json() | {"diverged": True, "publishable": False}, where="c")


def test_python_warns_the_holder_by_a_class_of_its_own() -> None:
    about: Any = {"claim": CLAIM, "pairs": PAIR, "curves": False}
    with pytest.warns(RunDiverged, match="it ends where its twin asks for release 'total'"):
        made = dpaudit.certify(stopping("an exception"), DATA, **about)
    assert not made.publishable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dpaudit.certify(stopping("an exception"), STAND_IN, **about).publishable


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, "twin"), ({"pairs": ()}, "worker"), ({"in_process": True}, "in-process")],
    ids=str,
)
def test_that_records_stop_nothing_is_on_trust_however_a_run_is_made(options: Any, kind: str) -> None:
    made = certified_run(stopping("an exception"), STAND_IN, **options).certificate
    assert made.process.kind == kind
    assert Code.RECORDS_STOP_NOTHING in {condition.code for condition in made.not_checked}


@pytest.mark.parametrize("name", ["an exception", "SIGKILL", "no memory"])
def test_without_a_twin_a_record_ends_the_run_with_an_error(name: str) -> None:
    """There is no output then, which the condition on every certificate is about."""
    with pytest.raises((TargetRaised, TargetDied)) as caught:
        certified_run(stopping(name), pairs=())
    assert PATIENT not in str(caught.value)
