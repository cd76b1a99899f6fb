"""The parts of pictures that several figures share: rows of means with bands, and a panel of such curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias, TypeVar

from dpaudit.app.figures.published_claims import Table, Vector
from dpaudit.app.report.chart import chart_of, colour

#: One curve at one place of the abscissa; a row of the CSV file.
Row: TypeAlias = dict[str, Any]

K = TypeVar("K", bound=Hashable)


def spread(values: Vector, *, least: float = -math.inf) -> Row:
    """Mean and standard deviation over the runs of one place; a single run has no band.

    Args:
        values: one a run.
        least: below which no value can lie, and so no band is drawn.
    """
    mean = float(values.mean())
    deviation = float(values.std(ddof=1)) if values.size > 1 else None
    return {
        "runs": values.size,
        "mean": mean,
        "deviation": deviation,
        "low": None if deviation is None else max(mean - deviation, least),
        "high": None if deviation is None else mean + deviation,
    }


def rows_of(
    table: Table[K],
    place: str,
    band: Callable[[Vector], Row],
    more: Callable[[K], Row] = lambda _: {},
    curves: Sequence[K] | None = None,
) -> list[Row]:
    """A row for each curve and place.

    Args:
        table: by curves that are dataclasses; an infinite budget, which is none, is left empty.
        place: the column of the places.
        band: the columns that follow from the values at a place.
        more: further columns of a curve.
        curves: those that are shown, by default all.
    """
    rows = []
    for curve in table.curves if curves is None else curves:
        what: Any = curve
        parts = {name: None if value == math.inf else value for name, value in asdict(what).items()}
        columns = {"curve": str(curve), **parts, **more(curve)}
        rows += [{**columns, place: k, **band(table.at(curve, k))} for k in table.places]
    return rows


def named(rows: Sequence[Row], column: str = "curve") -> list[str]:
    """The different values of a column, in the rows' order."""
    return list(dict.fromkeys(str(row[column]) for row in rows))


def panel(
    rows: Sequence[Row],
    x: Any,
    y: Any,
    *,
    names: Sequence[str] = (),
    opacity: float = 0.15,
    shapes: bool = False,
) -> Any:
    """A panel with a line for each of the rows' curves, over bands where the rows have them.

    Args:
        rows: with ``curve``, the abscissa, ``mean``, ``low`` and ``high``.
        x: the abscissa, as Altair has it.
        y: the ordinate, of ``mean``.
        names: of all curves, in the order of their colours, where other panels have more curves.
        opacity: of the bands.
        shapes: mark every place with a shape, which tells curves apart where colours do not.
    """
    import altair as alt

    names = names or named(rows)
    base = chart_of(rows).encode(x=x, color=colour(names, "curve"))
    banded = any(row["low"] is not None for row in rows)
    bands = [base.mark_area(opacity=opacity, clip=True).encode(y="low:Q", y2="high:Q")] if banded else []
    marks = []
    if shapes:
        shape = alt.Shape("curve:N", scale=alt.Scale(domain=names), legend=alt.Legend(title=None))
        marks.append(base.mark_point(filled=True, size=55, opacity=1).encode(y="mean:Q", shape=shape))
    return alt.layer(*bands, base.mark_line().encode(y=y), *marks)
