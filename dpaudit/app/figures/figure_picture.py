"""Figure 1 of Qiao and Wang (2023) from its data: the numbers behind it, and the chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpaudit.app.figures.figure_000_shape import Curve, Curves
from dpaudit.app.report.chart import HEIGHT, WIDTH, chart_of, colour, specification

#: Of one curve at one K; the columns of the CSV file.
Row = dict[str, Any]


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


def picture_of(rows: Sequence[Row], *, title: str, logarithmic: bool = False) -> dict[str, Any]:
    """A Vega-Lite chart, its data inside: means as lines, intervals as bands."""
    import altair as alt

    names = list(dict.fromkeys(str(row["curve"]) for row in rows))
    episodes = alt.X(
        "episodes:Q",
        title="number of episodes K",
        scale=alt.Scale(type="log" if logarithmic else "linear", nice=False),
        axis=alt.Axis(tickCount=6),
    )
    base = chart_of(rows).encode(x=episodes, color=colour(names, "curve"))
    lines = base.mark_line().encode(y=alt.Y("mean:Q", title="suboptimality v* - v"))
    # Shapes tell curves apart where colours do not.
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        y="mean:Q", shape=alt.Shape("curve:N", scale=alt.Scale(domain=names), legend=alt.Legend(title=None))
    )
    parts = [lines, points]
    if any(row["low"] is not None for row in rows):
        parts.insert(0, base.mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q"))
    return specification(alt.layer(*parts).properties(title=title, width=WIDTH, height=HEIGHT + 40))
