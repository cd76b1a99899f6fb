"""Shifted recordings: noise is moved as the density says, and the weight is the density's quotient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from dpaudit import (
    L1,
    L2,
    RKHS,
    Curator,
    DiscreteGaussian,
    Exponential,
    ExponentialKernel,
    Gaussian,
    GaussianProcess,
    Laplace,
    RandomizedResponse,
    SmoothGaussian,
    Transcript,
    TreeAggregation,
    run,
)
from dpaudit.auditors.replay.exact_loss import query_differences
from dpaudit.auditors.replay.hidden_samples import Unit
from dpaudit.auditors.replay.importance_sampling import TiltedNoise, Tilts, shift
from dpaudit.auditors.statistics.gaussian_pair import epsilon_below
from dpaudit.curator.noise import Entry, LiveNoise
from dpaudit.mechanisms import Asked

Work = Callable[[float, Curator], Any]


def gaussian(data: float, curator: Curator) -> None:
    for scale in (1.0, 2.0):
        curator.release(
            scale * data * np.array([1.0, -2.0]), Gaussian(sigma=1.5, sensitivity=L2(5.0)), label="x"
        )


def laplace(data: float, curator: Curator) -> None:
    curator.release(data * np.array([0.3, -4.0]), Laplace(scale=2.0, sensitivity=L1(5.0)), label="x")


def discrete(data: float, curator: Curator) -> None:
    curator.release([int(data), 3], DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0)), label="x")


def tree(data: float, curator: Curator) -> None:
    stream = curator.stream(TreeAggregation(sigma=2.0, steps=6, sensitivity=L2(2.0)), "x")
    for step in range(5):
        stream.add(data if step in {1, 3} else 0.0)


def function(data: float, curator: Curator) -> None:
    noise = GaussianProcess(sigma=1.0, kernel=ExponentialKernel(beta=2.0), sensitivity=RKHS(9.0))
    curator.function(noise, lambda x: data * x, "x")([0.1, 0.3, 0.7])


def smooth(data: float, curator: Curator) -> None:
    noise = SmoothGaussian(alpha=1.0, beta=0.5, dimension=2, epsilon=1.0, delta=1e-6)
    curator.release_smooth(np.array([data, 0.0]), 1.5, noise, label="x")


def choice(data: float, curator: Curator) -> None:
    curator.select([data, 0.0], Exponential(epsilon=1.0), label="x", score_sensitivity=0.5)
    curator.release(int(data), RandomizedResponse(epsilon=1.0), label="y")


def entries_of(work: Work, data: float, noise: LiveNoise) -> list[Entry]:
    transcript = Transcript()
    run(work, data, noise=noise, transcript=transcript)
    return transcript.entries


def log_density(entries: list[Entry], moved: list[Any]) -> float:
    """Of all outputs, had the queries been these; one release after the other."""
    total = 0.0
    for number in dict.fromkeys(entry.number for entry in entries):
        at = [place for place, entry in enumerate(entries) if entry.number == number]
        asked = [Asked(moved[place], entries[place].scale, entries[place].rows) for place in at]
        found = entries[at[0]].release.mechanism.log_likelihood([entries[place] for place in at], asked)
        assert found is not None
        total += found
    return total


@pytest.mark.parametrize("work", [gaussian, laplace, discrete, tree, function, smooth, choice])
def test_noise_is_moved_as_its_density_says_and_weighed_by_the_quotient(work: Work) -> None:
    pilot, other = (entries_of(work, data, LiveNoise(1)) for data in (1.0, 0.0))
    directions = query_differences(pilot, other)
    tilts = Tilts((0.0, 1.7), (0.05, 0.95))

    def recorded(multiple: float) -> tuple[list[Entry], TiltedNoise]:
        noise = TiltedNoise(np.random.SeedSequence(7), directions, pilot, multiple, [])
        return entries_of(work, 1.0, noise), noise

    still, _ = recorded(0.0)
    live = entries_of(work, 1.0, LiveNoise(np.random.SeedSequence(7)))
    assert all(np.array_equal(a.output, b.output) for a, b in zip(still, live, strict=True))
    for multiple in (0.0, 1.7, -0.6):
        entries, noise = recorded(multiple)
        queries = [entry.query for entry in entries]
        moved = [
            query + shift(entry.release.mechanism, direction, multiple)
            for query, entry, direction in zip(queries, entries, directions, strict=True)
        ]
        # The same noise about queries that were moved: the same density.
        assert log_density(entries, moved) == pytest.approx(log_density(still, queries), abs=1e-9)
        ratios = [
            log_density(
                entries,
                [
                    query + shift(entry.release.mechanism, direction, each)
                    for query, entry, direction in zip(queries, entries, directions, strict=True)
                ],
            )
            - log_density(entries, queries)
            for each in tilts.multiples
        ]
        weight = noise.log_weight(entries, tilts)
        assert weight == pytest.approx(-logsumexp(ratios, b=np.array(tilts.shares)), abs=1e-9)
        assert weight <= -math.log(0.05) + 1e-9
    anything = any(direction.any() for direction in directions)
    assert anything
    assert (work is choice) == all(
        np.array_equal(a.output, b.output) for a, b in zip(still, entries, strict=True)
    )


def test_steps_of_a_sample_are_drawn_apart_from_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each for its own question, and from a seed of their own as soon as one question has any."""
    unit = Unit(0, np.zeros(2), np.zeros(2))
    asked: list[int] = []
    monkeypatch.setattr(TiltedNoise, "_unit", lambda self, position: asked.append(position))
    entries_of(gaussian, 1.0, TiltedNoise(np.random.SeedSequence(7), [], [], 1.0, []))
    assert asked == [0, 1]
    for units in ([None, unit], [unit, None], [unit]):
        noise = TiltedNoise(np.random.SeedSequence(7), [], [], 1.0, units)
        seeds = noise._seed, noise._steps.bit_generator.seed_seq
        assert seeds[0].spawn_key != seeds[1].spawn_key


def test_what_is_added_to_a_query() -> None:
    """Of Laplace noise half a scale at most, of integers whole numbers, and none where nothing is added."""
    direction = np.array([1.0, -3.0, 0.2])
    assert shift(Gaussian(sigma=1.0, sensitivity=L2(1.0)), direction, 2.0).tolist() == [2.0, -6.0, 0.4]
    assert shift(Laplace(scale=3.0, sensitivity=L1(1.0)), direction, 2.0).tolist() == [1.5, -1.5, 0.4]
    assert shift(DiscreteGaussian(sigma=1.0, sensitivity=L2(1.0)), direction, 1.4).tolist() == [
        1.0,
        -4.0,
        0.0,
    ]
    assert shift(RandomizedResponse(epsilon=1.0), direction, 2.0).tolist() == [0.0, 0.0, 0.0]


def test_a_direction_that_does_not_fit_its_question_is_not_used() -> None:
    pilot, other = (entries_of(gaussian, data, LiveNoise(1)) for data in (1.0, 0.0))
    differences = query_differences(pilot, other)

    def outputs(work: Work, directions: list[Any], first: list[Entry]) -> list[Any]:
        noise = TiltedNoise(np.random.SeedSequence(7), directions, first, 2.0, [])
        return [entry.output for entry in entries_of(work, 1.0, noise)]

    still = outputs(gaussian, [], [])
    moved = outputs(gaussian, differences, pilot)
    assert [m - s for m, s in zip(moved, still, strict=True)] == [
        pytest.approx(2.0 * difference, abs=1e-12) for difference in differences
    ]
    infinite = [np.array([math.inf, 0.0]), differences[1]]
    short = [np.array([1.0]), differences[1]]
    for wrong in (infinite, short):
        found = outputs(gaussian, wrong, pilot)
        assert np.array_equal(found[0], still[0])
        assert np.array_equal(found[1], moved[1])
    # Fewer questions than the pilot had, and another mechanism in the place of one.
    assert np.array_equal(outputs(gaussian, differences[:1], pilot[:1])[1], still[1])
    assert np.array_equal(outputs(laplace, differences, pilot)[0], outputs(laplace, [], [])[0])


def test_points_of_a_function_are_moved_where_the_pilot_asked_for_the_same() -> None:
    def at(points: list[float]) -> Work:
        noise = GaussianProcess(sigma=1.0, kernel=ExponentialKernel(beta=2.0), sensitivity=RKHS(9.0))
        return lambda data, curator: curator.function(noise, lambda x: data * x, "x")(points)

    pilot, other = (entries_of(at([0.1, 0.3]), data, LiveNoise(1)) for data in (1.0, 0.0))
    directions = query_differences(pilot, other)
    for points, used in (([0.1, 0.3], True), ([0.1, 0.4], False)):
        moved, still = (
            entries_of(at(points), 1.0, TiltedNoise(np.random.SeedSequence(7), given, pilot, 1.0, []))
            for given in (directions, [np.zeros_like(one) for one in directions])
        )
        assert used is not np.array_equal(moved[-1].output, still[-1].output)


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-5), (0.01, 0.1), (30.0, 1e-3)])
def test_the_loss_is_shifted_to_where_it_exceeds_epsilon(mu: float, delta: float) -> None:
    """At a multiple m a Gaussian pair's loss has the mean mu^2 (m + 1/2); a third of its deviation beyond."""
    tilts = Tilts.toward(mu, delta)
    assert tilts.shares == (0.05, 0.95)
    still, multiple = tilts.multiples
    assert still == 0.0
    at = epsilon_below(delta, mu)
    assert multiple == pytest.approx(max(0.0, at / mu**2 - 0.5) + 1.0 / (3.0 * mu), rel=1e-9)
    for nothing in (0.0, 1e6, math.inf, math.nan):
        assert Tilts.toward(nothing, delta) == Tilts((0.0,), (1.0,))
