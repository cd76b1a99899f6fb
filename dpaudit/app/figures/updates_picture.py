"""Regret and updates of Private LSVI-UCB drawn from their data: two panels, bands of one deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpaudit.app.figures.figure_004_shape import PUBLISHED, Switches
from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.figures.user_panels import panel, spread
from dpaudit.app.report.chart import specification

_QUANTITIES = {"regret": "cumulative regret", "updates": "policy updates so far"}


def rows_of(runs: Switches) -> list[Row]:
    """Mean and standard deviation of each curve at each k, of regret and of updates."""
    return [
        {
            "quantity": quantity,
            "curve": str(curve),
            "schedule": curve.schedule,
            "rho": curve.rho if math.isfinite(curve.rho) else None,
            "bonus": table.bonus[curve],
            "episodes": k,
            **spread(table.at(curve, k)),
        }
        for quantity, table in (("regret", runs.regret), ("updates", runs.updates))
        for curve in table.curves
        for k in table.points
    ]


def picture_of(rows: Sequence[Row], *, title: str) -> dict[str, Any]:
    """A Vega-Lite chart, its data inside: one panel for regret, one for updates.

    The published beta, whose regret is a straight line above all others, is left to the tables.
    """
    import altair as alt

    drawn = [row for row in rows if row["schedule"] != PUBLISHED]
    names = list(dict.fromkeys(str(row["curve"]) for row in drawn))
    panels = [
        panel([row for row in drawn if row["quantity"] == kind], names, title=kind, quantity=words)
        for kind, words in _QUANTITIES.items()
    ]
    return specification(alt.hconcat(*panels).properties(title=title))
