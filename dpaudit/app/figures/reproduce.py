"""`dpaudit reproduce`: papers' figures, each a command of its own that is loaded when it is called."""

import difflib
import re

import click

from dpaudit.app.main import LazyGroup, imported
from dpaudit.app.text.output import output_format_option, print_json, print_text, table
from dpaudit.errors import UsageError

#: What each figure shows, by its name: the module (the authors and year of the paper), and the command there.
FIGURES = {
    "qiao-wang-2023-figure-1a": "offline policies: DP-VAPVI against PEVI and VAPVI",
    "qiao-wang-2023-figure-1b": "the same for more budgets",
    "balle-gomrokchi-precup-2016-figure-1": "private policy evaluation on a chain",
    "wang-hegde-2019-figure-1": "Q-learning under functional noise",
    "wang-hegde-2019-figure-2": "the same against other private Q-learning",
    "liao-he-gu-2023-figure-2": "regret under local privacy on RiverSwim",
    "ngo-vietri-wu-2022-regret": "regret and updates under joint privacy; not in the paper",
    "qiao-wang-2024-regret": "regret of DP-UCBVI, joint and local; not in the paper",
    "he-zhou-2025-users": "what private policy gradient loses; not in the paper",
}
_NAME = re.compile(r"(.*-\d{4})-(.*)")

#: Earlier names, which still work.
_EARLIER = "000-figure-1a 000-figure-1b 001-figure-1 002-figure-1 002-figure-2 003-figure-2 004-regret"
ALIASES = dict(zip(_EARLIER.split(), FIGURES, strict=False))


class Figures(LazyGroup):
    """The group of commands that draw papers' figures again."""

    listed = "Figures", FIGURES

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one figure's command, by its name or its alias; raises `UsageError` where there is none."""
        del ctx
        name = ALIASES.get(cmd_name, cmd_name)
        parts = _NAME.fullmatch(name) if name in FIGURES else None
        if parts is None:
            near = difflib.get_close_matches(name, [*FIGURES, *ALIASES], n=1)
            hint = f"; did you mean {ALIASES.get(near[0], near[0])}?" if near else ""
            what, remedy = f"no figure {cmd_name!r}{hint}", f"give one of {', '.join(FIGURES)}"
            raise UsageError(what, where="FIGURE", why="there is nothing to draw", remedy=remedy)
        paper, figure = (part.replace("-", "_") for part in parts.groups())
        return imported(f"figures.{paper}", figure)


@click.group(
    cls=Figures,
    invoke_without_command=True,
    subcommand_metavar="[FIGURE [OPTIONS]]",
    epilog="""\b
Examples:
  dpaudit reproduce                                  (lists the figures)
  dpaudit reproduce qiao-wang-2023-figure-1a -o out
  dpaudit reproduce qiao-wang-2023-figure-1a --help  (lists its options)

The same command continues an interrupted figure where it stopped.
""",
)
@output_format_option
@click.pass_context
def reproduce(ctx: click.Context, *, output_format: str) -> None:
    """Draw FIGURE of a paper again; without FIGURE, list the figures."""
    if ctx.invoked_subcommand is not None:
        return
    if output_format == "json":
        print_json({"figures": FIGURES})
    else:
        print_text(table(("figure", ""), FIGURES.items(), whole=("figure",)))
