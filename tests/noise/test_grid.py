"""Grids follow from public numbers, and values split into grid points and rests without loss."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.errors import InvalidParameter
from dpaudit.noise.grid import OnGrid, grid, grid_of_bound, split

SCALES = st.floats(2.0**-960, 1.7e308)


@given(scale=SCALES)
def test_a_scale_is_2_to_the_32_to_33_steps_of_its_grid(scale: float) -> None:
    steps = Fraction(scale) / Fraction(2) ** grid(scale)
    assert 2**32 <= steps < 2**33


@given(bound=SCALES, noise=st.integers(-1000, 990))
def test_a_bound_is_2_to_the_39_to_40_steps_unless_the_noise_dwarfs_it(bound: float, noise: int) -> None:
    exponent = grid_of_bound(bound, noise)
    assert exponent >= noise - 52
    if exponent > noise - 52:
        assert 2**39 <= Fraction(bound) / Fraction(2) ** exponent < 2**40


def test_a_grid_finer_than_2_to_the_minus_1000_is_refused() -> None:
    assert grid(2.0**-968) == -1000
    assert grid_of_bound(2.0**-961, -1000) == -1000
    for refused in (math.nextafter(2.0**-968, 0), 1e-300, 5e-324):
        with pytest.raises(InvalidParameter, match=r"finer than 2\^-1000"):
            grid(refused, "release 'x'")
    with pytest.raises(InvalidParameter, match=r"release 'x': a contribution bound of .* finer than"):
        grid_of_bound(2.0**-962, -1000, "release 'x'")


def exactly(whole: Any, rest: Any, exponent: int) -> list[Fraction]:
    assert whole.dtype == np.int64
    assert rest.dtype == np.float64
    assert (np.abs(rest) <= 0.5).all()
    pairs = zip(whole.ravel().tolist(), rest.ravel().tolist(), strict=True)
    return [(m + Fraction(r)) * Fraction(2) ** exponent for m, r in pairs]


@given(values=st.lists(st.floats(-1e9, 1e9), max_size=6), exponent=st.integers(-30, 60).map(lambda n: n - 1))
def test_doubles_split_without_loss(values: list[float], exponent: int) -> None:
    try:
        whole, rest = split(np.array(values), exponent)
    except InvalidParameter:
        assert any(0 < abs(v) < 2.0 ** (exponent - 900) or abs(v) >= 2.0 ** (exponent + 62) for v in values)
    else:
        assert exactly(whole, rest, exponent) == [Fraction(v) for v in values]


@given(
    integers=st.lists(st.integers(-(2**61), 2**61), max_size=6),
    own=st.integers(-60, 60),
    exponent=st.integers(-60, 60),
    python=st.booleans(),
)
def test_integers_split_without_loss(integers: list[int], own: int, exponent: int, python: bool) -> None:
    value = OnGrid(np.array(integers, dtype=object if python else np.int64), own)
    try:
        whole, rest = split(value, exponent)
    except InvalidParameter:
        largest = max(abs(m) for m in integers) * Fraction(2) ** own
        assert largest >= Fraction(2) ** (exponent + 62) - Fraction(2) ** exponent or exponent - own > 53
    else:
        assert exactly(whole, rest, exponent) == [m * Fraction(2) ** own for m in integers]


@pytest.mark.parametrize(
    ("value", "exponent", "said"),
    [
        (np.array([0.0, -(2.0**62)]), 0, r"a value of 2\^62 or more under noise on the grid 2\^0"),
        (np.array([1e300]), -1000, r"2\^-938 or more"),
        (np.array([5e-324]), 900, r"digits far below its noise's grid of 2\^900"),
        (OnGrid(np.array([2**31]), -1), -32, r"2\^30 or more"),
        (OnGrid(np.array([2**80], dtype=object), 0), 0, r"2\^62 or more"),
        (OnGrid(np.array([1]), 0), -100, r"2\^-38 or more"),
        (OnGrid(np.array([1]), 0), 54, "digits far below"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, exponent: int, said: str) -> None:
    with pytest.raises(InvalidParameter, match=f"release 'x': .*{said}"):
        split(value, exponent, "release 'x'")


def test_the_largest_that_fits() -> None:
    for value in (np.array([2.0**62 - 512]), OnGrid(np.array([2**62 - 1]), 0)):
        whole, rest = split(value, 0)
        assert 2**62 - 512 <= whole[0] < 2**62
        assert rest[0] == 0.0


@given(m=st.integers(-(2**63), 2**63 - 1), exponent=st.integers(-1200, 1000), python=st.booleans())
def test_the_nearest_double(m: int, exponent: int, python: bool) -> None:
    found = OnGrid(np.array([[m]], dtype=object if python else np.int64), exponent).to_doubles()
    assert found.shape == (1, 1)
    exact = m * Fraction(2) ** exponent
    try:
        assert found[0, 0] == float(exact)
    except OverflowError:
        assert found[0, 0] == math.copysign(math.inf, m)
