"""`dpaudit reproduce`: papers' figures, each a command of its own that is loaded when it is called."""

from __future__ import annotations

import difflib
import importlib
from typing import NamedTuple

import click

from dpaudit.app.text.failures import traceback_option
from dpaudit.app.text.output import output_format_option, print_json, print_text, table
from dpaudit.errors import UsageError


class Paper(NamedTuple):
    """A paper whose figures can be drawn, by the module in this folder that bears its name.

    Attributes:
        number: before its figures' names in the first release, which still work.
        authors: with the year.
        figures: what each shows, by the part of its name after the paper's.
    """

    number: str
    authors: str
    figures: dict[str, str]


PAPERS = {
    "qiao-wang-2023": Paper(
        "000",
        "Qiao and Wang (2023)",
        {
            "figure-1a": "figure 1(a): offline policies, DP-VAPVI against PEVI and VAPVI",
            "figure-1b": "figure 1(b): the same for more budgets",
        },
    ),
    "balle-gomrokchi-precup-2016": Paper(
        "001",
        "Balle, Gomrokchi and Precup (2016)",
        {"figure-1": "figure 1: private policy evaluation on a chain"},
    ),
    "wang-hegde-2019": Paper(
        "002",
        "Wang and Hegde (2019)",
        {
            "figure-1": "figure 1: Q-learning under functional noise",
            "figure-2": "figure 2: the same against other private Q-learning",
        },
    ),
    "liao-he-gu-2023": Paper(
        "003",
        "Liao, He and Gu (2023)",
        {"figure-2": "figure 2: regret under local privacy on RiverSwim"},
    ),
    "ngo-vietri-wu-2022": Paper(
        "004",
        "Ngo, Vietri and Wu (2022)",
        {"regret": "not in the paper: regret and updates under joint privacy"},
    ),
}

#: Of each figure the paper's name and its own, and what it shows.
FIGURES = {f"{paper}-{figure}": (paper, figure) for paper, of in PAPERS.items() for figure in of.figures}
TITLES = {
    name: f"{PAPERS[paper].authors}, {PAPERS[paper].figures[figure]}"
    for name, (paper, figure) in FIGURES.items()
}
_ALIASES = {f"{PAPERS[paper].number}-{figure}": name for name, (paper, figure) in FIGURES.items()}


class Figures(click.Group):
    """A group whose figures are imported when they are drawn."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The figures, in the table's order."""
        del ctx
        return list(FIGURES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one figure's command, by its name or its alias.

        Raises:
            UsageError: there is no figure of this name.
        """
        del ctx
        name = _ALIASES.get(cmd_name, cmd_name)
        if name not in FIGURES:
            near = difflib.get_close_matches(name, [*FIGURES, *_ALIASES], n=1)
            hint = f"; did you mean {_ALIASES.get(near[0], near[0])}?" if near else ""
            raise UsageError(
                f"no figure {cmd_name!r}{hint}",
                where="FIGURE",
                why="there is nothing to draw",
                remedy=f"give one of {', '.join(FIGURES)}",
            )
        paper, figure = (words.replace("-", "_") for words in FIGURES[name])
        command: click.Command = getattr(importlib.import_module(f"dpaudit.app.figures.{paper}"), figure)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the table, importing nothing."""
        del ctx
        with formatter.section("Figures"):
            formatter.write_dl(list(TITLES.items()))


@click.group(
    cls=Figures,
    invoke_without_command=True,
    subcommand_metavar="[FIGURE [OPTIONS]]",
    epilog="""\b
Examples:
  dpaudit reproduce                                        (list the figures)
  dpaudit reproduce qiao-wang-2023-figure-1a -o out
  dpaudit reproduce qiao-wang-2023-figure-1a --help        (the figure's own options)

The same command continues an interrupted figure where it stopped.
""",
)
@output_format_option
@traceback_option
@click.pass_context
def reproduce(ctx: click.Context, *, output_format: str) -> None:
    """Draw FIGURE of a paper again; without FIGURE, list the figures."""
    if ctx.invoked_subcommand is not None:
        return
    if output_format == "json":
        print_json({"figures": TITLES})
    else:
        print_text(table(("figure", ""), TITLES.items(), whole=("figure",)))
