"""How values read in a notebook: facts and a table in HTML, with no style or script of their own."""

from collections.abc import Collection, Iterable, Mapping
from html import escape
from itertools import islice

#: More rows than these are counted, not shown.
MOST_ROWS = 40


def as_html(
    title: str,
    facts: Mapping[str, object],
    columns: Iterable[str] = (),
    rows: Collection[Iterable[object]] = (),
) -> str:
    """A title, its facts that are not None, and a table with a row for each of the first rows."""
    known = ((_text(name), _text(value)) for name, value in facts.items() if value is not None)
    parts = [f"<p><b>{_text(title)}</b></p>", "<table>"]
    parts += [f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in known]
    parts.append("</table>")
    if rows:
        parts += ["<table>", f"<tr>{''.join(f'<th>{_text(column)}</th>' for column in columns)}</tr>"]
        cells = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in islice(rows, MOST_ROWS))
        parts += [*(f"<tr>{row}</tr>" for row in cells), "</table>"]
    if len(rows) > MOST_ROWS:
        parts.append(f"<p>... and {len(rows) - MOST_ROWS} more</p>")
    return "".join(parts)


def _text(value: object) -> str:
    """A value's text, in which nothing is markup, and what cannot be printed is an escape."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))
