"""The pictures of a certificate's report."""

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.curves.conversion_table import ALWAYS, conversions, curves
from dpaudit.app.report.running_total import course, shares
from dpaudit.app.text.audits import could_refute_any
from dpaudit.auditors.statistics.clopper_pearson import largest_refutable_epsilon
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.curve_points import CurvePoints, trade_off
from dpaudit.certificate.verdicts import Audit, Proof, leading_figure
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import Array
from dpaudit.page import chart
from dpaudit.page.chart import INK, Drawn, Spec, axis, by_name, channel, colour, marks
from dpaudit.page.printable import printable

_LONGEST_LABEL = 32
_LEAST_DELTA = 1e-12  # below it a logarithmic axis says nothing to a reader
_SHOWN_DELTA = 1e-6  # at this delta a claim on a scale without one is shown as a point
_POINTS = 240
_APART = 0.02  # decades

Point: TypeAlias = tuple[float, float]


def charts(certificate: Certificate, whole: Composition | None = None) -> dict[str, Drawn]:
    """Each picture that the certificate has figures for, by its name; `whole` as `course` has it."""
    names = ("budget", "course", "profile", "trade-off", "audits")
    makers: Sequence[Callable[[Certificate], Any]] = (_budget, _course, _profile, _trade_off, _audits)
    drawn = {}
    for name, make in zip(names, makers, strict=True):
        with contextlib.suppress(CannotBound, InvalidParameter):  # a claim past all curves still has a report
            picture = _course(certificate, whole) if make is _course else make(certificate)
            if picture is not None:
                drawn[name] = picture
    return drawn


#: How a bar looks by the verdict on the release's own claim.
_OWN_CLAIMS: dict[Proof | None, tuple[str, str]] = {
    Proof.PROVED: ("own claim proved", chart.GOOD),
    Proof.NOT_PROVED: ("own claim not proved", chart.BAD),
    None: ("nothing claimed for it alone", chart.AXIS),
}


def _budget(certificate: Certificate) -> Drawn | None:
    found = [share for share in shares(certificate.releases) if share.share is not None]
    if len(found) < 2:  # one bar of 100% says nothing
        return None
    rows: list[dict[str, Any]] = [
        {
            "release": position,
            "label": short(share.label if share.number == 1 else f"{share.label} ({share.number})"),
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
    labels = {"labelExpr": names, "ticks": False, "domain": False}
    y = {"field": "release", "type": "ordinal", "sort": None, "title": None, "axis": labels}
    scale = {"domain": [0, 1.12 * max(row["share"] for row in rows)], "nice": False}
    x = axis("share", "share of the sum of all releases' costs", scale, format="%", tickCount=5)
    bars = {"x": x, "y": y, "color": colour(claims, "claim", tones)}
    words = {"x": channel("share", "quantitative"), "y": y, "text": channel("words")}
    layers = [
        marks(rows, "bar", bars, height={"band": 0.7}),
        marks(rows, "text", words, align="left", dx=5, fill=INK),
    ]
    return {"layer": layers, "width": chart.WIDTH - 120, "height": max(60, 26 * len(rows))}, (
        "Each release's share of the budget. Costs on different parts of a split do not all add up."
    )


def _course(certificate: Certificate, whole: Composition | None = None) -> Drawn | None:
    found = course(certificate, whole)
    if found is None or len(found[1]) < 2:  # one step is no course
        return None
    held, totals = found
    line = "budget held by the filter" if certificate.budget else "claim"
    limit, last = leading_figure(held), totals[-1][0]
    scales = {"zcdp": "rho", "gdp": "mu", "pure-dp": "epsilon", "rdp": "Renyi epsilon"}
    scale = f"epsilon at delta {held.delta:g}" if isinstance(held, ApproxDP) else scales[held.kind]
    # Of few releases, every number has its tick.
    ticks: dict[str, Any] = {"values": list(range(last + 1))} if last <= 10 else {"tickCount": 8}
    after = {"domain": [0, last], "nice": False}
    x = axis("after", "number of releases made", after, format="d", tickMinStep=1, **ticks)
    point = {"size": 45, "color": chart.GOOD} if len(totals) < 40 else False
    rows = [{"after": number, "total": total} for number, total in [(0, 0.0), *totals]]
    proved = {"x": x, "y": axis("total", f"proved so far, {scale}")}
    rule, at = [{"limit": limit, "words": f"{line}: {limit:.6g}"}], {"y": channel("limit", "quantitative")}
    beside = {"align": "left", "baseline": "bottom", "dx": 4, "dy": -4, "fill": INK, "x": 0}
    layers = [
        marks(rows, "line", proved, interpolate="step-after", color=chart.GOOD, point=point),
        marks(rule, "rule", at, color=chart.BAD, strokeDash=chart.BAD_DASH, strokeWidth=2),
        marks(rule, "text", {**at, "text": channel("words")}, **beside),
    ]
    return {"layer": layers, "width": chart.WIDTH, "height": 220}, (
        f"The proved total after each release, on the scale of {scale}; the dashed line is the {line}."
    )


#: The marks of an audit: what each is, its colour and its shape.
_MARKS = {
    "claimed": (chart.BAD, "diamond"),
    "most it could refute": (chart.COLOURS[2], "triangle-up"),
    "found: at least": (chart.GOOD, "circle"),
}


def _audits(certificate: Certificate) -> Drawn | None:
    numbered = enumerate(certificate.audits, start=1)
    found = [(number, audit) for number, audit in numbered if audit.epsilon_lower is not None]
    if not found:
        return None
    several = len(certificate.audits) > 1
    rows: list[dict[str, Any]] = []
    for number, audit in found:
        name = f"{number}. {audit.method}" if several else audit.method
        claimed = audit.epsilon_claimed
        if claimed is None and audit.delta:
            claimed = _claimed_epsilon(certificate.claim.guarantee, audit.delta)
        most = None if could_refute_any(audit) else audit.largest_refutable_epsilon
        figures = {"found: at least": audit.epsilon_lower, "most it could refute": most, "claimed": claimed}
        rows += [
            {"audit": name, "trials": audit.trials, "epsilon": value, "kind": kind}
            for kind, value in figures.items()
            if value is not None
        ]
    kinds = [kind for kind in _MARKS if any(row["kind"] == kind for row in rows)]
    tones, shapes = zip(*(_MARKS[kind] for kind in kinds), strict=True)
    trials = [audit.trials for _, audit in found]
    least, most = max(1, min(trials) // 10), max(trials) * 10
    scale = {"type": "log", "domain": [least, most]}
    x = axis("trials", "runs on each side", scale, format="~s", tickCount=5, grid=False)
    y = axis("epsilon", "epsilon", {"domain": [0, 1.15 * max(row["epsilon"] for row in rows) or 1.0]})
    own = {"color": colour(kinds, "kind", tones), "shape": by_name(kinds, shapes, "kind")}
    names = [row for row in rows if row["kind"] == "found: at least"]
    layers = [
        marks(rows, "point", {"x": x, "y": y, **own}, size=140, filled=True, opacity=1, strokeWidth=3),
        *_reach([audit for _, audit in found], least, most, {"x": x, "y": y}),
        marks(names, "text", {"x": x, "y": y, "text": channel("audit")}, align="left", dx=10, fill=INK),
    ]
    return {"layer": layers, "width": chart.WIDTH, "height": chart.HEIGHT}, (
        "Lower bounds found by the experiments, each at its own delta, over their numbers of runs. A bound "
        "above the claim refutes it. The curve, if shown, is the largest epsilon that each number of "
        "tested runs can refute."
    )


def _reach(audits: Sequence[Audit], least: int, most: int, places: Spec) -> list[Spec]:
    """The largest refutable epsilon over the number of tested runs, for the methods it is a formula of."""
    for audit in audits:
        delta, confidence = audit.delta, audit.confidence
        if audit.method == "threshold" and delta is not None and confidence is not None:
            steps = [least * (most / least) ** (step / 60) for step in range(61)]
            reach = [largest_refutable_epsilon(max(1, round(n)), delta, confidence) for n in steps]
            rows = [{"trials": n, "epsilon": epsilon} for n, epsilon in zip(steps, reach, strict=True)]
            style: Spec = {"color": chart.COLOURS[2], "strokeDash": [4, 3], "strokeWidth": 1.5, "clip": True}
            return [marks(rows, "line", places, **style)]
    return []


def short(label: str) -> str:
    """A label for an axis: printable before it is part of an expression, where escapes are read again."""
    label = printable(label)
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _profile(certificate: Certificate) -> Drawn | None:
    """delta(epsilon) of every accountant, and the claim as a point."""
    if not certificate.profile:
        return None
    claim = certificate.claim.guarantee
    end = _end(certificate)
    drawn = _told_apart(certificate.profile, end)
    names = [name for name, _ in drawn]
    tones, dashes = list(chart.COLOURS[: len(names)]), list(chart.DASHES[: len(names)])
    if not isinstance(claim, ApproxDP):
        names, tones, dashes = [*names, "the claim"], [*tones, chart.BAD], [*dashes, chart.BAD_DASH]
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
    x = axis("epsilon", "epsilon", {"domain": [0, end], "nice": False}, tickCount=8)
    least = max(_LEAST_DELTA, min(1e-2, delta or 1.0, *(point["delta"] for point in shown)))
    scale = {"type": "log", "domain": [least, 1.0]}
    at = {"x": x, "y": axis("delta", "delta", scale, format=".0e", tickCount=7)}
    by = {"color": colour(names, colours=tones), "strokeDash": by_name(names, dashes)}
    layers = [marks(shown, "line", {**at, **by}, clip=True)]
    if delta >= _LEAST_DELTA:
        point = [{"epsilon": epsilon, "delta": delta, "words": f"claim: ({epsilon:.4g}, {delta:.1g})"}]
        beside = {"align": "left", "baseline": "bottom", "dx": 7, "dy": -5, "fill": INK}
        layers += [
            marks(point, "point", at, shape="diamond", size=130, filled=True, color=chart.BAD, opacity=1),
            marks(point, "text", {**at, "text": channel("words")}, **beside),
        ]
    own = isinstance(claim, ApproxDP)
    where = "the claim is the diamond" if own else "the diamond is a point of the claim's own curve"
    return {"layer": layers, "width": chart.WIDTH, "height": chart.HEIGHT}, (
        f"What each accountant proves: the delta at every epsilon; lower is stronger; {where}."
    )


def _told_apart(profile: Sequence[CurvePoints], end: float) -> list[tuple[str, Sequence[Point]]]:
    """Each curve that is seen up to `end`, with its name; curves on each other are one, with all names.

    They do where they are nowhere 0.02 decades apart, half a dot of the picture.
    """
    at, apart = np.linspace(0.0, end, chart.WIDTH), list[tuple[list[str], Array, CurvePoints]]()
    for curve in profile:
        epsilons, deltas = np.array(curve.points).T
        height = np.log10(np.maximum(np.interp(at, epsilons, deltas), _LEAST_DELTA))
        if height.max() <= math.log10(_LEAST_DELTA):
            continue
        same = next((names for names, other, _ in apart if np.abs(height - other).max() < _APART), None)
        if same is None:
            apart.append(([curve.method], height, curve))
        else:
            same.append(curve.method)
    return [(", ".join(names), curve.points) for names, _, curve in apart]


def _trade_off(certificate: Certificate) -> Drawn:
    """The trade-off between errors that is proved, and the region that the claim forbids."""
    proved = [point for curve in certificate.profile for point in curve.points]
    claimed = _claim_curve(certificate.claim.guarantee, _end(certificate))
    alphas = sorted({*(step / 100 for step in range(101)), *(10 ** (-step / 4) for step in range(4, 25))})
    claim = [{"name": "the claim", "alpha": a, "beta": trade_off(claimed, a)} for a in alphas]
    rows = [*({"name": "guessing", "alpha": a, "beta": 1.0 - a} for a in (0.0, 1.0)), *claim]
    names, tones, dashes = ["the claim", "guessing"], [chart.BAD, chart.AXIS], [chart.BAD_DASH, [2, 2]]
    if proved:
        rows += [{"name": "proved", "alpha": a, "beta": trade_off(proved, a)} for a in alphas]
        names, tones, dashes = ["proved", *names], [chart.GOOD, *tones], [[1, 0], *dashes]
    scale, share = {"domain": [0, 1], "nice": False}, {"format": "%", "tickCount": 5}
    at = {"x": axis("alpha", "false alarms", scale, **share), "y": axis("beta", "misses", scale, **share)}
    by = {"color": colour(names, colours=tones), "strokeDash": by_name(names, dashes)}
    layers = [marks(claim, "area", at, color=chart.BAD, opacity=0.18), marks(rows, "line", {**at, **by})]
    return {"layer": layers, "width": 360, "height": 360}, (
        "The two error rates of any test that distinguishes two neighbouring data sets. The claim forbids "
        "the shaded region: a test in it would refute the claim. If the claim is proved, the proved curve "
        "lies on or above the claim's line."
    )


def _claimed_epsilon(claim: AnyGuarantee, delta: float) -> float | None:
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
    return _claimed_epsilon(claim, _SHOWN_DELTA) or 0.0, _SHOWN_DELTA


def _end(certificate: Certificate) -> float:
    """How far to the right the pictures of delta(epsilon) go."""
    ends = [curve.points[-1][0] for curve in certificate.profile]
    return max([1.15 * _claim_point(certificate.claim.guarantee)[0], *ends]) or 1.0
