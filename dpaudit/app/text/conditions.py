"""What was not checked, in words: all of it for a page, the first lines of it for a terminal."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from rich.console import RenderableType

from dpaudit.app.text.output import bullets, counted
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.page.printable import printable

#: Shown beside an audit's verdict, which says little where they hold.
WARNED: Final = frozenset({Code.UNMOVED_MOST})

#: A terminal shows this number of conditions and counts the others; a single other one is shown, too.
SHOWN: Final = 3

_ORDER: Final = {code: place for place, code in enumerate(Code)}
_REPLAYED: Final = {False: "an audit by replay tests it", True: "the audit by replay tested it on its pairs"}
_ENDED_BY: Final = {"interrupt": "Ctrl-C", "time-limit": "the time limit"}


def sentence(condition: Condition) -> str:
    """Return a condition in words, on one line of printable characters."""
    fields = dict(condition)
    if condition.releases is not None:
        releases = condition.releases
        labels = ", ".join(map(repr, releases.labels)) + (", ..." if releases.more_labels else "")
        fields["releases"] = f"{counted(releases.number, 'release', 'releases')}: {labels}"
    if condition.replayed is not None:
        fields["replayed"] = _REPLAYED[condition.replayed]
    if condition.share is not None:
        fields["share"] = f"{100.0 * condition.share:.3g}%"
    if condition.ended_by is not None:
        fields["ended_by"] = _ENDED_BY[condition.ended_by]
    return printable(" ".join(condition.code.sentence.format(**fields).split()))


def sentences(conditions: Iterable[Condition]) -> dict[str, Code]:
    """Return conditions in words, each once, in the order of `Code`: those special to a run stand first."""
    return {sentence(one): one.code for one in sorted(conditions, key=lambda one: _ORDER[one.code])}


def not_checked(
    conditions: Iterable[Condition],
    file: Path | None = None,
    *,
    about: Callable[[str], str] = str,
) -> list[RenderableType]:
    """Return the first of what was not checked under that heading, and where to read the rest.

    Conditions that `warnings` shows are left out. `file` is a certificate or a ledger that states them;
    `about` makes a line of a sentence.
    """
    found = sentences(one for one in conditions if one.code not in WARNED)
    shown = SHOWN if len(found) != SHOWN + 1 else len(found)
    rest = list(found.values())[shown:]
    general = sum(code.general for code in rest)
    special = len(rest) - general
    of_run = f"{special} more of this run" if special else ""
    of_kind = f"{general} general {'limit' if general == 1 else 'limits'}" if general else ""
    if file is not None:
        more = f"and {' and '.join(filter(None, (of_run, of_kind)))}: `dpaudit limits {file}`"
    else:
        where = {of_run: "`--output-format json`", of_kind: "`dpaudit limits`"}
        more = f"and {'; '.join(f'{words}: {command}' for words, command in where.items() if words)}"
    lines = list(map(about, list(found)[:shown]))
    return bullets("Not checked", [*lines, more] if rest else lines)


def warnings(conditions: Iterable[Condition]) -> list[RenderableType]:
    """Return what stands beside an audit's verdict."""
    return bullets(
        "Warning", [f"not checked: {text}" for text in sentences(c for c in conditions if c.code in WARNED)]
    )
