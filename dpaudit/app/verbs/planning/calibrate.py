"""`dpaudit calibrate`: the least noise that meets a target."""

from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from dpaudit.accountants.calibration.calibration import Calibrated, Rescaled, calibrate, scale_ledger
from dpaudit.app.options.claim_options import NEIGHBOURING, StatedClaim, figure_options
from dpaudit.app.options.mechanism_options import (
    CONTRIBUTION,
    ITEMS,
    MONOTONE,
    SENSITIVITY,
    complete_mechanism,
    spelled,
    take_count,
)
from dpaudit.app.options.option import COUNT, option
from dpaudit.app.text import output
from dpaudit.app.text.tables import bound_figure, figure, mechanism_words, release_words
from dpaudit.claims.guarantees import figures
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import KINDS
from dpaudit.mechanisms.described import DESCRIBED, described, parameters
from dpaudit.models import did_you_mean

#: The mechanisms whose noise is free to choose, each with the parameter that sets it.
FREE = {
    kind: model.noise_field
    for kind, model in DESCRIBED.items()
    if model.noise_field is not None and None not in parameters(kind).values()
}


@click.command(
    "calibrate",
    help=f"""Find the least noise of MECHANISM that meets a target, or the noise factor for a LEDGER.

    MECHANISM is one of {", ".join(FREE)}; for one with an epsilon, find the largest epsilon.
    """,
    epilog="""\b
Examples:
  dpaudit calibrate gaussian --epsilon 1 --delta 1e-6
  dpaudit calibrate laplace --rho 0.5 --count 100 --sensitivity 2
  dpaudit calibrate gaussian --epsilon 2 --delta 1e-6 --rate 0.01 --count 1000
  dpaudit calibrate out/ledger.jsonl --epsilon 1 --delta 1e-6

One accountant finds the answer and another confirms it. If they disagree,
the command gives no answer. The printed noise meets the target to its last digit.
""",
)
@click.argument("subject", metavar="MECHANISM|LEDGER", shell_complete=complete_mechanism)
@figure_options(
    epsilon="Target epsilon-DP; with --delta, (epsilon, delta)-DP.",
    delta="The delta of (epsilon, delta)-DP, with --epsilon.",
    rho="Target rho-zCDP.",
    mu="Target mu-GDP.",
)
@option("--count", COUNT, "Number of runs; together they meet the target.  [default: 1]")
@option("--sensitivity", float, SENSITIVITY)
@option("--rate", float, "Sampling probability of each unit (Poisson sampling).")
@option("--contribution", float, CONTRIBUTION)
@option("--steps", COUNT, ITEMS)
@option("--answers", COUNT, "Number of above-threshold answers (sparse vector).  [default: 1]")
@option("--monotone", bool, MONOTONE, default=None)
@option(
    "--neighbouring",
    NEIGHBOURING,
    "How neighbouring data sets differ; used with --rate only.  [default: add-or-remove-one]",
)
@option("--allow-unhashed", bool, "Accept a LEDGER written by hand.")
@output.output_format_option
def calibrate_command(
    *, subject: str, stated: StatedClaim, allow_unhashed: bool, output_format: str, **options: Any
) -> None:
    """Find the least noise of a mechanism, or the factor for a ledger's noise."""
    target = stated.guarantee()
    if target is None:
        why = "without a target any noise is enough"
        remedy = "give --epsilon with --delta, --rho, --mu, or --epsilon alone"
        raise UsageError("no target", where="dpaudit calibrate", why=why, remedy=remedy)
    given = {name: value for name, value in options.items() if value is not None}
    noise = FREE.get(subject)
    if noise is None and not Path(subject).exists() and subject in KINDS:  # of another package
        noise = KINDS[subject].noise_field
    if noise is not None:
        relation = Neighbouring(stated.neighbouring or Neighbouring.ADD_OR_REMOVE_ONE)
        count = take_count(subject, given, spelled)
        prototype = described(subject, {noise: 1.0, **given}, spelled, relation)
        found = calibrate(prototype, target, count=count, neighbouring=relation)
        answer, parts = _mechanism_answer(found), _mechanism_text(found)
    else:
        given |= {} if stated.neighbouring is None else {"neighbouring": stated.neighbouring}
        rescaled = scale_ledger(_ledger(subject, list(given), allow_unhashed=allow_unhashed), target)
        answer, parts = _ledger_answer(subject, rescaled), _ledger_text(subject, rescaled)
    if output_format == "json":
        output.print_json(answer)
    else:
        output.print_text(*parts)


def _ledger(subject: str, given: list[str], *, allow_unhashed: bool) -> Ledger:
    path = Path(subject)
    if not path.exists():
        what = f"{subject!r} is neither a mechanism nor a ledger file"
        remedy = f"{did_you_mean(subject, FREE)}name one of {', '.join(FREE)}, or a file"
        raise UsageError(what, where="MECHANISM|LEDGER", why="there is nothing to calibrate", remedy=remedy)
    if given:
        what = f"{' and '.join(f'--{name}' for name in given)} with a ledger"
        why = "the ledger says what its releases are"
        raise UsageError(what, where=f"--{given[0]}", why=why, remedy="leave these options out")
    return Ledger.read(path, allow_unhashed=allow_unhashed)


def _confirmation(found: Calibrated | Rescaled) -> dict[str, Any]:
    by = found.opinion
    opinion: dict[str, Any] = {"accountant": by.method, **figures(by.guarantee)}
    opinion |= {"proves": by.proves, "resolution": by.resolution}
    return {"found_by": found.bound.row(), "verified_by": opinion, "slack": found.slack}


def _mechanism_answer(found: Calibrated) -> dict[str, Any]:
    stated = {name: getattr(found, name) for name in ("parameter", "value", "count")}
    what = {"target": found.target.to_json(), "mechanism": found.mechanism.to_json()}
    return {**what, **stated, **_confirmation(found)}


def _ledger_answer(subject: str, found: Rescaled) -> dict[str, Any]:
    return {
        "target": found.target.to_json(),
        "ledger": subject,
        "factor": found.factor,
        "fixed": list(found.fixed),
        "releases": [
            {"label": r.label, "count": r.count, "mechanism": r.mechanism.to_json()} for r in found.releases
        ],
        **_confirmation(found),
    }


def _mechanism_text(found: Calibrated) -> list[RenderableType]:
    runs = output.counted(found.count, "run", "runs")
    largest = "largest" if found.parameter == "epsilon" else "least"
    return [
        output.line(f"{found.target} by {runs} of {mechanism_words(found.mechanism)}"),
        output.line(),
        output.line(f"{largest} {found.parameter}: {found.value!r}"),
        *_confirmation_text(found),
    ]


def _ledger_text(subject: str, found: Rescaled) -> list[RenderableType]:
    rows = []
    for release in found.releases[: output.MOST_ROWS]:
        noise = release.mechanism.noise
        words = "stays as it is" if noise is None else f"{noise[0]} {noise[1]!r}"
        rows.append([release_words(release), release.mechanism.kind, words])
    left_out = len(found.releases) - output.MOST_ROWS
    words = f"... and {left_out} more releases; --output-format json lists them"
    more = [output.line(words)] if left_out > 0 else []
    return [
        output.unwrapped(subject),
        output.line(f"{found.target} with all noise times {found.factor!r}"),
        output.line(),
        output.table(("release", "mechanism", "noise"), rows, whole=("noise",), spare=("mechanism",)),
        *more,
        output.line(),
        *_confirmation_text(found),
    ]


def _confirmation_text(found: Calibrated | Rescaled) -> list[RenderableType]:
    opinion = found.opinion
    if opinion.proves:
        said = f"{figure(opinion.guarantee, proved=True)}, a proof of its own"
    elif opinion.resolution > 0.0:
        said = f"{figure(opinion.guarantee)}, an estimate resolved to {opinion.resolution:.1g}"
    else:
        said = f"{figure(opinion.guarantee)}, which does not exceed it"
    return [
        output.line(f"found by {found.bound.method}: {bound_figure(found.bound)} ({found.bound.rigour})"),
        output.line(f"verified by {opinion.method}: {said}"),
        output.line(f"slack: {found.slack:.1e} of the target is left unused"),
    ]
