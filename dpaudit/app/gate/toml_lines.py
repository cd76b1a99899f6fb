"""On which line of a TOML file a key stands: the standard library's parser does not tell."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_MULTILINE = re.compile(r'"""|\'\'\'')

Path = tuple[str | int, ...]


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line of a key, or of the innermost table around it that has a line of its own.

    Args:
        text: a TOML file.
        path: keys from the outermost table inwards, and positions in arrays of tables.

    Returns:
        A line number from 1; of what is not found at all, 1. It is for a reader to look at: nothing is
        judged by it.
    """
    known = _lines(text)
    for length in range(len(path), 0, -1):
        found = known.get(tuple(path[:length]))
        if found is not None:
            return found
    return 1


def _lines(text: str) -> dict[Path, int]:
    known: dict[Path, int] = {}
    positions: dict[tuple[str, ...], int] = {}
    table: Path = ()
    inside_text = False
    for number, line in enumerate(text.split("\n"), start=1):
        begun_inside = inside_text
        if len(_MULTILINE.findall(line)) % 2:
            inside_text = not inside_text
        if begun_inside:
            continue
        header = _HEADER.match(line)
        if header is not None:
            keys = _keys(header[2])
            if header[1] == "[[":
                positions[keys] = positions.get(keys, -1) + 1
            table = _with_positions(keys, positions)
            for length in range(1, len(table) + 1):
                known.setdefault(table[:length], number)
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment is not None:
            full = (*table, *_keys(assignment[1]))
            for length in range(len(table) + 1, len(full) + 1):
                known.setdefault(full[:length], number)
    return known


def _keys(dotted: str) -> tuple[str, ...]:
    """The parts of a dotted key, as TOML reads them."""
    try:
        value = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    keys: list[str] = []
    inner: Any = value
    while isinstance(inner, dict):
        ((key, inner),) = inner.items()
        keys.append(key)
    return tuple(keys)


def _with_positions(keys: tuple[str, ...], positions: dict[tuple[str, ...], int]) -> Path:
    """A table's path, with the present position after each array of tables in it."""
    path: list[str | int] = []
    for length in range(1, len(keys) + 1):
        path.append(keys[length - 1])
        if keys[:length] in positions:
            path.append(positions[keys[:length]])
    return tuple(path)
