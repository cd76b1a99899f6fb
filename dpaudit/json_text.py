"""Strict reading of numbers and of JSON, for records that others rely on."""

import json
import math
import sys
from typing import Any, Final

#: From here on the nearest double is a number but for a part of 2^-53; below, it can be off by all of it.
_LEAST_NORMAL: Final = sys.float_info.min


def double(digits: str) -> float:
    """Return the number that the digits write, if the nearest double is that number but for a rounding.

    A rounding is a part in 9e15, far below the tolerance of a claim, 1e-9. Raises `ValueError`: no number,
    one that overflows, or one so small that the nearest double is 0 or off by a larger part.
    """
    try:
        value = float(digits)
    except ValueError:
        raise ValueError(f"{digits!r} is not a number") from None
    if _LEAST_NORMAL <= abs(value) < math.inf or "n" in digits.lower():  # nan and infinity are for the caller
        return value
    if math.isinf(value):
        raise ValueError(f"{digits} is too large for a double")
    if value or any(digit in "123456789" for digit in digits.lower().partition("e")[0]):
        raise ValueError(f"{digits} is too small for a double: the least is {_LEAST_NORMAL:.3g}, or 0")
    return value


def _as_written(digits: str) -> float:
    """A number that a program wrote: a double's shortest digits are that double, whatever its size."""
    value = float(digits)
    # What overflows is refused where it is known which field it is.
    return value if digits == repr(value) or math.isinf(value) else double(digits)


def strictly_parsed(text: str | bytes) -> Any:
    """Return the value that UTF-8 text writes in JSON.

    Raises `ValueError` for a repeated field, NaN, infinity, a number that no double is, or a byte order mark.
    """
    if isinstance(text, bytes):  # json.loads would guess the encoding, and skip a byte order mark
        text = text.decode()
    return json.loads(
        text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_as_written
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field is repeated in one object")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
