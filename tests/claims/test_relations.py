"""How far a sum moves, and how many parts a unit touches, for every relation."""

import math
from fractions import Fraction

import pytest

from dpaudit import Neighbouring

BOUNDS = [1.0, 3.0, 0.1, 1e-200, 5e-324, 1e200, *(1.0 + k / 64 for k in range(64))]


def at_right_angles(bound: float) -> float:
    return Neighbouring.REPLACE_ONE.sum_sensitivity(bound, "l2", acute=True)


@pytest.mark.parametrize("relation", [Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.ZERO_OUT])
def test_a_unit_that_comes_or_goes_moves_a_sum_by_its_bound(relation: Neighbouring) -> None:
    assert {
        relation.sum_sensitivity(3.0, norm, acute=acute) for norm in ("l1", "l2") for acute in (False, True)
    } == {3.0}


def test_a_replaced_unit_moves_a_sum_by_twice_its_bound_or_by_the_root_of_two_where_that_is_proved() -> None:
    relation = Neighbouring.REPLACE_ONE
    assert relation.sum_sensitivity(3.0, "l2") == 6.0
    assert relation.sum_sensitivity(3.0, "l1", acute=True) == 6.0


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_root_of_two_is_rounded_upwards_by_at_most_two_steps(bound: float) -> None:
    """Compared exactly. Of these bounds some have a rounded product below the root, some above it."""
    found, square = at_right_angles(bound), 2 * Fraction(bound) ** 2
    assert Fraction(found) ** 2 >= square
    assert Fraction(math.nextafter(math.nextafter(found, 0.0), 0.0)) ** 2 < square


def test_some_bounds_need_the_step_upwards_and_some_do_not() -> None:
    products = [math.sqrt(2.0) * bound for bound in BOUNDS]
    assert {
        found > product for found, product in zip(map(at_right_angles, BOUNDS), products, strict=True)
    } == {
        False,
        True,
    }


def test_past_every_double_the_root_of_two_is_infinite_and_of_nothing_it_is_nothing() -> None:
    assert at_right_angles(1.7e308) == math.inf
    assert at_right_angles(0.0) == 0.0


def test_how_many_parts_of_a_split_a_unit_touches() -> None:
    touched = {(r, by): r.parts_touched(split_by_values=by) for r in Neighbouring for by in (False, True)}
    assert {key for key, parts in touched.items() if parts == 2} == {
        (Neighbouring.REPLACE_ONE, True),
        (Neighbouring.ZERO_OUT, True),
    }
    assert set(touched.values()) == {1, 2}
