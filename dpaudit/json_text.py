"""JSON as strictly as a record that others will rely on must be read."""

from __future__ import annotations

import json
from typing import Any


def strictly_parsed(text: str | bytes) -> Any:
    """The value; a field that stands twice, and numbers that JSON does not know, raise ``ValueError``."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field stands twice in one object")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number JSON knows")
