"""The pictures of a certificate's report."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from dpaudit.app.report.chart import AXIS, BAD, BAD_DASH, COLOURS, GOOD, HEIGHT, INK, WIDTH, Drawn, chart_of
from dpaudit.app.report.claim_points import claimed_epsilon
from dpaudit.app.report.report_curves import profile_chart, trade_off_chart
from dpaudit.app.report.running_total import course, shares
from dpaudit.app.text.audits import could_refute_any
from dpaudit.app.text.streams import printable
from dpaudit.auditors.statistics.clopper_pearson import largest_refutable_epsilon
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Audit, leading_figure
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.errors import CannotBound, InvalidParameter

_LONGEST_LABEL = 32


def charts(certificate: Certificate) -> dict[str, Drawn]:
    """Each picture that the certificate has figures for, by its name."""
    makers: dict[str, Callable[[Certificate], Drawn | None]] = {
        "budget": _budget,
        "course": _course,
        "profile": profile_chart,
        "trade-off": trade_off_chart,
        "audits": _audits,
    }
    drawn = {}
    for name, make in makers.items():
        with contextlib.suppress(CannotBound, InvalidParameter):  # a claim past all curves still has a report
            chart = make(certificate)
            if chart is not None:
                drawn[name] = chart
    return drawn


def _budget(certificate: Certificate) -> Drawn | None:
    import altair as alt

    found = [share for share in shares(certificate.releases) if share.share is not None]
    if not found:
        return None
    rows: list[dict[str, Any]] = [
        {
            "release": position,
            "label": _short(share.label if share.number == 1 else f"{share.label} ({share.number})"),
            "share": share.share,
            "words": f"{share.share:.1%}",
            "claim": {"PROVED": "own claim proved", "NOT_PROVED": "own claim not proved"}.get(
                str(share.verdict), "nothing claimed for it alone"
            ),
        }
        for position, share in enumerate(found)
    ]
    claims = ["own claim proved", "own claim not proved", "nothing claimed for it alone"]
    present = [claim for claim in claims if any(row["claim"] == claim for row in rows)]
    tones = dict(zip(claims, (GOOD, BAD, AXIS), strict=True))
    names = "[" + ", ".join(_literal(str(row["label"])) for row in rows) + "][datum.value]"
    base = chart_of(rows).encode(
        y=alt.Y("release:O", sort=None, title=None, axis=alt.Axis(labelExpr=names, ticks=False, domain=False))
    )
    bars = base.mark_bar(height={"band": 0.7}).encode(
        x=alt.X(
            "share:Q",
            title="share of the sum of all releases' costs",
            axis=alt.Axis(format="%", tickCount=5),
            scale=alt.Scale(domain=[0, 1.12 * max(row["share"] for row in rows)], nice=False),
        ),
        color=alt.Color(
            "claim:N",
            scale=alt.Scale(domain=present, range=[tones[claim] for claim in present]),
            legend=alt.Legend(title=None),
        ),
    )
    words = base.mark_text(align="left", dx=5, fill=INK).encode(x="share:Q", text="words:N")
    chart = (bars + words).properties(width=WIDTH - 120, height=max(60, 26 * len(rows)))
    return chart, (
        "What each release takes of the budget. Costs on different parts of a split do not all add up."
    )


def _course(certificate: Certificate) -> Drawn | None:
    import altair as alt

    found = course(certificate)
    if found is None:
        return None
    held, totals = found
    line = "budget held by the filter" if certificate.budget else "claim"
    limit = leading_figure(held)
    rows = [{"after": number, "total": total} for number, total in totals]
    scale = _scale_of(held)
    x = alt.X(
        "after:Q",
        title="number of releases made",
        axis=alt.Axis(format="d", tickMinStep=1, **_few(totals[-1][0])),
        scale=alt.Scale(domain=[0, totals[-1][0]], nice=False),
    )
    y = alt.Y("total:Q", title=f"proved so far, {scale}")
    steps = (
        chart_of([{"after": 0, "total": 0.0}, *rows])
        .mark_line(
            interpolate="step-after",
            color=GOOD,
            point={"size": 45, "color": GOOD} if len(rows) < 40 else False,
        )
        .encode(x=x, y=y)
    )
    rule = chart_of([{"limit": limit, "words": f"{line}: {limit:.6g}"}]).encode(y="limit:Q")
    chart = (
        steps
        + rule.mark_rule(color=BAD, strokeDash=BAD_DASH, strokeWidth=2)
        + rule.mark_text(align="left", baseline="bottom", dx=4, dy=-4, fill=INK, x=0).encode(text="words:N")
    ).properties(width=WIDTH, height=220)
    return (
        chart,
        f"The proved total after each release, on the scale of {scale}; the dashed line is the {line}.",
    )


def _audits(certificate: Certificate) -> Drawn | None:
    import altair as alt

    found = [
        (n, audit) for n, audit in enumerate(certificate.audits, start=1) if audit.epsilon_lower is not None
    ]
    if not found:
        return None
    several = len(certificate.audits) > 1
    marks: list[dict[str, Any]] = []
    for number, audit in found:
        name = f"{number}. {audit.method}" if several else audit.method
        for kind, value in (
            ("found: at least", audit.epsilon_lower),
            ("most it could refute", None if could_refute_any(audit) else audit.largest_refutable_epsilon),
            ("claimed", _claimed(certificate, audit)),
        ):
            if value is not None:
                marks.append({"audit": name, "trials": audit.trials, "epsilon": value, "kind": kind})
    kinds = [
        k
        for k in ("claimed", "most it could refute", "found: at least")
        if any(m["kind"] == k for m in marks)
    ]
    tones = {"claimed": BAD, "most it could refute": COLOURS[2], "found: at least": GOOD}
    shapes = {"claimed": "diamond", "most it could refute": "triangle-up", "found: at least": "circle"}
    least, most = (pick(audit.trials for _, audit in found) for pick in (min, max))
    x = alt.X(
        "trials:Q",
        title="runs on each side",
        scale=alt.Scale(type="log", domain=[max(1, least // 10), most * 10]),
        axis=alt.Axis(format="~s", tickCount=5, grid=False),
    )
    y = alt.Y(
        "epsilon:Q",
        title="epsilon",
        scale=alt.Scale(domain=[0, 1.15 * max(m["epsilon"] for m in marks) or 1.0]),
    )
    legend = alt.Legend(title=None)
    base = chart_of(marks).encode(
        x=x,
        y=y,
        color=alt.Color(
            "kind:N", scale=alt.Scale(domain=kinds, range=[tones[k] for k in kinds]), legend=legend
        ),
        shape=alt.Shape(
            "kind:N", scale=alt.Scale(domain=kinds, range=[shapes[k] for k in kinds]), legend=legend
        ),
    )
    layers = [base.mark_point(size=140, filled=True, opacity=1, strokeWidth=3)]
    layers += _reach([audit for _, audit in found], max(1, least // 10), most * 10, x)
    names = [mark for mark in marks if mark["kind"] == "found: at least"]
    text = chart_of(names).mark_text(align="left", dx=10, fill=INK)
    chart = alt.layer(*layers, text.encode(x=x, y=y, text="audit:N")).properties(width=WIDTH, height=HEIGHT)
    return chart, (
        "Lower bounds that the experiments found, each at its own delta, over the runs they took. A bound "
        "above what is claimed refutes the claim. The curve, where there is one, is the largest epsilon "
        "that so many tested runs can refute at all."
    )


def _reach(audits: Sequence[Audit], least: int, most: int, x: Any) -> list[Any]:
    """The largest refutable epsilon over the number of tested runs, for the methods it is a formula of."""
    audit = next(
        (a for a in audits if a.method == "threshold" and a.delta is not None and a.confidence), None
    )
    if audit is None or audit.delta is None or audit.confidence is None:
        return []
    steps = [least * (most / least) ** (step / 60) for step in range(61)]
    rows = [
        {"trials": n, "epsilon": largest_refutable_epsilon(max(1, round(n)), audit.delta, audit.confidence)}
        for n in steps
    ]
    line = chart_of(rows).mark_line(color=COLOURS[2], strokeDash=[4, 3], strokeWidth=1.5, clip=True)
    return [line.encode(x=x, y="epsilon:Q")]


def _claimed(certificate: Certificate, audit: Audit) -> float | None:
    """What the claim says at the audit's delta, also where that takes a conversion."""
    if audit.epsilon_claimed is not None or not audit.delta:
        return audit.epsilon_claimed
    return claimed_epsilon(certificate.claim.guarantee, audit.delta)


def _few(most: int) -> dict[str, Any]:
    """Of few releases, every number has its tick."""
    return {"values": list(range(most + 1))} if most <= 10 else {"tickCount": 8}


def _scale_of(guarantee: AnyGuarantee) -> str:
    if isinstance(guarantee, ApproxDP):
        return f"epsilon at delta {guarantee.delta:g}"
    return {"zcdp": "rho", "gdp": "mu", "pure-dp": "epsilon", "rdp": "Renyi epsilon"}[guarantee.kind]


def _short(label: str) -> str:
    # Before it is written into an expression, where escapes would be read again.
    label = printable(label)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _literal(text: str) -> str:
    """A string in Vega's expressions, which know those of JSON."""
    return json.dumps(text)
