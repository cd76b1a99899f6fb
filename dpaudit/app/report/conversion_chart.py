"""Pictures of privacy curves, by Altair."""

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
_FORMATS = (".svg", ".png", ".html")


def draw_curves(given: Sequence[AnyGuarantee], rows: Sequence[Conversion], title: str, picture: Path) -> None:
    """Draw delta(epsilon) by every known method as a line, and each row of a table as a point.

    Raises `UsageError` where the file's ending is none of .svg, .png and .html, or it cannot be written.
    """
    where, ending = f"--plot {picture}", picture.suffix.lower()
    if ending not in _FORMATS:
        what = f"a picture in a {picture.suffix or 'nameless'} file"
        remedy = f"use one of {', '.join(_FORMATS)}"
        raise UsageError(what, where=where, why="the ending says how to draw it", remedy=remedy)
    import altair as alt

    found = [(row.method, row.guarantee) for row in rows] + [("target", target) for target in given]
    points: list[dict[str, Any]] = [
        {"method": method, "epsilon": point.epsilon, "delta": point.delta}
        for method, point in found
        if isinstance(point, ApproxDP)
    ]
    lines = _lines(given, points)
    names = list(dict.fromkeys(str(row["method"]) for row in [*lines, *points]))
    delta = alt.Y("delta:Q").title("delta").scale(type="log").axis(format=".0e")
    channels = {"x": alt.X("epsilon:Q").title("epsilon"), "y": delta, "color": colour(names, "method")}
    dashes = alt.StrokeDash("holds:N").legend(title=None, columns=1)
    drawn = chart_of(lines).mark_line(clip=True).encode(**channels, strokeDash=dashes, detail="of:N")
    marks = chart_of(points).mark_point(filled=True, size=60, opacity=1).encode(**channels)
    chart = specification((drawn + marks).properties(title=title, width=WIDTH, height=HEIGHT))
    if ending == ".png":
        content = png(chart)
    elif ending == ".svg":
        content = svg(chart, background="white").encode()
    else:
        caption = Picture(picture.name, "delta at every epsilon, by every method known.")
        content = html_page([Heading(title), caption], {picture.name: svg(chart)}).encode()
    try:
        replace_file(picture, content)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise UsageError(what, where=where, remedy="name another file") from None


def _lines(given: Sequence[AnyGuarantee], points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    end = 1.15 * max((point["epsilon"] for point in points), default=1.0) or 1.0
    floor = 0.1 * min((point["delta"] for point in points), default=1e-9)
    least = max(floor, 1e-300)  # below it a logarithmic axis says nothing
    return [
        {"of": f"{one}", "method": curve.method, "holds": curve.holds, "epsilon": epsilon, "delta": delta}
        for one in given
        for curve in curves(one)
        for epsilon, delta in _sampled(curve, end, least)
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
