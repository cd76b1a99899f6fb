"""Strict reading of JSON, for records that others rely on."""

import json
from typing import Any


def strictly_parsed(text: str | bytes) -> Any:
    """The value; raises ``ValueError`` for a repeated field, NaN, infinity, or a number that underflows."""
    return json.loads(
        text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_without_underflow
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field is repeated in one object")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _without_underflow(digits: str) -> float:
    value = float(digits)
    if value == 0 and any(digit in "123456789" for digit in digits.lower().partition("e")[0]):
        raise ValueError(f"{digits} is too small for a double")
    return value
