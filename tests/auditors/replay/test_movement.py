"""Replay of every shape of release: each planted fault is found, its innocent twin is not accused."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import (
    L1,
    L2,
    RKHS,
    Curator,
    DiscreteGaussian,
    Exponential,
    ExponentialKernel,
    Frobenius,
    Gaussian,
    GaussianProcess,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    TreeAggregation,
)
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Finding
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import Norm, Sensitivity
from dpaudit.noise.grid import OnGrid

PAIR = Pair(0.0, 1.0)
PROCESS = GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=3.0), sensitivity=RKHS(1.1))
SMOOTH = SmoothGaussian(alpha=2.0, beta=0.5, dimension=2, epsilon=1.0, delta=0.1)
Work = Callable[[float, Curator], Any]


def findings(work: Work) -> tuple[Finding, ...]:
    return replay(work, [PAIR], replays=3).findings


def discrete(step: float) -> Work:
    mechanism = DiscreteGaussian(sigma=1.0, sensitivity=L2(2))
    return lambda x, c: c.release([x * step, 3.0], mechanism, label="it")


def answers(step: float) -> Work:
    changed = int(step)
    return lambda x, c: c.release([int(x)] * changed + [1], RandomizedResponse(epsilon=1.0), label="it")


def repeated_answers(step: float) -> Work:
    changed = int(step)
    value = [[0, 0], [0, 1], [1, 1]]

    def work(x: float, c: Curator) -> Any:
        moved = [[int(x)] * changed + row[changed:] for row in value]
        return c.release(moved, RandomizedResponse(epsilon=1.0), label="it", count=3)

    return work


def symmetric(step: float) -> Work:
    mechanism = SymmetricGaussian(sigma=1.0, dimension=2, sensitivity=Frobenius(np.sqrt(2)))
    return lambda x, c: c.release(np.array([[0, x], [x, 1]]) * step, mechanism, label="it")


def choice(step: float) -> Work:
    def work(x: float, c: Curator) -> Any:
        scores = [5 + x * step, 4 - x * step, 0]
        return c.select(scores, Exponential(epsilon=2.0), label="it", score_sensitivity=1.0)

    return work


def stream(step: float) -> Work:
    mechanism = TreeAggregation(sigma=1.0, steps=8, sensitivity=L2(1.5))

    def work(x: float, c: Curator) -> Any:
        stream = c.stream(mechanism, "it", (2,))
        return [stream.add([k, x * step if k == 2 else 0.0]) for k in range(5)]

    return work


def stream_of_many_changes(step: float) -> Work:
    """Each item moves by less than is declared; together they do not."""
    mechanism = TreeAggregation(sigma=1.0, steps=8, sensitivity=L2(1.5))

    def work(x: float, c: Curator) -> Any:
        stream = c.stream(mechanism, "it")
        return [stream.add(x * 1.5 if k < step else 0.0) for k in range(5)]

    return work


def function(step: float) -> Work:
    """f(t) = x t step: on [0, 1] its norm at beta = 3 is step sqrt(1/2 + 4/6) = 1.08 step."""

    def work(x: float, c: Curator) -> Any:
        noisy = c.function(PROCESS, lambda t: x * t * step, "it")
        return noisy(np.linspace(0, 1, 50)), noisy(0.5)

    return work


def smooth_query(step: float) -> Work:
    return lambda x, c: c.release_smooth([1.0, x * step], 2.0, SMOOTH, label="it")


def smooth_scale(step: float) -> Work:
    return lambda x, c: c.release_smooth([1.0, 0.0], float(np.exp(x * step / 4)), SMOOTH, label="it")


def sampled(step: float) -> Work:
    mechanism = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))

    def work(x: float, c: Curator) -> Any:
        rows = np.array([[1.0], [0.5], [1.0 - x * step]])
        return c.release_sum(rows, bound=1.0, mechanism=mechanism, label="it")

    return work


def large_sum(places: float) -> Work:
    """An exact sum of 2^24, whose doubles move by nearly one last place of 2^-28 more than it does itself.

    It moves by the sensitivity and so many last places. In steps of 2^-40 a last place has 2^12.
    """
    moved = 80_000_000 * 2**12 + 2
    noise = Gaussian(sigma=1.0, sensitivity=L2(moved * 2.0**-40))
    start = 2**64 + 2**11 - 1  # rounded down; with the move it is rounded up

    def work(x: float, c: Curator) -> Any:
        steps = start + int(x) * (moved + int(places) * 2**12)
        return c.release(OnGrid(np.array([steps], dtype=object), -40), noise, label="it")

    return work


CASES = [
    (discrete, 2, 3),
    (answers, 1, 2),
    (repeated_answers, 1, 2),
    (symmetric, 1, 1.01),
    (choice, 1, 1.01),
    (stream, 1.5, 1.51),
    (stream_of_many_changes, 1, 2),
    (function, 1, 1.05),
    (smooth_query, 1, 1.01),
    (smooth_scale, 1, 1.01),
    (large_sum, 0, 5),
]


def test_a_large_sums_doubles_move_further_than_it_does() -> None:
    """Without an allowance for rounding the innocent one would be refuted, at a relative 1e-9."""
    moved, start = 80_000_000 * 2**12 + 2, 2**64 + 2**11 - 1
    doubles = OnGrid(np.array([start, start + moved], dtype=object), -40).to_doubles()
    assert (doubles[1] - doubles[0]) / (moved * 2.0**-40) > 1 + 1e-8


@pytest.mark.parametrize(
    ("work", "innocent", "fault"), CASES, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_query_that_moves_further_than_declared(
    work: Callable[[float], Work], innocent: float, fault: float
) -> None:
    assert findings(work(innocent)) == ()
    found = findings(work(fault))
    assert found
    assert {(finding.kind, finding.label) for finding in found} == {("sensitivity", "it")}
    assert all(finding.measured > finding.declared for finding in found)  # type: ignore[operator]
    assert all(finding.where.startswith(os.path.relpath(__file__)) for finding in found)


def test_a_sampled_sum_replays() -> None:
    options = {"neighbouring": "zero-out"}
    assert replay(sampled(1.0), [PAIR], run_options=options).findings == ()
    assert replay(sampled(1.9), [PAIR], run_options=options).findings != ()


def test_an_opaque_release_replays() -> None:
    mechanism = OpaqueZCDP(rho=0.5, justification="vendor")

    def work(x: float, c: Curator) -> Any:
        return c.release_opaque([x], lambda v, g: np.append(v, 1.0) + g.normal(), mechanism, label="it")

    def leaking(x: float, c: Curator) -> Any:
        return work(x, c), x

    assert findings(work) == ()
    assert {finding.kind for finding in findings(leaking)} == {"leak"}


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_an_opaque_release_is_held_to_the_sensitivity_that_it_states(norm: Norm) -> None:
    def work(value: float) -> Work:
        stated = Sensitivity(value=value, norm=norm)
        mechanism = OpaquePureDP(epsilon=0.5, justification="vendor", sensitivity=stated)
        return lambda x, c: c.release_opaque([x, 0.0], lambda v, g: v + g.normal(), mechanism, label="it")

    assert findings(work(1.0)) == ()
    for finding in findings(work(0.9)):
        assert (finding.kind, finding.declared, finding.measured) == ("sensitivity", 0.9, pytest.approx(1.0))
    assert findings(work(0.9)) != ()


def test_an_opaque_release_of_a_part_that_the_unit_is_not_in() -> None:
    mechanism = OpaqueZCDP(rho=0.5, justification="vendor")

    def work(parts: int) -> Work:
        def algorithm(x: float, c: Curator) -> None:
            for part in range(3):
                value = [x if part < parts else 0.0]
                c.release_opaque(
                    value, lambda v, g: v + g.normal(), mechanism, label="it", partition=str(part)
                )

        return algorithm

    assert findings(work(1)) == ()
    assert {finding.kind for finding in findings(work(2))} == {"sensitivity"}


def opened_or_not(x: float, c: Curator) -> None:
    if x > 0:
        c.stream(TreeAggregation(sigma=1.0, steps=8, sensitivity=L2(1)), "it")


def fewer_items(x: float, c: Curator) -> None:
    stream = c.stream(TreeAggregation(sigma=1.0, steps=8, sensitivity=L2(1)), "it")
    for _ in range(3 if x > 0 else 2):
        stream.add(0.0)


def items_swapped_between_streams(x: float, c: Curator) -> None:
    mechanism = TreeAggregation(sigma=1.0, steps=8, sensitivity=L2(1))
    streams = [c.stream(mechanism, "it"), c.stream(mechanism, "it")]
    streams[int(x)].add(0.0)


def points_that_depend_on_data(x: float, c: Curator) -> None:
    c.function(PROCESS, lambda _: 0.0, "it")(0.25 + x / 2)


def steps_that_depend_on_data(x: float, c: Curator) -> None:
    c.stream(TreeAggregation(sigma=1.0, steps=8 + int(x), sensitivity=L2(1)), "it")


@pytest.mark.parametrize(
    "work",
    [
        opened_or_not,
        fewer_items,
        items_swapped_between_streams,
        points_that_depend_on_data,
        steps_that_depend_on_data,
    ],
)
def test_the_course_of_a_stream_or_function_must_not_depend_on_data(work: Work) -> None:
    assert {finding.kind for finding in findings(work)} == {"control-flow"}


def test_the_path_of_a_stream_may_depend_on_its_own_outputs() -> None:
    """Adaptive items, interleaved with another release, replay without a finding."""

    def work(x: float, c: Curator) -> Any:
        mechanism = TreeAggregation(sigma=1.0, steps=8, sensitivity=L2(1))
        stream, noisy = c.stream(mechanism, "it"), c.function(PROCESS, lambda t: x * t, "f")
        total = stream.add(x)
        for _ in range(4):
            c.release([x], Gaussian(sigma=1.0, sensitivity=L2(1)), label="between")
            total = stream.add(float(noisy(np.tanh(total) ** 2)))
        return total

    assert findings(work) == ()


def test_users_streams_are_told_apart() -> None:
    """Under local trust every user opens a stream of the same name; each is held to its own sensitivity."""

    def work(x: float, c: Curator) -> None:
        for index in range(2):
            with c.user(index) as user:
                stream = user.stream(TreeAggregation(sigma=1.0, steps=2, sensitivity=L2(1)), "it")
                stream.add(x if index == 0 else 1.0)
                stream.add(1.0)

    options = {"trust_model": "local", "users": 2}
    assert replay(work, [PAIR], run_options=options).findings == ()


def test_laplace_and_gaussian_still_measure_in_their_norms() -> None:
    def work(norm: Any, size: float) -> Work:
        return lambda x, c: c.release([x, x], norm(size), label="it")

    def gaussian(size: float) -> Gaussian:
        return Gaussian(sigma=1.0, sensitivity=L2(size))

    def laplace(size: float) -> Any:
        from dpaudit import Laplace

        return Laplace(scale=1.0, sensitivity=L1(size))

    assert findings(work(gaussian, 1.415)) == ()
    assert findings(work(gaussian, 1.41)) != ()
    assert findings(work(laplace, 2.0)) == ()
    assert findings(work(laplace, 1.99)) != ()
