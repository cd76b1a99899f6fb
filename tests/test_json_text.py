"""Numbers as text: a double is the number but for a rounding, or there is an error."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.json_text import double, strictly_parsed


@given(st.integers(0, 10**25), st.integers(-345, 330))
def test_what_is_read_is_the_number_but_for_a_rounding(digits: int, exponent: int) -> None:
    """Held against exact arithmetic on the digits."""
    exact = Fraction(digits) * Fraction(10) ** exponent
    try:
        found = double(f"{digits}e{exponent}")
    except ValueError:
        assert exact > Fraction(math.nextafter(math.inf, 0.0)) or 0 < exact < Fraction(2) ** -1022
        return
    assert abs(Fraction(found) - exact) <= exact / 2**53


@pytest.mark.parametrize(
    "text", ["1e-400", "-1e-400", "0.1e-99999999999999999999", "1e-320", "1e309", "-1e400"]
)
def test_what_no_double_is_near_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"too (small|large) for a double"):
        double(text)


@pytest.mark.parametrize("text", ["", "x", "1,5", "0x10", "--1"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        double(text)


def test_zeros_infinities_and_nan_are_what_they_say() -> None:
    assert [double(text) for text in ("0", "-0.0", "0e-999", "inf", "-Infinity")] == [
        0,
        0,
        0,
        math.inf,
        -math.inf,
    ]
    assert math.isnan(double("nan"))


def test_doubles_that_a_program_wrote_are_read_back_whatever_their_size() -> None:
    written = [5e-324, 1e-320, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1]
    assert strictly_parsed(repr(written)) == written
    with pytest.raises(ValueError, match="too small"):
        strictly_parsed("[4e-324]")
