"""`dpaudit audit`: try to refute a claim by experiment."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import click
from click.core import ParameterSource

from dpaudit.accountants.curves.implied import implied_curve
from dpaudit.app.options.audit_options import METHODS, Settings, settings_options
from dpaudit.app.options.claim_options import StatedClaim, claim_options, users_option
from dpaudit.app.options.foreign_code import foreign_code
from dpaudit.app.options.targets import (
    Target,
    load_pair,
    load_target,
    pair_option,
    pairs_of,
    parameter_option,
)
from dpaudit.app.text.audit_text import audit_json, audit_page
from dpaudit.app.text.failures import EXIT_INCONCLUSIVE, EXIT_NOT_PROVED, traceback_option
from dpaudit.app.text.output import line, lower, output_format_option, print_json, print_text
from dpaudit.app.text.progress import Progress
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.one_run import audit_in_one_run, coin_relation
from dpaudit.auditors.sampling.sampling import Method, SamplingPlan, SoFar, audit_by_sampling
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.curator.running import name_of, terms
from dpaudit.errors import UsageError

#: Runs a side of the zoo's audits, unless --trials says otherwise.
ZOO_TRIALS = 10_000


@click.command(
    epilog="""\b
Examples:
  dpaudit audit dp-apvi
  dpaudit audit mine.py:algorithm --pair mine.py:neighbours --rho 0.5
  dpaudit audit mine.py:algorithm --pair mine.py:neighbours --epsilon 1 \\
      --method sequential --trials 100000 --workers 2 --resume audit.sqlite
  dpaudit audit mine.py:mechanism --plain --pair mine.py:pair --epsilon 1

Where --epsilon is left out, --delta says where the bound on epsilon is stated.
Exits 0 if not refuted, 1 if refuted. An audit can refute a claim, never prove one.
"""
)
@click.argument("target", required=False)
@click.option(
    "--method",
    type=click.Choice(list(METHODS)),
    help="; ".join(f"{name}: {what}" for name, what in METHODS.items())
    + ". Default: replay, or sequential for what draws its own noise.",
)
@pair_option
@click.option(
    "--plain",
    is_flag=True,
    help="TARGET draws its own noise, (data, numpy generator) -> output. A curatorless.Plain and "
    "an OpenDP measurement need no such word.",
)
@parameter_option
@claim_options
@users_option
@click.option(
    "--confidence",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="That the bound holds and no true claim is refuted.",
)
@settings_options
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Root seed of the trials."
)
@click.option("--zoo", is_flag=True, help="Instead of TARGET, audit mechanisms with known faults.")
@click.option("--strict", is_flag=True, help="Exit 4 if the audit is inconclusive.")
@output_format_option
@traceback_option
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    target: str | None,
    method: str | None,
    pair_reference: str | None,
    plain: bool,
    parameters: dict[str, Any],
    stated: StatedClaim,
    users: int | None,
    confidence: float,
    settings: Settings,
    seed: int,
    zoo: bool,
    strict: bool,
    output_format: str,
) -> None:
    """Run TARGET on neighbouring data and look for what its ledger does not tell.

    TARGET is a built-in algorithm (see `dpaudit list`), path.py:NAME or package.module:NAME.
    """
    if zoo:
        _require_zoo_options(ctx)
        ctx.exit(_zoo(target, settings, seed=seed, confidence=confidence, output_format=output_format))
    if target is None:
        raise UsageError(
            "nothing to audit",
            where="TARGET",
            why="there is nothing to run",
            remedy="name a built-in algorithm, path.py:NAME or package.module:NAME, or give --zoo",
        )
    chosen = load_target(target, data_file=None, parameters=parameters, plain=plain)
    if method is None:
        method = "sequential" if isinstance(chosen.algorithm, Plain) else "replay"
    settings.require_used(method)
    _require_sensible(method, pair_reference, settings, chosen)
    delta, stated = _bound_at(stated)
    claim = _about_run(stated.claim(chosen.claim), method)
    shared: dict[str, Any] = {"claim": claim, "delta": delta, "confidence": confidence}
    if method == "one-run":
        found = _in_one_run(chosen, settings, shared, users=users, seed=seed)
    else:
        pairs = pairs_of(chosen, None if pair_reference is None else load_pair(pair_reference))
        _require_pairs(pairs, target)
        if method == "replay":
            with foreign_code(target, "auditing it"):
                found = replay(
                    chosen.algorithm,
                    pairs,
                    seed=seed,
                    run_options={"users": users},
                    replays=settings.number(method),
                    **shared,
                )
        else:
            found = _sampled(chosen, pairs, cast("Method", method), settings, shared, users=users, seed=seed)
    if output_format == "json":
        print_json(audit_json(found))
    else:
        head = line(f"{name_of(chosen.algorithm)}: {claim or 'nothing claimed'}")
        print_text(head, *audit_page(found))
    if found.verdict is Experiment.REFUTED:
        ctx.exit(EXIT_NOT_PROVED)
    if strict and found.verdict is Experiment.INCONCLUSIVE:
        ctx.exit(EXIT_INCONCLUSIVE)


def _sampled(
    target: Target,
    pairs: Sequence[Pair],
    method: Method,
    settings: Settings,
    shared: dict[str, Any],
    *,
    users: int | None,
    seed: int,
) -> Audit:
    claim: Claim | None = shared["claim"]
    plan = SamplingPlan(
        trials=settings.number(method),
        seed=seed,
        chunk=settings.chunk,
        workers=settings.workers or 1,
        cluster=settings.dask,
        resume=settings.resume,
        time_limit=settings.time_limit,
        stop_when_refuted=bool(settings.stop_when_refuted),
    )
    score = settings.scored()
    with (
        Progress(plan.trials * len(pairs), "runs a side") as progress,
        foreign_code(target.reference, "auditing it"),
    ):
        return audit_by_sampling(
            target.algorithm,
            pairs,
            plan,
            method=method,
            score=score,
            curve=None if claim is None else implied_curve(claim.guarantee),
            run_options=_run_options(target, claim, users),
            progress=lambda so_far: _show(progress, so_far),
            **shared,
        )


def _in_one_run(
    target: Target, settings: Settings, shared: dict[str, Any], *, users: int | None, seed: int
) -> Audit:
    claim: Claim | None = shared["claim"]
    canaries = settings.canaries_for(settings.number("one-run"))
    options = {**_run_options(target, claim, users), "neighbouring": coin_relation(claim)}
    with foreign_code(target.reference, "auditing it"):
        return audit_in_one_run(
            target.algorithm,
            canaries,
            guesses=settings.guesses,
            curve=None if claim is None else implied_curve(claim.guarantee),
            seed=seed,
            run_options=options,
            **shared,
        )


def _run_options(target: Target, claim: Claim | None, users: int | None) -> dict[str, Any]:
    """What decides a run: of a claim whom it is about, not its figure, so that kept runs serve any."""
    if isinstance(target.algorithm, Plain):
        return {}
    unit, neighbouring, trust_model = terms(claim)
    return {"unit": unit, "neighbouring": neighbouring, "trust_model": trust_model, "users": users}


def _show(progress: Progress, so_far: SoFar) -> None:
    words = [] if so_far.pairs == 1 else [f"pair {so_far.pair + 1} of {so_far.pairs}"]
    audit = so_far.audit
    if audit is not None:
        if audit.epsilon_lower is not None:
            words.append(f"epsilon >= {lower(audit.epsilon_lower)} at delta {audit.delta:g}")
        if audit.verdict is Experiment.REFUTED:
            words.append("REFUTED")
    progress(so_far.pair * so_far.trials + so_far.done, ", ".join(words))


def _bound_at(stated: StatedClaim) -> tuple[float | None, StatedClaim]:
    """Where the bound on epsilon is stated: a delta without an epsilon is no part of a claim."""
    if stated.delta is None or stated.epsilon is not None:
        return None, stated
    return stated.delta, replace(stated, delta=None)


def _about_run(claim: Claim | None, method: str) -> Claim | None:
    """The claim with unit, relation and trust model as a run fills in what it leaves open."""
    if claim is None:
        return None
    unit, neighbouring, trust_model = terms(claim)
    return claim.about(unit, coin_relation(claim) if method == "one-run" else neighbouring, trust_model)


def _require_pairs(pairs: Sequence[Pair], target: str) -> None:
    if not pairs:
        raise UsageError(
            "no neighbouring data to audit on",
            where=f"TARGET {target}",
            why="an audit compares two data sets that differ in one unit of privacy",
            remedy="add --pair MODULE:CALLABLE, which returns (data, neighbour)",
        )


def _require_sensible(method: str, pair: str | None, settings: Settings, target: Target) -> None:
    """Refuse a pair that one run would pass over, and an exact ratio of releases that nobody sees."""
    if method == "one-run" and pair is not None:
        raise UsageError(
            "--pair with --method one-run",
            where="--pair",
            why="one run compares its canaries, and no two data sets",
            remedy="leave it out: --canaries says what is inserted",
        )
    if settings.score == "exact" and isinstance(target.algorithm, Plain):
        raise UsageError(
            "--score exact of what draws its own noise",
            where="--score",
            why="a likelihood ratio needs the densities of all releases, and these go through no curator",
            remedy="give a score of the output, or have one learned: logistic, boosting",
        )


def _require_zoo_options(ctx: click.Context) -> None:
    """Refuse whatever the zoo would pass over."""
    used = {"zoo", "target", "trials", "seed", "confidence", "output_format", "traceback"}
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT
        if parameter.name in used or not given:
            continue
        option = max(parameter.opts, key=len)
        raise UsageError(
            f"{option} with --zoo",
            where=option,
            why="the zoo has mechanisms, claims and pairs of its own, and every auditor that suits them",
            remedy="leave it out: --trials, --seed, --confidence and --output-format go with --zoo",
        )


def _zoo(target: str | None, settings: Settings, *, seed: int, confidence: float, output_format: str) -> int:
    """The zoo's table; its exit code."""
    if target is not None:
        raise UsageError(
            f"--zoo and TARGET {target} at once",
            where="--zoo",
            why="the zoo has mechanisms of its own",
            remedy="give one of them",
        )
    table = importlib.import_module("dpaudit.app.text.zoo_table")
    trials = ZOO_TRIALS if settings.trials is None else settings.trials
    status: int = table.show_zoo(trials=trials, seed=seed, confidence=confidence, output_format=output_format)
    return status
