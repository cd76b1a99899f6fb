"""Argument checks that the accountants share: a number outside its range is refused before it is used.

Each check returns the number as a float; `InvalidParameter` is raised for what is no number, NaN or outside.
"""

from __future__ import annotations

import math
import numbers
from typing import NoReturn

from dpaudit.errors import CannotBound, InvalidParameter


def nonnegative(name: str, value: float) -> float:
    """Return a number in [0, inf)."""
    number = _number(name, value, "[0, inf)")
    return number if 0.0 <= number < math.inf else _refuse(name, value, "[0, inf)")


def positive(name: str, value: float) -> float:
    """Return a number in (0, inf)."""
    number = _number(name, value, "(0, inf)")
    return number if 0.0 < number < math.inf else _refuse(name, value, "(0, inf)")


def above_one(name: str, value: float) -> float:
    """Return a number in (1, inf)."""
    number = _number(name, value, "(1, inf)")
    return number if 1.0 < number < math.inf else _refuse(name, value, "(1, inf)")


def probability(name: str, value: float) -> float:
    """Return a number in the open interval (0, 1)."""
    number = _number(name, value, "(0, 1)")
    return number if 0.0 < number < 1.0 else _refuse(name, value, "(0, 1)")


def representable(figure: float, name: str) -> float:
    """Return a total that is no larger than every double; raises `CannotBound` where it is infinite."""
    if not math.isfinite(figure):
        raise CannotBound(f"{name} exceeds every double", where="composition", remedy="add noise")
    return figure


def _number(name: str, value: object, interval: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return _refuse(name, value, interval)
    try:
        return float(value)
    except OverflowError:  # an integer past the largest float
        return _refuse(name, value, interval)


def _refuse(name: str, value: object, interval: str) -> NoReturn:
    raise InvalidParameter(f"{name} = {value!r} is not a finite number in {interval}", where=name) from None
