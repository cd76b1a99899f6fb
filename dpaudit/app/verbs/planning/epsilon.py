"""`dpaudit epsilon`: the guarantee of a given noise; `dpaudit calibrate` answers the inverse question."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
from rich.console import RenderableType

from dpaudit.app.options.claim_options import NEIGHBOURING
from dpaudit.app.options.mechanism_options import (
    complete_mechanism,
    mechanism_options,
    read_plan,
    release_of,
    spelled,
)
from dpaudit.app.options.option import COUNT, option, plot_option
from dpaudit.app.text import output
from dpaudit.app.text.conditions import not_checked
from dpaudit.app.text.failures import EXIT_NOT_PROVED
from dpaudit.app.text.tables import mechanism_words, release_words, sensitivity_words, shortfall
from dpaudit.certificate.curve_points import CurvePoints
from dpaudit.certificate.verdicts import Proof, leading_figure, meets
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import DELTAS, GDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, UsageError
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import KINDS, OWN_KINDS
from dpaudit.mechanisms.described import DESCRIBED, describable, parameters
from dpaudit.models import did_you_mean, named_by
from dpaudit.pipeline.epsilon import Cost
from dpaudit.progress import Work

#: Scales on which releases have one figure, and its name; the figure here is not used.
_SCALES: dict[AnyGuarantee, str] = {
    PureDP(epsilon=0.0): "pure epsilon",
    ZCDP(rho=0.0): "rho of zCDP",
    GDP(mu=0.0): "mu of GDP",
}

_NONE = "none known"

#: Bounds by their scale, a guarantee of 0 on it; None where no bound is known.
_Figures: TypeAlias = Mapping[AnyGuarantee, Bound | None]


@click.command(
    help=f"""Bound epsilon, rho and mu of MECHANISM, or of all releases of PLAN together.

    MECHANISM is one of {", ".join(DESCRIBED)}.
    """,
    epilog="""\b
Examples:
  dpaudit epsilon gaussian --sigma 1.1 --rate 0.01 --steps 10000 --delta 1e-5
  dpaudit epsilon laplace --scale 20 --count 100 --delta 1e-6 --claim 3
  dpaudit epsilon plan.toml --delta 1e-6 --plot curve.svg

Exits 1 if --claim is not proved. A plan has a table [[release]] for each
mechanism, with the same options as its fields. Releases on the same
sample name it in a `sample` field; a release without this field draws a new
sample for each run. See docs/proving/epsilon.md.
""",
)
@click.argument("subject", metavar="MECHANISM|PLAN", shell_complete=complete_mechanism)
@option("--delta deltas", float, "Repeatable; default 1e-5, 1e-6 and 1e-9.", multiple=True)
@option("--claim", float, "Judge this claimed epsilon at each --delta, or as pure DP without --delta.")
@mechanism_options
@option("--count", COUNT, "Number of runs composed.  [default: 1]")
@option(
    "--neighbouring",
    NEIGHBOURING,
    "How neighbouring data sets differ; --rate depends on it.  [default: add-or-remove-one]",
)
@option("--curve", bool, "Also print points of delta(epsilon).")
@plot_option
@output.output_format_option
def epsilon(
    *,
    subject: str,
    deltas: tuple[float, ...],
    claim: float | None,
    neighbouring: str | None,
    curve: bool,
    pictures: tuple[Path, ...],
    output_format: str,
    **described: Any,
) -> None:
    """Bound a described mechanism, or a plan of several, on every scale."""
    with named_by({"delta": "--delta", "epsilon": "--claim"}.__getitem__):
        scales: list[AnyGuarantee] = [ApproxDP(epsilon=0.0, delta=delta) for delta in deltas or DELTAS]
        claims: list[AnyGuarantee] = []
        if claim is not None:
            claims = [ApproxDP(epsilon=claim, delta=delta) for delta in deltas] or [PureDP(epsilon=claim)]
    if pictures:
        from dpaudit.app.report.curve_pictures import require_pictures

        require_pictures(pictures)
    given = {name: value for name, value in described.items() if value is not None}
    releases, relation = _releases(subject, given, neighbouring)
    cost = Cost(releases, relation)
    with Work("releases", len(releases)) as work:
        alone: list[_Figures] = []
        for one in releases:
            alone.append(_figures(Cost([one], relation), scales, required=bool(deltas)))
            work(len(alone))
        found = alone[0] if len(alone) == 1 else _figures(cost, scales, required=bool(deltas))
        curves = cost.curves() if curve or pictures else ()
    verdicts = {stated: Proof.PROVED if _proved(stated, found) else Proof.NOT_PROVED for stated in claims}
    if pictures:
        _draw(pictures, cost, found, claims, curves)
    if output_format == "json":
        answer = {
            "neighbouring": relation,
            "bounds": _rows(found),
            "claims": [{**stated.to_json(), "verdict": verdict} for stated, verdict in verdicts.items()],
            "releases": [
                {**release.to_json(), "bounds": _rows(own)}
                for release, own in zip(releases, alone, strict=True)
            ],
            "not_checked": [condition.to_json() for condition in cost.not_checked()],
        }
        output.print_json(answer | ({"curves": [one.to_json() for one in curves]} if curve else {}))
    else:
        output.print_text(*_text(cost, found, alone, verdicts), *(_curves_text(curves) if curve else []))
    if Proof.NOT_PROVED in verdicts.values():
        click.get_current_context().exit(EXIT_NOT_PROVED)


def _releases(
    subject: str, given: dict[str, Any], neighbouring: str | None
) -> tuple[list[Release], Neighbouring]:
    default = Neighbouring(neighbouring or Neighbouring.ADD_OR_REMOVE_ONE)
    path = Path(subject)
    if subject in OWN_KINDS or (not path.is_file() and subject in KINDS):
        lists = [name for name, type_ in parameters(subject).items() if type_ is None]
        if lists:
            what, why = f"{subject} needs {' and '.join(lists)}", "an option is one number or word"
            remedy = f"write a plan.toml; docs/proving/epsilon.md has one with {subject}"
            raise UsageError(what, where="MECHANISM|PLAN", why=why, remedy=remedy)
        return [release_of(subject, given, spelled, default)], default
    if not (path.suffix == ".toml" or path.is_file()):
        why = "there is nothing to bound"
        known = describable()
        remedy = f"{did_you_mean(subject, known)}name one of {', '.join(known)}, or a plan.toml"
        raise UsageError(f"no mechanism {subject!r}", where="MECHANISM|PLAN", why=why, remedy=remedy)
    if given:
        names = [spelled(name) for name in given]
        what, why = f"{' and '.join(names)} with a plan", "the plan says what its releases are"
        raise UsageError(what, where=names[0], why=why, remedy="leave these options out")
    return read_plan(path, None if neighbouring is None else default)


def _figures(cost: Cost, scales: Sequence[AnyGuarantee], *, required: bool) -> _Figures:
    """Bounds on these scales, or raises `CannotBound` where they are `required`; and on all others."""
    found = {scale: cost.bound(scale) if required else _known(cost, scale) for scale in scales}
    return found | {scale: _known(cost, scale) for scale in _SCALES}


def _known(cost: Cost, scale: AnyGuarantee) -> Bound | None:
    try:
        return cost.bound(scale)
    except CannotBound:
        return None


def _on_its_scale(stated: AnyGuarantee, found: _Figures) -> Bound | None:
    return found[stated.model_copy(update={"epsilon": 0.0})]


def _proved(stated: AnyGuarantee, found: _Figures) -> bool:
    bound = _on_its_scale(stated, found)
    return bound is not None and meets(bound.guarantee, stated)


def _rows(found: _Figures) -> list[dict[str, Any]]:
    return [bound.row() for bound in found.values() if bound is not None]


def _name(scale: AnyGuarantee) -> str:
    return f"epsilon at delta {scale.delta:g}" if isinstance(scale, ApproxDP) else _SCALES[scale]


def _title(cost: Cost) -> str:
    what = f"{len(cost.releases)} releases together"
    if len(cost.releases) == 1:
        release = cost.releases[0]
        moved = sensitivity_words(release.mechanism)
        what = f"{output.counted(release.count, 'run', 'runs')} of {mechanism_words(release.mechanism)}"
        what += f", sensitivity {moved}" if moved else ""
    return f"{what} ({cost.neighbouring})"


def _text(
    cost: Cost, found: _Figures, alone: Sequence[_Figures], verdicts: Mapping[AnyGuarantee, Proof]
) -> list[RenderableType]:
    parts: list[RenderableType] = [output.line(_title(cost)), output.line()]
    if len(alone) > 1:
        scales = [scale for scale in found if isinstance(scale, ApproxDP)]
        columns = [_name(scale) for scale in scales]
        rows = [
            [
                release_words(release),
                mechanism_words(release.mechanism),
                sensitivity_words(release.mechanism),
                *(_upper(own[scale]) for scale in scales),
            ]
            for release, own in zip(cost.releases, alone, strict=True)
        ]
        rows.append(["together", "", "", *(_upper(found[scale]) for scale in scales)])
        headings = ("release", "mechanism", "sensitivity", *columns)
        parts += [output.table(headings, rows, spare=("sensitivity", "mechanism")), output.line()]
    figures = [
        (
            _name(scale),
            *(("none known", "") if one is None else (repr(leading_figure(one.guarantee)), one.method)),
        )
        for scale, one in found.items()
    ]
    parts += [output.table(("", "at most", "accountant"), figures, spare=("accountant",)), output.line()]
    for stated, verdict in verdicts.items():
        parts.append(output.line(f"claim {stated}:", verdict))
    missed = [stated for stated, verdict in verdicts.items() if verdict is Proof.NOT_PROVED]
    parts += output.bullets(
        "Not proved", [_shortfall(stated, _on_its_scale(stated, found)) for stated in missed]
    )
    return [*parts, *not_checked(cost.not_checked())]


def _upper(bound: Bound | None) -> str:
    return _NONE if bound is None else output.upper(leading_figure(bound.guarantee))


def _shortfall(stated: AnyGuarantee, bound: Bound | None) -> str:
    if bound is None:
        return f"claimed {stated}; no bound on pure epsilon-DP is known: add --delta"
    return shortfall(bound.guarantee, stated)


def _curves_text(curves: Sequence[CurvePoints]) -> list[RenderableType]:
    """The least of all accountants' deltas at each epsilon."""
    least = [
        min(points, key=lambda point: point[1])
        for points in zip(*(one.points for one in curves), strict=True)
    ]
    rows = [(f"{epsilon:.6g}", f"{delta:.6g}") for epsilon, delta in least]
    return [output.line(), output.table(("epsilon", "delta at most"), rows)]


def _draw(
    pictures: Sequence[Path],
    cost: Cost,
    found: _Figures,
    claims: Sequence[AnyGuarantee],
    curves: Sequence[CurvePoints],
) -> None:
    from dpaudit.app.report.curve_pictures import curves_picture, write_pictures

    lines = [
        {"of": one.method, "method": one.method, "holds": "proved", "epsilon": epsilon, "delta": delta}
        for one in curves
        for epsilon, delta in one.points
        if delta > 0.0  # on a logarithmic axis
    ]
    points = [(bound.method, bound.guarantee) for bound in found.values() if bound is not None]
    points += [("claim", stated) for stated in claims]
    shown = [(method, at) for method, at in points if isinstance(at, ApproxDP)]
    write_pictures(pictures, curves_picture(lines, shown, _title(cost)), _title(cost))
