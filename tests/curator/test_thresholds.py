"""Comparisons with a noisy threshold: one release, which ends where its charge does."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpaudit import (
    L1,
    L2,
    Curator,
    GaussianSparseVector,
    Header,
    Ledger,
    LiveNoise,
    NoNoise,
    SparseVector,
)
from dpaudit.accountants.filters.filters import PureFilter
from dpaudit.errors import BudgetExceeded, InvalidParameter, NormMismatch, ScheduleBroken

SPARSE = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=2)


def curator(noise: Any = None, **options: Any) -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring="replace-one")
    return Curator(Ledger(header), noise or LiveNoise(), **options)


def test_it_answers_without_noise_as_written_and_ends_after_enough_yeses() -> None:
    made = curator(NoNoise())
    comparisons = made.sparse_vector(SPARSE, "large", threshold=2.0)
    assert [comparisons.above(value) for value in (1.0, 2.0, -5.0)] == [False, True, False]
    assert not comparisons.ended
    assert comparisons.above(0.0, threshold=-1.0)
    assert comparisons.ended
    with pytest.raises(ScheduleBroken, match="enough values said yes"):
        comparisons.above(1.0)
    assert [release.mechanism for release in made.ledger.releases] == [SPARSE]


def test_the_gaussian_one_ends_after_its_steps() -> None:
    mechanism = GaussianSparseVector(sigma=1.0, sensitivity=L2(1.0), steps=3)
    comparisons = curator(NoNoise()).sparse_vector(mechanism, "large")
    assert [comparisons.above(-1.0) for _ in range(3)] == [False] * 3
    assert comparisons.ended
    with pytest.raises(ScheduleBroken, match="3 values were compared"):
        comparisons.above(1.0)


@pytest.mark.parametrize("noise", [LiveNoise(), LiveNoise(seed=1)])
def test_far_values_are_answered_right_and_the_whole_is_charged_at_once(noise: LiveNoise) -> None:
    made = curator(noise)
    comparisons = made.sparse_vector(SPARSE, "large")
    assert len(made.ledger.releases) == 1
    assert [comparisons.above(value) for value in (-1e6, 1e6, -1e300, 1e300)] == [False, True, False, True]
    assert len(made.ledger.releases) == 1


def test_a_budget_is_charged_before_the_first_value() -> None:
    made = curator(budget=PureFilter(1.5))
    made.sparse_vector(SPARSE, "first")
    with pytest.raises(BudgetExceeded):
        made.sparse_vector(SPARSE, "second")
    assert [release.label for release in made.ledger.releases] == ["first"]


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, 2.0], [], "much", None])
def test_what_is_no_number_is_refused_and_ends_nothing(value: Any) -> None:
    comparisons = curator(NoNoise()).sparse_vector(SPARSE, "large")
    with pytest.raises(InvalidParameter):
        comparisons.above(value)
    if value is not None:
        with pytest.raises(InvalidParameter):
            comparisons.above(0.0, threshold=value)
    assert comparisons.above(1.0)


def test_a_threshold_that_is_no_number_writes_nothing() -> None:
    made = curator()
    with pytest.raises(InvalidParameter):
        made.sparse_vector(SPARSE, "large", threshold=math.inf)
    assert made.ledger.releases == ()


def test_the_norm_is_checked() -> None:
    with pytest.raises(NormMismatch):
        SparseVector(epsilon=1.0, sensitivity=L2(1.0))
    with pytest.raises(NormMismatch):
        GaussianSparseVector(sigma=1.0, sensitivity=L1(1.0), steps=2)
