"""Strict parsing of numbers and JSON."""

import json
import math
import sys
from typing import Any, Final

#: The smallest normal double. From here on rounding has relative error 2^-53; below, it can reach 1.
_LEAST_NORMAL: Final = sys.float_info.min


def double(digits: str) -> float:
    """Return the double nearest to a decimal number.

    Its relative error is at most 1 in 9e15, far below the tolerance of a claim, 1e-9. Raises `ValueError` if
    the text is not a number, overflows, or is so small that the relative error would be larger.
    """
    try:
        value = float(digits)
    except ValueError:
        raise ValueError(f"{digits!r} is not a number") from None
    if _LEAST_NORMAL <= abs(value) < math.inf or "n" in digits.lower():  # the caller checks nan and infinity
        return value
    if math.isinf(value):
        raise ValueError(f"{digits} is too large for a double")
    if value or any(digit in "123456789" for digit in digits.lower().partition("e")[0]):
        raise ValueError(f"{digits} is too small for a double: the least is {_LEAST_NORMAL:.3g}, or 0")
    return value


def _as_written(digits: str) -> float:
    """Return a number written by a program: the shortest digits of any double are read as that double."""
    value = float(digits)
    # An overflow is refused later, by the code that knows the field.
    return value if digits == repr(value) or math.isinf(value) else double(digits)


def strictly_parsed(text: str | bytes) -> Any:
    """Parse UTF-8 JSON text and return its value.

    Raises `ValueError` for a repeated field, NaN, infinity, a number outside the range of doubles, or a byte
    order mark.
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
