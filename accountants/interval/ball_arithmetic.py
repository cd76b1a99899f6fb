"""Ball arithmetic: numbers with proved bounds (Johansson 2017, Arb)."""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.accountants.closed_forms.rounding import down, up
from dpaudit.errors import CannotBound


@functools.cache
def flint() -> Any:
    """Return the library of balls, loaded on first use."""
    import flint

    return flint


def ball(number: float | Fraction) -> Any:
    """Return the exact number as a ball."""
    if type(number) is float and math.isfinite(number):  # the common case
        return flint().arb(number)
    exact = Fraction(number)
    return flint().arb(flint().fmpq(exact.numerator, exact.denominator))


def upper_end(enclosure: Any) -> float:
    """Return the smallest double that is not below any number in a ball."""
    return up(_exact(enclosure.upper()))


def lower_end(enclosure: Any) -> float:
    """Return the largest double that is not above any number in a ball."""
    return down(_exact(enclosure.lower()))


def _exact(number: Any) -> Fraction:
    if not number.is_finite():
        remedy = "ask for rigour float-pessimistic"
        raise CannotBound("a ball without finite bounds", where="rigour interval", remedy=remedy)
    mantissa, exponent = (int(part) for part in number.man_exp())
    if exponent < -20_000:  # below every double, and too long to write out
        return Fraction((mantissa > 0) - (mantissa < 0), 10**400)
    return Fraction(mantissa) * Fraction(2) ** exponent


def upper_fraction(enclosure: Any) -> Fraction:
    """Return a rational number that is not below any number in a ball."""
    return _exact(enclosure.upper())


def least_versine(lowest: Any, highest: Any) -> Any:
    """Return a lower bound on 1 - cos x on [lowest, highest]; 0 if a multiple of 2 pi may lie inside."""
    arb, turn = flint().arb, 2.0 * math.pi
    low, high = float(lowest.lower()), float(highest.upper())
    if not high < 1e6 or math.floor(low / turn * (1 - 1e-9)) != math.floor(high / turn * (1 + 1e-9)):
        return arb(0)
    return arb.max((1 - arb.max(lowest.cos().upper(), highest.cos().upper())).lower(), arb(0))


def precise(formula: Callable[[], Any], bits: int = 80) -> Any:
    """Return a formula's value to `bits` bits; `CannotBound` if it cancels beyond a million bits."""
    precision = max(128, flint().ctx.prec)
    while precision <= 1 << 20:
        with flint().ctx.workprec(precision):
            found = formula()
            if found.rel_accuracy_bits() >= bits or found.is_exact():
                return found
        precision *= 2
    raise CannotBound("a formula cancels beyond a million bits", where="rigour interval")


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    """Return [erfc(x) - e^epsilon erfc(y)] / 2 with x, y = (epsilon / mu -+ mu / 2) / sqrt 2."""
    x, y = ((epsilon / mu + sign * mu / 2) / flint().arb(2).sqrt() for sign in (-1, 1))
    return (x.erfc() - epsilon.exp() * y.erfc()) / 2


def laplace_delta(loss: Any, epsilon: Any) -> Any:
    """Return 1 - e^((epsilon - e) / 2) below the largest loss e, 0 beyond."""
    return -flint().arb.min((epsilon - loss) / 2, flint().arb(0)).expm1()
