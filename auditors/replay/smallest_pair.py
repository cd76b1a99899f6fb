"""The smallest pair that still refutes, and a file that makes it.

Records that both sides share are removed as long as the same finding remains (delta debugging: Zeller and
Hildebrandt 2002), then the changed records are replaced by simpler records of the pair, and numbers are cut
to few decimals. The verdict never depends on the smaller pair: it is decided before.
"""

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable
from dpaudit.auditors.replay.exact_loss import FixedPair
from dpaudit.auditors.replay.recording import Runs
from dpaudit.auditors.replay.worse_pairs import CandidatePair, Numbers
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE, Finding
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.curator.noise import LiveNoise, ReplayDiverged
from dpaudit.errors import DpauditError
from dpaudit.processes.changes import changed
from dpaudit.processes.host import Host
from dpaudit.processes.hosted import HostedData

#: The largest number of runs: two for each pair.
RUNS: Final = 60
_NOISES: Final = 6  # for the first tries of the given pair
_SHORT: Final = 100  # the most characters of a data set shown in one line


@dataclass(frozen=True)
class DescribedPair:
    """The smallest pair, in words, and the source of a module that makes it, where it is public."""

    words: str
    source: str | None


def smallest_pair(
    runs: Runs, made: CandidatePair, wanted: Finding | AnyGuarantee, *, seed: int
) -> CandidatePair | None:
    """Return the smallest pair tried that shows a finding, or has a loss that contradicts a guarantee.

    Return None if a few recordings on the given pair do not show it again. All pairs are tried with
    the noise of the recording that does.
    """
    each = (_Shrinking(runs, [seed, 0x511A, noise], wanted) for noise in range(_NOISES))
    return next((one.smallest(made) for one in each if one.shows(made)), None)


def described(made: CandidatePair, *, private: bool, host: Host | None) -> DescribedPair:
    """Return a pair in words and as a source; a private pair by its sizes alone."""
    sizes = " against ".join("1 record" if len(side) == 1 else f"{len(side)} records" for side in made.sides)
    if private:
        return DescribedPair(sizes, None)
    line, source = _in_its_process(made, host)
    return DescribedPair(sizes if line is None else f"{sizes}, {line}", source)


class _Shrinking:
    """A search for smaller pairs that still show a finding, or a loss that contradicts a guarantee."""

    def __init__(self, runs: Runs, noise: Sequence[int], wanted: Finding | AnyGuarantee) -> None:
        self._runs, self._noise, self._wanted = runs, noise, wanted
        self._left = RUNS

    def smallest(self, made: CandidatePair) -> CandidatePair:
        """Return the smallest of the pairs tried that still shows it."""
        return self._rounder(self._simpler(self._fewer(made)))

    def _fewer(self, made: CandidatePair) -> CandidatePair:
        """Remove records that both sides share, first half of them, then smaller parts.

        Where all rows of a unit may differ, some of these are removed too, but never all of a side.
        """
        records = _aligned(*made.sides)
        kept = list(range(len(records)))

        def of(places: Sequence[int]) -> CandidatePair:
            one, other = (tuple(records[at].number for at in places if records[at][side]) for side in (1, 2))
            return replace(made, one=one, other=other)

        shared = [at for at in kept if records[at].in_one and records[at].in_other]
        own = [[at for at in kept if at not in set(shared) and records[at][side]] for side in (1, 2)]
        several = made.pool.mine is None and made.pool.theirs is None
        for group in (shared, *own) if several else (shared,):
            part = len(group)
            while part:
                at, shorter = 0, False
                while at < len(group):
                    gone = group[at : at + part]
                    fewer = [place for place in kept if place not in set(gone)]
                    if (group is shared or len(gone) < len(group)) and self._shows(of(fewer)):
                        del group[at : at + part]
                        kept, shorter = fewer, True
                    else:
                        at += part
                part = min(part // 2, len(group)) if not shorter or part > len(group) or part > 1 else 0
        return of(kept)

    def _simpler(self, made: CandidatePair) -> CandidatePair:
        """Replace the changed records by the one nearest to zero."""
        plain = made.pool.smallest
        if made.pool.mine is None and made.pool.theirs is None:
            return made
        for turned in (False, True):
            if len(made.one) != len(made.other):
                return made
            one, other = (made.other, made.one) if turned else made.sides
            new: Numbers = (*other[: made.row], plain, *other[made.row + 1 :])
            one, other = (new, one) if turned else (one, new)
            if (
                one != other
                and (one, other) != made.sides
                and self._shows(replace(made, one=one, other=other))
            ):
                made = replace(made, one=one, other=other)
        return made

    def _rounder(self, made: CandidatePair) -> CandidatePair:
        """Cut numbers to as few decimals as possible."""
        for decimals in (0, 1, 2):
            if self._shows(candidate := replace(made, plain=decimals)):
                return candidate
        return made

    def _shows(self, made: CandidatePair) -> bool:
        if self._left < 2 or not (made.one and made.other):
            return False
        self._left -= 2
        return self.shows(made)

    def shows(self, made: CandidatePair) -> bool:
        """Return whether one recording and its replay show the finding, or a loss beyond the guarantee."""
        try:
            pair = made.pair()
            runs = replace(made.runs(self._runs), moved=set())
            with np.errstate(all="ignore"):
                recorded = runs.record(pair.data, LiveNoise(np.random.SeedSequence(self._noise)))
                other = runs.replay(pair.neighbour, recorded)
            errors = [side.error for side in (recorded, other)]
            wanted = self._wanted
            if not isinstance(wanted, Finding):
                if errors != [None, None]:
                    return False
                loss = FixedPair.of(recorded.entries, other.entries, whole=True)
                return loss.contradicts(wanted, CLAIM_TOLERANCE)
            raises = any(error is not None and not isinstance(error, ReplayDiverged) for error in errors)
            if raises and (wanted.kind != "control-flow" or None not in errors):
                return False
            found = runs.between_sides(recorded, other)
            with suppress(NotComparable):
                found += runs.leaks(recorded, other)
            return any((one.kind, one.label) == (wanted.kind, wanted.label) for one in found)
        except DpauditError:  # a run beyond its time limit, or data that its own class refuses
            return False


class _Record(NamedTuple):
    """A record's number, and the sides that have it."""

    number: int
    in_one: bool
    in_other: bool


def _aligned(one: Numbers, other: Numbers) -> list[_Record]:
    """Return the records of both sides in order, each shared record once."""
    before = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(map(len, (one, other)))
    )
    ends = zip(reversed(one[before:]), reversed(other[before:]), strict=False)
    after = next((at for at, (a, b) in enumerate(ends) if a != b), min(len(one), len(other)) - before)
    middles = one[before : len(one) - after], other[before : len(other) - after]
    records = [_Record(number, in_one=True, in_other=True) for number in one[:before]]
    for kind, first, last, start, end in SequenceMatcher(None, *middles, autojunk=False).get_opcodes():
        same = kind == "equal"
        records += [_Record(number, in_one=True, in_other=same) for number in middles[0][first:last]]
        records += [_Record(n, in_one=False, in_other=True) for n in (() if same else middles[1][start:end])]
    return records + [_Record(number, in_one=True, in_other=True) for number in one[len(one) - after :]]


def _in_its_process(made: CandidatePair, host: Host | None) -> tuple[str | None, str | None]:
    """Return a line about the pair and its source, both made in the process that holds the data."""
    base, unit = made.base, made.pair().unit
    arguments = (base.data, base.neighbour, *made.changes(), unit)
    if isinstance(base.data, HostedData):
        return (None, None) if host is None else tuple(host.call(_written, *arguments).result())
    return _written(*arguments)


def _written(
    data: Any, neighbour: Any, changes: Sequence[str], others: Sequence[str], unit: int | None
) -> tuple[str | None, str | None]:
    sides = [changed(data, each, neighbour) for each in (changes, others)]
    try:
        imports: set[str] = {"import numpy as np", "from dpaudit import Pair"}
        one, other = (literal(side, imports) for side in sides)
    except TypeError:
        return None, None
    shown = [_plainly(side) for side in sides]
    line = f"{shown[0]} and {shown[1]}" if max(map(len, shown)) <= _SHORT else None
    beside = "" if unit is None else f", unit={unit}"
    listed = "\n".join(sorted(imports))
    source = (
        '"""The smallest pair of neighbouring data on which dpaudit refuted a claim."""\n\n'
        f"{listed}\n\n\ndef pair():\n"
        f'    """Return the two data sets."""\n    data = {one}\n    neighbour = {other}\n'
        f'    return Pair(data, neighbour, "the smallest pair found"{beside})\n'
    )
    return line, source


def literal(value: Any, imports: set[str]) -> str:
    """Return a Python expression for a value of plain parts; add the imports that it needs to `imports`.

    Raises:
        TypeError: the value has no such expression.
    """
    if value is None or isinstance(value, bool | int | str | bytes):
        return repr(value)
    if type(value) is float:
        return repr(value) if np.isfinite(value) else f'float("{value}")'
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufSU":
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            imports.add("from numpy import inf, nan")
        text = f"np.array({value.tolist()!r}, dtype={value.dtype.str!r})"
        return text if value.size else f"{text}.reshape({value.shape})"
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return f"np.dtype({value.dtype.str!r}).type({literal(value.item(), imports)})"
    if type(value) is list:
        return f"[{', '.join(literal(each, imports) for each in value)}]"
    if type(value) is tuple:
        return f"({''.join(literal(each, imports) + ', ' for each in value)})"
    if type(value) is dict:
        return f"{{{', '.join(f'{literal(k, imports)}: {literal(v, imports)}' for k, v in value.items())}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        with suppress(ImportError):
            if getattr(importlib.import_module(kind.__module__), kind.__qualname__, None) is kind:
                imports.add(f"from {kind.__module__} import {kind.__qualname__}")
                named = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init)
                return f"{kind.__qualname__}({', '.join(f'{n}={literal(v, imports)}' for n, v in named)})"
    if type(value).__module__.startswith("pandas") and type(value).__name__ == "DataFrame":
        return _frame(value, imports)
    raise TypeError(type(value).__name__)


def _frame(frame: Any, imports: set[str]) -> str:
    """Return a Python expression for a data frame of pandas with a default index."""
    if type(frame.index).__name__ != "RangeIndex" or frame.index.name is not None:
        raise TypeError("index")
    imports.add("import pandas as pd")
    columns = []
    for name in frame.columns:
        column = frame[name]
        missing = column.isna().tolist()
        values = [None if lacks else each for each, lacks in zip(column.tolist(), missing, strict=True)]
        if column.dtype.kind in "mM" and isinstance(column.dtype, np.dtype):
            values = [None if each is None else str(each) for each in values]
        kind = str(column.dtype)
        if kind == "category":
            levels = literal(frame[name].cat.categories.tolist(), imports)
            text = f"pd.Categorical({literal(values, imports)}, {levels}, ordered={column.cat.ordered})"
        else:
            text = f"pd.Series({literal(values, imports)}, dtype={kind!r})"
        columns.append(f"{literal(name, imports)}: {text}")
    return f"pd.DataFrame({{{', '.join(columns)}}})"


def _plainly(value: Any) -> str:
    """Return a value for display: arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return repr(value.tolist())
    if hasattr(value, "to_dict"):  # a frame of pandas
        return repr(value.to_dict("records"))
    if isinstance(value, tuple):
        return f"({', '.join(map(_plainly, value))})"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({', '.join(f'{n}={_plainly(v)}' for n, v in vars(value).items())})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k!r}: {_plainly(v)}' for k, v in value.items())}}}"
    return repr(value)
