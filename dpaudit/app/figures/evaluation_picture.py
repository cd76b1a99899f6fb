"""The four panels of figure 1 of Balle, Gomrokchi and Precup (2016), from its data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpaudit.app.figures.figure_001 import RIDGES, SCHEDULES
from dpaudit.app.figures.figure_001_shape import Line, Results, line_of
from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.report.chart import chart_of, colour, specification

#: Titles of the panels, in the paper's order.
PANELS = {
    "a": "without noise: LSL against LSW",
    "b": "all against lambda, tabular",
    "c": "all against the batch size, pairs",
    "d": "excess empirical risk against the batch size",
}


def rows_of(results: Results) -> list[Row]:
    """Mean and standard error of each curve at each abscissa, panel by panel."""
    return [
        *_over_batches(results, "a", [line_of(name, "none", k) for k in (1, 2) for name in ("lsl", "lsw")]),
        *_over_ridges(results),
        *_over_batches(results, "c", [*_plain(), *_private((2,))]),
        *_over_batches(results, "d", _private((1, 2)), excess=True),
    ]


def picture_of(rows: Sequence[Row], *, title: str) -> dict[str, Any]:
    """A Vega-Lite chart, its data inside: means as lines, standard errors as bars."""
    import altair as alt

    def panel(name: str, heading: str, *, height: int = 260, **only: Any) -> Any:
        chosen = [row for row in rows if row["panel"] == name and only.items() <= row.items()]
        names = list(dict.fromkeys(row["curve"] for row in chosen))
        base = chart_of(chosen).encode(
            x=alt.X(
                "ridge:Q" if name == "b" else "episodes:Q",
                title="lambda" if name == "b" else "batch size m",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s", values=_decades(chosen, "ridge" if name == "b" else "episodes")),
            ),
            color=colour(names, "curve"),
        )
        y = "excess empirical risk" if name == "d" else "RMSE over states"
        lines = base.mark_line(point=alt.OverlayMarkDef(size=18)).encode(
            y=alt.Y("mean:Q", title=y, scale=alt.Scale(type="log"), axis=alt.Axis(format="~e", tickCount=6)),
            strokeDash=alt.StrokeDash(
                "noise:N", legend=None, scale=alt.Scale(domain=["none", "lemma", "exact"])
            ),
        )
        bars = base.mark_rule().encode(y="low:Q", y2="high:Q")
        drawn = alt.layer(bars, lines).properties(title=heading, width=380, height=height)
        return drawn.resolve_scale(color="shared")

    sizes = list(dict.fromkeys(row["episodes"] for row in rows if row["panel"] == "b"))
    over_ridges = alt.vconcat(
        *(panel("b", f"(b) {PANELS['b']}, m={m}", height=100, episodes=m) for m in sizes)
    ).resolve_scale(color="shared", strokeDash="shared")
    chart = alt.vconcat(
        alt.hconcat(panel("a", f"(a) {PANELS['a']}"), over_ridges).resolve_scale(color="independent"),
        alt.hconcat(panel("c", f"(c) {PANELS['c']}"), panel("d", f"(d) {PANELS['d']}")).resolve_scale(
            color="independent"
        ),
        title=title,
    ).resolve_scale(color="independent")
    return specification(chart)


def _decades(rows: Sequence[Row], field: str) -> list[float]:
    values = [row[field] for row in rows]
    return [
        10.0**k for k in range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    ]


def _plain() -> list[Line]:
    return [line_of("lsw", "none", 2), *(line_of("lsl", "none", 2, noise) for noise in SCHEDULES)]


def _private(aggregates: Sequence[int]) -> list[Line]:
    return [
        line_of(name, noise, k) for k in aggregates for name in ("dp-lsw", "dp-lsl") for noise in SCHEDULES
    ]


def _over_batches(
    results: Results, panel: str, lines: Sequence[Line], *, excess: bool = False
) -> Iterator[Row]:
    for line in lines:
        for m in results.batches:
            yield _row(panel, line, m, None, results.values(line, m, excess=excess))


def _over_ridges(results: Results) -> Iterator[Row]:
    lines = [Line(name, "none", 1) for name in ("lsw", "lsl")]
    lines += [Line(name, noise, 1) for name in ("dp-lsw", "dp-lsl") for noise in SCHEDULES]
    for m in results.swept:
        for line in lines:
            for ridge in RIDGES:
                yield _row("b", line, m, ridge, results.values(line, m, ridge))


def _row(panel: str, line: Line, m: int, ridge: float | None, values: np.ndarray[Any, Any]) -> Row:
    mean, runs = float(values.mean()), len(values)
    error = float(values.std(ddof=1) / math.sqrt(runs)) if runs > 1 else None
    return {
        "panel": panel,
        "curve": str(line),
        "algorithm": line.algorithm,
        "noise": line.calibration,
        "aggregate": line.aggregate,
        "episodes": m,
        "ridge": ridge,
        "runs": runs,
        "mean": mean,
        "error": error,
        # On a logarithmic axis nothing is at or below 0.
        "low": mean if error is None else max(mean - error, 1e-3 * mean),
        "high": mean if error is None else mean + error,
    }
