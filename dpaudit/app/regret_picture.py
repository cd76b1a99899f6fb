"""Figure 2 of Liao, He and Gu (2023) drawn from its data: two panels, bands of one standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpaudit.algorithms.figure_003_shape import Regrets
from dpaudit.app.chart import chart_of, colour, specification
from dpaudit.app.figure_picture import Row


def rows_of(regrets: Regrets) -> list[Row]:
    """Mean and standard deviation of each curve at each k; no band for a single run."""
    rows = []
    for curve in regrets.curves:
        for k in regrets.points:
            found = regrets.at(curve, k)
            mean = float(found.mean())
            deviation = float(found.std(ddof=1)) if found.size > 1 else None
            rows.append(
                {
                    "river": curve.river,
                    "curve": str(curve),
                    "algorithm": curve.algorithm,
                    "epsilon": curve.epsilon if math.isfinite(curve.epsilon) else None,
                    "calibration": curve.calibration,
                    "c": regrets.bonus[curve],
                    "episodes": k,
                    "runs": found.size,
                    "mean": mean,
                    "deviation": deviation,
                    # No regret is below 0, however wide the band.
                    "low": None if deviation is None else max(mean - deviation, 0.0),
                    "high": None if deviation is None else mean + deviation,
                }
            )
    return rows


def picture_of(rows: Sequence[Row], *, title: str) -> dict[str, Any]:
    """A Vega-Lite chart, its data inside: one panel a river."""
    import altair as alt

    names = list(dict.fromkeys(str(row["curve"]) for row in rows))
    banded = any(row["low"] is not None for row in rows)

    def panel(river: str) -> Any:
        base = chart_of(row for row in rows if row["river"] == river).encode(
            x=alt.X("episodes:Q", title="users", scale=alt.Scale(nice=False)), color=colour(names, "curve")
        )
        lines = base.mark_line().encode(y=alt.Y("mean:Q", title="cumulative regret"))
        bands = [base.mark_area(opacity=0.15).encode(y="low:Q", y2="high:Q")] if banded else []
        return alt.layer(*bands, lines).properties(title=river, width=380, height=340)

    rivers = dict.fromkeys(str(row["river"]) for row in rows)
    chart = alt.hconcat(*[panel(river) for river in rivers]).properties(title=title)
    return specification(chart)
