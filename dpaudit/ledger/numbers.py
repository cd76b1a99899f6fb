"""Canonical JSON (RFC 8785) as a hashed ledger writes it; its numbers are doubles."""

import functools
import json
import re
from json.encoder import encode_basestring as _quoted
from typing import Any

import rfc8785

from dpaudit.errors import LedgerFormat, LedgerTampered

_NO_DOUBLE = 2**1024 - 2**970  # the least integer that `float` refuses
_LONG_DIGITS = re.compile(rb"[0-9]{16}")


def canonical(digits: str) -> float | None:
    """The finite number that canonical JSON (RFC 8785, after ECMA-262) writes in these digits, if it does."""
    try:
        value = float(digits)
    except ValueError:
        return None
    if len(digits) > 15 and digits.isdigit():
        return None  # longer whole numbers are read as integers, which is left to the full reading
    try:
        return value if _text(value) == digits else None
    except rfc8785.CanonicalizationError:
        return None


def canonical_json(value: Any) -> bytes:
    """What `rfc8785.dumps` writes, which also writes, or refuses, all that is not as plain here; quicker."""
    try:
        return _text(value).encode()
    except (TypeError, UnicodeEncodeError):  # a key that is no string, or half a character
        return rfc8785.dumps(value)


def _text(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is dict:
        return (
            f"{{{','.join([f'{quoted}:{_text(value[name])}' for name, quoted in _ordered(tuple(value))])}}}"
        )
    if kind is list:
        return f"[{','.join([_text(item) for item in value])}]"
    if kind is float:
        digits = repr(value)
        if value and "e" not in digits and "n" not in digits:  # neither an exponent nor NaN or an infinity
            return digits.removesuffix(".0")
    if kind is int and abs(value) < 2**53:
        return repr(value)
    return rfc8785.dumps(value).decode()


@functools.lru_cache(maxsize=1024)  # records of one kind have the same names
def _ordered(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """The names in canonical JSON's order, each as it is and quoted."""
    ordered = sorted(names)
    if not "".join(names).isascii():
        ordered.sort(key=lambda name: name.encode("utf-16be"))
    return [(name, _quoted(name)) for name in ordered]


def with_doubles(record: dict[str, Any], line: bytes, where: str) -> dict[str, Any]:
    """The record with whole numbers past 2^53 as doubles: canonical JSON has no other numbers there."""
    if _LONG_DIGITS.search(line) is None:
        return record
    try:
        return {name: _doubles(item) for name, item in record.items()}
    except RecursionError as error:
        raise LedgerFormat(f"not canonical JSON: {error}", where=where) from None


def _doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _doubles(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    # Past the largest double, a whole number is left to be refused where the hash is computed.
    return float(value) if isinstance(value, int) and 2**53 <= abs(value) < _NO_DOUBLE else value


def require_exact_numbers(line: bytes, where: str) -> None:
    """Refuse digits that change no double, and so no hash: every edit of a hashed file must show."""

    def exact(digits: str) -> float:
        value = float(digits)
        if digits not in {repr(value), rfc8785.dumps(value).decode()}:
            raise LedgerTampered(
                f"the number {digits} is not written as it was hashed, {value!r}", where=where
            )
        return value

    def whole(digits: str) -> float:
        return int(digits) if len(digits) <= 15 or abs(int(digits)) < 2**53 else exact(digits)

    json.loads(line, parse_float=exact, parse_int=whole)
