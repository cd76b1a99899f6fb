"""Ball arithmetic: numbers with proved bounds (Johansson 2017, Arb)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.accountants.rounding import down, up
from dpaudit.errors import CannotBound, MissingExtra


def flint() -> Any:
    """The library of balls.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import flint
    except ImportError:
        raise MissingExtra(
            "the library flint is not installed",
            where="rigour interval",
            why="enclosures are computed in its ball arithmetic",
            remedy='pip install "dpaudit[interval]"',
        ) from None
    return flint


def ball(number: float | Fraction) -> Any:
    """The exact number as a ball."""
    exact = Fraction(number)
    return flint().arb(flint().fmpq(exact.numerator, exact.denominator))


def upper_end(enclosure: Any) -> float:
    """The smallest double that is not below any number in a ball."""
    return up(_exact(enclosure.upper()))


def lower_end(enclosure: Any) -> float:
    """The largest double that is not above any number in a ball."""
    return down(_exact(enclosure.lower()))


def _exact(number: Any) -> Fraction:
    if not number.is_finite():
        raise CannotBound(
            "a ball without bounds", where="rigour interval", remedy="ask for rigour float-pessimistic"
        )
    mantissa, exponent = (int(part) for part in number.man_exp())
    if exponent < -20_000:  # less than every double, and too long to write out
        return Fraction((mantissa > 0) - (mantissa < 0), 10**400)
    return Fraction(mantissa) * Fraction(2) ** exponent
