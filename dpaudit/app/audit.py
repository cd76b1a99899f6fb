"""`dpaudit audit`: try to refute a claim by experiment."""

from __future__ import annotations

from typing import Any

import click

from dpaudit.app.claim_options import StatedClaim, claim_options, users_option
from dpaudit.app.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED, traceback_option
from dpaudit.app.foreign_code import foreign_code
from dpaudit.app.output import bullets, line, output_format_option, print_json, print_text
from dpaudit.app.tables import audit_words
from dpaudit.app.targets import load_pair, load_target, pair_option, pairs_of, parameter_option
from dpaudit.auditors.replay import replay
from dpaudit.claims import Claim
from dpaudit.errors import UsageError
from dpaudit.running import name_of, terms
from dpaudit.verdicts import Experiment


@click.command(
    epilog="""\b
Examples:
  dpaudit audit dp-apvi
  dpaudit audit mine.py:algorithm --pair mine.py:neighbours --rho 0.5

Exits 0 if not refuted, 1 if refuted. An audit can refute a claim, never prove one.
"""
)
@click.argument("target")
@click.option(
    "--method",
    type=click.Choice(["replay"]),
    default="replay",
    show_default=True,
    help="replay: force the same noise on both data sets, see what still differs.",
)
@pair_option
@parameter_option
@claim_options
@users_option
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root seed of the trials."
)
@click.option("--strict", is_flag=True, help="Exit 4 if the audit is inconclusive.")
@output_format_option
@traceback_option
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    target: str,
    method: str,
    pair_reference: str | None,
    parameters: dict[str, Any],
    stated: StatedClaim,
    users: int | None,
    seed: int,
    strict: bool,
    output_format: str,
) -> None:
    """Run TARGET on neighbouring data and look for what its ledger does not tell."""
    del method  # there is one
    chosen = load_target(target, data_file=None, parameters=parameters)
    claim = _about_run(stated.claim(chosen.claim))
    pairs = pairs_of(chosen, None if pair_reference is None else load_pair(pair_reference))
    if not pairs:
        raise UsageError(
            "no neighbouring data to audit on",
            where=f"TARGET {target}",
            why="an audit compares two data sets that differ in one unit of privacy",
            remedy="add --pair MODULE:CALLABLE, which returns (data, neighbour)",
        )
    with foreign_code(target, "auditing it"):
        found = replay(chosen.algorithm, pairs, claim=claim, seed=seed, run_options={"users": users})
    if output_format == "json":
        print_json({"verdict": found.verdict, **found.model_dump(mode="json", by_alias=True)})
    else:
        head = line(f"{name_of(chosen.algorithm)}: {claim or 'nothing claimed'}")
        print_text(head, *audit_words(found), *bullets("Not checked", found.not_checked))
    if found.verdict is Experiment.REFUTED:
        ctx.exit(EXIT_NOT_PROVED)
    if strict and found.verdict is Experiment.INCONCLUSIVE:
        ctx.exit(EXIT_INCONCLUSIVE)


def _about_run(claim: Claim | None) -> Claim | None:
    """The claim with unit, relation and trust model as a run fills in what it leaves open."""
    if claim is None:
        return None
    unit, neighbouring, trust_model = terms(claim)
    return claim.about(unit, neighbouring, trust_model)
