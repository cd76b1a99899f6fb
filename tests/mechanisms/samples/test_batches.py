"""Samples of fixed and of bounded size: who is drawn, what the curator refuses, and what it writes."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit import Neighbouring
from dpaudit.errors import InputError, InvalidParameter, SensitivityTooSmall
from dpaudit.mechanisms import (
    FixedSizeSampled,
    OnSample,
    OpaquePureDP,
    PoissonSampled,
    TruncatedPoissonSampled,
)
from dpaudit.noise.randomness import Randomness
from tests import make
from tests.make import curator

QUIET = make.gaussian(1e-6, 2.0)
UNITS, TRIALS = 5, 20_000


def counted(mechanism: OnSample, randomness: Randomness, trials: int = TRIALS) -> Counter[tuple[int, ...]]:
    drawn = (np.flatnonzero(mechanism.chosen(UNITS, randomness)) for _ in range(trials))
    return Counter(tuple(one.tolist()) for one in drawn)


def fits(found: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> bool:
    """Whether every frequency is within 6 standard deviations: by chance not, once in 1e7."""
    assert set(found) <= set(expected)
    trials = found.total()
    return all(
        abs(found[one] - trials * p) <= 6.0 * math.sqrt(trials * p * (1.0 - p)) + 1e-9
        for one, p in expected.items()
    )


@pytest.mark.parametrize("seed", [3, None])
def test_every_subset_is_as_likely_as_it_should_be(seed: int | None, nightly: bool) -> None:
    """By day the system's bits draw a quarter as often, and the planted faults are a seed's alone."""
    randomness = Randomness.live(seed)
    trials = TRIALS if nightly or seed is not None else TRIALS // 4
    size = FixedSizeSampled(size=3, units=UNITS, mechanism=QUIET)
    subsets = list(itertools.combinations(range(UNITS), 3))
    alike = dict.fromkeys(subsets, 1.0 / len(subsets))
    assert fits(counted(size, randomness, trials), alike)
    capped = TruncatedPoissonSampled(rate=0.4, most=2, units=UNITS, mechanism=QUIET)
    expected: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product((0, 1), repeat=UNITS):
        kept = list(itertools.combinations(np.flatnonzero(drawn).tolist(), min(sum(drawn), 2)))
        for one in kept:
            weight = 0.4 ** sum(drawn) * 0.6 ** (UNITS - sum(drawn)) / len(kept)
            expected[one] = expected.get(one, 0.0) + weight
    found = counted(capped, randomness, trials)
    assert fits(found, expected)
    if trials < TRIALS:
        return
    # The test is none that everything passes: another rate, and keeping the first ones.
    assert not fits(counted(capped.model_copy(update={"rate": 0.44}), randomness), expected)
    first = Counter({one: found[one] + (3 if one == (0, 1) else 0) * TRIALS // 50 for one in expected})
    assert not fits(first, expected)


@pytest.mark.parametrize("size", [1, 4, 9, 10])
def test_a_subset_has_its_size(size: int) -> None:
    randomness = Randomness.live(None)
    for _ in range(20):
        assert randomness.subset(10, size).sum() == size


def test_the_probability_of_a_units_place_is_at_least_its_share_and_at_most_one() -> None:
    for size, units in ((1, 3), (2, 3), (3, 3), (10**6, 10**6)):
        found = FixedSizeSampled(size=size, units=units, mechanism=QUIET).most_likely
        assert Fraction(size, units) <= Fraction(found) <= 1
        assert found <= size / units * (1 + 1e-15)


def test_the_curator_draws_the_sample_and_writes_what_it_rests_on() -> None:
    run = curator(Neighbouring.REPLACE_ONE)
    for mechanism, drawn, near in (
        (FixedSizeSampled(size=7, units=40, mechanism=QUIET), 7.0, 1e-3),
        (TruncatedPoissonSampled(rate=1.0, most=9, units=40, mechanism=QUIET), 9.0, 1e-3),
        (FixedSizeSampled(size=7, units=40, mechanism=make.discrete_laplace(1e-3, 2.0)), 7.0, 0.0),
    ):
        found = run.release_sum(np.ones((40, 1)), bound=1.0, mechanism=mechanism, label="a")
        assert float(found[0]) == pytest.approx(drawn, abs=near)
    for release in run.ledger.releases:
        assert isinstance(release.mechanism, OnSample)
        assert release.mechanism.contribution == 1.0
        assert release.mechanism.sensitivity.basis == "clipped"


@pytest.mark.parametrize("relation", list(Neighbouring))
def test_a_unit_that_makes_place_for_another_moves_the_sum_by_both(relation: Neighbouring) -> None:
    """Under every relation, as another unit is sampled in its place."""
    inner = make.gaussian(1.0)
    for mechanism in (
        FixedSizeSampled(size=2, units=4, mechanism=inner),
        TruncatedPoissonSampled(rate=0.5, most=2, units=4, mechanism=inner),
    ):
        with pytest.raises(SensitivityTooSmall):
            curator(relation).release_sum(np.ones((4, 1)), bound=1.0, mechanism=mechanism, label="a")


@pytest.mark.parametrize(
    ("relation", "fewer", "more"),
    [
        (Neighbouring.REPLACE_ONE, (False, False), (False, False)),
        (Neighbouring.ZERO_OUT, (False, False), (False, False)),
        (Neighbouring.ADD_OR_REMOVE_ONE, (False, True), (True, False)),
    ],
)
def test_another_number_of_units_is_refused(
    relation: Neighbouring, fewer: tuple[bool, bool], more: tuple[bool, bool]
) -> None:
    mechanisms: tuple[OnSample, ...] = (
        FixedSizeSampled(size=2, units=4, mechanism=QUIET),
        TruncatedPoissonSampled(rate=0.5, most=2, units=4, mechanism=QUIET),
    )
    for units, allowed in ((3, fewer), (4, (True, True)), (5, more)):
        for mechanism, fine in zip(mechanisms, allowed, strict=True):
            run = curator(relation)
            if fine:
                run.release_sum(np.ones((units, 1)), bound=1.0, mechanism=mechanism, label="a")
            else:
                with pytest.raises(InvalidParameter, match=f"{'fewer' if units < 4 else 'more'} units"):
                    run.release_sum(np.ones((units, 1)), bound=1.0, mechanism=mechanism, label="a")
                assert not run.ledger.releases


def test_what_adds_no_noise_to_a_sum_is_refused() -> None:
    stated: Any = PoissonSampled(rate=0.5, mechanism=OpaquePureDP(epsilon=1.0, justification="x"))
    run = curator(Neighbouring.REPLACE_ONE)
    with pytest.raises(InputError, match="it adds no noise to sums"):
        run.release_sum(np.ones((4, 1)), bound=1.0, mechanism=stated, label="a")
    assert not run.ledger.releases
    run.release_opaque(1.0, lambda value, generator: value, stated, label="a")
