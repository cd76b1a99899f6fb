"""JSON as strictly as a record that others will rely on must be read."""

from __future__ import annotations

import json
from typing import Any


def strictly_parsed(text: str | bytes) -> Any:
    """The value; a field that stands twice, and a number that is none here, raise ``ValueError``.

    Such are the numbers that JSON does not know, and those too small for a double: 0 means something else.
    """
    return json.loads(
        text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_never_nothing
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field stands twice in one object")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number JSON knows")


def _never_nothing(digits: str) -> float:
    value = float(digits)
    if value == 0 and any(digit in "123456789" for digit in digits.lower().partition("e")[0]):
        raise ValueError(f"{digits} is too small for a double")
    return value
