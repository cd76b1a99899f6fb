"""What TARGET, --pair, --data and -P stand for."""

import contextlib
import copy
import csv
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.app.options.foreign_code import foreign_code, load
from dpaudit.app.options.option import option
from dpaudit.app.text.output import counted
from dpaudit.auditors.libraries.routed import Routed
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.errors import DataError, UsageError


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
    data_file: Path | None,
    parameters: Mapping[str, Any],
    plain: bool = False,
    library: str | None = None,
) -> Target:
    """A built-in algorithm with its data, or one of the user's own.

    With `plain` it is called as ``(data, generator)`` and draws its own noise; a `Plain` and an OpenDP
    measurement are detected. With a `library` it is called with the data alone, as `Routed`.

    Raises `UsageError`, and `DataError` where the data file cannot be used.
    """
    if reference in CATALOGUE:
        if plain:
            why = "built-in algorithms release through a curator"
            raise UsageError(f"--plain for {reference}", where="--plain", why=why, remedy="leave it out")
        if library is not None:
            why = "built-in algorithms release through a curator"
            raise UsageError(f"--library for {reference}", where="--library", why=why, remedy="leave it out")
        builtin = CATALOGUE[reference]
        with foreign_code(reference, "preparing it"):
            if data_file is None:
                algorithm, data = builtin.example(**parameters)
            else:
                algorithm, data = builtin.fit(data_file, **parameters)
        return Target(reference, algorithm, data, algorithm.claim)
    if ":" not in reference:
        near = difflib.get_close_matches(reference, CATALOGUE, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        why = "there is nothing to run"
        remedy = f"{hint}built in: {', '.join(CATALOGUE)}; your own: path.py:NAME or package.module:NAME"
        raise UsageError(f"no built-in algorithm {reference!r}", where="TARGET", why=why, remedy=remedy)
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
    return Target(reference, algorithm, None if data_file is None else read_array(data_file), claim)


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
    """Whether it is a `Pair`, or can be called without arguments."""
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
    """What to run a target on: its own data, else the first of the pair."""
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
        parameters[name] = value
        for kind in (float, int):
            with contextlib.suppress(ValueError):
                parameters[name] = kind(value)
    return parameters


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


def read_array(path: Path) -> NDArray[Any]:
    """Read ``.npy`` as it is, or ``.csv`` as a float64 matrix [rows, columns].

    A first line without any number holds the columns' names, and is left out.
    Raises `UsageError` for another suffix, `DataError` for what are not numbers, not finite ones, or lines of
    different lengths.
    """
    suffix, where = path.suffix.lower(), f"--data {path}"
    if suffix not in {".npy", ".csv"}:
        why, remedy = "the suffix says how to read it", "give .npy or .csv, or let --pair return the data"
        raise UsageError(f"a data file ending in {suffix!r}", where=where, why=why, remedy=remedy)
    try:
        array = np.load(path, allow_pickle=False) if suffix == ".npy" else _read_csv(path)
    except DataError:
        raise
    except (OSError, ValueError, EOFError, csv.Error, SyntaxError, TokenError) as error:
        raise DataError(f"cannot be read: {error}", where=where, remedy="give a file of numbers") from None
    if array.dtype.kind not in "biuf" or not array.size:
        what = f"an array of shape {array.shape} and type {array.dtype}" if array.size else "holds no record"
        why = "there are no numbers to run on"
        raise DataError(what, where=where, why=why, remedy="give at least one record, in numbers")
    if not np.isfinite(array).all():
        why = "they pass through noise unchanged and so reveal the data"
        raise DataError("holds NaN or infinity", where=where, why=why, remedy="clip or fill them before")
    return array


def _read_csv(path: Path) -> NDArray[np.float64]:
    rows: list[list[float]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for cells in reader:
            place = f"--data {path}:{reader.line_num}"
            present = [number for cell in cells for number in _number(cell)]
            if reader.line_num == 1 and cells and not present:
                continue  # the columns' names: a line with any number in it is a record
            if not cells and not file.read().strip():
                break  # an empty line at the end
            if not cells or len(present) < len(cells):
                what = "an empty line" if not cells else "a cell that is empty or not a number"
                why = "a missing number cannot be assigned to a record"
                remedy = "give a number in every cell; a first line of column names must not hold numbers"
                raise DataError(what, where=place, why=why, remedy=remedy)
            if rows and len(present) != len(rows[0]):
                what = f"{counted(len(present), 'cell', 'cells')}, where the first record has {len(rows[0])}"
                why = "every record has one number in every column"
                raise DataError(what, where=place, why=why, remedy="complete the line")
            rows.append(present)
    return np.array(rows, dtype=np.float64)


def _number(cell: str) -> list[float]:
    try:
        return [float(cell)]
    except ValueError:
        return []
