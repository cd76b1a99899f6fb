"""Cells of pandas object columns, each read by its own value: unchanged, as text, or as a number."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import Any, Final

import numpy as np

#: Package and class of values that are written in one way.
_WITH_TEXT: Final = {
    ("datetime", "date"),
    ("datetime", "datetime"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("uuid", "UUID"),
    ("pandas", "Timestamp"),
    ("pandas", "Timedelta"),
    ("pandas", "Period"),
    ("pandas", "Interval"),
}


def text(value: object) -> str | None:
    """Return a text as a plain `str`: a subclass could define its own equality."""
    return value if type(value) is str else str.__str__(value) if isinstance(value, str) else None


def cell(value: Any) -> str | float | None:
    """Return one pandas object: a text, a number or boolean as a double, or no value.

    Equal numbers give the same value: pandas' categories keep only the first of 1.5 and Decimal("1.5").
    """
    real: Any = value
    if type(value) is str:
        return value
    if type(value) in {int, float, bool}:
        pass
    elif isinstance(value, np.timedelta64):  # to numpy it is a whole number
        return None
    elif isinstance(value, complex | np.complexfloating):
        real = math.nan if value.imag else value.real
    elif not isinstance(value, np.bool_ | Real | Decimal):
        return text(value)
    # A class that is made of a number may say of itself what it equals.
    own: Any = int if isinstance(real, int) else float if isinstance(real, float) else type(real)
    try:
        number = own.__float__(real)
    except OverflowError:
        number = math.inf if own.__gt__(real, 0) else -math.inf
    except ValueError:  # a decimal's signal
        return None
    return None if math.isnan(number) else number


def word(value: Any) -> str | None:
    """Return one pandas object as text; None for a missing value or an object without a text.

    Equal numbers have one text, the shortest: 1, 1.0 and True are "1".
    """
    found = cell(value)
    if isinstance(found, float | int):
        found = float(found)
        return str(int(found)) if found.is_integer() else repr(found)
    if found is not None:
        return found
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    kind = type(value)
    return str(value) if (kind.__module__.partition(".")[0], kind.__name__) in _WITH_TEXT else None


def amount(value: Any) -> float:
    """Return one pandas object as a number, parsed if it is text; NaN for everything else."""
    found = cell(value)
    if isinstance(found, str):
        try:
            found = float(found) if found.isascii() and "_" not in found else None
        except ValueError:
            found = None
    return math.nan if found is None else float(found)
