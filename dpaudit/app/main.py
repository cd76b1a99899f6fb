"""The command `dpaudit`: a table of verbs, each loaded when it is called, and those that packages add."""

import atexit
import gc
import os
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import click

from dpaudit.app.text.failures import EXIT_INTERRUPTED, report, traceback_option
from dpaudit.app.text.progress import progress_shown
from dpaudit.app.text.streams import note, open_closed_streams, silenced
from dpaudit.errors import BrokenPackage, UsageError
from dpaudit.registry import Registry

#: Verb -> its module in this folder, the command's name there, and its line in `--help`.
#: Help is printed from this table, so that it waits for none of the libraries that compute.
VERBS = {
    "certify": ("verbs.certify", "certify", "Run an algorithm, account for it, audit it, judge its claim."),
    "verify": ("verbs.verify", "verify", "Prove a claim from ledgers, release by release and in total."),
    "audit": ("verbs.audit", "audit", "Try to refute a claim by experiment."),
    "gate": ("verbs.gate", "gate", "Check every claim in pyproject.toml: the merge gate."),
    "init": ("verbs.init", "init", "Write a first configuration and a workflow."),
    "epsilon": ("verbs.planning.epsilon", "epsilon", "Say which epsilon a noise has, before any run."),
    "calibrate": (
        "verbs.planning.calibrate",
        "calibrate_command",
        "Find the least noise that meets a target.",
    ),
    "convert": ("verbs.planning.convert", "convert", "State one guarantee on every other scale."),
    "import": ("verbs.importing", "import_ledger", "Make a ledger from what another library recorded."),
    "diff": ("verbs.ledger", "diff", "Show which release made the budget grow."),
    "limits": ("verbs.limits", "limits", "Print what a certificate or a ledger leaves unchecked."),
    "report": ("verbs.report", "report", "Write a self-contained page about a certificate."),
    "site": ("site.command", "site", "Write one folder of pages over many certificates and books."),
    "reproduce": ("figures.reproduce", "reproduce", "Draw a paper's figure again, with its data."),
    "keygen": ("verbs.sign", "keygen", "Make a key pair to sign certificates with."),
    "sign": ("verbs.sign", "sign", "Sign a certificate together with its ledger."),
    "check": ("verbs.check", "check", "Check a certificate by one small file, without the accountants."),
    "verify-cert": (
        "verbs.sign",
        "verify_cert",
        "Check a signed certificate, and that it follows from its ledger.",
    ),
    "book": ("verbs.book", "book", "Keep a data set's budget over many runs."),
    "ledger": ("verbs.ledger", "ledger", "Show a ledger, check its integrity, or compare two."),
    "completion": ("verbs.completion", "completion", "Print what a shell needs to complete commands."),
    "list": ("verbs.listing", "listing", "List what is built in."),
}

_PLACES = {verb: f"dpaudit.app.{module}:{name}" for verb, (module, name, _) in VERBS.items()}
COMMANDS: Registry[click.Command] = Registry("verbs", click.Command, _PLACES)

#: Verbs that run no code of a user's, with products of matrices too small for threads.
COMPUTING = {
    *("verify", "epsilon", "calibrate", "convert", "import", "diff", "limits", "report", "site", "ledger"),
}

#: Modules live until the process ends: without this, a tenth of a short command is their last collection.
atexit.register(gc.freeze)

#: Where the command line as it was typed is kept, for the certificate.
COMMAND = "dpaudit.command"

_EPILOG = """\b
Exit codes: 0 proved (audit: not refuted); 1 not proved, or refuted;
2 usage or bad input; 3 integrity (truncated or edited ledger);
4 inconclusive, under --strict only; 5 nothing to check.

\b
Example: dpaudit certify dp-apvi -o out && dpaudit verify out/ledger.jsonl
"""


def with_traceback(command: click.Command) -> click.Command:
    """The command; it, or each command of a group, takes ``--traceback``."""
    for one in getattr(command, "commands", {}).values() or [command]:
        if all(parameter.name != "traceback" for parameter in one.params):
            traceback_option(one)
    return command


class LazyGroup(click.Group):
    """A group of commands that are imported when they are called: `get_command` imports one."""

    listed: ClassVar[tuple[str, Mapping[str, str]]]  # the heading in the help, and each command's line there

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands, in the table's order."""
        del ctx
        return list(self.listed[1])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the table, importing nothing."""
        del ctx
        heading, lines = self.listed
        with formatter.section(heading):
            formatter.write_dl(list(lines.items()))


def verb_lines() -> dict[str, str]:
    """Return the line of every verb in `--help`; only those of other packages are imported for it."""
    lines = {verb: line for verb, (_, _, line) in VERBS.items()}
    for verb, one in COMMANDS.added():
        line = f"broken: {one.what}" if isinstance(one, BrokenPackage) else one.get_short_help_str(80)
        lines.setdefault(verb, line)
    return lines


class _Refused(click.UsageError):
    """A command line that click refuses, told as every error is: its usage, and an error of four parts."""

    def __init__(self, error: click.UsageError, where: str) -> None:
        said, *instead = re.split(r"\.? (?=Did you mean |Verbs are )", error.format_message(), maxsplit=1)
        said = said.removesuffix(".")
        super().__init__(said, error.ctx)
        where = error.ctx.command_path if error.ctx else where
        why, remedy = "the intention would have to be guessed", "".join(instead) or f"see {where} --help"
        self._told = UsageError(said, where=where, why=why, remedy=remedy)

    def show(self, file: Any = None) -> None:
        """Print the usage and the error."""
        usage = f"{self.ctx.get_usage()}\n" if self.ctx else ""
        del file
        note(f"{usage}error: {self._told}")


class Verbs(LazyGroup):
    """The group of dpaudit's verbs."""

    @property
    def listed(self) -> tuple[str, Mapping[str, str]]:  # type: ignore[override]
        """Our verbs with their lines, and those of other packages."""
        return "Verbs", verb_lines()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of one verb."""
        del ctx
        if cmd_name in COMPUTING:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read where numpy is imported
        return with_traceback(COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; of a mistyped one say which may have been meant."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Verbs are {', '.join(COMMANDS)}."
            ctx.fail(f"No such verb {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the command line as it was typed."""
        ctx.meta[COMMAND] = shlex.join(["dpaudit", *args])
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse; a closed pipe ends the help quietly."""
        try:
            return super().make_context(*args, **extra)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            raise _Refused(error, "dpaudit") from None
        except BrokenPipeError:
            raise click.exceptions.Exit(silenced()) from None

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run as a program, whichever of its streams are closed, now or later."""
        open_closed_streams()
        gc.set_threshold(50_000)  # next to nothing that modules make is garbage
        try:
            return super().main(*args, **extra)
        except BrokenPipeError:  # click's own words about the command line
            sys.exit(silenced())

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; what it raises becomes a message and an exit code."""
        try:
            with progress_shown():
                answer = super().invoke(ctx)
            sys.stdout.flush()
        except click.NoSuchOption as error:  # two dashes do not make words alike
            import difflib

            known = [one[2:] for one in error.possibilities or ()]
            meant = [
                f"--{one}" for one in difflib.get_close_matches(error.option_name[2:], known, cutoff=0.7)
            ]
            told = click.NoSuchOption(error.option_name, possibilities=meant, ctx=error.ctx)
            raise _Refused(told, "dpaudit") from None
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            verb = ctx.invoked_subcommand
            raise _Refused(error, f"{ctx.command_path} {verb}" if verb else ctx.command_path) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as stop:
            note("; ".join(["interrupted: nothing was judged", *map(str, stop.args)]))
            ctx.exit(EXIT_INTERRUPTED)
        except Exception as error:  # noqa: BLE001  (the outermost place: whatever it is, it is reported)
            ctx.exit(report(ctx, error))
        return answer


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"dpaudit {version('dpaudit')}")
    except PackageNotFoundError:
        click.echo("dpaudit, not installed as a package")
    ctx.exit()


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB [ARGS]...",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@traceback_option
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def main() -> None:
    """State a privacy claim; prove it from a ledger; try to refute it by experiment."""


if __name__ == "__main__":
    main(prog_name="dpaudit")
