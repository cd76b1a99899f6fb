"""The accountants' argument checks: each returns the number as a float, or raises `InvalidParameter`."""

import math
from collections.abc import Callable

from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.models import NoDouble, exact_double


def nonnegative(name: str, value: float) -> float:
    """Return a number in [0, inf)."""
    return _inside(name, value, "[0, inf)", lambda number: 0.0 <= number < math.inf)


def positive(name: str, value: float) -> float:
    """Return a number in (0, inf)."""
    return _inside(name, value, "(0, inf)", lambda number: 0.0 < number < math.inf)


def above_one(name: str, value: float) -> float:
    """Return a number in (1, inf)."""
    return _inside(name, value, "(1, inf)", lambda number: 1.0 < number < math.inf)


def probability(name: str, value: float) -> float:
    """Return a number in the open interval (0, 1)."""
    return _inside(name, value, "(0, 1)", lambda number: 0.0 < number < 1.0)


def representable(figure: float, name: str) -> float:
    """Return a total; raises `CannotBound` if it is infinite."""
    if not math.isfinite(figure):
        raise CannotBound(f"{name} exceeds every double", where="composition", remedy="add noise")
    return figure


def _inside(name: str, value: object, interval: str, holds: Callable[[float], bool]) -> float:
    try:
        if holds(number := exact_double(value)):
            return number
    except NoDouble as error:
        raise InvalidParameter(f"{name} = {value!r} is not a double", where=name, remedy=str(error)) from None
    except ValueError:
        pass
    raise InvalidParameter(f"{name} = {value!r} is not a finite number in {interval}", where=name)
