"""A trial of a private selection releases what is listed, and nothing else leaves then or later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit import L2, Curator, Gaussian, Poisson, PrivateSelection, TreeAggregation, TrialRelease, run
from dpaudit.errors import ScheduleBroken

LISTED = Gaussian(sigma=50.0, sensitivity=L2(1.0))
LEAK = Gaussian(sigma=1e-6, sensitivity=L2(1.0))
BEST = PrivateSelection(releases=(TrialRelease(mechanism=LISTED),), repetitions=Poisson(mean=20.0))
SECRET = 777.0


def selecting(trial: Any, after: Any = lambda _: None) -> Any:
    def algorithm(data: float, curator: Curator) -> Any:
        made: list[Any] = []
        try:
            curator.select_best(lambda own, _: trial(data, own, curator, made), BEST, label="best")
        finally:
            if made:
                after(made[0])
        return made

    return run(algorithm, SECRET, seed=1)


def honest(data: float, own: Curator, curator: Curator, made: list[Any]) -> Any:
    noisy = own.release(data, LISTED, label="score")
    return noisy, noisy


def test_an_honest_trial_is_answered() -> None:
    made = selecting(honest)
    assert [release.label for release in made.ledger.releases] == ["best"]


def keeps(data: float, own: Curator, curator: Curator, made: list[Any]) -> Any:
    made.append(own)
    return honest(data, own, curator, made)


def test_a_curator_that_is_kept_answers_no_more() -> None:
    with pytest.raises(ScheduleBroken, match="lists another release, or none"):
        selecting(keeps, lambda own: own.release(SECRET, LEAK, label="late"))


def releases_more(data: float, own: Curator, curator: Curator, made: list[Any]) -> Any:
    noisy = honest(data, own, curator, made)
    made.append(float(own.release(data, LEAK, label="more")))
    return noisy


def releases_outside(data: float, own: Curator, curator: Curator, made: list[Any]) -> Any:
    made.append(float(curator.release(data, LEAK, label="outside")))
    return honest(data, own, curator, made)


def releases_nothing(data: float, own: Curator, curator: Curator, made: list[Any]) -> Any:
    return data, 0.0


def with_less_noise(data: float, own: Curator, curator: Curator, made: list[Any]) -> Any:
    noisy = own.release(data, LEAK, label="score")
    made.append(float(noisy))
    return noisy, noisy


@pytest.mark.parametrize("trial", [releases_more, releases_outside, releases_nothing, with_less_noise])
def test_what_is_not_listed_is_refused_before_it_is_drawn(trial: Any) -> None:
    made: list[Any] = []

    def noted(data: float, own: Curator, curator: Curator, _: list[Any]) -> Any:
        return trial(data, own, curator, made)

    with pytest.raises(ScheduleBroken):
        selecting(noted)
    assert made == []


def test_a_stream_that_a_trial_leaves_open_answers_no_more() -> None:
    tree = TreeAggregation(sigma=50.0, steps=4, sensitivity=L2(1.0))
    best = PrivateSelection(releases=(TrialRelease(mechanism=LISTED),), repetitions=Poisson(mean=20.0))
    streams: list[Any] = []

    def trial(own: Curator, _: int) -> Any:
        streams.append(own.stream(tree, "stream"))
        return 0.0, 0.0

    def algorithm(data: float, curator: Curator) -> Any:
        with pytest.raises(ScheduleBroken):
            curator.select_best(trial, best, label="best")
        return [stream.add(np.float64(data)) for stream in streams]

    assert run(algorithm, SECRET, seed=1).output == []
