"""`dpaudit certify`: run, account, audit, judge."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from dpaudit.accountants.accounting import account
from dpaudit.accountants.bridges.dp_accounting_opinion import second_opinion
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.app.main import COMMAND
from dpaudit.app.options.claim_options import (
    StatedClaim,
    accounted,
    claim_options,
    rigour_option,
    stated_budget,
    statement_option,
    users_option,
)
from dpaudit.app.options.foreign_code import foreign_code
from dpaudit.app.options.targets import (
    Target,
    load_pair,
    load_target,
    pair_option,
    pairs_of,
    parameter_option,
)
from dpaudit.app.text.computed_again import LEDGER
from dpaudit.app.text.conditions import sentences
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED, EXIT_NOTHING, traceback_option
from dpaudit.app.text.output import (
    bullets,
    line,
    note,
    output_format_option,
    print_json,
    print_text,
    unwrapped,
)
from dpaudit.app.text.output_file import NoJSON, output_text
from dpaudit.app.text.tables import (
    accounting_table,
    audit_words,
    bound_figure,
    bound_words,
    premises,
    shortfalls,
)
from dpaudit.app.verbs.report import REPORT, report_text
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.certificate import Certificate, judge
from dpaudit.certificate.statement import Statement
from dpaudit.certificate.verdicts import Accounting, Audit, Experiment
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.running import Run, run
from dpaudit.errors import CannotBound, UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.ledger import Ledger

CERTIFICATE, OUTPUT = "certificate.json", "output.json"

#: Thousands of runs would take longer than all the rest.
NOT_SAMPLED = "not sampled: `dpaudit audit --method sequential` compares final outputs"

#: At this delta the total is also shown as (epsilon, delta)-DP, for comparison across scales.
COMPARISON_DELTA = 1e-6


@click.command(
    epilog="""\b
Examples:
  dpaudit certify dp-apvi -o out
  dpaudit certify mine.py:algorithm --data rows.csv --rho 0.5 --unit user
  dpaudit certify mine.py:adaptive --data rows.csv --rho 0.5 --budget-rho 0.5

`dpaudit list` names the -P parameters of every built-in algorithm.
Exits 0 if the claim is proved and not refuted, 1 if not.
"""
)
@click.argument("target")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=f"Write {LEDGER}, {CERTIFICATE}, {REPORT} and the algorithm's {OUTPUT} there, replacing earlier "
    "ones; without it nothing is written.",
)
@click.option(
    "--data",
    "data_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Your own data: the format of a built-in algorithm, else .npy or .csv.",
)
@parameter_option
@claim_options
@users_option
@rigour_option
@pair_option
@click.option(
    "--budget-rho",
    type=float,
    help="Hold the run to rho-zCDP by a filter: its number of releases may then depend on the data.",
)
@click.option("--budget-mu", type=float, help="As --budget-rho, to mu-GDP.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Repeatable noise, hence an output that must not be published; also the audit's seed (default 0).",
)
@statement_option
@click.option("--strict", is_flag=True, help="Exit 4 if the audit is inconclusive.")
@output_format_option
@traceback_option
@click.pass_context
def certify(
    ctx: click.Context,
    *,
    target: str,
    folder: Path | None,
    data_file: Path | None,
    parameters: dict[str, Any],
    stated: StatedClaim,
    users: int | None,
    rigour: str,
    pair_reference: str | None,
    budget_rho: float | None,
    budget_mu: float | None,
    seed: int | None,
    statement: Statement,
    strict: bool,
    output_format: str,
) -> None:
    """Run TARGET on data, account for every release, audit it and judge its claim.

    TARGET is a built-in algorithm (see `dpaudit list`), path.py:NAME or package.module:NAME.
    """
    chosen = load_target(target, data_file=data_file, parameters=parameters)
    claim = stated.claim(chosen.claim)
    if claim is None:
        raise UsageError(
            "nothing is claimed",
            where=f"TARGET {target}",
            why="a certificate says of a claim whether it is proved",
            remedy="add --rho, --mu or --epsilon with --delta, or give the algorithm a `claim` attribute",
        )
    pair = None if pair_reference is None else load_pair(pair_reference)
    data = data_for(chosen, pair)
    if folder is not None:
        _prepare(folder)

    with foreign_code(target, "running it"):
        result = run(
            chosen.algorithm,
            data,
            claim=claim,
            seed=seed,
            users=users,
            budget=stated_budget(budget_rho, budget_mu, claim),
            path=None if folder is None else folder / LEDGER,
        )
    if not result.ledger.releases:
        reason = f"{target} released nothing through its curator; its output is unaccounted for"
        if output_format == "json":
            print_json({"proof": None, "claim": claim.to_json(), "releases": [], "reason": reason})
        note(f"nothing to check: {reason}")
        ctx.exit(EXIT_NOTHING)
    accounting = accounted(result.ledger, None, rigour)
    # Before the audit runs the algorithm again, which may change an object that it returned.
    text = None if folder is None else output_text(result.output)
    options = {"users": users, "budget": stated_budget(budget_rho, budget_mu, claim)}
    audits = _audits(chosen, pairs_of(chosen, pair), claim=claim, seed=seed or 0, run_options=options)
    approximate = _as_approximate(result.ledger)
    compared = accounting.bounds if isinstance(claim.guarantee, ApproxDP) else approximate
    certificate = judge(
        result.ledger,
        accounting,
        audits,
        command=ctx.meta.get(COMMAND, f"dpaudit certify {target}"),
        second_opinion=second_opinion(result.ledger, compared),
        profile=profile_points(result.ledger, accounting),
        statement=statement,
    )
    files = "nothing was written; -o DIR keeps ledger, certificate and output"
    if folder is not None:
        files = _files(folder, text, certificate)

    utility = _utility(chosen, result)
    if output_format == "json":
        print_json({**certificate.to_json(), "utility": utility})
        note(files)
    else:
        print_text(*_text(certificate, accounting, approximate, utility), line(), unwrapped(files))
    if not certificate.all_proved or certificate.experiment is Experiment.REFUTED:
        ctx.exit(EXIT_NOT_PROVED)
    if strict and certificate.experiment is Experiment.INCONCLUSIVE:
        ctx.exit(EXIT_INCONCLUSIVE)


def data_for(target: Target, pair: Pair | None) -> Any:
    """What to run a target on: its own data, else the first of the pair."""
    if target.data is not None:
        return target.data
    if pair is not None:
        return copy.deepcopy(pair.data)  # the audit must find the pair as it was
    raise UsageError(
        "no data to run on",
        where=f"TARGET {target.reference}",
        why="only built-in algorithms bring their own",
        remedy="add --data FILE, or --pair MODULE:CALLABLE, whose first data set is then used",
    )


def _prepare(folder: Path) -> None:
    """Make the folder, and take an earlier run's certificate out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be made a folder: {error.strerror}",
            where=f"-o {folder}",
            why="nothing could be kept",
            remedy="name another folder",
        ) from None
    # Should the run fail half way, nothing may stand beside another run's ledger.
    for name in (CERTIFICATE, REPORT, OUTPUT):
        (folder / name).unlink(missing_ok=True)


def _audits(
    target: Target, pairs: Sequence[Pair], *, claim: Claim, seed: int, run_options: Mapping[str, Any]
) -> list[Audit]:
    if not pairs:
        return []
    with foreign_code(target.reference, "auditing it"):
        return [replay(target.algorithm, pairs, claim=claim, seed=seed, run_options=run_options)]


def _utility(target: Target, result: Run) -> dict[str, float | None]:
    if not hasattr(target.algorithm, "utility"):
        return {}
    with foreign_code(target.reference, "measuring its utility"):
        figures = {str(name): float(value) for name, value in target.algorithm.utility(result.output).items()}
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}


def _files(folder: Path, text: str | NoJSON | None, certificate: Certificate) -> str:
    """Write all but the ledger; say where everything is, and whether the output may go further."""
    certificate.write(folder / CERTIFICATE)
    replace_file(folder / REPORT, report_text(certificate).encode())
    lines = [f"written: {folder / name}" for name in (LEDGER, CERTIFICATE, REPORT)]
    if isinstance(text, str):
        replace_file(folder / OUTPUT, text.encode())
        lines.append(f"written: {folder / OUTPUT}{_warning(certificate)}")
    else:
        lines.append(f"not written: {folder / OUTPUT}: {text}, of which there is no JSON")
    return "\n".join(lines)


def _warning(certificate: Certificate) -> str:
    reasons = []
    if not certificate.publishable:
        reasons.append("its noise came from a known seed")
    if not certificate.all_proved:
        reasons.append("its claim is not proved")
    if certificate.experiment is Experiment.REFUTED:
        reasons.append("an audit refuted what its ledger says")
    return f" (do not publish it: {'; '.join(reasons)})" if reasons else ""


def _text(
    certificate: Certificate,
    accounting: Accounting,
    bounds: Sequence[Bound],
    utility: dict[str, float | None],
) -> list[RenderableType]:
    parts: list[RenderableType] = [line(f"{certificate.algorithm}: {certificate.claim}"), line()]
    parts += accounting_table(accounting)
    parts += [line(), *bullets(line("proof", certificate.proof), _total(accounting, bounds))]
    parts.append(line("second opinion", *str(certificate.second_opinion).split(" ", 1)))
    parts += shortfalls(accounting) + premises(accounting.claim)
    if certificate.audits:
        for audit in certificate.audits:
            parts += audit_words(audit)
        parts.append(line(NOT_SAMPLED))
    else:
        parts.append(
            line("audit", Experiment.INCONCLUSIVE, "not run: no pair to run on; add --pair MODULE:CALLABLE")
        )
    for name, value in utility.items():
        parts.append(line(f"utility: {name} {'not finite' if value is None else format(value, '.6g')}"))
    return [*parts, line(), *bullets("Not checked", sentences(certificate.not_checked))]


def _total(accounting: Accounting, approximate: Sequence[Bound]) -> list[str]:
    if not approximate or approximate[0] in accounting.bounds:
        return bound_words(accounting)
    words = f"{bound_figure(approximate[0])}-DP by {approximate[0].method}"
    if not accounting.bounds:
        return [words, *bound_words(accounting)]
    return [*bound_words(accounting), f"that is {words}"]


def _as_approximate(ledger: Ledger) -> Sequence[Bound]:
    """The ledger's total as (epsilon, 1e-6)-DP by each accountant, tightest first; empty where none can."""
    try:
        return account(ledger, Claim(ApproxDP(epsilon=0.0, delta=COMPARISON_DELTA))).bounds
    except CannotBound:
        return ()
