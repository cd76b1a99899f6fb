"""Reading `[tool.dpaudit]`: every mistake is named with its file, line, table and key."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dpaudit.app.gate.settings import Gate
from dpaudit.errors import UsageError
from dpaudit.json_text import double
from dpaudit.models import did_you_mean

TABLE = ("tool", "dpaudit")

_Key = tuple[str | int, ...]

# The standard library's parser does not report the line of a key, so these patterns find it.
_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_MULTILINE = re.compile(r'"""|\'\'\'')


class ConfigurationError(UsageError):
    """A configuration that cannot be followed, with the line to look at, from 1."""

    line: int = 1


@dataclass(frozen=True)
class Configuration:
    """What a file says, with its text for the lines of its keys; `gate` is None without `[tool.dpaudit]`."""

    path: Path
    text: str
    gate: Gate | None

    def line(self, *key: str | int) -> int:
        """The line of a key below `[tool.dpaudit]`, or of the nearest table around it."""
        return line_of(self.text, (*TABLE, *key))

    def place(self, *key: str | int) -> str:
        """A key with its file and line, for error messages."""
        return _place(self.path, self.line(*key), key)


def read_configuration(path: Path) -> Configuration:
    """Read a configuration file, or raise `ConfigurationError`."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "run in the folder that holds it, name it with --config, or make one with `dpaudit init`"
        raise _error(path, 1, (), f"cannot be read: {reason}", remedy) from None
    return parse_configuration(path, content)


def parse_configuration(path: Path, content: bytes) -> Configuration:
    """A configuration file's content as `read_configuration` reads it; `path` names it in errors."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(path, 1, (), f"not UTF-8 text: {error.reason}", "save it as UTF-8") from None
    try:
        document = tomllib.loads(text, parse_float=double)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        raise _error(path, _toml_line(message, text), (), f"not TOML: {message}", "correct it") from None
    except (ValueError, RecursionError) as error:
        raise _error(path, 1, (), f"not TOML that can be read: {error}", "correct it") from None
    for key in _misspelled(document):
        what = f"{'.'.join(key)} is nearly [{'.'.join(TABLE)}]"
        raise _error(path, line_of(text, key), (), what, "correct the name: the table would be ignored")
    table: Any = document
    for depth, name in enumerate(TABLE):
        if name not in table:
            return Configuration(path.resolve(), text, None)
        table = table[name]
        if not isinstance(table, dict):
            line = line_of(text, TABLE[: depth + 1])
            raise _error(path, line, (), f"{name} is no table", f"write [{'.'.join(TABLE)}]")
    configuration = Configuration(path.resolve(), text, _validated(path, text, table))
    for setting, what, remedy in _contradictions(configuration.gate):
        raise _error(path, configuration.line(*setting), setting, what, remedy)
    return configuration


def _validated(path: Path, text: str, table: Mapping[str, Any]) -> Gate:
    try:
        return Gate.model_validate(table)
    except ValidationError as error:
        # A misspelled key first: what it was meant to be is then often reported as missing.
        found = error.errors(include_url=False)
        complaints = sorted(found, key=lambda one: one["type"] != "extra_forbidden")
        key = tuple(part for part in complaints[0]["loc"] if part != "[key]")
        what, remedy = _words(complaints[0], key)
        if len(complaints) > 1:
            what += f" (and {len(complaints) - 1} more after it)"
        raise _error(path, line_of(text, (*TABLE, *key)), key, what, remedy) from None
    except (OverflowError, RecursionError) as error:
        raise _error(path, line_of(text, TABLE), (), str(error), "give numbers of ordinary size") from None


def _words(complaint: Mapping[str, Any], key: _Key) -> tuple[str, str]:
    """Return the description of a mistake and its remedy."""
    if complaint["type"] == "extra_forbidden":
        known = _known_keys(key[:-1])
        remedy = f"{did_you_mean(str(key[-1]), known)}known keys are {', '.join(known)}"
        return f"unknown key {key[-1]!r}", remedy
    if complaint["type"] == "missing":
        return f"the key {key[-1]!r} is missing", "add it"
    message = str(complaint["msg"]).removeprefix("Value error, ")
    shown = repr(complaint.get("input"))
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{message} (got {shown})", "give a value of that kind"


def _known_keys(key: Sequence[str | int]) -> list[str]:
    """The keys of the table at a place in the configuration."""
    kind: Any = Gate
    for part in key:
        if _is_table(kind):
            kind = {field.alias: field.annotation for field in kind.model_fields.values()}.get(str(part))
        else:  # a table of named tables, or an array of them
            kind = get_args(kind)[-1] if get_args(kind) else None
        tables = [kind, *get_args(kind)] if isinstance(kind, UnionType) else [kind]
        kind = next((table for table in tables if _is_table(table)), kind)
    return [str(field.alias) for field in kind.model_fields.values()] if _is_table(kind) else []


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _misspelled(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Tables that were probably meant as ours: a typing error in a header must not disable a policy."""
    outer, own = TABLE
    for name, table in document.items():
        if any(name == ours or _nearly(name, ours) for ours in (own, ".".join(TABLE))):
            yield (name,)
        if not isinstance(table, dict) or not (name == outer or _nearly(name, outer)):
            continue
        for inner in table:
            if _nearly(inner, own) or (inner == own and name != outer):
                yield name, inner


def _nearly(name: str, right: str) -> bool:
    """Whether a name is another mistyped: two letters wrong or swapped, one more or less, or a tail."""
    if name == right:
        return False
    if len(name) == len(right):
        return sum(a != b for a, b in zip(name.casefold(), right, strict=False)) <= 2
    shorter, longer = sorted((name.casefold(), right), key=len)
    one_more = len(longer) == len(shorter) + 1
    return name.startswith(right) or (
        one_more and any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))
    )


def _contradictions(gate: Gate | None) -> Iterator[tuple[_Key, str, str]]:
    """Settings that contradict one another or have no effect: where, what, and what to do."""
    if gate is None:
        return
    policy = gate.policy
    if policy.max_epsilon is not None and policy.delta_at_most is None:
        remedy = "say at which delta epsilon is meant: delta-at-most = 1e-6"
        yield ("policy", "max-epsilon"), "max-epsilon without delta-at-most", remedy
    for name in gate.targets.keys() & gate.ledgers.keys():
        yield ("ledgers", name), f"{name!r} is a target as well as a ledger", "give it another name"
    for kind, checks in (("targets", gate.targets), ("ledgers", gate.ledgers)):
        for name, check in checks.items():
            if policy.delta_at_most == "1/n" and check.n is None:
                yield (kind, name), 'no n, and policy.delta-at-most = "1/n"', "add n, the number of units"
            if policy.fail_on_increase and check.baseline is None:
                remedy = "add baseline = FILE, a certificate that `dpaudit certify -o` wrote"
                yield (kind, name), "no baseline, and policy.fail-on-increase = true", remedy
            if check.baseline is not None and not policy.fail_on_increase:
                remedy = "set fail-on-increase = true in [tool.dpaudit.policy]"
                yield (kind, name, "baseline"), "a baseline that nothing is held against", remedy
    known = [*gate.targets, *gate.ledgers]
    for position, waiver in enumerate(gate.waivers):
        if waiver.check not in known:
            remedy = f"{did_you_mean(waiver.check, known)}checks are {', '.join(known) or 'none'}"
            yield ("waivers", position, "check"), f"no check is called {waiver.check!r}", remedy


def _toml_line(message: str, text: str) -> int:
    """The line that a TOML error names; at the end of the document, the last."""
    _, found, rest = message.rpartition("(at line ")
    number = rest.partition(",")[0]
    return int(number) if found and number.isdigit() else max(1, text.count("\n"))


def _error(path: Path, line: int, key: _Key, what: str, remedy: str) -> ConfigurationError:
    why = "nothing is checked where the configuration cannot be followed"
    remedy += "; see docs/publishing/gate.md"
    error = ConfigurationError(what, where=_place(path, line, key), why=why, remedy=remedy)
    error.line = line
    return error


def _place(path: Path, line: int, key: Sequence[str | int]) -> str:
    dotted = ".".join(map(str, (*TABLE, *key)))
    return f"{path.name}:{line}: {dotted}"


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line of a key, or of the innermost table around it that has a line of its own.

    `path` has keys from the outermost table inwards, and positions in arrays of tables. Lines count
    from 1; a key that is not found gets line 1. The line is only displayed and changes no verdict.
    """
    known = _lines(text)
    around = (tuple(path[:length]) for length in range(len(path), 0, -1))
    return next((known[table] for table in around if table in known), 1)


def _lines(text: str) -> dict[_Key, int]:
    known: dict[_Key, int] = {}
    positions: dict[tuple[str, ...], int] = {}
    table: _Key = ()
    inside_text = False
    for number, line in enumerate(text.split("\n"), start=1):
        begun_inside = inside_text
        inside_text ^= len(_MULTILINE.findall(line)) % 2 == 1
        if begun_inside:
            continue
        header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
        if header is not None:
            keys = _keys(header[2])
            if header[1] == "[[":
                positions[keys] = positions.get(keys, -1) + 1
            table = full = _with_positions(keys, positions)
            first = 1
        elif assignment is not None:
            full, first = (*table, *_keys(assignment[1])), len(table) + 1
        else:
            continue
        for length in range(first, len(full) + 1):
            known.setdefault(full[:length], number)
    return known


def _keys(dotted: str) -> tuple[str, ...]:
    """The parts of a dotted key, as TOML reads them."""
    try:
        value = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return (dotted,)
    keys: list[str] = []
    inner: Any = value
    while isinstance(inner, dict):
        ((key, inner),) = inner.items()
        keys.append(key)
    return tuple(keys)


def _with_positions(keys: tuple[str, ...], positions: dict[tuple[str, ...], int]) -> _Key:
    """A table's path, with the present position after each array of tables in it."""
    path: list[str | int] = []
    for length in range(1, len(keys) + 1):
        path.append(keys[length - 1])
        if keys[:length] in positions:
            path.append(positions[keys[:length]])
    return tuple(path)
