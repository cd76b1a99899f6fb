"""The parts of pictures that several figures share: rows of means with bands, and a panel of such curves."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias, TypeVar

from dpaudit.algorithms.figures.published_claims import Table, Vector, estimate
from dpaudit.page.chart import COLOURS, Spec, channel, colour, marks

#: One curve at one place of the abscissa; a row of the CSV file.
Row: TypeAlias = dict[str, Any]

K = TypeVar("K", bound=Hashable)


def spread(values: Vector, *, least: float = -math.inf) -> Row:
    """Mean and standard deviation over the runs of one place; a single run has no band.

    No value can lie below `least`, and so no band is drawn there.
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


def standard_error(values: Vector) -> Row:
    """Mean and standard error of one point, for a logarithmic axis, where nothing is at or below 0."""
    mean, runs = float(values.mean()), len(values)
    error = float(values.std(ddof=1) / math.sqrt(runs)) if runs > 1 else None
    low, high = (mean, mean) if error is None else (max(mean - error, 1e-3 * mean), mean + error)
    return {"runs": runs, "mean": mean, "error": error, "low": low, "high": high}


def interval(values: Vector) -> Row:
    """Mean and 95% interval of what is never below 0, however wide the interval; a single run has none."""
    found = estimate(values)
    low, high = found.mean - found.half_width, found.mean + found.half_width
    band = (None, None) if math.isnan(low) else (max(low, 0.0), high)
    return {"runs": found.runs, "mean": found.mean, "low": band[0], "high": band[1]}


def rows_of(
    table: Table[K],
    place: str,
    band: Callable[[Vector], Row],
    more: Callable[[K], Row] = lambda _: {},
    curves: Sequence[K] | None = None,
) -> list[Row]:
    """A row for each curve, a dataclass whose infinite budget, which is none, is left empty, and each place.

    `place` is the column of the places, `band` the columns that follow from the values at a place, `more`
    further columns of a curve; by default all curves are shown.
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
    x: Spec,
    y: Spec,
    *,
    names: Sequence[str] = (),
    opacity: float = 0.15,
    shapes: bool = False,
) -> Spec:
    """A panel with a line for each of the rows' curves, over bands where the rows have them.

    Rows have ``curve``, the abscissa, ``mean``, ``low`` and ``high``; `x` and `y`, of ``mean``, are
    axes. `names` are those of all curves in the order of their colours, where other panels have more;
    `shapes` marks every place with a shape, as more curves than colours are marked to be told apart.
    """
    names = names or named(rows)
    shapes = shapes or len(names) > len(COLOURS)
    base = {"x": x, "color": colour(names, "curve")}
    layers = [marks(rows, "line", {**base, "y": y})]
    if any(row["low"] is not None for row in rows):
        band = {**base, "y": channel("low", "quantitative"), "y2": {"field": "high"}}
        layers.insert(0, marks(rows, "area", band, opacity=opacity, clip=True))
    if shapes:
        shape = {**channel("curve"), "scale": {"domain": list(names)}, "legend": {"title": None}}
        points = {**base, "y": channel("mean", "quantitative"), "shape": shape}
        layers.append(marks(rows, "point", points, filled=True, size=55, opacity=1))
    return {"layer": layers}
