"""`dpaudit reproduce`: papers' figures, each a command of its own that is loaded when it is called."""

import difflib
from functools import cache
from importlib import import_module

import click

from dpaudit.algorithms.papers import rooms
from dpaudit.app.main import LazyGroup, with_traceback
from dpaudit.app.text.output import output_format_option, print_json, print_text, table
from dpaudit.errors import UsageError

#: By figure, the paper's room.
_ROOMS = {name: room for room in rooms() for name in getattr(room, "FIGURES", ())}

#: What each figure shows, by its name.
FIGURES: dict[str, str] = {name: room.FIGURES[name] for name, room in _ROOMS.items()}

#: Earlier names, which still work.
ALIASES: dict[str, str] = {old: new for room in rooms() for old, new in getattr(room, "EARLIER", {}).items()}


@cache
def _command(name: str) -> click.Command:
    from dpaudit.app.figures.engine import figure_command

    return figure_command(name, import_module(f"{_ROOMS[name].__name__}.figure").STUDIES[name])


class Figures(LazyGroup):
    """The group of commands that draw papers' figures again."""

    listed = "Figures", FIGURES

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one figure's command, by its name or its alias; raises `UsageError` where there is none."""
        del ctx
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in FIGURES:
            near = difflib.get_close_matches(name, [*FIGURES, *ALIASES], n=1)
            hint = f"; did you mean {ALIASES.get(near[0], near[0])}?" if near else ""
            what, remedy = f"no figure {cmd_name!r}{hint}", f"give one of {', '.join(FIGURES)}"
            raise UsageError(what, where="FIGURE", why="there is nothing to draw", remedy=remedy)
        return with_traceback(_command(name))


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
