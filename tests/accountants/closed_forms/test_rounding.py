"""Every rounding goes the way it says, by at most a step, compared in exact rational numbers."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountants.closed_forms.rounding import (
    down,
    exact_product,
    exact_sum,
    sqrt_down,
    sqrt_up,
    sum_up,
    up,
)

_DRAWN = np.random.default_rng(7)
DOUBLES = [0.0, 0.5, 1.0, 1.5, 3.0, 5e-324, 2.2e-308, 1e300, sys.float_info.max]
DOUBLES += [math.ldexp(_DRAWN.random(), int(_DRAWN.integers(-60, 60))) for _ in range(40)]
DOUBLES += [-x for x in DOUBLES if x]
BETWEEN = [
    Fraction(1, 3),
    Fraction(1, 10),
    Fraction(2, 3),
    Fraction(1, 10**400),
    Fraction(10) ** 30 + Fraction(1, 7),
]
BETWEEN += [-x for x in BETWEEN]


def below(x: float) -> float:
    return math.nextafter(x, -math.inf)


def above(x: float) -> float:
    return math.nextafter(x, math.inf)


@pytest.mark.parametrize("x", DOUBLES)
def test_a_double_is_its_own_bound(x: float) -> None:
    assert up(Fraction(x)) == x == down(Fraction(x))


@pytest.mark.parametrize("exact", BETWEEN)
def test_what_is_between_two_doubles_goes_to_the_one_that_is_asked_for(exact: Fraction) -> None:
    assert Fraction(below(up(exact))) < exact < Fraction(up(exact))
    assert Fraction(down(exact)) < exact < Fraction(above(down(exact)))


def test_what_is_past_every_double_is_infinite_only_on_the_side_asked_for() -> None:
    assert up(Fraction(2) ** 1024) == math.inf
    assert up(-(Fraction(2) ** 1024)) == -sys.float_info.max
    assert down(Fraction(2) ** 1024) == sys.float_info.max
    assert down(-(Fraction(2) ** 1024)) == -math.inf


def test_no_bound_is_a_negative_zero() -> None:
    assert math.copysign(1.0, down(Fraction(0))) == 1.0


@pytest.mark.parametrize("exact", [x for x in BETWEEN[:5] + [Fraction(x) for x in DOUBLES] if x > 0])
def test_a_root_is_on_the_side_asked_for(exact: Fraction) -> None:
    high, low = sqrt_up(exact), sqrt_down(exact)
    assert Fraction(low) ** 2 <= exact <= Fraction(high) ** 2
    if exact > Fraction(1, 10**300):
        assert Fraction(below(below(high))) ** 2 < exact < Fraction(above(above(low))) ** 2


@pytest.mark.parametrize("root", [1.5, 0.125, 3.0, 2.0**-300])
def test_an_exact_root_is_found(root: float) -> None:
    assert sqrt_up(Fraction(root) ** 2) == root == sqrt_down(Fraction(root) ** 2)


def test_a_root_of_what_is_past_every_double_is_no_larger_than_it() -> None:
    assert 1e154 < sqrt_down(Fraction(2) ** 1100) < 2.0**550


def test_a_sum_is_the_least_double_that_is_not_below_it() -> None:
    assert sum_up([1.0, 1e-30]) == above(1.0)
    assert sum_up([1.0, -1e-30]) == 1.0
    assert sum_up([1.0, 2.0]) == 3.0
    assert sum_up([]) == 0.0
    assert sum_up([sys.float_info.max, sys.float_info.max]) == math.inf
    assert sum_up([1.0, math.inf]) == math.inf
    for first in range(0, len(DOUBLES), 7):
        terms = [x for x in DOUBLES[first : first + 11] if abs(x) < 1e300]
        exact = sum(map(Fraction, terms))
        assert Fraction(below(sum_up(terms))) < exact <= Fraction(sum_up(terms))


def test_sums_and_products_are_told_with_all_that_rounding_took() -> None:
    numbers = np.array([math.ldexp(_DRAWN.uniform(-1, 1), int(_DRAWN.integers(-50, 50))) for _ in range(400)])
    a, b = numbers[::2], numbers[1::2]
    for told, exact in ((exact_sum(a, b), lambda x, y: x + y), (exact_product(a, b), lambda x, y: x * y)):
        for x, y, rounded, error in zip(
            a.tolist(), b.tolist(), *(part.tolist() for part in told), strict=True
        ):
            assert Fraction(rounded) + Fraction(error) == exact(Fraction(x), Fraction(y))
            assert rounded == float(exact(Fraction(x), Fraction(y)))
