"""`dpaudit convert`: one guarantee on every other scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

import click

from dpaudit.accountants.conversions import bun_steinke_epsilon, pure_to_gdp, pure_to_zcdp, zcdp_epsilon
from dpaudit.accountants.gaussian import gaussian_epsilon, gaussian_mu
from dpaudit.accountants.profiles import PureProfile
from dpaudit.accountants.rounding import sqrt_up, up
from dpaudit.app.claim_options import stated_guarantee
from dpaudit.app.failures import traceback_option
from dpaudit.app.output import line, lower, output_format_option, print_json, print_text, table, upper
from dpaudit.bounds import Rigour
from dpaudit.errors import CannotBound, InvalidParameter, UsageError
from dpaudit.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.verdicts import leading_figure

DEFAULT_DELTAS = (1e-5, 1e-6, 1e-9)

ALWAYS = "always"
IF_GAUSSIAN = "only if every release is Gaussian"
COMPARISON = "always; for comparison"
LARGEST = "largest of a Gaussian release that meets the target"

BALLE_WANG = "Balle, Wang 2018, Theorem 8"
BUN_STEINKE = "Bun, Steinke 2016, Proposition 1.3"
CANONNE = "Canonne, Kamath, Steinke 2020, Proposition 12"
KAIROUZ = "Kairouz, Oh, Viswanath 2015"

_SCALES = {"approx-dp": "epsilon", "zcdp": "rho", "gdp": "mu"}


@dataclass(frozen=True)
class Row:
    """One guarantee: by which method and theorem, when it holds, and how it was rounded."""

    guarantee: AnyGuarantee
    method: str
    source: str
    holds: str = ALWAYS
    target_delta: float | None = None
    rigour: Rigour = "float-pessimistic"

    def to_json(self) -> dict[str, Any]:
        """The row as plain JSON types; ``figure`` is the guarantee's leading one."""
        row = {
            "guarantee": self.guarantee.to_json(),
            "figure": leading_figure(self.guarantee),
            "method": self.method,
            "source": self.source,
            "holds": self.holds,
            "rigour": self.rigour,
        }
        return row if self.target_delta is None else {**row, "target_delta": self.target_delta}

    def cells(self) -> list[str]:
        """The row as text, rounded to its safe side."""
        number = leading_figure(self.guarantee)
        shown = lower(number) if self.holds == LARGEST else upper(number)
        delta = self.guarantee.delta if isinstance(self.guarantee, ApproxDP) else self.target_delta
        return [
            _SCALES[self.guarantee.kind],
            "" if delta is None else f"{delta:g}",
            shown,
            f"{self.method}: {self.source}",
            self.holds,
        ]


@click.command(
    epilog="""\b
Examples:
  dpaudit convert --rho 0.5 --delta 1e-6
  dpaudit convert --epsilon 1 --delta 1e-6    (what Gaussian noise meets it)

Figures are rounded to the safe side.
"""
)
@click.option("--rho", type=float, help="From rho-zCDP.")
@click.option("--mu", type=float, help="From mu-GDP.")
@click.option(
    "--epsilon", type=float, help="From epsilon-DP; with --delta, what Gaussian noise meets the target."
)
@click.option(
    "--delta",
    "deltas",
    type=float,
    multiple=True,
    help="Repeatable; default 1e-5, 1e-6 and 1e-9 where one is needed.",
)
@output_format_option
@traceback_option
def convert(
    *,
    rho: float | None,
    mu: float | None,
    epsilon: float | None,
    deltas: tuple[float, ...],
    output_format: str,
) -> None:
    """State one guarantee on every other scale, each with its theorem and rigour."""
    given = stated_guarantee(epsilon=epsilon, delta=None, rho=rho, mu=mu)
    if given is None:
        raise UsageError(
            "no guarantee to convert",
            where="dpaudit convert",
            why="there is nothing to state on other scales",
            remedy="give one of --rho, --mu and --epsilon",
        )
    for delta in deltas:
        ApproxDP(epsilon=0.0, delta=delta)  # refuses what is no probability before anything is computed
    if isinstance(given, PureDP) and deltas:
        rows = [row for delta in deltas for row in _largest_gaussian(given.epsilon, delta)]
        targets = " or ".join(str(ApproxDP(epsilon=given.epsilon, delta=delta)) for delta in deltas)
        name = f"the least Gaussian noise that meets {targets}"
        start: dict[str, Any] = {"kind": "approx-dp", "epsilon": given.epsilon, "deltas": list(deltas)}
    else:
        try:
            rows = list(_rows(given, deltas or DEFAULT_DELTAS))
        except (CannotBound, InvalidParameter) as error:
            raise CannotBound(
                f"{given} on every other scale: {error.what}",
                where="dpaudit convert",
                remedy="convert a smaller figure: no bound is known for one as large",
            ) from None
        name, start = str(given), given.to_json()
    if output_format == "json":
        print_json({"given": start, "rows": [row.to_json() for row in rows]})
        return
    columns = ("guarantee", "delta", "figure", "method and source", "holds")
    print_text(
        line(name),
        line(),
        table(columns, [row.cells() for row in rows], whole=("guarantee", "delta", "figure")),
    )
    print_text(line(), line(f"rigour: {rows[0].rigour}; bounds are rounded up, largest figures down"))


def _rows(given: AnyGuarantee, deltas: Iterable[float]) -> Iterator[Row]:
    match given:
        case ZCDP(rho=rho):
            mu = sqrt_up(2 * Fraction(rho))
            for delta in deltas:
                yield Row(_approx(zcdp_epsilon(rho, delta), delta), "zcdp", CANONNE)
                yield Row(
                    _approx(bun_steinke_epsilon(rho, delta), delta), "bun-steinke", BUN_STEINKE, COMPARISON
                )
                yield Row(_approx(gaussian_epsilon(delta, mu), delta), "gdp", BALLE_WANG, IF_GAUSSIAN)
            yield Row(GDP(mu=mu), "gdp", "mu = sqrt(2 rho) of Gaussian noise", IF_GAUSSIAN)
        case GDP(mu=mu):
            for delta in deltas:
                yield Row(_approx(gaussian_epsilon(delta, mu), delta), "gdp", BALLE_WANG)
            yield Row(ZCDP(rho=up(Fraction(mu) ** 2 / 2)), "gdp", "Dong, Roth, Su 2022, Corollary B.6")
        case PureDP(epsilon=epsilon):
            for delta in deltas:
                yield Row(_approx(PureProfile(epsilon).epsilon(delta), delta), "pure", KAIROUZ)
            yield Row(ZCDP(rho=pure_to_zcdp(epsilon)), "pure", "sharpens Bun, Steinke 2016, Proposition 1.4")
            yield Row(GDP(mu=pure_to_gdp(epsilon)), "pure", "Dong, Roth, Su 2022, Proposition 2.4")
        case ApproxDP() | RDP():
            raise CannotBound(
                f"{given} on every other scale", where="dpaudit convert", remedy="convert its parts"
            )
        case _:
            assert_never(given)


def _largest_gaussian(epsilon: float, delta: float) -> Iterator[Row]:
    """What Gaussian noise meets (epsilon, delta): exactly as much mu, and rho = mu^2 / 2, rounded down."""
    mu = gaussian_mu(epsilon, delta)
    exact = Fraction(mu) ** 2 / 2
    rho = float(exact)
    rho = rho if Fraction(rho) <= exact else math.nextafter(rho, 0.0)
    yield Row(GDP(mu=mu), "gdp", BALLE_WANG, LARGEST, target_delta=delta)
    yield Row(ZCDP(rho=rho), "gdp", BALLE_WANG, LARGEST, target_delta=delta)


def _approx(epsilon: float, delta: float) -> ApproxDP:
    return ApproxDP(epsilon=epsilon, delta=delta)
