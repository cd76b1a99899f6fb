"""Figure 1 of Qiao and Wang (2023) drawn from its data: SVG, PNG, and a specification for a page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from dpaudit.algorithms.figure_1_shape import Curve, Curves
from dpaudit.errors import MissingExtra

_DRAW = "window.draw = (place, specification) => vegaEmbed(place, specification, {renderer: 'svg'});"

#: Of one curve at one K; the columns of the CSV file.
Row = dict[str, Any]


def drawing_libraries() -> tuple[ModuleType, ModuleType]:
    """Altair and vl-convert, loaded.

    Raises:
        MissingExtra: they are not installed.
    """
    try:
        import altair as alt
        import vl_convert
    except ImportError as error:
        raise MissingExtra(
            f"drawing a figure needs {error.name}",
            where="dpaudit reproduce",
            why="it is an optional dependency",
            remedy="pip install 'dpaudit[plot]'",
        ) from error
    return alt, vl_convert


def rows_of(curves: Curves, drawn: Sequence[Curve]) -> list[Row]:
    """Mean and 95% interval of each curve at each K; the interval is empty for a single run."""
    rows = []
    for curve in drawn:
        for k, found in zip(curves.ks, curves.estimates(curve), strict=True):
            banded = not math.isnan(found.half_width)
            rows.append(
                {
                    "curve": str(curve),
                    "algorithm": curve.algorithm,
                    "rho": curve.rho if math.isfinite(curve.rho) else None,
                    "episodes": k,
                    "runs": found.runs,
                    "mean": found.mean,
                    # A suboptimality is never below 0, however wide the interval.
                    "low": max(found.mean - found.half_width, 0.0) if banded else None,
                    "high": found.mean + found.half_width if banded else None,
                }
            )
    return rows


def specification(rows: Sequence[Row], *, title: str, logarithmic: bool = False) -> str:
    """A Vega-Lite chart as JSON, its data inside: means as lines, intervals as bands."""
    alt, _ = drawing_libraries()
    names = list(dict.fromkeys(str(row["curve"]) for row in rows))
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        x=alt.X(
            "episodes:Q",
            title="number of episodes K",
            scale=alt.Scale(type="log" if logarithmic else "linear", nice=False),
        ),
        color=alt.Color(
            "curve:N",
            title=None,
            sort=names,
            scale=alt.Scale(domain=names),
            legend=alt.Legend(symbolOpacity=1.0),
        ),
    )
    lines = base.mark_line(point=True).encode(
        y=alt.Y("mean:Q", title="suboptimality v* - v"),
        tooltip=[alt.Tooltip(f"{field}") for field in ("curve:N", "episodes:Q", "mean:Q", "low:Q", "high:Q")],
    )
    parts = [lines]
    if any(row["low"] is not None for row in rows):
        parts.insert(0, base.mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q"))
    chart = alt.layer(*parts).properties(title=title, width=560, height=340)
    return json.dumps(chart.to_dict(), sort_keys=True)


def svg(picture: str) -> bytes:
    """A specification as SVG."""
    _, vl_convert = drawing_libraries()
    drawn: str = vl_convert.vegalite_to_svg(picture)
    return drawn.encode()


def png(picture: str) -> bytes:
    """A specification as PNG, two pixels to a point."""
    _, vl_convert = drawing_libraries()
    drawn: bytes = vl_convert.vegalite_to_png(picture, scale=2)
    return drawn


def script() -> str:
    """JavaScript with Vega inside that defines ``draw(place, specification)``."""
    _, vl_convert = drawing_libraries()
    bundle: str = vl_convert.javascript_bundle(_DRAW)
    return bundle
