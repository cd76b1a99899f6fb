"""The twin asks, the worker answers: what is published is a function of the noisy answers alone.

Most of these certificates are about the certified run. Every day those have the audit of `sums` beside it,
which is made once; every night each target is audited itself.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import (
    L1,
    L2,
    RKHS,
    ZCDP,
    ApproxDP,
    Claim,
    Curator,
    DiscreteGaussian,
    Exponential,
    ExponentialKernel,
    Frobenius,
    Gaussian,
    GaussianProcess,
    Laplace,
    MatrixMechanism,
    OpaquePureDP,
    Pair,
    Poisson,
    PoissonSampled,
    PrivateSelection,
    RandomizedResponse,
    ReportNoisyMax,
    SmoothGaussian,
    SymmetricGaussian,
    Toeplitz,
    TreeAggregation,
    TrialRelease,
    UserViews,
)
from dpaudit.certificate.conditions import Code
from dpaudit.noise.grid import OnGrid
from dpaudit.pipeline.certify import Certified
from dpaudit.processes import host, hosted, worker
from dpaudit.processes.host import Host, Limits, Started
from dpaudit.processes.hosted import _Lockstep
from dpaudit.processes.hosting import hosting, served, target_in
from dpaudit.processes.wire import BrokenFrame, frame
from tests.certified import certified
from tests.sweeps import sweep

CLAIM = Claim(ZCDP(rho=2.0), unit="row", neighbouring="replace-one")
NOISE, ONE = Gaussian(sigma=4.0, sensitivity=L2(2.0)), Gaussian(sigma=1.0, sensitivity=L2(1.0))
DATA = np.full((40, 3), 0.9)
ZEROS = np.zeros((40, 3))
PAIR = Pair(ZEROS, np.vstack([np.ones((1, 3)), ZEROS[1:]]), "one row", unit=0)
Target = Callable[[Any, Curator], Any]


def sums(data: Any, curator: Curator, label: str = "sums") -> Any:
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label=label)


def quickly(target: Any, pairs: Any, **options: Any) -> Any:
    return dpaudit.replay(target, pairs, claim=options["claim"], replays=1, extreme_outputs=False)


@functools.cache
def audit_of_sums() -> Any:
    return quickly(sums, [PAIR], claim=CLAIM)


def that_audit(target: Any, pairs: Any, **options: Any) -> Any:
    """The audit of `sums`, as if it were of the claim that is certified."""
    return audit_of_sums().model_copy(update={"claim": options["claim"] or target.claim})


#: How `run` audits where a test does not look at the audit.
usually = quickly


@pytest.fixture(autouse=True)
def _one_audit_by_day(nightly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not nightly:
        monkeypatch.setitem(globals(), "usually", that_audit)


def run(target: Target, data: Any = DATA, seed: int | None = 5, **options: Any) -> Certified:
    stated = {"claim": CLAIM, "pairs": PAIR, "auditor": usually, **options}
    return certified(target, data, seed=seed, curves=False, **stated)


def leaks_the_mean(data: Any, curator: Curator) -> Any:
    return sums(data, curator), float(data.mean())


def test_what_is_published_is_the_twins_output() -> None:
    """The raw mean of the data is nowhere in it; the noisy sums are those of the data."""
    made = run(leaks_the_mean)
    noisy, mean = made.run.output
    assert mean == pytest.approx(1 / 40)  # the stand-in's
    alone = run(leaks_the_mean, in_process=True)
    assert alone.run.output[1] == pytest.approx(0.9)
    assert (noisy == alone.run.output[0]).all()  # the same seed: the noise is that of a run in one process
    assert made.divergences == ()


def codes(made: Certified) -> set[Code]:
    return {condition.code for condition in made.certificate.not_checked}


def test_two_lines_hold_by_construction_where_there_is_a_twin() -> None:
    by_construction = {Code.FIXED_SEQUENCE, Code.ONLY_THROUGH_LEDGER}
    with_twin, without = codes(run(sums)), codes(run(sums, pairs=()))
    assert not by_construction & with_twin
    assert {Code.PUBLIC_STAND_IN, Code.OWN_RECORD, Code.HONEST_WORKER} <= with_twin
    assert by_construction <= without
    assert by_construction | {Code.IN_PROCESS} <= codes(run(sums, in_process=True))


def test_an_algorithm_may_say_that_no_stand_in_works() -> None:
    class Sized:
        stand_in = None
        claim = CLAIM

        def __call__(self, data: Any, curator: Curator) -> Any:
            return sums(data, curator)

    assert run(Sized()).certificate.process.kind == "worker"
    Sized.stand_in = lambda self, users: ZEROS[:5]  # type: ignore[assignment]
    made = run(Sized())
    assert made.certificate.process.kind == "twin"
    assert "stand_in" in str(made.certificate.process.stand_in)


# The worker asks for something else, ends early or late, dies, or sends what is no value.


def more_for_large_data(data: Any, curator: Curator) -> Any:
    found = [sums(data, curator)]
    if data.sum() > 50:
        found.append(sums(data, curator, "sums of 105"))
    return found


def fewer_for_large_data(data: Any, curator: Curator) -> Any:
    return sums(data, curator), None if data.sum() > 50 else sums(data, curator, "again")


def other_noise_for_large_data(data: Any, curator: Curator) -> Any:
    noise = Gaussian(sigma=105.0 if data.sum() > 50 else 4.0, sensitivity=L2(2.0))
    return curator.release_sum(data, bound=1.0, mechanism=noise, label="sums")


def other_label_for_large_data(data: Any, curator: Curator) -> Any:
    return sums(data, curator, f"sums of {data.sum():.0f}" if data.sum() > 50 else "sums")


def other_shape(data: Any, curator: Curator) -> Any:
    wide = np.ones((40, 105)) if data.sum() > 50 else data
    return sums(wide, curator)


def dies_for_large_data(data: Any, curator: Curator) -> Any:
    if data.sum() > 50:
        os._exit(0)
    return sums(data, curator)


def raises_for_large_data(data: Any, curator: Curator) -> Any:
    if data.sum() > 50:
        raise ValueError(data.sum())
    return sums(data, curator)


def hangs_for_large_data(data: Any, curator: Curator) -> Any:
    while data.sum() > 50:
        time.sleep(0.01)
    return sums(data, curator)


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Limits:
    """Ten minutes for a run; the holder's clock lets them pass as soon as the worker is waited for."""
    limits, passed = Limits(timeout=600.0), [0.0]
    follow, receive = _Lockstep.follow, Started.receive_frame

    def followed(self: Any, twin: Started) -> Any:
        self._worker.waited(-600.0)
        return follow(self, twin)

    def received(self: Started) -> bytes:
        try:
            return receive(self)
        except dpaudit.errors.TargetDied:
            passed[0] += 600.0
            raise

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0], sleep=time.sleep)
    monkeypatch.setattr(_Lockstep, "follow", followed)
    monkeypatch.setattr(Started, "receive_frame", received)
    for module in (host, hosted):
        monkeypatch.setattr(module, "time", clock)
    return limits


@pytest.mark.parametrize(
    "target",
    [
        more_for_large_data,
        fewer_for_large_data,
        other_noise_for_large_data,
        other_label_for_large_data,
        other_shape,
        dies_for_large_data,
        raises_for_large_data,
        hangs_for_large_data,
    ],
)
def test_what_depends_on_the_data_is_told_to_their_holder_alone(target: Target, minutes: Limits) -> None:
    """The same ledger as for the stand-in, and the same output but for noise; the pair shows nothing."""
    made = run(target, limits=minutes if target is hangs_for_large_data else Limits())
    innocent = run(target, ZEROS)
    assert [finding.kind for finding in made.divergences] == ["control-flow"]
    assert innocent.divergences == ()
    assert [r.label for r in made.run.ledger.releases] == [r.label for r in innocent.run.ledger.releases]
    assert made.run.ledger.hash == innocent.run.ledger.hash
    assert "control-flow" not in made.certificate.model_dump_json()
    assert all(made.raised)
    assert "105" not in str(made.divergences[0])


def sleeps_twice(data: Any, curator: Curator) -> Any:
    """Longer than a run may take on the data, and a moment on the stand-in, which goes on without them."""
    for label in "abc":
        while data.sum() > 50:
            time.sleep(0.01)
        time.sleep(0.05)
        sums(data, curator, label)


def test_the_time_of_one_run_is_none_of_the_others(minutes: Limits) -> None:
    made = run(sleeps_twice, limits=minutes)
    assert [finding.kind for finding in made.divergences] == ["control-flow"]
    assert len(made.run.ledger.releases) == 3


def garbled(request: Any) -> Target:
    """An algorithm that sends the holder a request of its own on large data."""

    def target(data: Any, curator: Curator) -> Any:
        if data.sum() > 50:
            noise: Any = curator.for_user()[0]
            noise._channel.sendall(frame(("ask", request)))
        return sums(data, curator)

    return target


QUERY = np.zeros(3)


@pytest.mark.parametrize(
    "request_sent",
    [
        (),
        5,
        {"a": 1},
        ("sums", None, "{}", 0, QUERY, None, None, None, None, None, 5),
        ("sums", None, "no JSON", 0, QUERY, None, None, None, None, None, ""),
        ("sums", None, "[1]", 0, QUERY, None, None, None, None, None, ""),
        ("sums", None, "{}", 0, QUERY, None, None, None, None, None, ""),
        (None, None, "{}", 0, QUERY, None, None, None, None, None, ""),
        ("sums", None, None, 0, None, None, None, None, None, None, ""),
        ("", "", "", "", "", "", "", "", "", "", ""),
    ],
)
def test_a_request_that_is_none_parts_the_worker_from_its_twin(request_sent: Any) -> None:
    made = run(garbled(request_sent))
    assert [finding.kind for finding in made.divergences] == ["control-flow"]
    assert [release.label for release in made.run.ledger.releases] == ["sums"]


def test_users_and_labels_of_numpys_types_are_known() -> None:
    claim = Claim(ZCDP(rho=2.0), unit="user", neighbouring="replace-one", trust_model="local")

    def served(data: Any, curator: Curator) -> Any:
        for index in np.arange(3):
            with curator.user(index) as own:
                own.release(0.0, ONE, label=np.str_("own"))

    made = run(served, claim=claim, users=3, pairs=())
    assert [release.label for release in made.run.ledger.releases] == ["own"]


def test_after_it_parts_the_value_is_neutral() -> None:
    """With a seed the noise is known, so that the answer without the data's value is known as well."""
    made = run(other_noise_for_large_data)
    neutral = run(other_noise_for_large_data, ZEROS)
    assert (made.run.output == neutral.run.output).all()


def adapts(data: Any, curator: Curator) -> Any:
    """The schedule follows the noisy answers, which both have."""
    first = curator.release(data[:, 0].clip(0, 1).sum(), ONE, label="first")
    return [sums(data, curator, f"part {i}") for i in range(1 + int(first > 20.0))]


def test_the_schedule_may_follow_the_answers() -> None:
    large, small = run(adapts), run(adapts, ZEROS)
    assert large.divergences == small.divergences == ()
    assert (len(large.run.output), len(small.run.output)) == (2, 1)


def test_under_joint_trust_there_is_no_twin() -> None:
    def billboard(data: Any, curator: Curator) -> Any:
        noisy = float(curator.release(data.sum(), ONE, label="sum"))
        return UserViews(tuple((noisy, float(own)) for own in data))

    claim = Claim(ZCDP(rho=0.5), unit="user", neighbouring="replace-one", trust_model="joint")
    pair = Pair(np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0]), "user 0", unit=0)
    made = run(billboard, np.array([0.5, 0.25, 1.0]), claim=claim, pairs=pair, auditor=quickly)
    assert made.certificate.process.kind == "worker"
    assert [view[1] for view in made.run.output.views] == [0.5, 0.25, 1.0]
    assert made.certificate.experiment == "NOT_REFUTED"


# Every mechanism: the same answers, to the last bit, as in one process.


def everything(data: Any, curator: Curator) -> Any:
    column = data[:, 0]
    l1 = Laplace(scale=4.0, sensitivity=L1(6.0))
    gram = SymmetricGaussian(sigma=2.0, dimension=3, sensitivity=Frobenius(2.0))
    counts = DiscreteGaussian(sigma=2.0, sensitivity=L2(2.0))
    smooth = SmoothGaussian(alpha=0.05, beta=0.01, dimension=1, epsilon=1.0, delta=0.01)
    found: list[Any] = [
        curator.release(column.sum(), NOISE, label="number"),
        curator.release(data[:2], NOISE, label="two", count=2),
        curator.release_sum(data, bound=1.0, mechanism=l1, label="l1", partition="a"),
        curator.release_sum(data, bound=1.0, mechanism=NOISE, label="l2"),
        curator.release_gram(data, bound=1.0, mechanism=gram, label="gram"),
        curator.release_sum(
            data,
            bound=1.0,
            label="sampled",
            mechanism=PoissonSampled(rate=0.5, mechanism=NOISE, contribution=1.0),
        ),
        curator.release_counts(
            np.zeros((4, 1), int), shape=(3,), bound=1.0, mechanism=counts, label="counts"
        ),
        curator.release(np.array([0, 1, 2]), RandomizedResponse(epsilon=1.0, categories=3), label="response"),
        curator.select(column[:4], Exponential(epsilon=1.0), label="select", score_sensitivity=1.0),
        curator.release_smooth(column[:1], 2.0, smooth, label="smooth"),
    ]
    for noise in (
        TreeAggregation(sigma=2.0, steps=4, sensitivity=L2(1.0)),
        MatrixMechanism(sigma=2.0, steps=4, strategy=Toeplitz(coefficients=(1.0, 0.5)), sensitivity=L2(1.0)),
    ):
        stream = curator.stream(noise, noise.kind, (3,))
        found += [stream.add(row) for row in data[:4]]
    process = GaussianProcess(sigma=1.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0))
    function = curator.function(process, lambda point: point * column[:2], "function", (2,))
    found += [function([0.1, 0.5]), function(0.3), curator.public("walk").random()]
    return [
        *found,
        curator.release_opaque(
            column[:2],
            lambda value, generator: value + generator.laplace(size=2),
            OpaquePureDP(epsilon=1.0, justification="the Laplace mechanism"),
            label="opaque",
        ),
    ]


def test_every_mechanism_answers_as_in_one_process() -> None:
    """With a seed, so that noise can be compared; the opaque sampler draws in the target's process."""
    claim = Claim(ApproxDP(epsilon=1e3, delta=0.1), unit="row", neighbouring="replace-one")
    here = run(everything, claim=claim, pairs=(), in_process=True)
    there = run(everything, claim=claim, pairs=())
    twin = run(everything, claim=claim)
    assert twin.certificate.process.kind == "twin"
    assert twin.divergences == ()
    assert here.run.ledger.hash == there.run.ledger.hash == twin.run.ledger.hash
    outputs = here.run.output, there.run.output, twin.run.output
    *answers, opaque = zip(*outputs, strict=True)
    for one, two, three in answers:
        assert np.array_equal(one, two)
        assert np.array_equal(one, three)
    assert {drawn.shape for drawn in opaque} == {(2,)}


def test_report_noisy_max_answers_as_in_one_process() -> None:
    def picks(data: Any, curator: Curator) -> Any:
        laws = [ReportNoisyMax(epsilon=1.0, noise_law=law) for law in ("exponential", "laplace")]
        return [curator.select(data[0], law, label=law.noise_law, score_sensitivity=1.0) for law in laws]

    claim = Claim(ApproxDP(epsilon=10.0, delta=0.1), unit="row", neighbouring="replace-one")
    assert run(picks, claim=claim).run.output == run(picks, claim=claim, in_process=True).run.output


class Users:
    n_users = 3

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = values


def local(data: Users, curator: Curator) -> Any:
    total = 0.0
    for i, value in enumerate(data.values):
        with curator.user(i) as own:
            total += float(own.release(value, NOISE, label="own"))
    return total


def test_under_local_trust_user_by_user() -> None:
    claim = Claim(ZCDP(rho=0.125), unit="user", neighbouring="replace-one", trust_model="local")
    pair = Pair(Users((0.0, 0.0, 0.0)), Users((1.0, 0.0, 0.0)), "user 0", unit=0)
    data = Users((0.5, 1.0, 0.0))
    there = run(local, data, claim=claim, pairs=pair, auditor=quickly)
    here = run(local, data, claim=claim, pairs=pair, in_process=True)
    assert there.divergences == ()
    assert there.run.output == here.run.output
    assert there.certificate.experiment == "NOT_REFUTED"


# The holder believes nothing that it can check.


def test_a_forged_message_is_no_answer() -> None:
    """A worker that writes to its channel itself ends its run, and not the holder's."""

    def forges(data: Any, curator: Curator) -> Any:
        if data.sum() > 50:
            channel = curator.for_user()[0]._channel  # type: ignore[attr-defined]
            channel.sendall(b"\xff" * 100)
        return sums(data, curator)

    made = run(forges)
    assert [finding.kind for finding in made.divergences] == ["control-flow"]


def in_lockstep(target: Target) -> tuple[Any, list[Any]]:
    """The output of one run with live noise, and how the worker diverged from its twin."""
    with hosting(target, DATA, [PAIR], in_process=False, limits=Limits()) as hosted:
        made = dpaudit.run(hosted.algorithm, hosted.data, claim=CLAIM)
        return made.output, hosted.algorithm.findings


def forging(make: Callable[[], Any]) -> Target:
    """An algorithm that adds other values to its own request than it computed, on large data."""

    def target(data: Any, curator: Curator) -> Any:
        if data.sum() > 50:
            real = worker.send

            def forged(channel: Any, message: Any) -> None:
                place = worker.Asked._fields.index("given")
                real(channel, (message[0], (*message[1][:place], make(), *message[1][place + 1 :])))

            worker.send = forged
        return sums(data, curator)

    return target


@sweep(
    "given",
    [
        ("text",),
        (None,),
        ([1.0, 2.0, 3.0],),
        (np.array(["a", "b", "c"]),),
        (np.ones(3, dtype=np.complex128),),
        (np.full(3, np.nan),),
        (np.ones(1000),),
        (Fraction(1, 3),),
        (OnGrid(np.ones(1000, dtype=np.int64), -39),),
        (OnGrid(np.ones(3, dtype=np.int64), 10**9),),
        (OnGrid(np.ones(3, dtype=np.int64), -(10**9)),),
        (),
        (np.ones(3), np.ones(3)),
    ],
    everyday=(0, 2, 5, 6, 9, 11),
)
def test_values_of_another_kind_than_the_twins_are_neutral(given: Any) -> None:
    """Drawn live: an answer of another shape, or none at all, would tell the public of the data."""
    output, divergences = in_lockstep(forging(lambda: given))
    assert [finding.kind for finding in divergences] == ["control-flow"]
    assert output.shape == (3,)
    assert np.abs(output).max() < 4.0 * 12


def test_a_value_of_the_twins_own_kind_is_taken() -> None:
    """The innocent twin of those above: the same harness, and a sum as the curator makes it."""
    output, divergences = in_lockstep(
        forging(lambda: (OnGrid(np.full(3, 100 * 2**39, dtype=np.int64), -39),))
    )
    assert divergences == []
    assert np.abs(output - 100.0).max() < 4.0 * 12


ERROR = {"kind": "ValueError", "text": "", "place": "", "traceback": "", "own": None}
OURS = {"kind": "DpauditError", "module": "dpaudit.errors", "what": "", "where": "", "why": "", "remedy": ""}


@sweep(
    "messages",
    [
        [5],
        [(1, 2, 3)],
        [("note", 5)],
        [([], 5)],
        [("error", 5)],
        [("error", {"kind": 5})],
        [("error", {**ERROR, "own": {"kind": "DpauditError"}})],
        [("error", {**ERROR, "own": {**OURS, "module": 5}})],
        [("error", {**ERROR, "text": 5})],
        [("end", None), 1, 7],
        [("end", None), 1, {}],
    ],
    everyday=(0, 3, 5, 7, 10),
)
def test_a_message_that_is_none_ends_the_run_of_who_sent_it(messages: list[Any]) -> None:
    def forges(on: bool) -> Target:
        def target(data: Any, curator: Curator) -> Any:
            if bool(data.sum() > 50) is on:
                channel = curator.for_user()[0]._channel  # type: ignore[attr-defined]
                channel.sendall(b"".join(map(frame, messages)))
                os._exit(0)
            return sums(data, curator)

        return target

    assert [finding.kind for finding in in_lockstep(forges(True))[1]] == ["control-flow"]
    with pytest.raises(BrokenFrame):
        in_lockstep(forges(False))


def test_the_process_that_judges_never_imports_the_target(tmp_path: Any) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import os\n"
        "def imported():\n    return os.getpid()\n"
        "PID = imported()\n"
        "class Own:\n    name = 'own'\n    claim = None\n"
        "    def __call__(self, data, curator):\n        return PID, os.getpid()\n"
    )

    def prepare() -> Any:
        space: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), space)  # noqa: S102  (as an import does)
        return served(space["Own"](), None)

    with Host(prepare) as host:
        target = target_in(host)
        pids = [dpaudit.run(target.algorithm, target.data).output for _ in range(2)]
    assert pids[0][0] == pids[1][0] != os.getpid()
    assert len({os.getpid(), pids[0][0], pids[0][1], pids[1][1]}) == 4


def test_a_module_that_ends_the_process_is_named() -> None:
    with pytest.raises(dpaudit.DpauditError, match="exit status 3 before it returned"):
        Host(lambda: os._exit(3))


def test_processes_end_with_their_host() -> None:
    with hosting(sums, DATA, [PAIR], in_process=None, limits=Limits()) as target:
        run_of = target.algorithm.host.start
        order = {"header": {}, "data": "data"}
        assert callable(run_of)
        assert order
        pid = target.algorithm.host._pid
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def centred(data: Any, curator: Curator) -> Any:
    """Every row has a part in every other one, in whatever order they come; and their sum moves little."""
    middle = np.median(data, axis=0)
    noise: Any = {"bound": 1.0, "mechanism": NOISE, "label": "sums"}
    return curator.release_sum(data, map=lambda record: record - middle, shape=(3,), **noise)


def test_rows_mapped_from_one_record_each_are_so_by_the_run_itself() -> None:
    seen: list[float] = []

    def own(record: Any) -> Any:
        return record / 2

    def others_too(record: Any) -> Any:
        seen.append(float(record[0]))
        return record + sum(seen[:-1])

    def by_record(function: Callable[[Any], Any]) -> Target:
        def released(data: Any, curator: Curator) -> Any:
            seen.clear()
            stated: Any = {"bound": 1.0, "mechanism": NOISE, "label": "sums"}
            return curator.release_sum(data, map=function, shape=(3,), **stated)

        return released

    innocent = run(by_record(own))
    assert Code.OWN_RECORD not in codes(innocent)
    assert Code.MAPPED_RECORDS in codes(innocent)
    for others_have_a_part in (run(centred), run(sums)):
        assert Code.OWN_RECORD in codes(others_have_a_part)
        assert Code.MAPPED_RECORDS not in codes(others_have_a_part)
    # Nothing shows what a record was before.
    before = run(lambda data, curator: by_record(own)(data - np.median(data, axis=0), curator))
    assert Code.MAPPED_RECORDS in codes(before)
    assert innocent.certificate.releases[0].mechanism.sensitivity.basis == "mapped"  # type: ignore[union-attr]
    same = run(sums, DATA / 2)
    assert (innocent.run.output == same.run.output).all()
    for in_process in (True, False):
        found = dpaudit.audit(by_record(others_too), PAIR, claim=CLAIM, in_process=in_process)
        assert found.verdict == "REFUTED"
        assert "ScheduleBroken" in found.findings[0].detail
    # Without an audit no record can end the run, and the ledger does not say that rows were mapped.
    with pytest.warns(UserWarning, match="another row the second time"):
        released = run(by_record(others_too), in_process=True, pairs=()).certificate.releases[0]
    assert released.mechanism.sensitivity.basis == "clipped"  # type: ignore[union-attr]


def test_the_best_of_several_trials_is_found_where_they_run() -> None:
    """Its trials are the algorithm's own code: the holder gets the best one's output, and draws nothing."""
    trial_noise = Gaussian(sigma=1.0, sensitivity=L2(2.0))
    listed = TrialRelease(mechanism=trial_noise)
    best = PrivateSelection(releases=(listed,), repetitions=Poisson(mean=50.0))

    def tunes(data: Any, curator: Curator) -> Any:
        def trial(own: Curator, candidate: int) -> tuple[float, Any]:
            row = np.full((1, 1), float(data.any()))
            noisy = own.release_sum(row, bound=1.0, mechanism=trial_noise, label="score")
            return float(noisy[0]), noisy

        return curator.select_best(trial, best, default=np.zeros(1), label="best")

    claim = Claim(ApproxDP(epsilon=1e3, delta=0.1), unit="row", neighbouring="replace-one")
    made = [run(tunes, claim=claim, pairs=(), seed=seed).run.output for seed in (1, 2)]
    assert made[0] != made[1]
    assert all(1.0 < output < 8.0 for output in made)  # the largest of some 50 normals


def too_large_a_sum(data: Any, curator: Curator) -> Any:
    stream = curator.stream(TreeAggregation(sigma=1e-3, steps=3, sensitivity=L2(1.0)), "stream")
    size = 1e9 if data.sum() > 50 else 0.0
    return [stream.add(size) for _ in range(3)]


def too_large_a_value(data: Any, curator: Curator) -> Any:
    noise = Gaussian(sigma=1e-9, sensitivity=L2(1.0))
    try:
        return curator.release(1e6 if data.sum() > 50 else 0.0, noise, label="large")
    except dpaudit.DpauditError:
        return "refused"


@pytest.mark.parametrize("target", [too_large_a_sum, too_large_a_value])
def test_a_refusal_that_the_data_cause_is_not_told_to_the_twin(target: Target) -> None:
    """Drawn live: exact noise has a range."""
    made = run(target, seed=None, claim=Claim(ZCDP(rho=1e20), unit="row", neighbouring="replace-one"))
    assert [finding.kind for finding in made.divergences] == ["control-flow"]
    assert np.isfinite(np.array(made.run.output, dtype=np.float64)).all()


class Sized:
    """Looks at the number of users, which is public under replace-one alone."""

    def __init__(self, neighbouring: str) -> None:
        self.claim = Claim(ZCDP(rho=2.0), unit="user", neighbouring=neighbouring)

    def stand_in(self, users: int | None) -> Any:
        return Users((0.0,) * (users or 1))

    def __call__(self, data: Users, curator: Curator) -> Any:
        noisy = curator.release(sum(data.values), Gaussian(sigma=4.0, sensitivity=L2(2.0)), label="sum")
        return float(noisy), "large" if len(data.values) > 2 else "small"


def test_the_number_of_users_reaches_a_twin_only_where_it_is_public() -> None:
    data = Users((0.5, 1.0, 0.0))
    pair = Pair(Users((1.0,)), Users(()), "one user", unit=0)
    replaced = run(Sized("replace-one"), data, claim=None, pairs=())
    assert replaced.run.output[1] == "large"
    added = run(Sized("add-or-remove-one"), data, claim=None, pairs=pair)
    assert added.run.output[1] == "small"
    # The claim that is stated decides, and not the algorithm's own.
    stated = Claim(ZCDP(rho=2.0), unit="user", neighbouring="add-or-remove-one")
    other = run(Sized("replace-one"), data, claim=stated, pairs=pair)
    assert other.certificate.process.kind == "worker"


def test_what_the_algorithm_draws_itself_is_the_twins_own_after_they_part() -> None:
    def draws(data: Any, curator: Curator) -> Any:
        if data.sum() > 50:
            raise ValueError
        noise = OpaquePureDP(epsilon=1.0, justification="the Laplace mechanism")
        return curator.release_opaque(0.0, lambda value, drawn: value + drawn.laplace(), noise, label="own")

    claim = Claim(ApproxDP(epsilon=2.0, delta=0.1), unit="row", neighbouring="replace-one")
    made = run(draws, claim=claim, seed=None)
    assert len(made.divergences) == 1
    assert made.run.output != 0.0


def test_what_reaches_the_twin_beside_its_argument_is_on_trust() -> None:
    """A global variable that holds the data, as a notebook has it, is in the twin's process as well."""

    def looks_aside(data: Any, curator: Curator) -> Any:
        return sums(data, curator), float(DATA.mean())

    made = run(looks_aside)
    assert made.run.output[1] == pytest.approx(0.9)
    assert Code.NOTHING_SHARED in codes(made)
