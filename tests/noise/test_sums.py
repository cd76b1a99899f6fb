"""Sums on a grid are exact: the same for any order, any split, and past 2^62 steps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpaudit.noise import sums
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.sums import gram, total

LARGEST = 2**40
STEPS = st.integers(-LARGEST, LARGEST) | st.sampled_from(
    [LARGEST, -LARGEST, LARGEST - 1, 2**20, -(2**20), -1]
)
ROWS = arrays(np.int64, st.tuples(st.integers(0, 9), st.integers(1, 3)), elements=STEPS)


def by_hand(rows: Any) -> list[int]:
    return [sum(column) for column in zip(*rows.tolist(), strict=True)] if len(rows) else [0] * rows.shape[1]


def gram_by_hand(rows: Any) -> list[list[int]]:
    listed = rows.tolist()
    return [[sum(x[i] * x[j] for x in listed) for j in range(rows.shape[1])] for i in range(rows.shape[1])]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows make several products and several blocks of them."""
    monkeypatch.setattr(sums, "_ROWS", 2)
    monkeypatch.setattr(sums, "_BLOCK", 5)


@given(rows=ROWS)
def test_totals_and_gram_matrices_are_those_of_pythons_integers(rows: Any) -> None:
    found = total(OnGrid(rows, -7))
    assert found.integers.dtype == np.int64
    assert (found.integers.tolist(), found.exponent) == (by_hand(rows), -7)
    product = gram(OnGrid(rows, -7))
    assert (product.integers.tolist(), product.exponent) == (gram_by_hand(rows), -14)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_add_up() -> None:
    rng = np.random.default_rng(3)
    for n in (1, 4, 5, 6, 10, 11, 23):
        rows = rng.integers(-LARGEST, LARGEST, (n, 3), endpoint=True)
        assert gram(OnGrid(rows, 0)).integers.tolist() == gram_by_hand(rows)
        # 2^60 steps a row: five of them are past 2^62, and a block of three fits.
        large = rng.integers(2**59, 2**60, (n, 2))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sums, "_BLOCK", 3)
            found = total(OnGrid(large, 0))
            of_numbers = total(OnGrid(large[:, 0], 0))
        assert (found.integers.dtype == object) == (n >= 5 or n * int(large.max()) >= 2**62)
        assert found.integers.tolist() == by_hand(large)
        assert of_numbers.integers.tolist() == sum(large[:, 0].tolist())


def test_the_largest_products_of_one_block_are_exact() -> None:
    """2^11 rows whose limbs are as large as they can be: sums of 2^53, which doubles just hold."""
    rows = np.full((2**11, 2), LARGEST - 1)
    rows[::2, 1] *= -1
    rows[0, 1] += 1
    assert gram(OnGrid(rows, 0)).integers.tolist() == gram_by_hand(rows)


def test_more_rows_than_one_product_of_doubles_can_add() -> None:
    rows = np.full((2**13 + 1, 2), LARGEST - 1)
    rows[::3, 1] *= -1
    assert gram(OnGrid(rows, 0)).integers.tolist() == gram_by_hand(rows)
    many = np.full((2**21 + 5, 1), LARGEST - 1)
    assert gram(OnGrid(many, 0)).integers.tolist() == [[len(many) * (LARGEST - 1) ** 2]]


def test_sums_past_int64_of_many_rows() -> None:
    """More rows than int64 can add, of a column and of numbers."""
    n, most = 2**22 + 3, 2**42 - 1
    numbers = np.full(n, most)
    assert int(total(OnGrid(numbers, 0)).integers) == n * most
    assert total(OnGrid(-numbers[:, None], 0)).integers.tolist() == [-n * most]


@given(rows=ROWS, data=st.data())
def test_neither_order_nor_split_matters(rows: Any, data: Any) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    cut = data.draw(st.integers(0, len(rows)))
    for add in (total, gram):
        whole = add(OnGrid(rows, 0)).integers
        assert np.array_equal(whole, add(OnGrid(rows[list(order)], 0)).integers)
        parts = [add(OnGrid(part, 0)).integers for part in (rows[:cut], rows[cut:])]
        assert np.array_equal(whole, parts[0] + parts[1])
