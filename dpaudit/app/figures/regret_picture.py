"""Figure 2 of Liao, He and Gu (2023) drawn from its data: two panels, bands of one standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpaudit.app.figures.figure_003 import Curve
from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.figures.regrets import Regrets
from dpaudit.app.figures.user_panels import panel, spread
from dpaudit.app.report.chart import specification


def rows_of(regrets: Regrets[Curve]) -> list[Row]:
    """Mean and standard deviation of each curve at each k."""
    return [
        {
            "river": curve.river,
            "curve": str(curve),
            "algorithm": curve.algorithm,
            "epsilon": curve.epsilon if math.isfinite(curve.epsilon) else None,
            "calibration": curve.calibration,
            "c": regrets.bonus[curve],
            "episodes": k,
            **spread(regrets.at(curve, k)),
        }
        for curve in regrets.curves
        for k in regrets.points
    ]


def picture_of(rows: Sequence[Row], *, title: str) -> dict[str, Any]:
    """A Vega-Lite chart, its data inside: one panel a river."""
    import altair as alt

    names = list(dict.fromkeys(str(row["curve"]) for row in rows))
    rivers = dict.fromkeys(str(row["river"]) for row in rows)
    panels = [
        panel(
            [row for row in rows if row["river"] == river], names, title=river, quantity="cumulative regret"
        )
        for river in rivers
    ]
    return specification(alt.hconcat(*panels).properties(title=title))
