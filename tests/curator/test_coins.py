"""Forced samples satisfy their draw's equations, have the sizes that a mechanism allows, and differ."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import (
    L2,
    Curator,
    FixedSizeSampled,
    Gaussian,
    Header,
    Ledger,
    LiveNoise,
    NoNoise,
    PoissonSampled,
    TruncatedPoissonSampled,
)
from dpaudit.curator.coins import RUNS, Coins, ForcedSamples, equations
from dpaudit.curator.noise import Transcript

NOISE = Gaussian(sigma=1.0, sensitivity=L2(2.0))


def poisson(rate: float = 0.1) -> PoissonSampled:
    return PoissonSampled(rate=rate, mechanism=NOISE)


def fixed(size: int, units: int) -> FixedSizeSampled:
    return FixedSizeSampled(size=size, units=units, mechanism=NOISE)


def truncated(most: int, units: int) -> TruncatedPoissonSampled:
    return TruncatedPoissonSampled(rate=0.5, most=most, units=units, contribution=2.0, mechanism=NOISE)


def drawn(mechanism: Any, units: int, seed: int, draws: int) -> Any:
    """Who is in each draw of each run: [draws, RUNS, units]; None where no two samples differ."""
    runs = [Coins(seed, run) for run in range(RUNS)]
    made = [[coins.draw(mechanism, units) for coins in runs] for _ in range(draws)]
    numbers = {one.number for each in made for one in each}
    if numbers == {None}:
        return None
    assert numbers == set(range(draws))
    return np.array([[one.chosen for one in each] for each in made])


@given(
    units=st.integers(2, 40), size=st.integers(1, 40), seed=st.integers(0, 2**32 - 1), kind=st.integers(0, 2)
)
def test_the_sums_of_right_samples_are_zero(units: int, size: int, seed: int, kind: int) -> None:
    size = min(size, units)
    mechanism = (poisson(), fixed(size, units), truncated(size, units))[kind]
    chosen = drawn(mechanism, units, seed, 7)
    if chosen is None:
        assert (kind == 1 and size == units) or (kind == 2 and size == 1)
        return
    for number, each in enumerate(chosen.astype(int)):
        assert not (equations(seed, number, mechanism) @ each).any()
        sizes = each.sum(axis=1)
        likely = (0.9, 0.0, 0.5)[kind] ** units > 1e-3  # that nobody is drawn
        assert sizes.min() == 0 if likely else sizes.min() >= 1
        assert kind != 1 or set(sizes) == {size}
        assert kind != 2 or sizes.max() <= size
        # The samples differ: else a sum over any rows would do.
        assert len({row.tobytes() for row in each}) > 1


@pytest.mark.parametrize(
    ("mechanism", "units", "sizes", "different"),
    [
        (poisson(0.2), 100, {50, 100, 10, 90}, 5),  # a few: half of the expected 20
        (truncated(2, 12), 12, {1, 2}, 3),  # half of what may be kept, and at least one
        (fixed(1, 2), 2, {1}, 2),
        (fixed(5, 6), 6, {5}, 2),
        (fixed(5, 7), 7, {5}, 4),
        (fixed(4, 9), 9, {4}, 4),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_sizes_of_forced_samples(
    mechanism: Any, units: int, sizes: set[int], different: int, seed: int
) -> None:
    for each in drawn(mechanism, units, seed, RUNS):
        assert set(each.sum(axis=1)) == sizes
        assert len({row.tobytes() for row in each}) == different


@pytest.mark.parametrize(("rate", "few"), [(0.02, 1), (0.04, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_every_third_draw_has_few_units_where_nobody_is_drawn_too(rate: float, few: int, seed: int) -> None:
    for number, each in enumerate(drawn(poisson(rate), 101, seed, 7)):
        parts = {few, 101 - few} if number % 3 == 2 else {50, 51}
        assert set(each.sum(axis=1)) == {*parts, 0, 101}
        assert len({row.tobytes() for row in each}) == 4


@given(seed=st.integers(0, 2**32 - 1), kind=st.booleans())
def test_a_sample_of_another_draw_does_not_do(seed: int, kind: bool) -> None:
    """Rows in general position: what satisfies the equations of a draw is over its own samples."""
    mechanism: Any = fixed(5, 20) if kind else poisson()
    rows = np.random.default_rng(1).normal(size=20)
    chosen = drawn(mechanism, 20, seed, 5)
    for own, other in itertools.permutations(range(5), 2):
        assert np.abs(equations(seed, own, mechanism) @ (chosen[other] @ rows)).max() > 1e-6


@pytest.mark.parametrize("units", [0, 1])
def test_nothing_is_forced_where_no_two_samples_differ(units: int) -> None:
    assert drawn(poisson(), units, 3, 2) is None
    assert drawn(poisson(1.0), 9, 3, 2) is None


def test_one_unit_alone_is_drawn_in_samples_of_any_size() -> None:
    for mechanism in (poisson(), truncated(3, 8)):
        for place in (0, 7, 8, 21):
            (chosen,) = {Coins(3, 0, place).draw(mechanism, 8).chosen.tobytes() for _ in range(2)}
            assert np.flatnonzero(np.frombuffer(chosen, dtype=np.bool_)).tolist() == [place % 8]
    assert Coins(3, 0, 2).draw(poisson(), 0).number is None
    usual = Coins(3, 0).draw(fixed(3, 8), 8)
    assert Coins(3, 0, 2).draw(fixed(3, 8), 8).chosen.tolist() == usual.chosen.tolist()


def curator(noise: Any, **options: Any) -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring="replace-one")
    return Curator(Ledger(header), noise, **options)


def test_a_forced_batch_is_the_sum_of_its_rows_with_its_noise() -> None:
    rows, kept = np.eye(8), Transcript()
    own = curator(ForcedSamples(LiveNoise(1), Coins(5, 0)), transcript=kept)
    batches = own.batches(poisson(), "gradient", (8,), bound=1.0)
    for _ in range(3):
        batches.add(rows[batches.draw(8)])
        batches.noisy()
    for number, entry in enumerate(kept.entries):
        chosen = Coins(5, 0)
        for _ in range(number + 1):
            sample = chosen.draw(poisson(), 8)
        assert entry.batch == sample.number == number
        assert entry.query.tolist() == sample.chosen.astype(float).tolist()
        assert entry.rows is not None
        assert len(entry.rows) == sample.chosen.sum()
        assert np.abs(entry.output - entry.query).max() < 8.0
    exact = curator(ForcedSamples(NoNoise(), Coins(5, 0))).batches(poisson(), "g", (8,), bound=1.0)
    places = exact.draw(8)
    exact.add(rows[places])
    assert np.flatnonzero(exact.noisy() > 0.5).tolist() == places.tolist()


def test_sums_that_the_curator_draws_are_left_to_it() -> None:
    kept = Transcript()
    own = curator(ForcedSamples(LiveNoise(1), Coins(5, 0)), transcript=kept)
    own.release_sum(np.eye(8), bound=1.0, mechanism=poisson(), label="sum")
    assert kept.entries[0].batch is None
    assert kept.entries[0].query.tolist() == [1.0] * 8
