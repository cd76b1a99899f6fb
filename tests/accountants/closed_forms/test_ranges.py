"""Arguments of accountants: what is inside a range is returned as a double, all else is refused."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpaudit.accountants.closed_forms.ranges import (
    above_one,
    nonnegative,
    positive,
    probability,
    representable,
)
from dpaudit.errors import CannotBound, InvalidParameter

NEVER = (math.nan, math.inf, -math.inf, -1.0, True, "1", None, 10**400)


@pytest.mark.parametrize(
    ("check", "inside", "outside"),
    [
        (nonnegative, (0.0, 5e-324, 1, 1e308), (-5e-324,)),
        (positive, (5e-324, 0.5, 1, 1e308), (0.0, -5e-324)),
        (above_one, (1.0 + 2.0**-52, 2, 1e308), (1.0, 0.5, 0.0)),
        (probability, (5e-324, 0.5, 1.0 - 2.0**-53, Fraction(1, 4)), (0.0, 1.0, 2)),
    ],
)
def test_each_range_holds_its_numbers_and_nothing_else(
    check: Callable[[str, float], float], inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    for number in inside:
        assert check("x", number) == float(number)
    for refused in (*outside, *NEVER):
        with pytest.raises(InvalidParameter, match=r"x = .* is not a finite number in"):
            check("x", refused)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"is not a double[^$]*give"):
        check("x", Fraction(4, 3) if check is above_one else Fraction(1, 3))  # type: ignore[arg-type]


def test_a_total_past_every_double_is_no_bound() -> None:
    assert representable(1.7e308, "rho") == 1.7e308
    for figure in (math.inf, math.nan):
        with pytest.raises(CannotBound, match="rho exceeds every double"):
            representable(figure, "rho")
