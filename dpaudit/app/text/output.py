"""Printing: answers on stdout, everything else on stderr."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, TypeVar

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from dpaudit.app.text.streams import write
from dpaudit.page.printable import printable

_Verb = TypeVar("_Verb", bound=Callable[..., Any])

#: A table shows no more rows than this, and says how many it leaves out.
MOST_ROWS = 40

_NARROWEST = 40
#: Longer ones, such as a hash, are broken, and get this much room; the longest name in a mechanism has 36.
_LONGEST_WORD, _BROKEN = 36, 24
_STYLES = {
    **dict.fromkeys(("PROVED", "NOT_REFUTED", "holds"), "green"),
    **dict.fromkeys(("NOT_PROVED", "REFUTED", "FAILS", "DISAGREES:"), "bold red"),
    "INCONCLUSIVE": "yellow",
}


def output_format_option(verb: _Verb) -> _Verb:
    """``--output-format text|json``."""
    kind, words = click.Choice(["text", "json"]), "json: JSON alone on stdout."
    return click.option("--output-format", type=kind, default="text", show_default=True, help=words)(verb)


def print_json(answer: Any) -> None:
    """Print only JSON on stdout; NaN and infinities are refused."""
    write(sys.stdout, json.dumps(answer, indent=2, allow_nan=False) + "\n")


def print_text(*parts: RenderableType) -> None:
    """Print tables and lines on stdout, coloured as the terminal and NO_COLOR allow."""
    console = Console(highlight=False, markup=False, emoji=False, width=_columns())
    # Captured and written by us: rich would exit with 1, "not proved", on a closed pipe.
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, Text) and part.no_wrap is True)
    write(sys.stdout, "\n".join(line.rstrip() for line in captured.get().split("\n")))


def line(*words: object) -> Text:
    """One line of text; verdicts stand out."""
    text = Text(overflow="fold")
    for position, word in enumerate(words):
        shown = printable(str(word))
        text.append((" " if position else "") + shown, style=_STYLES.get(shown, ""))
    return text


def unwrapped(text: str) -> Text:
    """Lines that stay whole however wide they are: paths, to be copied."""
    return Text("\n".join(map(printable, text.split("\n"))), no_wrap=True, overflow="ignore")


def bullets(head: Text | str, lines: Iterable[object]) -> list[RenderableType]:
    """A heading and its indented lines; nothing without lines."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for text in lines:
        table.add_row("  -", line(text))
    return [head if isinstance(head, Text) else line(head), table] if table.row_count else []


def table(
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    whole: Iterable[str] = (),
    spare: Sequence[str] = (),
) -> Table:
    """A table whose `whole` columns and all words stay on one line if there is room; others wrap.

    Before a word is broken, empty columns are left out, and then the `spare` ones, one after another. What is
    longer than any word, such as a hash, is broken all the same.
    """
    # Below 78 columns none is kept from wrapping, else the others would vanish.
    names, given, kept = list(columns), [list(row) for row in rows], set(whole) if _columns() >= 78 else set()
    cells = [[line("" if cell is None else cell) for cell in row] for row in given]
    texts = [[name, *(row[i].plain for row in cells)] for i, name in enumerate(names)]
    natural = [max(map(cell_len, text)) for text in texts]

    def least_of(texts: Iterable[Sequence[str]]) -> list[int]:
        each = ((cell_len(word) for word in " ".join(text).split()) for text in texts)
        words = [max((_BROKEN if w > _LONGEST_WORD else w for w in found), default=0) for found in each]
        return [w if name in kept else word for name, w, word in zip(names, natural, words, strict=True)]

    least = least_of(texts)
    if sum(least) + 2 * (len(names) - 1) > _columns():
        empty = [i for i, text in enumerate(texts) if given and not any(text[1:])]
        known = [name for name in spare if name in names]
        if empty or known:
            out = empty[0] if empty else names.index(known[0])
            left = [i for i in range(len(names)) if i != out]
            narrower = ([row[i] for i in left] for row in given)
            return table([names[i] for i in left], narrower, whole=kept, spare=known[0 if empty else 1 :])
        least = least_of([name] for name in names)
    gap = 3 if sum(least) + 3 * (len(names) - 1) <= _columns() else 2
    widths = _shared(natural, least, _columns() - gap * (len(names) - 1))
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=gap == 2)
    for name, width in zip(names, widths, strict=True):
        result.add_column(name, overflow="fold", no_wrap=name in kept, max_width=width)
    for row in cells:
        result.add_row(*row)
    return result


def _shared(natural: Sequence[int], least: Sequence[int], room: int) -> Sequence[int | None]:
    """Widths of columns, narrowed from the widest on, none below its least; None where not even that fits."""
    if sum(least) > room:
        return [None] * len(natural)

    def narrowed(most: int) -> list[int]:
        return [max(low, min(width, most)) for width, low in zip(natural, least, strict=True)]

    widths = narrowed(max(most for most in range(room + 1) if sum(narrowed(most)) <= room))
    for index, width in enumerate(natural):
        if widths[index] < width and sum(widths) < room:
            widths[index] += 1
    return widths


def upper(figure: float) -> str:
    """Return an upper bound in six digits, rounded up except within a claim's tolerance, 1e-9."""
    return _digits(figure, 1.0 - 1e-9, Context(prec=6, rounding=ROUND_CEILING))


def lower(figure: float) -> str:
    """A lower bound in six digits, rounded down."""
    return _digits(figure, 1.0 + 1e-9, Context(prec=6, rounding=ROUND_FLOOR))


def assured(confidence: float) -> str:
    """Return a confidence in ten digits, or in all its digits if ten would overstate it."""
    text = f"{confidence:.10g}"
    return text if float(text) <= confidence else repr(float(confidence))


def counted(number: int, one: str, several: str) -> str:
    """A number followed by its noun, singular or plural."""
    return f"{number} {one if number == 1 else several}"


def _digits(figure: float, slack: float, context: Context) -> str:
    return f"{float(context.create_decimal(Decimal(figure) * Decimal(slack))):.6g}"


def _columns() -> int:
    """The terminal's width; without a terminal, COLUMNS or 80."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdigit() and int(stated) > 0:
        return max(int(stated), _NARROWEST)
    if not sys.stdout.isatty():
        return 80
    return max(shutil.get_terminal_size().columns, _NARROWEST)
