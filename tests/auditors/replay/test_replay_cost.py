"""A replay costs little beside the algorithm: per run, per release, and whatever the algorithm calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, Curator, Gaussian, Pair, run
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.replay.rng_tripwire import Watch

Count = Callable[[Callable[[], object]], int]

PAIR = Pair(np.array([0.0, 0.0]), np.array([0.0, 1.0]))
NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))


class Releases:
    runs = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, data: Any, curator: Curator) -> Any:
        Releases.runs += 1
        for _ in range(self.number):
            curator.release(data[1], NOISE, label="number")


@pytest.mark.nightly
def test_a_replay_makes_few_calls_a_run_and_a_release(python_calls: Count) -> None:
    def calls_a_run(releases: int) -> float:
        before = Releases.runs
        calls = python_calls(lambda: replay(Releases(releases), [PAIR], replays=20))
        return calls / (Releases.runs - before)

    replay(Releases(2), [PAIR], replays=1)
    few, many, most = (calls_a_run(releases) for releases in (2, 22, 42))
    # Measured: 892 and 175; they were 2,075 and 429 before what recurs was kept.
    assert few < 1_150
    assert (most - many) / 20 < 230
    assert (most - many) == pytest.approx(many - few, rel=0.1)


def test_watching_makes_the_same_calls_whatever_the_algorithm_calls(python_calls: Count) -> None:
    def calling(number: int) -> Callable[[Any, Curator], None]:
        def algorithm(data: Any, curator: Curator) -> None:
            for _ in range(number):
                abs(-1)

        return algorithm

    def added(number: int) -> int:
        watched = python_calls(lambda: run(Watch(calling(number)), None, seed=0))
        return watched - python_calls(lambda: run(calling(number), None, seed=0))

    added(1)
    assert added(10_000) == pytest.approx(added(1), rel=0.05)
