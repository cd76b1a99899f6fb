"""What TARGET, --pair, --data and -P stand for."""

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.app.options.data_files import read_data, require_file
from dpaudit.app.options.foreign_code import foreign_code, load
from dpaudit.app.options.option import option
from dpaudit.auditors.libraries.routed import Routed
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.claims.arguments import require_two_arguments
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.errors import UsageError
from dpaudit.json_text import double
from dpaudit.models import did_you_mean, named_by


@dataclass(frozen=True)
class Target:
    """An algorithm to run, any callable ``(data, curator) -> output``, with its data and claim."""

    reference: str
    algorithm: Callable[..., Any]
    data: Any
    claim: Claim | None


def load_target(
    reference: str,
    *,
    data_file: str | None,
    parameters: Mapping[str, Any],
    plain: bool = False,
    library: str | None = None,
    claimed: Callable[[Claim | None], Claim | None] = lambda own: own,
) -> Target:
    """A built-in algorithm with its data, or one of the user's own.

    `claimed` gives the claim that is judged, from its own: a table has its unit as a column. With `plain` it
    is called as ``(data, generator)`` and draws its own noise; a `Plain` and an OpenDP
    measurement are detected. With a `library` it is called with the data alone, as `Routed`.

    Raises `UsageError`, and `DataError` where the data file cannot be used.
    """
    if is_builtin(reference):
        for word, given in (("--plain", plain), ("--library", library is not None)):
            if given:
                why = "built-in algorithms release through a curator"
                raise UsageError(f"{word} for {reference}", where=word, why=why, remedy="leave it out")
        builtin = CATALOGUE[reference]
        spelled = {name: f"-P {name}" for name in parameters}
        with foreign_code(reference, "preparing it"), named_by(lambda name: spelled.get(name, name)):
            if data_file is None:
                algorithm, data = builtin.example(**parameters)
            else:
                algorithm, data = builtin.fit(require_file(data_file), **parameters)
        return Target(reference, algorithm, data, algorithm.claim)
    if ":" not in reference:
        raise _no_algorithm(reference)
    if parameters:
        why = "only built-in algorithms take parameters here"
        remedy = "set them where you define the algorithm: functools.partial keeps it callable"
        raise UsageError(f"-P {next(iter(parameters))} for {reference}", where="-P", why=why, remedy=remedy)
    algorithm = load(reference, "TARGET", _could_be_called)
    kind = type(algorithm)
    if (kind.__module__.partition(".")[0], kind.__name__) == ("opendp", "Measurement"):  # not imported here
        algorithm = Plain(_Measured(algorithm))
    if isinstance(algorithm, type) or not callable(algorithm):
        what = "a class" if isinstance(algorithm, type) else f"of type {kind.__name__}"
        why = "an algorithm is called with data and a curator"
        remedy = "name a function or an instance that is callable as (data, curator)"
        raise UsageError(f"{reference} is {what}, not an algorithm", where="TARGET", why=why, remedy=remedy)
    if library is None and not isinstance(algorithm, Plain):
        require_two_arguments(algorithm, "generator" if plain else "curator", reference, "TARGET")
    if library is not None:
        if isinstance(algorithm, Plain) or plain:
            why = "a target draws its noise by itself, or a curator draws it in the library's place"
            remedy = "leave out one of them"
            raise UsageError("--library of a plain target", where="--library", why=why, remedy=remedy)
        algorithm = Routed(algorithm, library)
    if plain and not isinstance(algorithm, Plain):
        algorithm = Plain(algorithm, claim=getattr(algorithm, "claim", None))
    with foreign_code(reference, "asking for its claim"):
        claim = getattr(algorithm, "claim", None)
    if claim is not None and not isinstance(claim, Claim):
        what = f"{reference} carries a claim of type {type(claim).__name__}"
        remedy = "set it to dpaudit.Claim(...)"
        raise UsageError(what, where=f"{reference}.claim", why="only a Claim can be judged", remedy=remedy)
    data = None
    if data_file is not None:
        judged = claimed(claim)
        data = read_data(data_file, None if judged is None else judged.unit)
    return Target(reference, algorithm, data, claim)


def is_builtin(reference: str) -> bool:
    """Whether a target is a name: of our algorithms, or of one that an installed package adds."""
    return ":" not in reference and reference in CATALOGUE


def _no_algorithm(reference: str) -> UsageError:
    """Return the error for a target that has no colon and is not built in."""
    why = "there is nothing to run"
    if reference.endswith(".py"):
        what, remedy = f"{reference!r} names a file alone", f"add the function, as in {reference}:NAME"
        return UsageError(what, where="TARGET", why=why, remedy=remedy)
    hint = did_you_mean(reference, CATALOGUE)
    remedy = f"{hint}built in: {', '.join(CATALOGUE)}; your own: path.py:NAME or package.module:NAME"
    return UsageError(f"no built-in algorithm {reference!r}", where="TARGET", why=why, remedy=remedy)


def _could_be_called(value: object) -> bool:
    return callable(value) and not isinstance(value, type)


@dataclass(frozen=True)
class _Measured:
    """An OpenDP measurement, which takes the data alone: its noise is the operating system's."""

    measurement: Callable[[Any], Any]

    name = "OpenDP measurement"

    def __call__(self, data: Any, _generator: object) -> Any:
        return self.measurement(data)


def _could_make_pair(value: object) -> bool:
    """Return whether an object is a `Pair`, or can be called without arguments."""
    if isinstance(value, Pair) or not (callable(value) and _could_be_called(value)):
        return isinstance(value, Pair)
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        return False
    return True


def load_pair(reference: str) -> Pair:
    """The `Pair` that ``--pair`` names, or what it returns: a `Pair` or ``(data, neighbour)``."""
    make = load(reference, "--pair", _could_make_pair)
    if isinstance(make, Pair):
        return make
    if not callable(make):
        what = f"{reference} is of type {type(make).__name__}, not callable"
        remedy = "name a function without arguments that returns (data, neighbour)"
        raise UsageError(what, where="--pair", why="it is called for the two data sets", remedy=remedy)
    if not isinstance(make, type) and not _could_make_pair(make):
        what, remedy = f"{reference} takes arguments", "name a function without arguments that makes the pair"
        raise UsageError(what, where="--pair", why="it is called without any", remedy=remedy)
    with foreign_code(reference, "making the pair"):
        pair = make()
    if isinstance(pair, Pair):
        return pair
    if isinstance(pair, tuple) and len(pair) == 2:
        return Pair(*pair)
    why = "an audit needs two data sets that differ in one unit of privacy"
    remedy = "return the tuple (data, neighbour)"
    raise UsageError(f"{reference} returned a {type(pair).__name__}", where="--pair", why=why, remedy=remedy)


def pairs_of(target: Target, pair: Pair | None) -> Sequence[Pair]:
    """The pair given, else the algorithm's own worst pairs, else none."""
    if pair is not None:
        return (pair,)
    if not hasattr(target.algorithm, "worst_pairs"):
        return ()
    with foreign_code(target.reference, "making its worst pairs"):
        return tuple(target.algorithm.worst_pairs())


def data_for(target: Target, pair: Pair | None) -> Any:
    """Return the data for a run: the target's own data, otherwise the first data set of the pair."""
    if target.data is not None:
        return target.data
    if pair is not None:
        return copy.deepcopy(pair.data)  # the audit must find the pair as it was
    why = "only built-in algorithms bring their own"
    remedy = "add --data FILE, or --pair MODULE:CALLABLE, whose first data set is then used"
    raise UsageError("no data to run on", where=f"TARGET {target.reference}", why=why, remedy=remedy)


def parse_parameters(_ctx: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` options to a dictionary; numbers are parsed, anything else is a string."""
    parameters: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in parameters:
            what = f"-P {text}: " + ("given twice" if name in parameters else "not of the form name=value")
            remedy = "write each parameter once, as -P name=value"
            raise UsageError(what, where="-P", why="a parameter has one value", remedy=remedy)
        parameters[name] = _parsed(text, value)
    return parameters


def _parsed(text: str, value: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            found = kind(value)
            break
    else:
        return value
    try:
        return found if isinstance(found, int) else double(value)
    except ValueError as error:
        why, remedy = "another number would be used in its place", "give a number that a double can hold"
        raise UsageError(f"-P {text}: {error}", where="-P", why=why, remedy=remedy) from None


parameter_option = option(
    "-P parameters",
    str,
    "A parameter of a built-in algorithm; repeatable.",
    metavar="NAME=VALUE",
    multiple=True,
    callback=parse_parameters,
)
pair_option = option(
    "--pair pair_reference",
    str,
    "Returns (data, neighbour); default: the algorithm's own worst pairs.",
    metavar="MODULE:CALLABLE",
)
