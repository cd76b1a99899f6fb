"""The pictures of a certificate's report."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from dpaudit.app.report.chart import (
    AXIS,
    BAD,
    BAD_DASH,
    COLOURS,
    GOOD,
    HEIGHT,
    INK,
    WIDTH,
    Drawn,
    chart_of,
    colour,
)
from dpaudit.app.report.report_curves import claimed_epsilon, profile_chart, trade_off_chart
from dpaudit.app.report.running_total import course, shares
from dpaudit.app.text.audits import could_refute_any
from dpaudit.app.text.streams import printable
from dpaudit.auditors.statistics.clopper_pearson import largest_refutable_epsilon
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import Audit, Proof, leading_figure
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


#: How a bar looks by the verdict on the release's own claim.
_OWN_CLAIMS: dict[Proof | None, tuple[str, str]] = {
    Proof.PROVED: ("own claim proved", GOOD),
    Proof.NOT_PROVED: ("own claim not proved", BAD),
    None: ("nothing claimed for it alone", AXIS),
}


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
            "claim": _OWN_CLAIMS[share.verdict][0],
        }
        for position, share in enumerate(found)
    ]
    present = {row["claim"] for row in rows}
    claims, tones = zip(*(one for one in _OWN_CLAIMS.values() if one[0] in present), strict=True)
    # A string in Vega's expressions is one of JSON.
    names = f"[{', '.join(json.dumps(row['label']) for row in rows)}][datum.value]"
    y = alt.Y("release:O").sort(None).title(None).axis(labelExpr=names, ticks=False, domain=False)
    x = alt.X("share:Q").title("share of the sum of all releases' costs").axis(format="%", tickCount=5)
    x = x.scale(domain=[0, 1.12 * max(row["share"] for row in rows)], nice=False)
    base = chart_of(rows).encode(y=y)
    bars = base.mark_bar(height={"band": 0.7}).encode(x=x, color=colour(claims, "claim", tones))
    words = base.mark_text(align="left", dx=5, fill=INK).encode(x="share:Q", text="words:N")
    return (bars + words).properties(width=WIDTH - 120, height=max(60, 26 * len(rows))), (
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
    scale, last = _scale_of(held), totals[-1][0]
    # Of few releases, every number has its tick.
    ticks: dict[str, Any] = {"values": list(range(last + 1))} if last <= 10 else {"tickCount": 8}
    x = alt.X("after:Q").title("number of releases made").axis(format="d", tickMinStep=1, **ticks)
    x = x.scale(domain=[0, last], nice=False)
    point = {"size": 45, "color": GOOD} if len(totals) < 40 else False
    rows = [{"after": number, "total": total} for number, total in [(0, 0.0), *totals]]
    steps = chart_of(rows).mark_line(interpolate="step-after", color=GOOD, point=point)
    rule = chart_of([{"limit": limit, "words": f"{line}: {limit:.6g}"}]).encode(y="limit:Q")
    words = rule.mark_text(align="left", baseline="bottom", dx=4, dy=-4, fill=INK, x=0).encode(text="words:N")
    chart = (
        steps.encode(x=x, y=alt.Y("total:Q").title(f"proved so far, {scale}"))
        + rule.mark_rule(color=BAD, strokeDash=BAD_DASH, strokeWidth=2)
        + words
    )
    return chart.properties(width=WIDTH, height=220), (
        f"The proved total after each release, on the scale of {scale}; the dashed line is the {line}."
    )


#: The marks of an audit: what each is, its colour and its shape.
_MARKS = {
    "claimed": (BAD, "diamond"),
    "most it could refute": (COLOURS[2], "triangle-up"),
    "found: at least": (GOOD, "circle"),
}


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
    kinds = [kind for kind in _MARKS if any(mark["kind"] == kind for mark in marks)]
    tones, shapes = zip(*(_MARKS[kind] for kind in kinds), strict=True)
    trials = [audit.trials for _, audit in found]
    least, most = max(1, min(trials) // 10), max(trials) * 10
    x = alt.X("trials:Q").title("runs on each side").axis(format="~s", tickCount=5, grid=False)
    x = x.scale(type="log", domain=[least, most])
    highest = 1.15 * max(mark["epsilon"] for mark in marks) or 1.0
    y = alt.Y("epsilon:Q").title("epsilon").scale(domain=[0, highest])
    shape = alt.Shape("kind:N").scale(domain=kinds, range=list(shapes)).legend(title=None)
    points = chart_of(marks).mark_point(size=140, filled=True, opacity=1, strokeWidth=3)
    layers = [points.encode(x=x, y=y, color=colour(kinds, "kind", tones), shape=shape)]
    layers += _reach([audit for _, audit in found], least, most, x)
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


def _scale_of(guarantee: AnyGuarantee) -> str:
    if isinstance(guarantee, ApproxDP):
        return f"epsilon at delta {guarantee.delta:g}"
    return {"zcdp": "rho", "gdp": "mu", "pure-dp": "epsilon", "rdp": "Renyi epsilon"}[guarantee.kind]


def _short(label: str) -> str:
    # Before it is written into an expression, where escapes would be read again.
    label = printable(label)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
