"""Planted faults beyond those of `test_nine_faults` are found with the right kind; the innocent pass."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    ZCDP,
    Curator,
    Experiment,
    Gaussian,
    Laplace,
    Neighbouring,
    PureDP,
    UserViews,
    run,
)
from dpaudit.accountants.filters.filters import ZCDPFilter
from dpaudit.algorithms.environments.tabular import random_mdp
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI
from dpaudit.auditors.replay.replay import NOTHING_RELEASED, replay
from dpaudit.claims.pairs import Pair
from dpaudit.ledger.releases import Partition
from tests.sweeps import sweep

DATA = np.array([0.2, 0.9, 0.4, 0.7])
PAIR = Pair(DATA, np.array([0.2, 0.1, 0.4, 0.7]), "the second record replaced")
NOISE = Gaussian(sigma=5.0, sensitivity=L2(1.0))


def total(data: Any, curator: Curator, size: float = 1.0, sigma: float = 5.0) -> Any:
    return curator.release(data.sum(), Gaussian(sigma=sigma, sensitivity=L2(size)), label="sum")


def innocent(data: Any, curator: Curator) -> Any:
    return {"sum": total(data, curator), "n": len(data)}


def returns_public_noise(data: Any, curator: Curator) -> Any:
    return total(data, curator) + curator.public("exploration").normal()


def stops_by_what_came_out(data: Any, curator: Curator) -> Any:
    for _ in range(50):
        if total(data, curator) > 5.0:
            break


def asks_until_it_is_positive(data: Any, curator: Curator) -> Any:
    while (noisy := total(data, curator)) < 0.0:  # set to far below, it would stay there for ever
        pass
    return noisy


def mutates_in_place(data: Any, curator: Curator) -> Any:
    noisy = total(data, curator)
    data[:] = 0.0
    return noisy


def fails_by_what_came_out(data: Any, curator: Curator) -> Any:
    if total(data, curator) > -1e9:
        return "fine"
    raise RuntimeError


def split_in_halves(data: Any, curator: Curator) -> Any:
    for part, half in (("first", data[:2]), ("second", data[2:])):
        curator.release(half.sum(), NOISE, label=part, partition=part)


def split_by_values(data: Any, curator: Curator) -> Any:
    for part, chosen in (("low", data < 0.5), ("high", data >= 0.5)):
        curator.release(data[chosen].sum(), NOISE, label=part, partition=Partition(part=part, by="values"))


def closes_over_what_came_out(data: Any, curator: Curator) -> Any:
    noisy = total(data, curator)
    return lambda x: x + noisy


INNOCENT = [
    innocent,
    returns_public_noise,
    stops_by_what_came_out,
    asks_until_it_is_positive,
    mutates_in_place,
    fails_by_what_came_out,
    split_in_halves,
    split_by_values,
    closes_over_what_came_out,
    lambda data, curator: total(data, curator) * math.nan,
    lambda data, curator: curator.release(np.stack([data, data]), NOISE, label="twice", count=2),
]


@pytest.mark.parametrize("algorithm", INNOCENT)
def test_the_innocent_pass_in_silence(algorithm: Callable[..., Any], nightly: bool) -> None:
    replays = 10 if nightly else 2
    audit = replay(algorithm, [PAIR], replays=replays)
    assert audit.findings == ()
    assert audit.verdict is Experiment.NOT_REFUTED
    assert (audit.pairs, audit.trials) == (1, replays)


def test_nothing_released_is_nothing_compared() -> None:
    """Whatever comes out: of one pair among several that is as inconclusive as of all."""

    def silent_where_there_is_nothing(data: Any, curator: Curator) -> Any:
        return total(data, curator) if data.any() else None

    empty = Pair(np.zeros(3), np.zeros(4))
    for algorithm, pairs in (
        (lambda data, curator: None, [PAIR]),
        (silent_where_there_is_nothing, [PAIR, empty]),
    ):
        audit = replay(algorithm, pairs, replays=2)
        assert (audit.verdict, audit.findings) == (Experiment.INCONCLUSIVE, ())
        assert audit.inconclusive == (NOTHING_RELEASED,)
    assert replay(silent_where_there_is_nothing, [PAIR], replays=2).verdict is Experiment.NOT_REFUTED


def clipping_removed(data: Any, curator: Curator) -> Any:
    return curator.release((10 * data).sum(), NOISE, label="sum")


def raw_beside(data: Any, curator: Curator) -> Any:
    return total(data, curator), np.histogram(data, 2, (0.0, 1.0))[0]


def more_releases(data: Any, curator: Curator) -> Any:
    for _ in range(int(10 * data[1])):
        total(np.zeros(1), curator)


def one_sigma_each(data: Any, curator: Curator) -> Any:
    return total(data, curator, sigma=5.0 + data[1])


def one_shape_each(data: Any, curator: Curator) -> Any:
    return curator.release(np.zeros(int(10 * data[1])), NOISE, label="x")


def one_label_each(data: Any, curator: Curator) -> Any:
    return curator.release(0.0, NOISE, label=f"x{data[1]}")


def global_generator(data: Any, curator: Curator) -> Any:
    return total(data, curator) + np.random.normal()  # noqa: NPY002  (the planted fault)


def noise_in_the_query(data: Any, curator: Curator) -> Any:
    return curator.release(np.random.default_rng().uniform(0, 1e-3), NOISE, label="x")


def fixed_generator(data: Any, curator: Curator) -> Any:
    total(data, curator)
    return data.sum() + np.random.default_rng(0).normal(0.0, 5.0)


def minus_zero(data: Any, curator: Curator) -> Any:
    return -0.0 if data[1] > 0.5 else 0.0


def one_side_fails(data: Any, curator: Curator) -> Any:
    total(data, curator)
    if data[1] > 0.5:
        raise ZeroDivisionError("0.9")
    return None


def one_side_fails_first(data: Any, curator: Curator) -> Any:
    if data[1] > 0.5:
        raise ZeroDivisionError("0.9")
    total(data, curator)


def each_side_fails_otherwise(data: Any, curator: Curator) -> Any:
    raise ValueError if data[1] > 0.5 else KeyError


def swallows_the_divergence(data: Any, curator: Curator) -> Any:
    for _ in range(int(10 * data[1])):
        with contextlib.suppress(Exception):
            total(np.zeros(1), curator)


def in_a_closure(data: Any, curator: Curator) -> Any:
    total(data, curator)
    return lambda x: x + data[1]


def parts_that_overlap(data: Any, curator: Curator) -> Any:
    for part in "ab":
        curator.release(data.sum(), NOISE, label=part, partition=part)


def one_of_the_repetitions(data: Any, curator: Curator) -> Any:
    return curator.release(np.array([0.0, 10 * data[1]]), NOISE, label="x", count=2)


BUFFER = np.zeros(1)


def hands_out_its_buffer(data: Any, curator: Curator) -> Any:
    BUFFER[0] = data[1]
    return BUFFER


def rare_branch(data: Any, curator: Curator) -> Any:
    return data if total(data, curator) > 1e4 else None  # 2000 scales away


def rarer_branch(data: Any, curator: Curator) -> Any:
    first, second = total(data, curator), total(data, curator)
    return data if second == data.sum() and abs(first) < 100.0 else None


def rare_stop(data: Any, curator: Curator) -> Any:
    if total(data, curator) < -60.0 and data[1] > 0.5:  # 12 scales away
        return
    total(data, curator)


def ties(data: Any, curator: Curator) -> Any:
    one, two = total(data, curator), total(data, curator)
    return data if one == two else None


GUILTY = [
    (rare_branch, "leak"),
    (rarer_branch, "leak"),
    (ties, "leak"),
    (rare_stop, "control-flow"),
    (clipping_removed, "sensitivity"),
    (one_of_the_repetitions, "sensitivity"),
    (parts_that_overlap, "sensitivity"),
    (raw_beside, "leak"),
    (fixed_generator, "leak"),
    (minus_zero, "leak"),
    (in_a_closure, "leak"),
    (hands_out_its_buffer, "leak"),
    (more_releases, "control-flow"),
    (one_sigma_each, "control-flow"),
    (one_shape_each, "control-flow"),
    (one_label_each, "control-flow"),
    (one_side_fails, "control-flow"),
    (one_side_fails_first, "control-flow"),
    (each_side_fails_otherwise, "control-flow"),
    (swallows_the_divergence, "control-flow"),
    (global_generator, "nondeterminism"),
    (noise_in_the_query, "nondeterminism"),
]


@sweep("pair", [PAIR, Pair(PAIR.neighbour, PAIR.data)], ids=["forth", "back"], everyday=(0,))
@pytest.mark.parametrize(("algorithm", "kind"), GUILTY, ids=lambda x: getattr(x, "__name__", x))
def test_every_planted_fault_is_found(algorithm: Callable[..., Any], kind: str, pair: Pair) -> None:
    audit = replay(algorithm, [pair], replays=1)
    assert audit.verdict is Experiment.REFUTED
    assert {finding.kind for finding in audit.findings} == {kind}


def test_findings_give_place_and_figures_but_no_message_of_the_data() -> None:
    (finding,) = replay(clipping_removed, [PAIR]).findings
    assert (finding.label, finding.declared) == ("sum", 1.0)
    assert finding.measured == pytest.approx(8.0)
    assert finding.where.startswith(f"{os.path.relpath(__file__)}:")
    assert all("0.9" not in finding.detail for finding in replay(one_side_fails, [PAIR]).findings)


def test_a_query_as_far_as_doubles_go_is_measured() -> None:
    def far(data: Any, curator: Curator) -> Any:
        return curator.release(1.7e308 * np.sign(data[1] - 0.5), NOISE, label="x")

    swallowed, moved = replay(far, [PAIR], replays=1).findings
    assert (swallowed.kind, moved.kind) == ("sampler", "sensitivity")  # doubles that large round noise away
    assert math.isfinite(moved.measured or math.inf)


def joint(data: Any, curator: Curator) -> Any:
    noisy = total(data, curator)
    return UserViews(tuple((value, float(noisy)) for value in data))


def joint_leak(data: Any, curator: Curator) -> Any:
    noisy = total(data, curator)
    return UserViews(tuple((value, float(noisy), data[1] if i == 2 else 0.0) for i, value in enumerate(data)))


def test_under_joint_trust_a_users_own_view_is_no_leak_but_any_other_is() -> None:
    options = {"trust_model": "joint"}
    pair = Pair(PAIR.data, PAIR.neighbour, unit=1)
    assert replay(joint, [pair], run_options=options, replays=1).verdict is Experiment.NOT_REFUTED
    (leak,) = {f.kind for f in replay(joint_leak, [pair], run_options=options, replays=1).findings}
    assert leak == "leak"
    # Under central trust everything is compared; and whose view may differ must be known.
    assert {f.kind for f in replay(joint, [pair], replays=1).findings} == {"leak"}
    for algorithm, unclear in ((joint, PAIR), (lambda d, c: d, pair)):
        audit = replay(algorithm, [unclear], run_options=options, replays=1)
        assert audit.verdict is Experiment.INCONCLUSIVE
    gone = Pair(PAIR.data, np.delete(PAIR.data, 1), unit=1)
    noiseless = replay(lambda d, c: UserViews(tuple(d)), [gone], run_options=options, replays=1)
    assert noiseless.findings == ()


def test_what_fails_on_every_data_set_fails_the_audit() -> None:
    def broken(data: Any, curator: Curator) -> Any:
        total(data, curator)
        raise LookupError("always")

    with pytest.raises(LookupError, match="always"):
        replay(broken, [PAIR])


def test_outputs_that_cannot_be_compared_are_inconclusive_and_so_is_no_pair() -> None:
    def looped(data: Any, curator: Curator) -> Any:
        made: list[Any] = []
        made.append(made)
        return made

    opaque = [looped, lambda d, c: (x for x in d), lambda d, c: lambda x: total(x, c)]
    for audit in (replay(innocent, []), *(replay(algorithm, [PAIR], replays=1) for algorithm in opaque)):
        assert audit.verdict is Experiment.INCONCLUSIVE
        assert audit.inconclusive


def test_a_budget_is_whole_again_for_every_run_and_the_data_stay_as_they_were() -> None:
    budget = ZCDPFilter(0.02)
    assert replay(total, [PAIR], run_options={"budget": budget}).verdict is Experiment.NOT_REFUTED
    assert budget.spent == 0.0
    before = DATA.copy()
    replay(mutates_in_place, [PAIR])
    assert np.array_equal(DATA, before)


def test_users_under_local_trust_are_replayed_one_by_one() -> None:
    def local(data: Any, curator: Curator) -> Any:
        noisy = []
        for index, value in enumerate(data):
            with curator.user(index) as user:
                noisy.append(user.release(value, NOISE, label="bit"))
        return noisy

    options = {"trust_model": "local", "users": 4, "neighbouring": Neighbouring.REPLACE_ONE}
    assert replay(local, [PAIR], run_options=options).findings == ()
    far = Pair(DATA, DATA + np.array([0.0, 3.0, 0.0, 0.0]))
    assert {f.kind for f in replay(local, [far], run_options=options).findings} == {"sensitivity"}


@sweep("guarantee", [ZCDP(rho=0.5), PureDP(epsilon=1.0)], everyday=(0,))
def test_dp_apvi_is_not_refuted_on_its_worst_pairs(guarantee: Any) -> None:
    algorithm = DPAPVI(random_mdp(3, 2, 4, seed=1).rewards, guarantee)
    audit = replay(algorithm, algorithm.worst_pairs(), claim=algorithm.claim)
    assert audit.verdict is Experiment.NOT_REFUTED
    assert not audit.inconclusive
    assert run(algorithm, algorithm.worst_pairs()[0].data, seed=0).ledger.claim == algorithm.claim


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_queries_at_the_edge_of_the_doubles_are_refuted_without_a_warning() -> None:
    def total(data: Any, curator: Curator) -> Any:
        return curator.release(data.sum(), Laplace(scale=1.0, sensitivity=L1(1.0)), label="sum")

    edges = Pair(np.array([-1e308]), np.array([1e308]), "both edges")
    assert replay(total, [edges], replays=5).verdict is Experiment.REFUTED
