"""Clipped rows, tables of counts and bounds, each compared with exact rational numbers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.noise import contributions
from dpaudit.noise.contributions import (
    _limit,
    _shortened,
    _squared_multiplicities,
    _too_long,
    clip_rows,
    clipped_sum,
    count_cells,
    holding_whole,
    square_above,
)

BOUNDS = [0.3, 1.0, math.sqrt(2.0), 1e-200, 1e200, *(1.0 + k / 16 for k in range(16))]


def size(row: Any, norm: str) -> Fraction:
    """The L1 norm, or the square of the Euclidean one."""
    return sum((abs(Fraction(x)) if norm == "l1" else Fraction(x) ** 2 for x in row), Fraction(0))


def test_a_bound_that_is_a_root_of_a_whole_number_holds_it_and_no_other_bound_grows() -> None:
    for n in range(1, 300):
        found = holding_whole(math.sqrt(n))
        assert Fraction(found) ** 2 >= n
        assert Fraction(math.nextafter(found, 0.0)) ** 2 < n
        for other in (math.sqrt(n) * (1 - 2.0**-50), math.sqrt(n) * (1 + 2.0**-50)):
            assert holding_whole(other) == other
    for other in (0.3, 1.5, 1e300, math.inf):
        assert holding_whole(other) == other


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_square_is_the_least_double_that_is_not_below_it(bound: float) -> None:
    found = square_above(bound)
    if found < math.inf and bound > 1e-150:
        assert Fraction(math.nextafter(found, 0.0)) < Fraction(bound) ** 2 <= Fraction(found)
    assert found == math.inf or Fraction(found) >= Fraction(bound) ** 2
    assert square_above(-1.0) < 0.0
    assert square_above(math.inf) == math.inf


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("bound", [0.3, 1.0, 3.0, 1e-200])
def test_rows_within_the_bound_are_cut_to_the_grid_and_others_go_to_it(norm: str, bound: float) -> None:
    exponent = math.frexp(bound)[1] - 40
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(200, 4)) * bound * rng.choice([1e-3, 0.3, 1.0, 1e3, 1e300], (200, 1))
    rows[:20] = 0.0
    rows[np.arange(20), np.arange(20) % 4] = bound * np.array([1, -1] * 10)  # at the bound itself
    clipped = clip_rows(rows, bound, norm, exponent)
    assert clipped.exponent == exponent
    limit = Fraction(bound) ** (1 if norm == "l1" else 2)
    grid = Fraction(2) ** exponent
    for row, steps in zip(rows.tolist(), clipped.integers.tolist(), strict=True):
        found = [m * grid for m in steps]
        assert size(found, norm) <= limit
        if size(row, norm) <= limit * (1 - Fraction(1, 2**40)):
            assert steps == [math.trunc(Fraction(x) / grid) for x in row]
        else:
            assert size(found, norm) >= limit * (1 - Fraction(1, 2**35))
            length = float(size([x / max(map(abs, row)) for x in row], norm)) ** (
                1.0 if norm == "l1" else 0.5
            )
            expected = [x / max(map(abs, row)) / length * bound for x in row]
            assert [float(x) for x in found] == pytest.approx(expected, abs=4 * float(grid))


def test_a_row_that_is_not_finite_becomes_nothing_and_leaves_the_others() -> None:
    rows = np.array([[math.nan, 0.5], [0.5, 0.25], [math.inf, 0.0], [0.0, -math.inf], [-0.5, 0.5]])
    assert clip_rows(rows, 1.0, "l2", -3).integers.tolist() == [[0, 0], [4, 2], [0, 0], [0, 0], [-4, 4]]
    assert clip_rows(rows, 1.0, "l2", -3, nonnegative=True).integers[-1].tolist() == [0, 4]


def test_shapes_are_kept_and_a_single_number_is_refused() -> None:
    assert clip_rows(np.ones((3, 2, 2)), 9.0, "l2", 0).integers.tolist() == np.ones((3, 2, 2)).tolist()
    assert clip_rows(np.zeros((0, 2)), 1.0, "l1", 0).integers.shape == (0, 2)
    with pytest.raises(InvalidParameter, match=r"shape \(\)"):
        clip_rows(np.array(1.0), 1.0, "l2", 0)


def test_limits_are_whole_numbers_of_steps() -> None:
    assert _limit(1.5, "l1", -3) == 12
    assert _limit(1.5, "l2", -3) == 144
    assert _limit(0.3, "l1", 0) == 0
    assert _limit(math.sqrt(3.0), "l2", 0) == 2  # the double is just below the root


@pytest.mark.parametrize(
    "cells", [np.zeros(3, dtype=int), np.zeros((2, 2)), np.array([[0, 4]]), np.array([[-1, 0]])]
)
def test_cells_that_are_no_cells_are_refused(cells: Any) -> None:
    with pytest.raises(InvalidParameter):
        count_cells(cells, (2, 2), 2.0, "l2", -30)


def test_counts_of_units_within_the_bound_are_whole() -> None:
    cells = np.array([[0, 3], [3, 3], [1, 0]])
    for norm, bound in (("l1", 2.0), ("l2", 2.0)):
        table = count_cells(cells, (2, 2), bound, norm, -30)
        assert (table.integers.tolist(), table.exponent) == ([[2, 1], [0, 3]], 0)
    nobody = count_cells(np.zeros((0, 2), dtype=int), (2, 2), 1.0, "l1", -30)
    assert (nobody.integers.tolist(), nobody.exponent) == ([[0, 0], [0, 0]], 0)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_unit_past_the_bound_counts_as_much_as_fits(norm: str) -> None:
    """Units within the bound and past it, and each by itself, against the largest that fits."""
    cells, exponent = np.array([[0, 1, 2], [3, 3, 3], [1, 1, 2]]), -20
    bound = 3.0 if norm == "l1" else math.sqrt(5.0)
    table = count_cells(cells, (4,), bound, norm, exponent)
    limit = Fraction(bound) if norm == "l1" else Fraction(bound) ** 2
    steps = Fraction(2) ** exponent
    for listed in cells.tolist():
        times = [listed.count(cell) for cell in range(4)]
        alone = count_cells(np.array([listed]), (4,), bound, norm, exponent)
        own = [int(m) * Fraction(2) ** alone.exponent for m in alone.integers]
        assert size(own, norm) <= limit
        if size(times, norm) <= limit:
            assert own == times
        else:
            assert size([x + steps * t for x, t in zip(own, times, strict=True)], norm) > limit
    whole = [Fraction(0)] * 4
    for listed in cells.tolist():
        alone = count_cells(np.array([listed]), (4,), bound, norm, exponent)
        whole = [
            x + int(m) * Fraction(2) ** alone.exponent for x, m in zip(whole, alone.integers, strict=True)
        ]
    assert [int(m) * Fraction(2) ** table.exponent for m in table.integers] == whole


def test_squares_of_how_often_a_cell_is_listed() -> None:
    cells = np.array([[1, 1, 1, 2], [0, 1, 2, 3], [5, 0, 5, 0], [7, 7, 7, 7]])
    assert _squared_multiplicities(cells).tolist() == [10, 4, 8, 16]


def test_a_unit_past_the_bound_counts_exactly_on_a_grid_finer_than_int64() -> None:
    """Twenty units of 2^60 steps and more in one cell, none in another."""
    cells = np.zeros((20, 3), dtype=np.int64)
    cells[:, 2] = 1
    table = count_cells(cells, (3,), 2.0, "l1", -60)
    most = 2 * 2**60 // 3
    assert [int(m) for m in table.integers] == [40 * most, 20 * most, 0]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_only_rows_past_the_limit_are_told_apart_from_those_at_it(norm: str) -> None:
    rows = np.array([[0, 1], [3 * 2**30, 4 * 2**30], [-3 * 2**30, -4 * 2**30 - 1]])
    limit = 7 * 2**30 if norm == "l1" else 25 * 2**60
    assert _too_long(rows, limit, norm).tolist() == [False, False, True]


def test_a_row_is_shortened_to_whole_steps_without_rounding_up() -> None:
    """The quotient of the second entry is a whole number less 1e-12 of a step, which doubles round up."""
    size = 2**41 + 9
    limit = pow(-(2**40), -1, size)  # 2^40 times it is one less than a multiple of the size
    for sign in (1, -1):
        found = _shortened([0, sign * 2**40, size - 2**40], limit, "l1")
        assert found == [0, sign * ((2**40 * limit + 1) // size - 1), (size - 2**40) * limit // size]
    limit = 10**24 + 12345
    found = _shortened([10**12, -(10**12) // 3, 7], limit, "l2")
    assert limit * (1 - Fraction(1, 10**11)) < sum(m * m for m in found) <= limit
    assert found[0] > 0 > found[1]


def rows_of_all_sizes() -> Any:
    """Far below the bound, at it to the last digit, just above it, far above it, extreme, and none."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(40, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    sizes = [1e-3, 1.0, 1.0 + 2.0**-52, 1.0 + 2.0**-44, 1.0 - 2.0**-44, 3.0, 1e90, 1e-180, 1e300, 0.0]
    rows *= np.repeat(sizes, 4)[:, None]
    rows[0, 3], rows[5, 2] = np.nan, np.inf
    return rows


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("bound", [1.0, 0.3])
def test_a_sum_is_that_of_rows_none_of_which_exceeds_the_bound(norm: str, bound: float) -> None:
    """Norms in rational numbers; a row is what it is among others, and what `clip_rows` makes of it."""
    rows, exponent = rows_of_all_sizes(), -36
    alone = [clipped_sum(row[None], bound, norm, exponent).integers for row in rows]
    most = Fraction(bound) if norm == "l1" else Fraction(bound) ** 2
    for integers in alone:
        assert size([Fraction(int(m)) * Fraction(2) ** exponent for m in integers], norm) <= most
    assert clipped_sum(rows, bound, norm, exponent).integers.tolist() == np.sum(alone, axis=0).tolist()
    like = clip_rows(rows, bound, norm, exponent).integers
    assert np.abs(np.array(alone) - like).max() <= 1 + 2.0**-exponent * bound * 29 * 2.0**-51


def test_a_sum_of_rows_in_single_precision_is_that_of_their_doubles() -> None:
    rows = np.random.default_rng(8).normal(size=(300, 700)).astype(np.float32)
    both = [clipped_sum(each, 5.0, "l2", -30) for each in (rows, rows.astype(np.float64))]
    assert both[0].integers.tolist() == both[1].integers.tolist()
    assert clipped_sum(rows[:0], 5.0, "l2", -30).integers.tolist() == [0] * 700
    assert clipped_sum(rows.reshape(300, 70, 10), 5.0, "l2", -30).shape == (70, 10)


@pytest.mark.parametrize("width", [1, 2, 20])
@pytest.mark.parametrize("below", [1, 2, 40])
def test_long_rows_stay_within_a_bound_just_below_a_step(width: int, below: int) -> None:
    """A row that rounding left a millionth of a step too long would reach the step above the bound."""
    bound, exponent = 1.0 - below * 2.0**-53, -39
    rows = np.zeros((400, width))
    rows[:, 0] = np.random.default_rng(width).uniform(1.5, 3.0, 400)
    for row in rows:
        [found, *others] = clipped_sum(row[None], bound, "l2", exponent).integers.tolist()
        assert (found, others) == (2**39 - 1, [0] * (width - 1))
    assert clipped_sum(rows, bound, "l2", exponent).integers[0] == 400 * (2**39 - 1)


def test_a_row_at_the_bound_is_added_as_it_is() -> None:
    """Were it scaled like a longer one, it would lose a step."""
    for row in ([3.0, 4.0], [0.0, -5.0], [5.0, 0.0]):
        found = clipped_sum(np.array([row, row]), 5.0, "l2", -36)
        assert found.to_doubles().tolist() == [2.0 * x for x in row]


def test_a_sum_of_many_rows_is_exact() -> None:
    """An odd sum past 2^53, of one row more than whole blocks: no double has it."""
    steps, count = 2**39 - 2**36 + 1, 2**15 + 1
    for rows in (np.full((count, 1), steps * 2.0**-39), np.full(count, steps * 2.0**-39)):
        assert int(clipped_sum(rows, 1.0, "l2", -39).integers.sum()) == steps * count
    assert clipped_sum(np.zeros((3, 0)), 1.0, "l2", -39).integers.tolist() == []


def test_int64_adds_fewer_than_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributions, "MOST_ROWS", 4)
    kinds = [clipped_sum(np.ones((n, 2)), 1.0, "l2", -39).integers.dtype for n in (3, 4, 5)]
    assert kinds == [np.int64, object, object]
