"""`dpaudit convert`: one guarantee on every other scale."""

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dpaudit.accountants.curves.conversion_table import LARGEST, LARGEST_GAUSSIAN, Conversion, largest
from dpaudit.app.options.claim_options import StatedClaim, figure_options
from dpaudit.app.options.option import option, plot_option
from dpaudit.app.text.output import line, lower, print_json, print_text, table, unwrapped, upper
from dpaudit.app.text.streams import write
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import DELTAS, RDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import UsageError
from dpaudit.models import named_by
from dpaudit.page.blocks import Block, Grid, latex, markdown
from dpaudit.pipeline.convert import ORDERS, require_points
from dpaudit.pipeline.convert import convert as conversions

_SCALES = {"approx-dp": "epsilon", "zcdp": "rho", "gdp": "mu", "pure-dp": "epsilon", "rdp": "RDP epsilon"}
_HEADER = ("guarantee", "delta", "figure", "slack", "method and source", "holds")


@click.command(
    epilog="""\b
Examples:
  dpaudit convert --rho 0.5 --delta 1e-6
  dpaudit convert --epsilon 1 --delta 1e-6  (the largest rho and mu for it)
  dpaudit convert --alpha 8 --epsilon 1       (from Renyi DP)
  dpaudit convert --rho 0.5 --output-format latex --plot curve.svg

Figures are rounded to the safe side. The slack of a bound is its relative
excess over the lower limit of every valid conversion.
"""
)
@figure_options(
    rho="From rho-zCDP.",
    mu="From mu-GDP.",
    epsilon="From epsilon-DP; with --delta, the largest rho and mu that prove the target.",
)
@option("--alpha", float, "With --epsilon: from (alpha, epsilon)-Renyi DP.")
@option(
    "--delta deltas", float, "Repeatable; default 1e-5, 1e-6 and 1e-9 where one is needed.", multiple=True
)
@option("--order orders", float, "To Renyi DP of this order; default 2 and 32.", multiple=True)
@option(
    "--output-format",
    ["text", "json", "csv", "markdown", "latex"],
    "json and csv print every digit.",
    default="text",
)
@plot_option
def convert(
    *,
    stated: StatedClaim,
    alpha: float | None,
    deltas: tuple[float, ...],
    orders: tuple[float, ...],
    output_format: str,
    pictures: tuple[Path, ...],
) -> None:
    """State one guarantee on every other scale, each with its theorem, rigour and slack."""
    given = _given(stated, alpha)
    with named_by({"alpha": "--order", "delta": "--delta"}.__getitem__):
        require_points(deltas, orders)
    drawn: list[AnyGuarantee] = [given]
    if isinstance(given, PureDP) and deltas:
        rows = [row for delta in deltas for row in largest(given.epsilon, delta)]
        drawn = [ApproxDP(epsilon=given.epsilon, delta=delta) for delta in deltas]
        targets = " or ".join(str(target) for target in drawn)
        name = f"the largest figures that prove {targets}"
        start: dict[str, Any] = {"kind": "approx-dp", "epsilon": given.epsilon, "deltas": list(deltas)}
    else:
        rows = conversions(given, deltas=deltas or DELTAS, orders=orders or ORDERS)
        name, start = str(given), given.to_json()
    if pictures:
        from dpaudit.app.report.curve_pictures import conversion_curves, write_pictures

        write_pictures(pictures, conversion_curves(drawn, rows, name), name)
    grid: list[Block] = [Grid(_HEADER, [_cells(row) for row in rows], numbers=_HEADER[1:4])]
    if output_format == "json":
        print_json({"given": start, "rows": [row.to_json() for row in rows]})
    elif output_format == "csv":
        write(sys.stdout, _csv(rows))
    elif output_format in {"markdown", "latex"}:
        print_text(unwrapped((markdown if output_format == "markdown" else latex)(grid).rstrip()))
    else:
        shown = table(_HEADER, [_cells(row) for row in rows], whole=_HEADER[:4], spare=_HEADER[4:5])
        print_text(line(name), line(), shown, line())
        print_text(line(f"rigour: {rows[0].rigour}; bounds are rounded up, largest figures down"))


def _given(stated: StatedClaim, alpha: float | None) -> AnyGuarantee:
    given = stated.guarantee()
    if given is None:
        why, remedy = "there is nothing to state on other scales", "give one of --rho, --mu and --epsilon"
        raise UsageError("no guarantee to convert", where="dpaudit convert", why=why, remedy=remedy)
    if alpha is None:
        return given
    if not isinstance(given, PureDP):
        why = "a Renyi divergence of order alpha has a size of its own"
        remedy = "add --epsilon, or use --order to convert to Renyi DP"
        raise UsageError("--alpha without --epsilon", where="--alpha", why=why, remedy=remedy)
    with named_by("--".__add__):
        return RDP(alpha=alpha, epsilon=given.epsilon)


def _cells(row: Conversion) -> list[str]:
    """A row as text, figures rounded to their safe side."""
    guarantee, number = row.guarantee, leading_figure(row.guarantee)
    delta = guarantee.delta if isinstance(guarantee, ApproxDP) else row.target_delta
    scale = _SCALES[guarantee.kind]
    slack = "" if row.slack is None else "exact" if row.slack < 1e-9 else f"{100.0 * row.slack:.2g}%"
    return [
        f"{scale} at {guarantee.alpha:g}" if isinstance(guarantee, RDP) else scale,
        "" if delta is None else f"{delta:g}",
        lower(number) if row.holds in {LARGEST, LARGEST_GAUSSIAN} else upper(number),
        slack,
        f"{row.method}: {row.source}",
        row.holds,
    ]


def _csv(rows: Sequence[Conversion]) -> str:
    first = ("kind", "alpha", "delta", "target_delta", "figure", "slack")
    names = (*first, "method", "source", "holds", "rigour")
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow({**row.to_json(), **row.guarantee.to_json()})
    return text.getvalue()
