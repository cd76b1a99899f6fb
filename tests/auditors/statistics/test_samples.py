"""Runs are divided by their positions alone, and scores rounded to what the real line shows."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpaudit.auditors.statistics.samples import Rounding, Samples, rounding
from dpaudit.errors import DataError, InvalidParameter


def whole(n: int) -> Samples:
    """Features that tell position and side, and kinds."""
    data = np.arange(2.0 * n).reshape(n, 2)
    return Samples(data, -data, 7, np.stack([np.arange(n), np.arange(n) + 100]), learn=False)


@pytest.mark.parametrize(
    ("n", "share", "at"), [(10, 0.3, 3), (10, 0.01, 1), (10, 0.99, 9), (2, 0.5, 1), (7, 0.5, 4)]
)
def test_two_shares_are_all_runs_and_have_none_in_common(n: int, share: float, at: int) -> None:
    samples = whole(n)
    first, rest = samples.split(share)
    assert (len(first), len(rest)) == (at, n - at)
    for name in ("data", "neighbour"):
        assert np.array_equal(
            np.concatenate([getattr(first, name), getattr(rest, name)]), getattr(samples, name)
        )
    assert np.array_equal(np.concatenate([first.kinds, rest.kinds], axis=1), samples.kinds)
    assert (rest.seed, rest.learn) == (7, False)
    for nonsense in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            samples.split(nonsense)


def test_a_part_holds_the_same_runs_of_both_sides() -> None:
    part = whole(10).part(3, 5)
    assert part.data.tolist() == [[6.0, 7.0], [8.0, 9.0]] == (-part.neighbour).tolist()
    assert part.kinds_of(0).tolist() == [3, 4]
    assert part.kinds_of(1).tolist() == [103, 104]
    assert np.array_equal(part.rows(0), part.data)
    assert np.array_equal(part.rows(1), part.neighbour)
    scored = whole(3).scored(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    assert scored.rows(0).tolist() == [[1.0], [2.0], [3.0]]
    assert scored.rows(1).tolist() == [[4.0], [5.0], [6.0]]
    assert scored.kinds_of(0).tolist() == scored.kinds_of(1).tolist() == [0.0, 0.0, 0.0]
    assert scored.seed == 7


def test_shapes_that_differ_and_single_runs_are_refused() -> None:
    wrong = [
        (np.zeros(3), np.zeros(2)),
        (np.zeros(1), np.zeros(1)),
        (np.zeros((3, 2, 1)), np.zeros((3, 2, 1))),
    ]
    for sides in wrong:
        with pytest.raises(DataError):
            Samples(*sides)
    for kinds in (np.zeros(3), np.zeros((2, 4)), np.zeros((3, 3))):
        with pytest.raises(DataError):
            Samples(np.zeros(3), np.zeros(3), kinds=kinds)
    assert len(Samples(np.zeros(2), np.zeros(2))) == 2


@pytest.mark.parametrize(
    ("data", "kinds", "learn", "ordinary"),
    [
        ([1.0, 2.0], None, True, True),
        ([[1.0], [2.0]], None, True, False),
        ([[1.0], [2.0]], None, False, True),
        ([[], []], None, False, False),
        ([[1.0, math.nan], [2.0, math.nan]], None, False, True),
        ([[1.0, 3.0], [2.0, math.nan]], None, False, False),
        ([[1.0, 3.0, math.nan], [2.0, math.nan, math.nan]], None, False, False),
        ([1.0, math.nan], None, True, False),
        ([1.0, 2.0], [[5, 5], [5, 5]], True, True),
        ([1.0, 2.0], [[0, 0], [0, 0]], True, True),
        ([1.0, 2.0], [[5, 5], [5, 6]], True, False),
        ([1.0, 2.0], [[5, 6], [5, 5]], True, False),
        ([1.0, 2.0], [[-1, -1], [-1, -1]], True, False),
        ([1.0, 2.0], [[0.5, 0.5], [0.5, 0.5]], True, False),
    ],
)
def test_one_number_of_one_kind_is_a_score_without_learning(
    data: list[float], kinds: list[list[float]] | None, learn: bool, ordinary: bool
) -> None:
    given_kinds = None if kinds is None else np.array(kinds)
    runs, plain = np.array(data), np.nan_to_num(np.array(data), nan=1.0)
    one = Samples(runs, runs, 0, given_kinds, learn)
    assert one.ordinary is ordinary
    if runs.ndim == 1 and np.isnan(runs).any():
        # Either side alone is enough.
        assert not Samples(plain, runs, 0, given_kinds, learn).ordinary
        assert not Samples(runs, plain, 0, given_kinds, learn).ordinary


def test_scores_are_rounded_to_36_bits_more_finely_beside_a_small_spread_and_to_44_at_most() -> None:
    """Steps are powers of two: by magnitude, by the spread of four fifths of the scores, by the median."""
    spread = np.concatenate([np.full(20, 2.5), np.full(60, 3.0), np.full(20, 6.0)])
    for scale in (1.0, 2.0**-30, 2.0**30):
        assert rounding(spread * scale) == Rounding(2.0**-43 * scale, 2.0**-15 * scale)
    assert rounding(np.append(spread, [math.inf, -math.inf, 1e9])) == rounding(spread)
    grid = rounding(spread)
    for score, step in (
        (1.0, 2.0**-35),
        (5.0, 2.0**-33),
        (2.0**20, 2.0**-15),
        (2.0**30, 2.0**-13),
        (2.0**35, 2.0**-8),
    ):
        for fraction, up in ((0.49, 0.0), (0.51, 1.0)):
            assert grid(np.array([score + fraction * step])) == score + up * step
            assert grid(-np.array([score + fraction * step])) == -score - up * step
    # No finer than 44 bits of the median.
    assert grid(np.array([0.49 * 2.0**-43])) == 0.0
    assert grid(np.array([0.51 * 2.0**-43])) == 2.0**-43
    assert rounding(np.array([5.0, math.inf])) == Rounding(2.0**-42, 0.0)
    assert rounding(np.array([math.inf, -math.inf])) == rounding(np.zeros(0)) == Rounding(0.0, 0.0)


def test_rounding_keeps_what_matters() -> None:
    scores = np.array([-math.inf, -1.5, 1e-17, 0.0, 2.0, 3.0, math.inf])
    rounded = rounding(scores)
    assert 0 < rounded.least <= rounded.most < 1e-3
    assert rounded(scores) == pytest.approx(scores, abs=rounded.most)
    assert rounded(scores)[2] == 0.0
    assert rounding(np.zeros(5)) == Rounding(0.0, 0.0)
    extreme = np.array([-1.7e308, -5e-324, 0.0, 5e-324, 1.7e308])
    for grid in (rounding(extreme), Rounding(0.0, 0.0)):
        assert np.all(np.diff(grid(extreme)) >= 0)
        assert np.isfinite(grid(extreme)).all()


@given(
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=30),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=30),
)
@example([0.0, 2.0**51], [32.0])
def test_rounding_keeps_the_order_and_44_bits_are_the_most(known: list[float], others: list[float]) -> None:
    rounded, scores = rounding(np.array(known)), np.sort(np.array(others))
    assert np.all(rounded(scores)[1:] >= rounded(scores)[:-1])
    assert np.array_equal(rounded(rounded(scores)), rounded(scores))
    finite = scores[np.isfinite(scores) & (np.abs(scores) > 1e-300) & (np.abs(scores) < 1e308)]
    # A few units in the last place of a number that 30 bits hold are never seen, unless it is so small beside
    # the median that it can lie half-way between two rounded ones.
    short = np.ldexp(np.round(np.ldexp(np.frexp(finite)[0], 30)), np.frexp(finite)[1] - 30)
    short = short[np.abs(short) >= 2.0**31 * rounded.least]
    assert np.array_equal(rounded(short * (1 + 2**-50)), rounded(short))
