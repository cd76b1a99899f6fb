"""Streams whose items are sums of contributions that the curator clips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit import L2, Curator, Gaussian, MatrixMechanism, NoNoise, Toeplitz, TreeAggregation, run
from dpaudit.curator.noise import Question
from dpaudit.errors import InvalidParameter, SensitivityTooSmall
from dpaudit.mechanisms import Array

ADDED: Any = {"neighbouring": "add-or-remove-one"}
ROWS = np.random.default_rng(2).normal(size=(3, 7, 4)) * 3.0  # of seven units at three steps
TREE = TreeAggregation(sigma=2.0, sensitivity=L2(0.5), steps=3)
BANDED = MatrixMechanism(sigma=2.0, sensitivity=L2(0.5), steps=3, strategy=Toeplitz(coefficients=(1.0, 0.5)))


def sums(rows: Array, curator: Curator, mechanism: Any = TREE, bound: float | None = 0.5) -> list[Array]:
    stream = curator.stream(mechanism, "sums", (4,), bound=bound)
    return [stream.add(step) for step in rows]


@pytest.mark.parametrize("mechanism", [TREE, BANDED])
def test_each_contribution_is_clipped_and_the_ledger_says_so(mechanism: Any) -> None:
    made = run(lambda rows, curator: sums(rows, curator, mechanism), ROWS, noise=NoNoise(), **ADDED)
    clipped = ROWS / np.maximum(1.0, np.linalg.norm(ROWS, axis=2, keepdims=True) / 0.5)
    np.testing.assert_allclose(made.output, clipped.sum(axis=1).cumsum(axis=0), atol=1e-8)
    (release,) = made.ledger
    assert release.mechanism.sensitivity.basis == "clipped"


def test_one_unit_moves_an_item_by_at_most_the_bound() -> None:
    whole = run(sums, ROWS, noise=NoNoise(), **ADDED).output
    for unit in range(7):
        others = np.delete(ROWS, unit, axis=1)
        moved = np.diff(
            np.array(whole) - np.array(run(sums, others, noise=NoNoise(), **ADDED).output), axis=0
        )
        assert np.linalg.norm(moved, axis=1).max() <= 0.5 * (1.0 + 1e-12)


class Asked(NoNoise):
    """No noise, and what noise would have been added to."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Any] = []

    def answer(self, question: Question) -> Array:
        self.given += question.given
        return super().answer(question)


@pytest.mark.parametrize("mechanism", [TREE, BANDED])
def test_noise_is_added_to_the_exact_sum_of_contributions(mechanism: Any) -> None:
    """Past 2^53 steps of the grid the nearest doubles differ by more than the unit's contribution."""
    bound, step = 0.5, 0.5 / 2**39
    rest = np.full((2**16, 1), bound)
    rest[0] = (2**38 + 5) * step  # 2^55 - 2^38 + 5 steps in all, which no double is
    sums = []
    for rows in (rest, np.vstack([rest, [[bound]]])):
        noise = Asked()
        run(
            lambda data, held: held.stream(mechanism, "s", (1,), bound=bound).add(data),
            rows,
            noise=noise,
            **ADDED,
        )
        sums += noise.given
    without, with_unit = sums
    assert int(with_unit.integers[0]) - int(without.integers[0]) == 2**39
    assert with_unit.to_doubles()[0] - without.to_doubles()[0] > bound


def test_without_a_bound_the_sensitivity_is_declared() -> None:
    (release,) = run(lambda rows, curator: sums(rows.sum(axis=1), curator, bound=None), ROWS).ledger
    assert release.mechanism.sensitivity.basis == "declared"


def test_a_sensitivity_below_the_bound_is_refused() -> None:
    with pytest.raises(SensitivityTooSmall):
        run(lambda rows, curator: sums(rows, curator, bound=0.6), ROWS, **ADDED)
    for bound in (0.5, 0.26):  # of a replaced unit twice the bound
        with pytest.raises(SensitivityTooSmall):
            run(lambda rows, curator, b=bound: sums(rows, curator, bound=b), ROWS, neighbouring="replace-one")


@pytest.mark.parametrize("rows", [1.0, np.zeros(4), np.zeros((2, 3)), np.zeros((2, 4, 1))])
def test_what_is_no_table_of_contributions_is_refused(rows: Any) -> None:
    with pytest.raises(InvalidParameter, match="sums"):
        run(lambda data, curator: sums([data], curator), rows, **ADDED)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bound_is_a_positive_number(bound: float) -> None:
    with pytest.raises(InvalidParameter):
        run(lambda rows, curator: sums(rows, curator, bound=bound), ROWS, **ADDED)


def test_what_is_no_stream_is_refused_with_a_bound_too() -> None:
    noise: Any = Gaussian(sigma=1.0, sensitivity=L2(0.5))
    with pytest.raises(InvalidParameter, match="no steps"):
        run(lambda rows, curator: sums(rows, curator, noise), ROWS)


def test_a_stream_of_numbers_takes_one_contribution_per_unit() -> None:
    """Not their sum, of which nobody knows what a unit's part is; nor contributions of another shape."""

    def numbers(item: Any, curator: Curator) -> Array:
        return curator.stream(TREE, "numbers", (), bound=0.5).add(item)

    added = run(numbers, [0.25, 3.0, -0.125], noise=NoNoise(), **ADDED).output
    assert added == pytest.approx(0.25 + 0.5 - 0.125, abs=1e-9)
    for wrong in (0.25, [[0.25], [3.0]]):
        with pytest.raises(InvalidParameter, match=r"contributions of shape .* in a stream of \(\)"):
            run(numbers, wrong, noise=NoNoise(), **ADDED)
    with pytest.raises(InvalidParameter, match=r"contributions of shape \(7, 3\) in a stream of \(4,\)"):
        run(sums, [np.ones((7, 3))], noise=NoNoise(), **ADDED)
