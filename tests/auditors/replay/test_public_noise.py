"""Samplers of an author's own: public noise is found, secret noise of any make is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import Claim, Curator, OpaquePureDP, Pair, PureDP
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, Experiment

ROWS = np.array([0.4, 0.1, 0.9])
PAIR = Pair(ROWS, np.array([0.4, 0.1, 0.2]))
NOISE = OpaquePureDP(epsilon=9.0, justification="as the test knows")
Sampler = Callable[[Any, np.random.Generator], Any]


def audited(algorithm: Callable[[Any, Curator], Any], *, in_process: bool = True) -> Audit:
    claim = Claim(PureDP(epsilon=9.0))
    return replay(algorithm, [PAIR], claim=claim, replays=1, extreme_outputs=False, in_process=in_process)


def released(sampler: Callable[[Curator], Sampler]) -> Callable[[Any, Curator], Any]:
    def algorithm(data: Any, curator: Curator) -> Any:
        return curator.release_opaque(data.sum(), sampler(curator), NOISE, label="sum")

    return algorithm


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize(
    "sampler",
    [
        lambda curator: lambda value, _: value + curator.public("noise").laplace(),
        lambda _: lambda value, _generator: value + np.random.default_rng(0).laplace(),
        lambda _: lambda value, _generator: np.floor(value),
    ],
)
def test_public_noise_is_a_leak_at_the_author_s_line(sampler: Any, in_process: bool) -> None:
    found = audited(released(sampler), in_process=in_process)
    assert {(one.kind, one.label) for one in found.findings} == {("leak", "sum")}
    assert "test_public_noise.py" in found.findings[0].where
    assert found.verdict is Experiment.REFUTED


@pytest.mark.parametrize(
    "sampler",
    [
        lambda _: lambda value, generator: value + generator.laplace(),
        lambda _: lambda value, generator: value + generator.spawn(1)[0].laplace(),
        lambda _: lambda value, generator: value if generator.random() < 0.9999 else -value,
        # The generator is passed on before the noise is drawn from what its bits make.
        lambda _: lambda value, generator: value + np.random.Generator(generator.bit_generator).laplace(),
        lambda curator: lambda value, generator: value + curator.public("a").normal() + generator.laplace(),
        lambda _: lambda _value, _generator: 0.5,
    ],
)
def test_secret_or_no_answers_are_left_alone(sampler: Any) -> None:
    assert not audited(released(sampler)).findings


def test_a_function_of_an_earlier_answer_is_left_alone() -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        noisy = curator.release_opaque(data.sum(), lambda value, own: value + own.laplace(), NOISE, label="a")
        return curator.release_opaque(noisy, lambda value, _: np.round(value), NOISE, label="b")

    assert not audited(algorithm).findings


def test_public_noise_after_a_secret_one_is_found() -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        first = curator.release_opaque(data.sum(), lambda value, own: value + own.laplace(), NOISE, label="a")
        return first, curator.release_opaque(data[2], lambda value, _: value, NOISE, label="b")

    found = audited(algorithm)
    assert {one.label for one in found.findings} == {"b"}


def test_a_sampler_that_raises_is_the_run_s_own_affair() -> None:
    def sampler(_: Curator) -> Sampler:
        def draws(value: Any, generator: np.random.Generator) -> Any:
            if generator.bit_generator.state["state"]["state"] == np.random.PCG64(0).state["state"]["state"]:
                raise ValueError("not these")
            return value + generator.laplace()

        return draws

    assert not audited(released(sampler)).findings
