"""Panels of what grows over users, the mean of several runs with bands of one standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.report.chart import chart_of, colour


def spread(values: NDArray[np.float64]) -> Row:
    """Mean and standard deviation of one point, one value a run; no band for a single run."""
    mean = float(values.mean())
    deviation = float(values.std(ddof=1)) if values.size > 1 else None
    return {
        "runs": values.size,
        "mean": mean,
        "deviation": deviation,
        # What grows is never below 0, however wide the band.
        "low": None if deviation is None else max(mean - deviation, 0.0),
        "high": None if deviation is None else mean + deviation,
    }


def panel(rows: Sequence[Row], names: Sequence[str], *, title: str, quantity: str) -> Any:
    """One panel over the users k, a line for each of the rows' curves.

    Args:
        rows: with ``curve``, ``episodes`` and what `spread` says.
        names: of all curves, in the order of their colours.
        title: the panel's.
        quantity: what is drawn.
    """
    import altair as alt

    base = chart_of(rows).encode(
        x=alt.X("episodes:Q", title="users", scale=alt.Scale(nice=False)), color=colour(names, "curve")
    )
    # What is drawn is never below 0; a deviation may reach there.
    upward = alt.Scale(domainMin=0)
    lines = base.mark_line().encode(y=alt.Y("mean:Q", title=quantity, scale=upward))
    banded = any(row["low"] is not None for row in rows)
    bands = [base.mark_area(opacity=0.15, clip=True).encode(y="low:Q", y2="high:Q")] if banded else []
    return alt.layer(*bands, lines).properties(title=title, width=380, height=340)
