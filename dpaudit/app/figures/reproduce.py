"""`dpaudit reproduce`: papers' figures, each a command of its own that is loaded when it is called."""

from __future__ import annotations

import difflib
import importlib

import click

from dpaudit.app.text.failures import traceback_option
from dpaudit.app.text.output import output_format_option, print_json, print_text, table
from dpaudit.errors import UsageError

#: Figure -> its module in this folder, the command's name there, and what it shows.
FIGURES = {
    "000-figure-1a": (
        "reproduce_offline",
        "figure_1a",
        "Qiao and Wang (2023), figure 1(a): offline policies, DP-VAPVI against PEVI and VAPVI",
    ),
    "000-figure-1b": (
        "reproduce_offline",
        "figure_1b",
        "Qiao and Wang (2023), figure 1(b): the same for more budgets",
    ),
    "001-figure-1": (
        "reproduce_evaluation",
        "figure",
        "Balle, Gomrokchi and Precup (2016), figure 1: private policy evaluation on a chain",
    ),
    "002-figure-1": (
        "reproduce_learning",
        "figure_1",
        "Wang and Hegde (2019), figure 1: Q-learning under functional noise",
    ),
    "002-figure-2": (
        "reproduce_learning",
        "figure_2",
        "Wang and Hegde (2019), figure 2: the same against other private Q-learning",
    ),
    "003-figure-2": (
        "reproduce_regret",
        "figure",
        "Liao, He and Gu (2023), figure 2: regret under local privacy on RiverSwim",
    ),
    "004-regret": (
        "reproduce_updates",
        "figure",
        "Ngo, Vietri and Wu (2022), no figure of theirs: regret and updates under joint privacy",
    ),
}


class Figures(click.Group):
    """A group whose figures are imported when they are drawn."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The figures, in the table's order."""
        del ctx
        return list(FIGURES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one figure's command.

        Raises:
            UsageError: there is none of this name.
        """
        del ctx
        if cmd_name not in FIGURES:
            near = difflib.get_close_matches(cmd_name, FIGURES, n=1)
            raise UsageError(
                f"no figure {cmd_name!r}" + (f"; did you mean {near[0]}?" if near else ""),
                where="FIGURE",
                why="there is nothing to draw",
                remedy=f"give one of {', '.join(FIGURES)}",
            )
        module, name, _ = FIGURES[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"dpaudit.app.figures.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the table, importing nothing."""
        del ctx
        with formatter.section("Figures"):
            formatter.write_dl([(figure, title) for figure, (_, _, title) in FIGURES.items()])


@click.group(
    cls=Figures,
    invoke_without_command=True,
    subcommand_metavar="[FIGURE [OPTIONS]]",
    epilog="""\b
Examples:
  dpaudit reproduce                             (what there is)
  dpaudit reproduce 000-figure-1a -o out
  dpaudit reproduce 000-figure-1a --help        (the figure's own options)

Interrupted, the same command goes on where it stopped.
""",
)
@output_format_option
@traceback_option
@click.pass_context
def reproduce(ctx: click.Context, *, output_format: str) -> None:
    """Draw FIGURE of a paper again; without FIGURE, list those there are."""
    if ctx.invoked_subcommand is not None:
        return
    titles = {figure: title for figure, (_, _, title) in FIGURES.items()}
    if output_format == "json":
        print_json({"figures": titles})
    else:
        print_text(table(("figure", ""), titles.items(), whole=("figure",)))
