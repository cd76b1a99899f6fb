"""Display of values in a notebook: facts and a table in plain HTML, without styles or scripts."""

from collections.abc import Collection, Iterable, Mapping
from html import escape
from itertools import islice

#: The number of rows that are shown; further rows are only counted.
MOST_ROWS = 40


def as_html(
    title: str,
    facts: Mapping[str, object],
    columns: Iterable[str] = (),
    rows: Collection[Iterable[object]] = (),
) -> str:
    """Return a title, the facts that are not None, and a table of the first `MOST_ROWS` rows, as HTML."""
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
    """Return a value's text with markup and unprintable characters escaped."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))
