"""Pictures of privacy curves."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from dpaudit.accountants.curves.conversion_table import Conversion, ConversionCurve, curves
from dpaudit.app.text.streams import note
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file, require_folder
from dpaudit.page.blocks import Heading, Picture, html_page
from dpaudit.page.chart import (
    HEIGHT,
    WIDTH,
    Spec,
    axis,
    channel,
    colour,
    marks,
    png,
    require_drawing,
    specification,
    svg,
)
from dpaudit.page.printable import printable
from dpaudit.progress import Work

_POINTS = 200
_FORMATS = (".svg", ".png", ".html")


def conversion_curves(given: Sequence[AnyGuarantee], rows: Sequence[Conversion], title: str) -> Spec:
    """delta(epsilon) by every known method as a line, and each row of a table as a point."""
    found = [(row.method, row.guarantee) for row in rows] + [("target", target) for target in given]
    points = [(method, point) for method, point in found if isinstance(point, ApproxDP)]
    return curves_picture(_lines(given, points), points, title)


def curves_picture(lines: Sequence[Spec], points: Iterable[tuple[str, ApproxDP]], title: str) -> Spec:
    """Lines, each row with ``method``, ``holds``, ``of``, ``epsilon`` and ``delta``; points with a method."""
    shown = [{"method": method, "epsilon": at.epsilon, "delta": at.delta} for method, at in points]
    names = list(dict.fromkeys(str(row["method"]) for row in [*lines, *shown]))
    delta = axis("delta", "delta", {"type": "log"}, format=".0e")
    channels = {"x": axis("epsilon", "epsilon"), "y": delta, "color": colour(names, "method")}
    dash = {**channel("holds"), "legend": {"title": None, "columns": 1}}
    drawn = marks(lines, "line", {**channels, "strokeDash": dash, "detail": channel("of")}, clip=True)
    layers = [drawn, marks(shown, "point", channels, filled=True, size=60, opacity=1)]
    return specification({"layer": layers, "title": title, "width": WIDTH, "height": HEIGHT})


def write_pictures(paths: Sequence[Path], picture: Spec, title: str) -> None:
    """Write a picture into each file, by its ending; raises `UsageError` as `require_pictures` does."""
    require_pictures(paths)
    for path in paths:
        ending = path.suffix.lower()
        with Work(f"drawing {printable(path.name)}"):
            if ending == ".png":
                content = png(picture)
            elif ending == ".svg":
                content = svg(picture, background="white").encode()
            else:
                caption = Picture(path.name, "delta at every epsilon, by every method known.")
                content = html_page([Heading(title), caption], {path.name: svg(picture)}).encode()
        try:
            replace_file(path, content)
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise UsageError(what, where=f"--plot {path}", remedy="name another file") from None
        note(f"drawn: {path}")


def require_pictures(paths: Sequence[Path]) -> None:
    """Raise `UsageError` for an ending but .svg, .png and .html, or a folder that cannot be written to.

    Raises `MissingExtra` where nothing can be drawn.
    """
    if paths:
        require_drawing("--plot")
    for path in paths:
        if path.suffix.lower() not in _FORMATS:
            what = f"a picture in a {path.suffix or 'nameless'} file"
            why, remedy = "the ending says how to draw it", f"use one of {', '.join(_FORMATS)}"
            raise UsageError(what, where=f"--plot {path}", why=why, remedy=remedy)
        require_folder(path.parent)


def _lines(given: Sequence[AnyGuarantee], points: Sequence[tuple[str, ApproxDP]]) -> list[Spec]:
    end = 1.15 * max((point.epsilon for _, point in points), default=1.0) or 1.0
    floor = 0.1 * min((point.delta for _, point in points), default=1e-9)
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
