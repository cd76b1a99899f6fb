"""`dpaudit certify`: run, account, audit, judge."""

import functools
import math
from pathlib import Path
from typing import Any

import click

from dpaudit.app.main import COMMAND
from dpaudit.app.options import claim_options, processes, targets
from dpaudit.app.options.files import make_folder
from dpaudit.app.options.foreign_code import foreign_code
from dpaudit.app.options.option import PATH, SEED, option
from dpaudit.app.text.audits import finding_words
from dpaudit.app.text.certificates import certificate_page
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED, EXIT_NOTHING
from dpaudit.app.text.output import line, output_format_option, print_json, print_text, unwrapped
from dpaudit.app.text.output_file import NoJSON, output_text
from dpaudit.app.text.streams import note
from dpaudit.app.text.target_text import target_errors_option, tell_raised
from dpaudit.app.verbs.pair_file import PAIR, write_pair
from dpaudit.app.verbs.report import report_text
from dpaudit.certificate.statement import Statement
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.lock import only_writer
from dpaudit.pipeline.accounting import Rigour
from dpaudit.pipeline.audit import audit
from dpaudit.pipeline.certify import (
    AuditOptions,
    Certified,
    FigureOptions,
    NothingReleased,
    RunOptions,
    Telling,
    certified,
)
from dpaudit.pipeline.checking import contradictions
from dpaudit.pipeline.files import CERTIFICATE, LEDGER, OUTPUT, PRIVATE, PRIVATE_MODE, REPORT, private_name


@click.command(
    epilog="""\b
Examples:
  dpaudit certify dp-apvi -o out
  dpaudit certify mine.py:algorithm --data rows.csv --rho 0.5 --unit user
  dpaudit certify mine.py:adaptive --data rows.csv --rho 0.5 --budget-rho 0.5

`dpaudit list` names the -P parameters of every built-in algorithm.
Exits 0 if the claim and each release's own claim are proved and not refuted,
1 if not.
"""
)
@click.argument("target")
@option(
    "-o --output folder",
    PATH,
    f"Write {LEDGER}, {CERTIFICATE}, {REPORT} and the algorithm's {OUTPUT} there, replacing earlier "
    f"ones, and {PAIR} where a public pair refutes; without it nothing is written.",
    metavar="DIR",
)
@option(
    "--data data_file",
    str,
    "Your own data: the format of a built-in algorithm, else .npy, .csv, .parquet or a folder of them, "
    "'FILE.csv?NAME=TYPE,...' for a table (TYPE is text, whole or number), 'duckdb:FILE?QUERY', or "
    "MODULE.py:FUNCTION, which returns a data frame; left out, built-in data, or the first data set of "
    "--pair.",
    metavar="DATA",
)
@targets.parameter_option
@claim_options.claim_options
@claim_options.users_option
@claim_options.rigour_option
@targets.pair_option
@option(
    "--budget-rho",
    float,
    "Hold the run to rho-zCDP by a filter: its number of releases may then depend on the data.",
)
@option("--budget-mu", float, "As --budget-rho, to mu-GDP.")
@option(
    "--seed",
    SEED,
    "Makes the noise repeatable; do not publish the output then. Also the audit's seed (default 0).",
)
@claim_options.statement_option
@option(
    "--second-opinion",
    bool,
    "Also state what dp-accounting computes for the same releases; it changes no verdict.",
)
@processes.process_options
@option(
    "--strict",
    bool,
    "Ask the independent checker, however long it takes: exit 1 if it contradicts a figure, 4 if it does not "
    "know one. Exit 4 if the audit is inconclusive.",
)
@output_format_option
@target_errors_option
@click.pass_context
def certify(
    ctx: click.Context,
    *,
    target: str,
    folder: Path | None,
    data_file: str | None,
    parameters: dict[str, Any],
    stated: claim_options.StatedClaim,
    users: int | None,
    rigour: Rigour,
    pair_reference: str | None,
    budget_rho: float | None,
    budget_mu: float | None,
    seed: int | None,
    statement: Statement,
    second_opinion: bool,
    strict: bool,
    output_format: str,
    where: processes.Processes,
) -> None:
    """Run TARGET on data, account for every release, audit it and judge its claim.

    TARGET is a built-in algorithm (see `dpaudit list`), path.py:NAME or package.module:NAME.
    """
    opened = processes.open_target(
        target,
        data_file=data_file,
        parameters=parameters,
        pair=pair_reference,
        processes=where,
        claimed=stated.claim,
    )
    chosen = ctx.with_resource(opened)
    claim = stated.claim(chosen.claim)
    if claim is None:
        why = "a certificate states whether a claim is proved"
        remedy = "add --rho, --mu or --epsilon with --delta, or give the algorithm a `claim` attribute"
        raise UsageError("nothing is claimed", where=f"TARGET {target}", why=why, remedy=remedy)
    if folder is not None:
        make_folder(folder)
        ctx.with_resource(only_writer(folder))
        # Should the run fail half way, nothing may stand beside another run's ledger.
        for name in (CERTIFICATE, REPORT, OUTPUT, PAIR, *PRIVATE):
            (folder / name).unlink(missing_ok=True)
    text: list[str | NoJSON] = []
    kept: list[str] = []
    try:
        found = certified(
            chosen.algorithm,
            chosen.data,
            claim,
            running=RunOptions(
                seed,
                users,
                claim_options.stated_budget(budget_rho, budget_mu, claim),
                None if folder is None else folder / LEDGER,
                where.in_process,
                where.limits,
            ),
            auditing=AuditOptions(
                chosen.pairs, functools.partial(audit, keep_pair=kept.append), chosen.own_pairs
            ),
            figures=FigureOptions(rigour, opinion=second_opinion, utility=True, check=strict),
            telling=Telling(
                statement,
                ctx.meta.get(COMMAND, f"dpaudit certify {target}"),
                functools.partial(foreign_code, target),
                (lambda run: text.append(output_text(run.output))) if folder else (lambda _: None),
            ),
        )
    except NothingReleased:
        reason = f"{target} released nothing through its curator; its output is unaccounted for"
        if output_format == "json":
            print_json({"proof": None, "claim": claim.to_json(), "releases": [], "reason": reason})
        note(f"nothing to check: {reason}")
        ctx.exit(EXIT_NOTHING)
    certificate = found.certificate
    utility = {name: value if math.isfinite(value) else None for name, value in found.utility.items()}
    if output_format == "json":
        print_json({**certificate.to_json(), "utility": utility})
    else:
        print_text(*certificate_page(found, utility, folder), line())
    # Drawing the page takes longer than all the rest: whoever waits for the verdict has it by now.
    files = "nothing was written; -o DIR keeps ledger, certificate and output"
    if folder is not None:
        files = _files(folder, text[0], found)
    if output_format == "json":
        note(files)
    else:
        print_text(unwrapped(files))
    write_pair(ctx, folder, kept, target)
    for finding in found.divergences:
        note(f"for the data's holder alone: {finding_words(finding)}")
    if found.raised:
        tell_raised(target, found.raised)
    contradicted = strict and contradictions(found.unconfirmed)
    if (
        contradicted
        or not certificate.all_proved
        or certificate.experiment is Experiment.REFUTED
        or found.divergences
    ):
        ctx.exit(EXIT_NOT_PROVED)
    if strict and (certificate.experiment is Experiment.INCONCLUSIVE or found.unconfirmed):
        ctx.exit(EXIT_INCONCLUSIVE)


def _files(folder: Path, text: str | NoJSON, found: Certified) -> str:
    """Write page, output and certificate; say where everything is, and whether the output may go further.

    The certificate is written last, so that it exists only beside all other files and the ledger it names.
    Nothing of a run that diverged may go further: every file has its private name, and is its owner's alone.
    """
    certificate = found.certificate
    mode = PRIVATE_MODE if certificate.diverged else None
    names = (LEDGER, CERTIFICATE, REPORT, OUTPUT)
    ledger, stated, page, output = (
        folder / (private_name(name) if certificate.diverged else name) for name in names
    )
    whole, approximate = found.accounted.composition, found.approximate
    shown = report_text(certificate, approximate, whole=whole, ledger=(folder / LEDGER).read_bytes())
    replace_file(page, shown.encode(), mode=mode)
    lines = [f"written: {path}" for path in (ledger, stated, page)]
    if isinstance(text, str):
        replace_file(output, text.encode(), mode=mode)
        against = "; ".join(certificate.against_publishing)
        lines.append(f"written: {output}" + (f" (do not publish it: {against})" if against else ""))
    else:
        lines.append(f"not written: {output}: {text}, which cannot be written as JSON")
    found.run.ledger.require_kept()
    if certificate.diverged:
        (folder / LEDGER).chmod(PRIVATE_MODE)
        (folder / LEDGER).replace(ledger)
    certificate.write(stated)
    return "\n".join(lines)
