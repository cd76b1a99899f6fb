"""How an algorithm enters the catalogue: its parameters, with defaults and checks, and its data."""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from dpaudit.errors import InvalidParameter, UsageError

#: An algorithm ready to run, and data of the shape it takes.
Prepared: TypeAlias = tuple[Any, Any]

#: Values by name: given ones, else defaults; a name with neither is absent.
Values: TypeAlias = dict[str, Any]

_SIZES_ARE_PUBLIC = "sizes are public: read off the records they would leak the largest value that occurs"


@dataclass(frozen=True)
class Parameter:
    """What ``-P NAME=VALUE`` may set."""

    meaning: str  # one line
    default: float | None = None  # None where the algorithm or the data choose it
    kind: Literal["number", "whole", "text"] = "number"  # of the value
    words: tuple[str, ...] = ()  # those that are known, the default first; empty where any text will do
    # the data for which it has a meaning, ``built-in`` or ``own``; None for both
    data: Literal["built-in", "own"] | None = None
    needed: str = ""  # why a run on one's own data must set it; empty where it need not
    constant: str = ""  # the field of the algorithm's constants that it sets

    @property
    def line(self) -> str:
        """The meaning, with words and default."""
        if self.words:
            first, *rest = self.words
            return f"{self.meaning}: {' or '.join([f'{first} (default)', *rest])}"
        return self.meaning if self.default is None else f"{self.meaning}; default {self.default:g}"

    def require(self, value: object, name: str) -> None:
        """Raise `UsageError` for a word that is not known, `InvalidParameter` for another kind of number."""
        where = f"-P {name}"
        if self.words and value not in self.words:
            remedy = f"give {' or '.join(self.words)}"
            raise UsageError(f"unknown {name} {value!r}", where=where, remedy=remedy)
        if self.kind == "text":
            return
        whole = self.kind == "whole"
        kind = numbers.Integral if whole else numbers.Real
        if isinstance(value, bool) or not isinstance(value, kind) or (whole and value < 0):
            why = f"only a {'whole number' if whole else 'number'} is accepted"
            remedy = f"write -P {name}={'3' if whole else '0.5'}, for instance"
            raise InvalidParameter(f"{name} = {value!r}", where=where, why=why, remedy=remedy)


def words(meaning: str, *known: str, **options: Any) -> Parameter:
    """Describe a parameter with a fixed list of words; the first is the default."""
    return Parameter(meaning, kind="text", words=known, **options)


def size(meaning: str, default: int | None = None, **options: Any) -> Parameter:
    """Describe an integer parameter."""
    return Parameter(meaning, default, "whole", **options)


def own_size(meaning: str, **options: Any) -> Parameter:
    """A public size that a run on one's own data must declare."""
    return size(meaning, needed=_SIZES_ARE_PUBLIC, **options)


@dataclass(frozen=True)
class Builtin:
    """One algorithm under its command-line name."""

    summary: str  # one line
    takes: Mapping[str, Parameter]  # what may be set
    built_in: Callable[[Values], Prepared]  # from values to the algorithm and its built-in data
    own: Callable[[Path, Values], Prepared]  # from a data file and values to the algorithm and these data

    @property
    def parameters(self) -> dict[str, str]:
        """What may be set, each with a line of explanation."""
        return {name: parameter.line for name, parameter in self.takes.items()}

    def example(self, **given: Any) -> Prepared:
        """The algorithm on its built-in data.

        Raises `UsageError` for parameters or words that are unknown or have no meaning for these data.
        """
        return self.built_in(self._values(given, "built-in"))

    def fit(self, path: Path, **given: Any) -> Prepared:
        """The algorithm on a user's data file; errors as `example`, and those of reading the file."""
        values = self._values(given, "own")
        for name, parameter in self.takes.items():
            if parameter.needed and name not in given:
                what, remedy = f"parameter {name!r} is missing", f"pass -P {name}=VALUE: {parameter.meaning}"
                raise UsageError(what, where="-P", why=parameter.needed, remedy=remedy)
        return self.own(path, values)

    def constants(self, values: Values) -> dict[str, Any]:
        """Those values that set a field of the algorithm's constants, by field."""
        return {p.constant: values[name] for name, p in self.takes.items() if p.constant and name in values}

    def _values(self, given: Mapping[str, Any], data: Literal["built-in", "own"]) -> Values:
        why = "a parameter that has no effect would look as if it had been used"
        for name, value in given.items():
            parameter = self.takes.get(name)
            if parameter is None:
                known = ", ".join(f"{known} ({line})" for known, line in self.parameters.items())
                what = f"unknown parameter {name!r}"
                raise UsageError(what, where="-P", why=why, remedy=f"known are {known}")
            if parameter.data not in {None, data}:
                what = f"parameter {name!r} applies to {parameter.data} data only"
                remedy = "leave it out, or leave --data out"
                if data == "built-in":
                    remedy = "add --data FILE, or leave it out"
                raise UsageError(what, where=f"-P {name}", why=why, remedy=remedy)
            parameter.require(value, name)
        values = {name: p.words[0] if p.words else p.default for name, p in self.takes.items()} | dict(given)
        return {name: value for name, value in values.items() if value is not None}


def no_file(why: str, instead: str, path: Path, values: Values) -> NoReturn:
    """Refuse a data file: this algorithm cannot read one."""
    del values
    remedy = f"leave --data out, or call {instead} of your own from Python"
    what = f"{path} for an algorithm that cannot run on a file"
    raise UsageError(what, where="--data", why=why, remedy=remedy)


def no_users_file(instead: str) -> Callable[[Path, Values], NoReturn]:
    """Refuse a file for an algorithm of online users."""
    why = "its users answer whatever action they are given; a file holds the answers to some"
    return partial(no_file, why, instead)
