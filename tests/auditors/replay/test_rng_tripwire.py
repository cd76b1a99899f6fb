"""Randomness that is not the curator's trips the wire, with its place; the curator's own does not."""

# The planted faults are what these rules warn of, and what is parametrized over is calls, not functions.
# ruff: noqa: S311, PLW0108

from __future__ import annotations

import inspect
import random
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import PCG64, default_rng
from numpy.random import Generator as NumpyGenerator

from dpaudit import L2, Curator, DiscreteGaussian, Gaussian, Pair, run
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.replay.rng_tripwire import Watch

PAIR = Pair(np.array([1.0, 0.0]), np.array([0.0, 0.0]))


def released(data: Any, curator: Curator) -> Any:
    curator.release(data.sum(), Gaussian(sigma=5.0, sensitivity=L2(1.0)), label="x")


# Every one of them draws on its first line, and leaves no trace in what it returns.
DRAWING: list[Callable[[], Any]] = [
    lambda: np.random.normal(),  # noqa: NPY002
    lambda: np.random.seed(0),  # noqa: NPY002
    lambda: random.random(),
    lambda: random.gauss(0.0, 1.0),
    lambda: random.Random().random(),
    lambda: default_rng(),
    lambda: np.random.default_rng().normal(),
    lambda: NumpyGenerator(PCG64()),
    lambda: np.random.SeedSequence(),
    lambda: secrets.randbelow(5),
]


@pytest.mark.parametrize("draw", DRAWING)
def test_a_draw_is_found_where_it_was_made(draw: Callable[[], Any]) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        draw()
        released(data, curator)

    (finding,) = replay(algorithm, [PAIR], replays=1).findings
    assert finding.kind == "nondeterminism"
    line = inspect.getsourcelines(draw)[1]
    assert finding.where == f"{__file__}:{line}"


INNOCENT: list[Callable[[Curator], Any]] = [
    lambda curator: curator.public("exploration").normal(),
    lambda curator: curator.public("exploration").spawn(2)[0].normal(),
    lambda curator: default_rng(3).normal(),
    lambda curator: random.Random(3).random(),
    lambda curator: np.random.RandomState(3).normal(),
    lambda curator: curator.release(0.0, DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0)), label="y"),
]


@pytest.mark.parametrize("draw", INNOCENT)
def test_what_the_curator_hands_out_and_what_has_a_stated_seed_is_innocent(
    draw: Callable[[Curator], Any],
) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        draw(curator)
        released(data, curator)

    assert replay(algorithm, [PAIR], replays=1).findings == ()


def test_live_bits_from_the_operating_system_are_the_curators() -> None:
    watch = Watch(
        lambda data, curator: curator.release(
            0.0, DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0)), label="y"
        )
    )
    run(watch, None)
    assert watch.drawn is None
