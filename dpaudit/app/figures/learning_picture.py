"""Figures 1 and 2 of Wang and Hegde (2019) drawn from their data: panels, bands of one standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpaudit.app.figures.figure_002_shape import Returns
from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.report.chart import chart_of, colour, specification


def rows_of(returns: Returns) -> list[Row]:
    """Mean and standard deviation of each curve at each point; no band for a single run."""
    rows = []
    for curve in returns.curves:
        for samples in returns.points:
            found = returns.learnt(curve, samples)
            mean = float(found.mean())
            deviation = float(found.std(ddof=1)) if found.size > 1 else None
            rows.append(
                {
                    "panel": curve.panel,
                    "curve": str(curve),
                    "algorithm": curve.algorithm,
                    "sigma": curve.sigma if curve.algorithm == "published" else None,
                    "epsilon": curve.epsilon if math.isfinite(curve.epsilon) else None,
                    "samples": samples,
                    "runs": found.size,
                    "mean": mean,
                    "deviation": deviation,
                    "low": None if deviation is None else mean - deviation,
                    "high": None if deviation is None else mean + deviation,
                }
            )
    return rows


def picture_of(rows: Sequence[Row], *, title: str) -> dict[str, Any]:
    """A Vega-Lite chart, its data inside: panels side by side, a legend of each panel's own."""
    import altair as alt

    banded = any(row["low"] is not None for row in rows)

    def panel(heading: str) -> Any:
        mine = [row for row in rows if row["panel"] == heading]
        names = list(dict.fromkeys(str(row["curve"]) for row in mine))
        base = chart_of(mine).encode(
            x=alt.X("samples:Q", title="samples", scale=alt.Scale(nice=False)), color=colour(names, "curve")
        )
        scale = alt.Scale(domain=[0, 25], clamp=True)
        lines = base.mark_line().encode(y=alt.Y("mean:Q", title="return of what was learnt", scale=scale))
        bands = [base.mark_area(opacity=0.07).encode(y="low:Q", y2="high:Q")] if banded else []
        return alt.layer(*bands, lines).properties(title=heading, width=330, height=320)

    headings = dict.fromkeys(str(row["panel"]) for row in rows)
    chart = alt.hconcat(*[panel(heading) for heading in headings]).resolve_scale(color="independent")
    return specification(chart.properties(title=title))
