"""`dpaudit gate`: everything under `[tool.dpaudit]` in pyproject.toml; the merge gate."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from dpaudit.app.gate.audit_plan import Profile
from dpaudit.app.gate.base import require_no_link
from dpaudit.app.gate.checks import run_gate
from dpaudit.app.gate.configuration import read_configuration
from dpaudit.app.gate.formats import FORMATS, markdown, text
from dpaudit.app.gate.report import GateFinding, Place, Report
from dpaudit.app.options.option import PATH, SEED, option
from dpaudit.app.options.processes import Processes, process_options
from dpaudit.app.text.failures import EXIT_INPUT, EXIT_NOTHING
from dpaudit.app.text.output import print_text
from dpaudit.app.text.streams import note, write
from dpaudit.app.text.target_text import target_errors_option
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file, require_folder

_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def _parse_reports(
    _ctx: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> list[tuple[str, Path]]:
    """``FORMAT=FILE``, each file once and in a folder that can be written to, before anything is judged."""
    reports: list[tuple[str, Path]] = []
    for words in given:
        kind, equals, file = words.partition("=")
        path = Path(file).absolute()
        if kind not in FORMATS or not equals or not file or path in [other for _, other in reports]:
            why = "the format and the file of each report must be clear"
            remedy = f"write each file once, as --report FORMAT=FILE with one of {', '.join(FORMATS)}"
            raise UsageError(f"--report {words}", where="--report", why=why, remedy=remedy)
        require_folder(path.parent)
        reports.append((kind, path))
    return reports


@click.command(
    epilog="""\b
Examples:
  dpaudit gate
  dpaudit gate --output-format github --report sarif=dpaudit.sarif
  dpaudit gate --base origin/main
  dpaudit gate --profile nightly --strict

`dpaudit init` writes a first configuration; docs/publishing/gate.md has all keys.
Exits 0 if every check passes, 1 if no waiver covers a finding or a run of a
target does not end, 2 or 3 if something else could not be judged,
4 if inconclusive under --strict, 5 if there is nothing to check.
"""
)
@option(
    "--config",
    PATH,
    "The file with [tool.dpaudit]; the paths in it start from its folder.",
    default=Path("pyproject.toml"),
    metavar="FILE",
)
@option(
    "--profile",
    ["pr", "nightly"],
    "pr: minutes, always the same seeds. nightly: longer, a fresh seed each time.",
    default="pr",
)
@option(
    "--base",
    str,
    "Judge by the rules of the merge base with REF: what this change loosens, removes or waives fails.",
    metavar="REF",
)
@option("--seed", SEED, "Root seed of all audits, in place of the profile's.")
@option(
    "--output-format",
    ["text", *FORMATS],
    f"The format of stdout. github: annotations, and a job summary in the file that ${_SUMMARY} names.",
    default="text",
)
@option(
    "--report reports",
    str,
    "Also write the report to FILE in one of these formats; repeatable.",
    multiple=True,
    metavar="FORMAT=FILE",
    callback=_parse_reports,
)
@option("--exit-zero", bool, "Exit 0 whatever the verdicts; never hides 2, 3 or a run that did not end.")
@option("--strict", bool, "Exit 4 if a check is inconclusive.")
@target_errors_option
@process_options
@click.pass_context
def gate(
    ctx: click.Context,
    *,
    config: Path,
    profile: Profile,
    base: str | None,
    seed: int | None,
    output_format: str,
    reports: list[tuple[str, Path]],
    exit_zero: bool,
    strict: bool,
    where: Processes,
) -> None:
    """Judge every target and ledger that pyproject.toml names, and hold it against the policy."""
    root = _root()
    summary = _summary_file() if output_format == "github" else None
    judge = functools.partial(run_gate, root=root, seed=seed, base=base, where=where)
    report = _judged(config, root, judge, base=base, profile=profile, strict=strict)
    for kind, path in reports:
        replace_file(path, FORMATS[kind](report).encode())
    if output_format != "text":
        text_of = FORMATS[output_format](report)
        # Its commands are for the runner, and escape every foreign text themselves.
        write(sys.stdout, text_of, commands=output_format == "github")
    elif report.checks or report.exit_status != EXIT_INPUT:  # else all that there is to say stands on stderr
        print_text(*text(report))
    if summary is not None:
        # Appended to: earlier steps of the job have written there too.
        with summary.open("a", encoding="utf-8") as file:
            file.write(markdown(report))
    status = report.exit_status
    if status == EXIT_NOTHING and not report.checks:
        note(f"nothing to check: {config} names no target and no ledger; `dpaudit init` writes a first one")
    ctx.exit(0 if exit_zero and report.only_verdicts else status)


def _judged(
    config: Path,
    root: Path,
    judge: Callable[..., Report],
    *,
    base: str | None,
    profile: Profile,
    strict: bool,
) -> Report:
    """The report; a configuration that cannot be followed is its only finding."""
    try:
        configuration = read_configuration(config)
        if base is not None:
            require_no_link(config)
        with contextlib.chdir(configuration.path.parent):
            return judge(configuration, profile=profile, strict=strict)
    except UsageError as error:
        note(f"error: {error}")
        finding = GateFinding("input", "", str(error), Place.of(config, getattr(error, "line", 1), root))
        return Report(profile, None, (), (finding,), strict)


def _root() -> Path:
    """What the places in a report are relative to: the checkout, where there is one, else this folder."""
    stated = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or ""
    workspace = Path(stated).resolve()
    return workspace if Path.cwd().is_relative_to(workspace) else Path.cwd()


def _summary_file() -> Path | None:
    """The job summary, if there is one to write; looked at before anything is judged."""
    if not os.environ.get(_SUMMARY):
        return None
    path = Path(os.environ[_SUMMARY]).absolute()
    require_folder(path.parent)
    return path
