"""Argument checks that the accountants share: a number outside its range is refused before it is used."""

from __future__ import annotations

import math
import numbers

from dpaudit.errors import CannotBound, InvalidParameter


def nonnegative(name: str, value: float) -> float:
    """Return `value` as a float in [0, inf).

    Raises:
        InvalidParameter: it is not a number, NaN, infinite or negative.
    """
    number = _number(name, value, "[0, inf)")
    if not 0.0 <= number < math.inf:
        raise _outside(name, value, "[0, inf)")
    return number


def positive(name: str, value: float) -> float:
    """Return `value` as a float in (0, inf).

    Raises:
        InvalidParameter: it is not a number, NaN, infinite or at most 0.
    """
    number = _number(name, value, "(0, inf)")
    if not 0.0 < number < math.inf:
        raise _outside(name, value, "(0, inf)")
    return number


def above_one(name: str, value: float) -> float:
    """Return `value` as a float in (1, inf).

    Raises:
        InvalidParameter: it is not a number, NaN, infinite or at most 1.
    """
    number = _number(name, value, "(1, inf)")
    if not 1.0 < number < math.inf:
        raise _outside(name, value, "(1, inf)")
    return number


def probability(name: str, value: float) -> float:
    """Return `value` as a float in the open interval (0, 1).

    Raises:
        InvalidParameter: it is not a number, NaN, or not strictly between 0 and 1.
    """
    number = _number(name, value, "(0, 1)")
    if not 0.0 < number < 1.0:
        raise _outside(name, value, "(0, 1)")
    return number


def representable(figure: float, name: str) -> float:
    """Return a total that is no larger than every double.

    Raises:
        CannotBound: it is infinite.
    """
    if not math.isfinite(figure):
        raise CannotBound(f"{name} exceeds every double", where="composition", remedy="add noise")
    return figure


def _number(name: str, value: object, interval: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _outside(name, value, interval)
    try:
        return float(value)
    except OverflowError:  # an integer past the largest float
        raise _outside(name, value, interval) from None


def _outside(name: str, value: object, interval: str) -> InvalidParameter:
    return InvalidParameter(f"{name} = {value!r} is not a finite number in {interval}", where=name)
