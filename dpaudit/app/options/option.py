"""One option of a command, and the types that several options share."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from dpaudit.json_text import double
from dpaudit.registry import Registry

COUNT, SEED = click.IntRange(min=1), click.IntRange(min=0)
PATH, FILE = click.Path(path_type=Path), click.Path(dir_okay=False, path_type=Path)


class _Number(click.types.FloatParamType):
    """A number as a double; numbers that would round to 0 or infinity are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert the option's text to a number; called by click."""
        found = float(super().convert(value, param, ctx))
        try:
            return double(value) if isinstance(value, str) else found
        except ValueError as error:
            self.fail(str(error), param, ctx)


NUMBER = _Number()

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class Words(click.Choice[str]):
    """One of several words or registry names; the error for a mistyped word suggests the nearest one.

    Help and completion list only the registry's built-in names, so they read no package metadata.
    """

    def __init__(self, words: Sequence[str] | Registry[Any], also: Iterable[str] = ()) -> None:
        super().__init__([*(words.own if isinstance(words, Registry) else words), *also])
        self._registry = words if isinstance(words, Registry) else None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, also one that an installed package adds; called by click."""
        if self._registry is not None and value not in self.choices and value in self._registry:
            return str(value)
        return super().convert(value, param, ctx)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return click's message and the nearest known word."""
        import difflib

        near = difflib.get_close_matches(str(value), [*self.choices, *(self._registry or ())], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return super().get_invalid_choice_message(value, ctx) + hint


def plot_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """``--plot FILE``, as often as pictures are wanted, as ``pictures``."""
    words = "Also draw delta(epsilon) into an .svg, .png or .html file; repeatable."
    return option("--plot pictures", FILE, words, metavar="FILE", multiple=True)(verb)


def option(names: str, kind: Any, words: str, **more: Any) -> Decorator:
    """An option with these names, apart by spaces, of a type, or one of several words; bool is a flag.

    `words` are its help, in which a default is shown; `more` are click's own arguments.
    """
    if kind is bool:
        more["is_flag"] = True
    else:
        more["type"] = (
            Words(kind) if isinstance(kind, list | tuple | Registry) else NUMBER if kind is float else kind
        )
        more.setdefault("show_default", more.get("default") is not None)
    return click.option(*names.split(), help=words, **more)
