"""The curves of a certificate's report: delta(epsilon), and the trade-off between a test's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.app.report.chart import (
    AXIS,
    BAD,
    BAD_DASH,
    COLOURS,
    DASHES,
    GOOD,
    HEIGHT,
    INK,
    WIDTH,
    Drawn,
    chart_of,
)
from dpaudit.app.report.claim_points import claim_curve, claim_point, end_of, proved_points
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.curve_points import trade_off
from dpaudit.claims.guarantees import ApproxDP

#: Below it a logarithmic axis says nothing to a reader.
_LEAST_DELTA = 1e-12


def profile_chart(certificate: Certificate) -> Drawn | None:
    """delta(epsilon) of every accountant, and the claim as a point."""
    import altair as alt

    if not certificate.profile:
        return None
    claim = certificate.claim.guarantee
    names = [curve.method for curve in certificate.profile]
    tones, dashes = list(COLOURS[: len(names)]), list(DASHES[: len(names)])
    lines: list[dict[str, Any]] = [
        {"name": curve.method, "epsilon": epsilon, "delta": delta}
        for curve in certificate.profile
        for epsilon, delta in curve.points
    ]
    if not isinstance(claim, ApproxDP):
        names, tones, dashes = [*names, "the claim"], [*tones, BAD], [*dashes, BAD_DASH]
        lines += [
            {"name": "the claim", "epsilon": epsilon, "delta": delta}
            for epsilon, delta in claim_curve(claim, end_of(certificate))
        ]
    shown = [line for line in lines if line["delta"] >= _LEAST_DELTA]
    if not shown:
        return None
    epsilon, delta = claim_point(claim)
    x = alt.X(
        "epsilon:Q",
        title="epsilon",
        scale=alt.Scale(domain=[0, end_of(certificate)], nice=False),
        axis=alt.Axis(tickCount=8),
    )
    y = alt.Y(
        "delta:Q",
        title="delta",
        scale=alt.Scale(type="log", domain=[_floor(shown, delta), 1.0]),
        axis=alt.Axis(format=".0e", tickCount=7),
    )
    base = chart_of(shown).encode(
        x=x,
        y=y,
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=tones), legend=alt.Legend(title=None)),
        strokeDash=alt.StrokeDash(
            "name:N", scale=alt.Scale(domain=names, range=dashes), legend=alt.Legend(title=None)
        ),
    )
    marks = [base.mark_line(clip=True)]
    if delta >= _LEAST_DELTA:
        point = {"epsilon": epsilon, "delta": delta, "words": f"claim: ({epsilon:.4g}, {delta:.1g})"}
        at = chart_of([point]).encode(x=x, y=y)
        marks.append(at.mark_point(shape="diamond", size=130, filled=True, color=BAD, opacity=1))
        marks.append(
            at.mark_text(align="left", baseline="bottom", dx=7, dy=-5, fill=INK).encode(text="words:N")
        )
    chart = alt.layer(*marks).properties(width=WIDTH, height=HEIGHT)
    where = (
        "the claim is the diamond"
        if isinstance(claim, ApproxDP)
        else "the diamond is a point of the claim's own curve"
    )
    return (
        chart,
        f"What each accountant proves: at every epsilon the delta it needs, lower is stronger; {where}.",
    )


def trade_off_chart(certificate: Certificate) -> Drawn:
    """The trade-off between errors that is proved, and the region that the claim forbids."""
    import altair as alt

    proved = proved_points(certificate)
    claimed = claim_curve(certificate.claim.guarantee, end_of(certificate))
    alphas = sorted({*(step / 100 for step in range(101)), *(10 ** (-step / 4) for step in range(4, 25))})
    rows = [{"name": "guessing", "alpha": a, "beta": 1.0 - a} for a in (0.0, 1.0)]
    rows += [{"name": "the claim", "alpha": a, "beta": trade_off(claimed, a)} for a in alphas]
    names, tones, dashes = ["the claim", "guessing"], [BAD, AXIS], [BAD_DASH, [2, 2]]
    if proved:
        rows += [{"name": "proved", "alpha": a, "beta": trade_off(proved, a)} for a in alphas]
        names, tones, dashes = ["proved", *names], [GOOD, *tones], [[1, 0], *dashes]
    x = alt.X(
        "alpha:Q",
        title="false alarms",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    y = alt.Y(
        "beta:Q",
        title="misses",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    legend = alt.Legend(title=None)
    base = chart_of(rows)
    forbidden = (
        chart_of([row for row in rows if row["name"] == "the claim"])
        .mark_area(color=BAD, opacity=0.18)
        .encode(x=x, y=y)
    )
    lines = base.mark_line().encode(
        x=x,
        y=y,
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=tones), legend=legend),
        strokeDash=alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
    )
    chart = (forbidden + lines).properties(width=360, height=360)
    return chart, (
        "What a test that wants to tell two neighbouring data sets apart can reach, by its errors of either "
        "kind. The claim forbids the shaded region: a test in there would refute it. What is proved lies "
        "on or above the claim's line where the claim is proved."
    )


def _floor(lines: Sequence[dict[str, Any]], claimed: float) -> float:
    least: float = min(1e-2, claimed or 1.0, *(line["delta"] for line in lines))
    return max(_LEAST_DELTA, least)
