"""`dpaudit verify`: account for ledgers, and judge the claim given or their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from dpaudit.app.claim_options import StatedClaim, accounted, claim_options, rigour_option
from dpaudit.app.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED, EXIT_NOTHING, traceback_option
from dpaudit.app.output import bullets, line, note, output_format_option, print_json, print_text, unwrapped
from dpaudit.app.tables import accounting_table, bound_words, premises, shortfalls
from dpaudit.errors import DpauditError, NotCertifiable
from dpaudit.ledger import Ledger
from dpaudit.verdicts import Accounting


@click.command(
    epilog="""\b
Examples:
  dpaudit verify out/ledger.jsonl
  dpaudit verify a.jsonl b.jsonl --epsilon 1 --delta 1e-6 --output-format json

Exits 1 if the total or any release's own claim is not proved.
"""
)
@click.argument("ledgers", metavar="LEDGER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@claim_options
@rigour_option
@click.option("--allow-unhashed", is_flag=True, help="Account for files written by hand; never certifiable.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdict; never hides 2 or 3.")
@click.option("--strict", is_flag=True, help="Exit 4 for a ledger that can never be certified.")
@output_format_option
@traceback_option
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    ledgers: tuple[Path, ...],
    stated: StatedClaim,
    rigour: str,
    allow_unhashed: bool,
    exit_zero: bool,
    strict: bool,
    output_format: str,
) -> None:
    """Bound each LEDGER's releases and judge the claim given, else the ledger's own."""
    stated.guarantee()  # a contradiction among the options is no ledger's fault
    judged = [_judge(path, stated, rigour, allow_unhashed=allow_unhashed) for path in ledgers]
    if output_format == "json":
        answers = [_answer(*one) for one in judged]
        print_json(answers[0] if len(answers) == 1 else answers)
    else:
        for position, one in enumerate(judged):
            print_text(*([line()] if position else []), *_text(*one))
    for path, ledger, accounting in judged:
        if _nothing(ledger, accounting):
            reason = "no claim, in total or for any release" if ledger.releases else "no releases"
            note(f"nothing to check in {path}: {reason}")
    if not exit_zero:
        ctx.exit(_status(judged, strict=strict))


_Judged = tuple[Path, Ledger, Accounting]


def _judge(path: Path, stated: StatedClaim, rigour: str, *, allow_unhashed: bool) -> _Judged:
    ledger = Ledger.read(path, allow_unhashed=allow_unhashed)
    try:
        return path, ledger, accounted(ledger, stated.claim(ledger.claim), rigour)
    except DpauditError as error:
        if error.where.startswith("--"):
            raise
        error.where = f"{path}: {error.where}" if error.where else str(path)
        raise


def _nothing(ledger: Ledger, accounting: Accounting) -> bool:
    claimed = accounting.claim is not None or any(r.claimed is not None for r in accounting.releases)
    return not ledger.releases or not claimed


def _status(judged: list[_Judged], *, strict: bool) -> int:
    if not all(accounting.all_proved for _, _, accounting in judged):
        return EXIT_NOT_PROVED
    if any(_nothing(ledger, accounting) for _, ledger, accounting in judged):
        return EXIT_NOTHING
    if strict and not all(_certifiable(ledger) for _, ledger, _ in judged):
        return EXIT_INCONCLUSIVE
    return 0


def _certifiable(ledger: Ledger) -> bool:
    try:
        ledger.require_certifiable()
    except NotCertifiable:
        return False
    return True


def _answer(path: Path, ledger: Ledger, accounting: Accounting) -> dict[str, Any]:
    claim = accounting.claim
    return {
        "ledger": str(path),
        # Of a ledger without releases every claim would be proved; there was nothing to prove it from.
        "verdict": accounting.verdict if ledger.releases else None,
        "claim": None if claim is None else claim.to_json(),
        "bounds": [bound.row() for bound in accounting.bounds],
        "releases": [release.row() for release in accounting.releases],
        "premises": [] if claim is None else [{**p.to_json(), "holds": p.holds} for p in claim.premises],
        "certifiable": _certifiable(ledger),
        "not_checked": list(accounting.not_checked),
    }


def _text(path: Path, ledger: Ledger, accounting: Accounting) -> list[RenderableType]:
    claim = accounting.claim
    parts: list[RenderableType] = [
        unwrapped(str(path)),
        line(f"{ledger.header.algorithm}: {claim or 'nothing claimed in total'}"),
    ]
    if not _certifiable(ledger):
        parts.append(line("certifiable: no; accounted for, but it can never carry a certificate"))
    parts += [line(), *accounting_table(accounting), line()]
    judged = accounting.verdict is not None and ledger.releases
    parts += bullets(line("proof", accounting.verdict) if judged else "Bounds", bound_words(accounting))
    return [
        *parts,
        *shortfalls(accounting),
        *premises(claim),
        *bullets("Not checked", accounting.not_checked),
    ]
