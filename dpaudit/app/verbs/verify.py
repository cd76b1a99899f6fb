"""`dpaudit verify`: account for ledgers, and judge the claim given or their own."""

import functools
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from dpaudit.app.options.claim_options import StatedClaim, claim_options, rigour_option
from dpaudit.app.options.files import about_file
from dpaudit.app.options.option import PATH, option
from dpaudit.app.text.conditions import not_checked, sentences
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED, EXIT_NOTHING
from dpaudit.app.text.output import (
    MOST_ROWS,
    bullets,
    line,
    output_format_option,
    print_json,
    print_text,
    unwrapped,
)
from dpaudit.app.text.progress import progress_on
from dpaudit.app.text.streams import note
from dpaudit.app.text.tables import accounting_table, bound_words, premises, shortfalls
from dpaudit.certificate.verdicts import Accounting
from dpaudit.errors import UsageError
from dpaudit.pipeline.accounting import Rigour, Verified
from dpaudit.pipeline.accounting import verify as verify_ledger

#: The JSON answer holds no more rows than this, failing ones first, and says how many releases there are.
MOST_ROWS_OF_JSON = 10_000

#: Ledgers that are named where something is true of some of them.
MOST_NAMED = 3


@click.command(
    epilog="""\b
Examples:
  dpaudit verify out/ledger.jsonl
  dpaudit verify a.jsonl b.jsonl --epsilon 1 --delta 1e-6 --output-format json
  dpaudit verify users/ --epsilon 1 --delta 1e-6

Exits 1 if the total or any release's own claim is not proved.
"""
)
@click.argument("ledgers", metavar="LEDGER...", nargs=-1, required=True, type=PATH)
@claim_options
@rigour_option
@option("--allow-unhashed", bool, "Accept ledgers written by hand; they are never certifiable.")
@option("--dask", str, "Verify a folder on a cluster: tcp://HOST:8786 or local.", metavar="ADDRESS")
@option("--exit-zero", bool, "Exit 0 whatever the verdict; never hides 2 or 3.")
@option("--strict", bool, "Exit 4 for a ledger that cannot be certified.")
@output_format_option
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    ledgers: tuple[Path, ...],
    stated: StatedClaim,
    rigour: Rigour,
    allow_unhashed: bool,
    dask: str | None,
    exit_zero: bool,
    strict: bool,
    output_format: str,
) -> None:
    """Bound each LEDGER's releases and judge the given claim, or else the ledger's own.

    For a folder, verify all ledgers in it and its subfolders, and print one summary.
    """
    stated.guarantee()  # a contradiction among the options is no ledger's fault
    judge = functools.partial(verify_ledger, rigour=rigour, allow_unhashed=allow_unhashed)
    if dask is not None or any(path.is_dir() for path in ledgers):
        _require_a_folder(ledgers)
        from dpaudit.app.verbs.folder import verify_in

        verified = functools.partial(verify_in, exit_zero=exit_zero, strict=strict)
        ctx.exit(verified(ledgers[0], stated, dask, judge, output_format=output_format))
    most_rows = MOST_ROWS_OF_JSON if output_format == "json" else MOST_ROWS
    judged = []
    for path in ledgers:
        with progress_on(path) as progress, about_file(path):
            found = judge(path, stated.claim, progress=progress, most_rows=most_rows)
        judged.append((path, found))
    if output_format == "json":
        answers = [_answer(*one) for one in judged]
        print_json(answers[0] if len(answers) == 1 else answers)
    else:
        for position, one in enumerate(judged):
            print_text(*([line()] if position else []), *_text(*one))
        print_text(*_not_checked(judged))
    for path, found in judged:
        if _nothing(found.accounting):
            has_releases = found.accounting.overview.total
            reason = "no claim, in total or for any release" if has_releases else "no releases"
            note(f"nothing to check in {path}: {reason}")
    if not exit_zero:
        ctx.exit(_status(judged, strict=strict))


def _require_a_folder(ledgers: tuple[Path, ...]) -> None:
    if len(ledgers) > 1 or not ledgers[0].is_dir():
        what = "a folder among other ledgers" if len(ledgers) > 1 else "--dask without a folder"
        why = "a folder's ledgers are summed up, and a cluster shares out a folder's ledgers"
        raise UsageError(what, where=" ".join(map(str, ledgers)), why=why, remedy="name one folder alone")


def _nothing(accounting: Accounting) -> bool:
    overview = accounting.overview
    return overview.total == 0 or (accounting.claim is None and overview.claimed == 0)


def _status(judged: list[tuple[Path, Verified]], *, strict: bool) -> int:
    found = [one for _, one in judged]
    if not all(one.accounting.all_proved for one in found):
        return EXIT_NOT_PROVED
    if any(_nothing(one.accounting) for one in found):
        return EXIT_NOTHING
    return EXIT_INCONCLUSIVE if strict and any(one.not_certifiable for one in found) else 0


def _of(paths: list[str], judged: int) -> str:
    if len(paths) == judged:
        return ""
    more = f", and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f" ({', '.join(paths[:MOST_NAMED])}{more})"


def _answer(path: Path, found: Verified) -> dict[str, Any]:
    accounting = found.accounting
    claim = accounting.claim
    return {
        "ledger": str(path),
        # Of a ledger without releases every claim would be proved; there was nothing to prove it from.
        "verdict": accounting.verdict if accounting.overview.total else None,
        "claim": None if claim is None else claim.to_json(),
        "bounds": [bound.row() for bound in accounting.bounds],
        "releases": [release.row() for release in accounting.releases],
        "releases_total": accounting.overview.total,
        "releases_shown": len(accounting.releases),
        "releases_not_proved": accounting.overview.failed,
        "premises": [] if claim is None else [{**p.to_json(), "holds": p.holds} for p in claim.premises],
        "certifiable": found.not_certifiable is None,
        "not_checked": [condition.to_json() for condition in accounting.not_checked],
    }


def _text(path: Path, found: Verified) -> list[RenderableType]:
    accounting = found.accounting
    claim = accounting.claim
    parts: list[RenderableType] = [
        unwrapped(str(path)),
        line(f"{found.ledger.header.algorithm}: {claim or 'nothing claimed in total'}"),
    ]
    if found.not_certifiable:
        parts.append(line("certifiable: no; accounted for, but it can never carry a certificate"))
    parts += [line(), *accounting_table(accounting), line()]
    judged = accounting.verdict is not None and accounting.overview.total
    parts += bullets(line("proof", accounting.verdict) if judged else "Bounds", bound_words(accounting))
    return [*parts, *shortfalls(accounting), *premises(claim)]


def _not_checked(judged: list[tuple[Path, Verified]]) -> list[RenderableType]:
    """What was not checked, once; of several ledgers, with those it is about where not all are."""
    about: dict[str, list[str]] = {}
    for path, found in judged:
        for words in sentences(found.accounting.not_checked):
            about.setdefault(words, []).append(str(path))
    conditions = [one for _, found in judged for one in found.accounting.not_checked]
    lines = not_checked(
        conditions,
        judged[0][0] if len(judged) == 1 else None,
        about=lambda words: f"{words}{_of(about[words], len(judged))}",
    )
    return [*([line()] if about and len(judged) > 1 else []), *lines]
