"""Fold the prose of Markdown pages at 110 columns: `python docs/programs/wrapping.py PAGE...`.

Code, tables, headings and HTML stay as they are. A fold never falls inside code or a link, and never where the
next line would begin a list or a heading.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

COLUMNS = 110
ITEM = re.compile(r"( *)([-*] |\d+\. )")

_KEPT = re.compile(r"( *```| *\||#|<| {4}|:|\$\$|\Z)")
#: A space at which no line is folded, written so that `textwrap` sees none.
_TIED = "\x00"
_UNBROKEN = re.compile(r"`[^`]+`|\[[^][]*\]\([^)]*\)")
_BEFORE_A_MARK = re.compile(r" (?=(?:[-+*=>#]+|\d+[.)])(?: |$))")


def _folded(text: str, indent: str) -> str:
    """One paragraph or list item, of which `indent` is the hanging indentation."""
    mark = ITEM.match(text)
    first, words = (mark[0], text[mark.end() :]) if mark else (indent, text)
    words = _UNBROKEN.sub(lambda span: span[0].replace(" ", _TIED), " ".join(words.split()))
    words = _BEFORE_A_MARK.sub(_TIED, words)
    lines = textwrap.fill(
        words,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace(_TIED, " ")


def _parts(page: str) -> Iterator[tuple[str, bool]]:
    """The page's lines, those of one paragraph or list item joined, each with whether it is prose."""
    joined: list[str] = []
    fenced = html = False
    for line in [*page.splitlines(), ""]:
        begins = line.startswith("<")
        kept = (
            fenced
            or html
            or begins
            or (_KEPT.match(line) is not None and not (joined and line.startswith(" " * 4) and line.strip()))
        )
        if joined and (kept or ITEM.match(line)):
            yield "\n".join(joined), True
            joined = []
        if line.lstrip().startswith("```"):
            fenced = not fenced
        html = (html or begins) and ">" not in line
        if kept or line.lstrip().startswith("```"):
            yield line, False
        else:
            joined.append(line)


def wrapped(page: str) -> str:
    """The page with its prose folded."""
    folded = []
    for text, prose in _parts(page):
        if prose:
            mark = ITEM.match(text)
            indent = " " * (mark.end() if mark else len(text) - len(text.lstrip(" ")))
            folded.append(_folded(text, indent))
        else:
            folded.append(text)
    return "\n".join(folded).rstrip("\n") + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
