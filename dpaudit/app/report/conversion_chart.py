"""Pictures of privacy curves, by Altair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpaudit.accountants.curves.conversion_table import Conversion, ConversionCurve, curves
from dpaudit.app.report.blocks import Heading, Picture, html_page
from dpaudit.app.report.chart import HEIGHT, WIDTH, chart_of, colour, png, specification, svg
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file

_POINTS = 200
_LEAST_DELTA = 1e-300  # below it a logarithmic axis says nothing
_FORMATS = (".svg", ".png", ".html")


def draw_curves(given: Sequence[AnyGuarantee], rows: Sequence[Conversion], title: str, picture: Path) -> None:
    """Draw delta(epsilon) by every known method as a line, and each row of a table as a point.

    Raises:
        UsageError: the file's ending is none of .svg, .png and .html, or it cannot be written.
    """
    if picture.suffix.lower() not in _FORMATS:
        raise UsageError(
            f"a picture in a {picture.suffix or 'nameless'} file",
            where=f"--plot {picture}",
            why="the ending says how to draw it",
            remedy=f"use one of {', '.join(_FORMATS)}",
        )
    import altair as alt

    points = _points(given, rows)
    lines = _lines(given, points)
    names = list(dict.fromkeys(str(row["method"]) for row in [*lines, *points]))
    delta = alt.Y("delta:Q").title("delta").scale(type="log").axis(format=".0e")
    channels = {"x": alt.X("epsilon:Q").title("epsilon"), "y": delta, "color": colour(names, "method")}
    dashes = alt.StrokeDash("holds:N").legend(title=None, columns=1)
    drawn = chart_of(lines).mark_line(clip=True).encode(**channels, strokeDash=dashes, detail="of:N")
    marks = chart_of(points).mark_point(filled=True, size=60, opacity=1).encode(**channels)
    chart = specification((drawn + marks).properties(title=title, width=WIDTH, height=HEIGHT))
    try:
        replace_file(picture, _file(chart, title, picture))
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", where=f"--plot {picture}", remedy="name another file"
        ) from None


def _file(chart: dict[str, Any], title: str, picture: Path) -> bytes:
    match picture.suffix.lower():
        case ".png":
            return png(chart)
        case ".svg":
            return svg(chart, background="white").encode()
        case _:
            caption = "delta at every epsilon, by every method known."
            page = html_page([Heading(title), Picture(picture.name, caption)], {picture.name: svg(chart)})
            return page.encode()


def _points(given: Sequence[AnyGuarantee], rows: Sequence[Conversion]) -> list[dict[str, Any]]:
    points = [
        {"method": row.method, "epsilon": row.guarantee.epsilon, "delta": row.guarantee.delta}
        for row in rows
        if isinstance(row.guarantee, ApproxDP)
    ]
    targets = [guarantee for guarantee in given if isinstance(guarantee, ApproxDP)]
    return points + [{"method": "target", "epsilon": t.epsilon, "delta": t.delta} for t in targets]


def _lines(given: Sequence[AnyGuarantee], points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    end = 1.15 * max((point["epsilon"] for point in points), default=1.0) or 1.0
    floor = 0.1 * min((point["delta"] for point in points), default=1e-9)
    return [
        {
            "of": str(guarantee),
            "method": curve.method,
            "holds": curve.holds,
            "epsilon": epsilon,
            "delta": delta,
        }
        for guarantee in given
        for curve in curves(guarantee)
        for epsilon, delta in _sampled(curve, end, max(floor, _LEAST_DELTA))
    ]


def _sampled(curve: ConversionCurve, end: float, floor: float) -> list[tuple[float, float]]:
    """The curve on a grid, down to the floor and one point below it."""
    found = []
    for step in range(_POINTS + 1):
        epsilon = end * step / _POINTS
        delta = curve.delta(epsilon)
        found.append((epsilon, max(delta, floor)))
        if delta <= floor or not math.isfinite(delta):
            break
    return found
