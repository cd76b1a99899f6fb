"""`dpaudit audit`: try to refute a claim by experiment."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import click
from click.core import ParameterSource

from dpaudit.app.options import targets
from dpaudit.app.options.audit_options import METHODS, Settings, settings_options
from dpaudit.app.options.claim_options import StatedClaim, claim_options, users_option
from dpaudit.app.options.foreign_code import foreign_code
from dpaudit.app.options.option import PATH, SEED, Words, option
from dpaudit.app.options.processes import Opened, Processes, open_target, process_options
from dpaudit.app.text.audits import audit_json, audit_page
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED
from dpaudit.app.text.output import line, output_format_option, print_json, print_text
from dpaudit.app.text.target_text import target_errors_option
from dpaudit.app.verbs.pair_file import PAIR, begin_pair, write_pair
from dpaudit.auditors.libraries.routed import COMPILED, LIBRARIES
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.curator.running import name_of
from dpaudit.errors import UsageError
from dpaudit.pipeline.audit import METHODS as AUDITORS
from dpaudit.pipeline.audit import audit as audit_on_pairs
from dpaudit.pipeline.audit import one_run
from dpaudit.processes.host import Limits

#: Runs a side of the zoo's audits, unless --trials says otherwise.
ZOO_TRIALS = 10_000


class _Shared(TypedDict):
    """The arguments that every method takes."""

    claim: Claim | None
    delta: float | None
    confidence: float
    seed: int
    users: int | None
    in_process: bool | None
    limits: Limits


@click.command(
    epilog="""\b
Examples:
  dpaudit audit dp-apvi
  dpaudit audit mine.py:algorithm --pair mine.py:neighbours --rho 0.5
  dpaudit audit mine.py:algorithm --pair mine.py:neighbours --epsilon 1 \\
      --method sequential --trials 100000 --workers 2 --resume audit.sqlite
  dpaudit audit mine.py:mechanism --plain --pair mine.py:pair --epsilon 1
  dpaudit audit theirs.py:fit --library diffprivlib --pair theirs.py:pair \\
      --epsilon 1

Without --epsilon, the bound on epsilon is stated at --delta.
Exits 0 if not refuted, 1 if refuted. An audit can refute a claim, never prove one.
"""
)
@click.argument("target", required=False)
@option(
    "--method",
    Words(AUDITORS, also=("one-run",)),
    "; ".join(f"{name}: {what}" for name, what in METHODS.items())
    + ". Default: replay, or sequential for a target that draws its own noise.",
)
@targets.pair_option
@option(
    "-o --output folder",
    PATH,
    f"If a public pair refutes, write {PAIR} to this folder: it makes the smallest refuting pair found.",
    metavar="DIR",
)
@option(
    "--plain",
    bool,
    "TARGET draws its own noise: (data, numpy generator) -> output. A curatorless.Plain and "
    "an OpenDP measurement are detected automatically.",
)
@option(
    "--library",
    Words(LIBRARIES, also=COMPILED),
    f"TARGET is written for this library ({', '.join(LIBRARIES.own)}) and called with the data alone: "
    "(data) -> output. The curator draws the library's noise, so that replay sees every query.",
    metavar="LIBRARY",
)
@targets.parameter_option
@claim_options
@users_option
@option(
    "--confidence",
    click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    "Confidence level of the bound and of the verdict.",
    default=0.95,
)
@settings_options
@option("--seed", SEED, "Root seed of the trials.", default=0)
@option("--zoo", bool, "Instead of TARGET, audit mechanisms with known faults.")
@process_options
@option("--strict", bool, "Exit 4 if the audit is inconclusive.")
@output_format_option
@target_errors_option
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    target: str | None,
    method: str | None,
    pair_reference: str | None,
    folder: Path | None,
    plain: bool,
    library: str | None,
    parameters: dict[str, Any],
    stated: StatedClaim,
    users: int | None,
    confidence: float,
    settings: Settings,
    seed: int,
    zoo: bool,
    strict: bool,
    output_format: str,
    where: Processes,
) -> None:
    """Run TARGET on neighbouring data and look for evidence against its claim or its ledger.

    TARGET is a built-in algorithm (see `dpaudit list`), path.py:NAME or package.module:NAME.
    """
    if zoo:
        _require_zoo_options(ctx, target)
        from dpaudit.app.text.zoo_table import show_zoo

        trials = settings.trials or ZOO_TRIALS
        ctx.exit(show_zoo(trials=trials, seed=seed, confidence=confidence, output_format=output_format))
    if target is None:
        remedy = "name a built-in algorithm, path.py:NAME or package.module:NAME, or give --zoo"
        raise UsageError("nothing to audit", where="TARGET", why="there is nothing to run", remedy=remedy)
    _require_no_pair(method, pair_reference)
    settings = settings.of(target)
    if method is not None:
        settings.require_used(method)
    # What a cluster runs, it is sent.
    here = where if settings.dask is None else replace(where, in_process=True)
    keep = functools.partial(settings.functions, method)
    chosen = ctx.with_resource(
        open_target(
            target,
            parameters=parameters,
            pair=pair_reference,
            plain=plain,
            library=library,
            needs_data=False,
            processes=here,
            keep=keep,
        )
    )
    method = method or ("sequential" if chosen.plain else "replay")
    settings.require_used(method)
    _require_no_exact_ratio(settings, chosen)
    delta = None
    if stated.epsilon is None:  # then --delta says where the bound on epsilon is stated
        delta, stated = stated.delta, replace(stated, delta=None)
    shared: _Shared = {
        "claim": stated.claim(chosen.claim),
        "delta": delta,
        "confidence": confidence,
        "seed": seed,
        "users": users,
        "in_process": where.in_process,
        "limits": where.limits,
    }
    kept: list[str] = []
    begin_pair(folder, method)
    if method == "one-run":
        canaries = settings.canaries_with(chosen.kept)
        with foreign_code(target, "auditing it"):
            found = one_run(chosen.algorithm, canaries, guesses=settings.guesses, **shared)
    else:
        if not chosen.pairs:
            what = "no neighbouring data to audit on"
            why = "an audit compares two data sets that differ in one unit of privacy"
            remedy = "add --pair MODULE:CALLABLE, which returns (data, neighbour)"
            raise UsageError(what, where=f"TARGET {target}", why=why, remedy=remedy)
        found = _on_pairs(target, chosen, method, settings, shared, kept)
    if output_format == "json":
        print_json(audit_json(found))
    else:
        head = line(f"{name_of(chosen.algorithm)}: {found.claim or 'nothing claimed'}")
        print_text(head, *audit_page(found))
    write_pair(ctx, folder, kept, target)
    if found.verdict is Experiment.REFUTED:
        ctx.exit(EXIT_NOT_PROVED)
    if strict and found.verdict is Experiment.INCONCLUSIVE:
        ctx.exit(EXIT_INCONCLUSIVE)


def _on_pairs(
    target: str, chosen: Opened, method: str, settings: Settings, shared: _Shared, kept: list[str]
) -> Audit:
    """Audit on the target's pairs; the source of the smallest pair that refutes is added to `kept`."""
    with foreign_code(target, "auditing it"):
        return audit_on_pairs(
            chosen.algorithm,
            chosen.pairs,
            method=method,
            trials=settings.trials,
            score=chosen.kept.get("score", settings.score),
            chunk=settings.chunk,
            workers=settings.workers,
            cluster=settings.dask,
            resume=settings.resume,
            time_limit=settings.time_limit,
            stop_when_refuted=bool(settings.stop_when_refuted),
            search_pairs=settings.search_pairs,
            keep_pair=kept.append,
            **shared,
        )


def _require_no_pair(method: str | None, pair: str | None) -> None:
    """Refuse a pair that one run would ignore."""
    if method == "one-run" and pair is not None:
        why = "one-run compares its canaries, not two data sets"
        remedy = "leave it out: --canaries says what is inserted"
        raise UsageError("--pair with --method one-run", where="--pair", why=why, remedy=remedy)


def _require_no_exact_ratio(settings: Settings, target: Opened) -> None:
    """Refuse an exact ratio of releases that no curator saw."""
    if settings.score == "exact" and target.plain:
        why = "a likelihood ratio needs the densities of all releases, and these go through no curator"
        remedy = "give a score of the output, or have one learned: logistic, boosting"
        raise UsageError(
            "--score exact for a target that draws its own noise", where="--score", why=why, remedy=remedy
        )


def _require_zoo_options(ctx: click.Context, target: str | None) -> None:
    """Refuse every option that the zoo would ignore."""
    used = {"zoo", "target", "trials", "seed", "confidence", "output_format", "traceback"}
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT
        if given and parameter.name not in used:
            option = max(parameter.opts, key=len)
            why = "the zoo has mechanisms, claims and pairs of its own, and every auditor that suits them"
            remedy = "leave it out: --trials, --seed, --confidence and --output-format go with --zoo"
            raise UsageError(f"{option} with --zoo", where=option, why=why, remedy=remedy)
    if target is not None:
        why, remedy = "the zoo has mechanisms of its own", "give one of them"
        raise UsageError(f"--zoo and TARGET {target} at once", where="--zoo", why=why, remedy=remedy)
