"""The curves of a certificate's report: delta(epsilon), and the trade-off between a test's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpaudit.accountants.curves.conversion_table import ALWAYS, conversions, curves
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
    colour,
)
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.curve_points import trade_off
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP

#: Below it a logarithmic axis says nothing to a reader.
_LEAST_DELTA = 1e-12

#: At this delta a claim on a scale without one is shown as a point.
_SHOWN_DELTA = 1e-6

_POINTS = 240


def profile_chart(certificate: Certificate) -> Drawn | None:
    """delta(epsilon) of every accountant, and the claim as a point."""
    import altair as alt

    if not certificate.profile:
        return None
    claim = certificate.claim.guarantee
    end = _end(certificate)
    names = [curve.method for curve in certificate.profile]
    tones, dashes = list(COLOURS[: len(names)]), list(DASHES[: len(names)])
    drawn = [(curve.method, curve.points) for curve in certificate.profile]
    if not isinstance(claim, ApproxDP):
        names, tones, dashes = [*names, "the claim"], [*tones, BAD], [*dashes, BAD_DASH]
        drawn.append(("the claim", tuple(_claim_curve(claim, end))))
    shown: list[dict[str, Any]] = [
        {"name": name, "epsilon": epsilon, "delta": delta}
        for name, points in drawn
        for epsilon, delta in points
        if delta >= _LEAST_DELTA
    ]
    if not shown:
        return None
    epsilon, delta = _claim_point(claim)
    x = alt.X("epsilon:Q").title("epsilon").scale(domain=[0, end], nice=False).axis(tickCount=8)
    least = max(_LEAST_DELTA, min(1e-2, delta or 1.0, *(point["delta"] for point in shown)))
    y = alt.Y("delta:Q").title("delta").scale(type="log", domain=[least, 1.0]).axis(format=".0e", tickCount=7)
    lines = chart_of(shown).mark_line(clip=True)
    layers = [lines.encode(x=x, y=y, color=colour(names, colours=tones), strokeDash=_dashed(names, dashes))]
    if delta >= _LEAST_DELTA:
        point = {"epsilon": epsilon, "delta": delta, "words": f"claim: ({epsilon:.4g}, {delta:.1g})"}
        at = chart_of([point]).encode(x=x, y=y)
        layers.append(at.mark_point(shape="diamond", size=130, filled=True, color=BAD, opacity=1))
        words = at.mark_text(align="left", baseline="bottom", dx=7, dy=-5, fill=INK)
        layers.append(words.encode(text="words:N"))
    where = (
        "the claim is the diamond"
        if isinstance(claim, ApproxDP)
        else "the diamond is a point of the claim's own curve"
    )
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT), (
        f"What each accountant proves: the delta at every epsilon; lower is stronger; {where}."
    )


def trade_off_chart(certificate: Certificate) -> Drawn:
    """The trade-off between errors that is proved, and the region that the claim forbids."""
    import altair as alt

    proved = [point for curve in certificate.profile for point in curve.points]
    claimed = _claim_curve(certificate.claim.guarantee, _end(certificate))
    alphas = sorted({*(step / 100 for step in range(101)), *(10 ** (-step / 4) for step in range(4, 25))})
    claim = [{"name": "the claim", "alpha": a, "beta": trade_off(claimed, a)} for a in alphas]
    rows = [*({"name": "guessing", "alpha": a, "beta": 1.0 - a} for a in (0.0, 1.0)), *claim]
    names, tones, dashes = ["the claim", "guessing"], [BAD, AXIS], [BAD_DASH, [2, 2]]
    if proved:
        rows += [{"name": "proved", "alpha": a, "beta": trade_off(proved, a)} for a in alphas]
        names, tones, dashes = ["proved", *names], [GOOD, *tones], [[1, 0], *dashes]
    x, y = (
        axis.scale(domain=[0, 1], nice=False).axis(format="%", tickCount=5)
        for axis in (alt.X("alpha:Q").title("false alarms"), alt.Y("beta:Q").title("misses"))
    )
    forbidden = chart_of(claim).mark_area(color=BAD, opacity=0.18).encode(x=x, y=y)
    lines = chart_of(rows).mark_line()
    lines = lines.encode(x=x, y=y, color=colour(names, colours=tones), strokeDash=_dashed(names, dashes))
    return (forbidden + lines).properties(width=360, height=360), (
        "What a test that wants to tell two neighbouring data sets apart can reach, by its errors of either "
        "kind. The claim forbids the shaded region: a test in there would refute it. What is proved lies "
        "on or above the claim's line where the claim is proved."
    )


def claimed_epsilon(claim: AnyGuarantee, delta: float) -> float | None:
    """The epsilon that a claim promises at a delta; None where it promises none."""
    found = (row.guarantee for row in conversions(claim, [delta], []) if row.holds == ALWAYS)
    return next((g.epsilon for g in found if isinstance(g, ApproxDP)), None)


def _claim_curve(claim: AnyGuarantee, end: float) -> list[tuple[float, float]]:
    """What a claim promises between epsilon 0 and `end`: a curve, or the one point that was claimed."""
    if isinstance(claim, ApproxDP):
        return [(claim.epsilon, claim.delta)]
    curve = next(curve for curve in curves(claim) if curve.holds == ALWAYS)
    steps = (end * step / _POINTS for step in range(_POINTS + 1))
    return [(epsilon, min(1.0, curve.delta(epsilon))) for epsilon in steps]


def _claim_point(claim: AnyGuarantee) -> tuple[float, float]:
    """One (epsilon, delta) that a claim promises."""
    if isinstance(claim, ApproxDP):
        return claim.epsilon, claim.delta
    return claimed_epsilon(claim, _SHOWN_DELTA) or 0.0, _SHOWN_DELTA


def _end(certificate: Certificate) -> float:
    """How far to the right the pictures of delta(epsilon) go."""
    ends = [curve.points[-1][0] for curve in certificate.profile]
    return max([1.15 * _claim_point(certificate.claim.guarantee)[0], *ends]) or 1.0


def _dashed(names: Sequence[str], dashes: Sequence[Sequence[int]]) -> Any:
    import altair as alt

    return alt.StrokeDash("name:N").scale(domain=list(names), range=list(dashes)).legend(title=None)
