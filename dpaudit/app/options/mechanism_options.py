"""Options that describe a mechanism, made from the mechanisms' own fields, and files that plan several."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from click.shell_completion import CompletionItem

from dpaudit.app.options.files import about_file
from dpaudit.app.options.option import option
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import DpauditError, InvalidParameter, UsageError
from dpaudit.json_text import double
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms.described import DESCRIBED, described, parameters
from dpaudit.models import did_you_mean

_BY_OPTIONS: Final = {kind: known for kind in DESCRIBED if None not in (known := parameters(kind)).values()}
_ITEMS: Final = ", ".join(kind for kind, known in _BY_OPTIONS.items() if "steps" in known)
ITEMS: Final = f"Number of items of {_ITEMS}; for other mechanisms the number of runs, as --count."
MONOTONE: Final = "Sparse vector: a unit moves all values in the same direction."
SENSITIVITY: Final = "Sensitivity in the mechanism's norm; default: 1, required if a unit is replaced."
CONTRIBUTION: Final = "Sampled sum: bound on one unit's contribution; default: the sensitivity."

#: What is said of parameters whose name says too little.
_WORDS: Final = {
    "sensitivity": SENSITIVITY,
    "rate": "Sampling probability of each unit (Poisson sampling).",
    "size": "With --units: the sample is a subset of this size.",
    "units": "Number of units, for --size, or for --most beside --rate.",
    "most": "With --rate and --units: truncate larger samples to this number of units.",
    "contribution": CONTRIBUTION,
    "steps": ITEMS,
    "monotone": MONOTONE,
    "justification": "Why the guarantee holds.",
}


def spelled(name: str) -> str:
    """A mechanism's parameter as an option; ``--delta`` belongs to the question."""
    return "--own-delta" if name == "delta" else f"--{name.replace('_', '-')}"


def complete_mechanism(context: object, argument: object, typed: str) -> list[CompletionItem]:
    """Return the mechanisms that begin with this text, for a shell's completion; files if there are none."""
    del context, argument
    found = [CompletionItem(kind) for kind in DESCRIBED if kind.startswith(typed)]
    return found or [CompletionItem(typed, type="file")]


def mechanism_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option to a verb for each parameter of each mechanism, passed as keyword arguments."""
    kinds: dict[str, list[str]] = {}
    types: dict[str, type] = {}
    for kind, known in _BY_OPTIONS.items():
        for name, type_ in known.items():
            if type_ is not None:
                types[name] = type_
                kinds.setdefault(name, []).append(kind)
    for name in reversed(types):
        words = _WORDS.get(name, f"Of {', '.join(kinds[name])}.")
        verb = option(f"{spelled(name)} {name}", types[name], words, default=None)(verb)
    return verb


def release_of(
    kind: str,
    given: Mapping[str, Any],
    spelled: Callable[[str], str],
    neighbouring: Neighbouring,
    **more: Any,
) -> Release:
    """A release of a described mechanism; its ``count`` of runs may be called ``steps`` but of a tree's."""
    stated = dict(given)
    count = take_count(kind, stated, spelled)
    mechanism = described(kind, stated, spelled, neighbouring)
    return Release(**{"label": kind, **more}, mechanism=mechanism, count=count)


def take_count(kind: str, stated: dict[str, Any], spelled: Callable[[str], str]) -> int:
    """Take the number of runs out of what is stated; see `release_of`."""
    names = [name for name in ("count", "steps") if name == "count" or name not in parameters(kind)]
    counts = {name: stated.pop(name) for name in names if name in stated}
    if len(counts) > 1:
        what, remedy = f"{spelled('count')} and {spelled('steps')} at once", "give one of them"
        why = f"for {kind} both are the number of runs"
        raise InvalidParameter(what, where=spelled("steps"), why=why, remedy=remedy)
    return next(iter(counts.values()), 1)


def read_plan(path: Path, neighbouring: Neighbouring | None) -> tuple[list[Release], Neighbouring]:
    """The releases that a TOML file plans, each a table ``[[release]]``, and their relation.

    The relation is the plan's or the option's; the default is add-or-remove-one.

    Raises `UsageError`: no such file, or no plan, or two relations; as `described`, naming file and release.
    """
    import tomllib

    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=double)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "give a TOML file with tables [[release]], as docs/proving/epsilon.md has one"
        raise UsageError(f"cannot be read: {reason}", where=str(path), remedy=remedy) from None
    with about_file(path):
        _require_known(plan, ("neighbouring", "release"), "")
        found = plan.get("release", [])
        if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
            remedy = "add a table [[release]] for each mechanism"
            raise UsageError("it plans no releases", where="release", why="nothing would cost", remedy=remedy)
        stated = _relation(plan.get("neighbouring"))
    if stated is not None and neighbouring not in {None, stated}:
        what = f"--neighbouring {neighbouring}, and {stated} in the plan"
        why, remedy = "a sampled mechanism has another epsilon under each", "leave one of them out"
        raise UsageError(what, where="--neighbouring", why=why, remedy=remedy)
    relation = stated or neighbouring or Neighbouring.ADD_OR_REMOVE_ONE
    with about_file(path):
        return [_planned(number, dict(one), relation) for number, one in enumerate(found, start=1)], relation


def _planned(number: int, stated: dict[str, Any], relation: Neighbouring) -> Release:
    try:
        kind = stated.pop("mechanism", None)
        if not isinstance(kind, str):
            remedy = f"add mechanism = one of {', '.join(DESCRIBED)}"
            raise UsageError("it names no mechanism", where="mechanism", remedy=remedy)
        if "neighbouring" in stated:
            what = f"a relation of its own, {stated['neighbouring']!r}"
            why = "all releases of a plan, and those of one sample above all, are about the same neighbours"
            remedy = "state neighbouring once, at the top of the plan"
            raise UsageError(what, where="neighbouring", why=why, remedy=remedy)
        more = {name: stated.pop(name) for name in ("label", "partition", "sample") if name in stated}
        return release_of(kind, stated, str, relation, **{"label": f"{kind} {number}", **more})
    except DpauditError as error:
        error.where = f"release {number}: {error.where}"
        raise


def _relation(stated: object) -> Neighbouring | None:
    if stated is None or stated in list(Neighbouring):
        return None if stated is None else Neighbouring(str(stated))
    remedy = f"{did_you_mean(str(stated), map(str, Neighbouring))}give one of {', '.join(Neighbouring)}"
    raise UsageError(f"no relation {stated!r}", where="neighbouring", remedy=remedy)


def _require_known(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in known:
            remedy = f"{did_you_mean(name, known)}known fields: {', '.join(known)}"
            raise UsageError(f"unknown field {name!r}", where=where, remedy=remedy)
