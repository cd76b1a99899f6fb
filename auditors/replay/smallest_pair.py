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
from typing import Any, Final

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable
from dpaudit.auditors.replay.exact_loss import FixedPair
from dpaudit.auditors.replay.recording import Runs
from dpaudit.auditors.replay.worse_pairs import CandidatePair, Numbers
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE, Finding
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.pairs import Pair
from dpaudit.curator.noise import LiveNoise, ReplayDiverged
from dpaudit.errors import DpauditError
from dpaudit.processes.changes import changed
from dpaudit.processes.host import Host
from dpaudit.processes.hosted import HostedData

#: Runs, at most: two for each pair that is tried.
RUNS: Final = 60
_SHORT: Final = 100  # characters of a data set that is shown in a line


@dataclass(frozen=True)
class Smallest:
    """The smallest pair, in words, and the source of a module that makes it, where it is public."""

    words: str
    source: str | None


def smallest_pair(
    runs: Runs, start: Pair | CandidatePair, wanted: Finding | AnyGuarantee, *, seed: int, host: Host | None
) -> CandidatePair | None:
    """Return the smallest pair tried that shows a finding, or whose loss contradicts a guarantee.

    None if the records of the pair are not known, or if one more recording does not show it again.
    """
    made = start if isinstance(start, CandidatePair) else CandidatePair.of(start, host)
    if made is None:
        return None
    shrinking = _Shrinking(runs, np.random.SeedSequence([seed, 0x511A]), wanted)
    return shrinking.smallest(made) if shrinking.shows(made) else None


def in_words(made: CandidatePair, *, private: bool, host: Host | None) -> Smallest:
    """Return a pair in words and as a source; a private pair by its sizes alone."""
    sizes = " against ".join("1 record" if len(side) == 1 else f"{len(side)} records" for side in made.sides)
    if private:
        return Smallest(sizes, None)
    line, source = _in_its_process(made, host)
    return Smallest(sizes if line is None else f"{sizes}, {line}", source)


class _Shrinking:
    """Tries smaller pairs that still show a finding, or whose loss still contradicts a guarantee."""

    def __init__(self, runs: Runs, seeds: np.random.SeedSequence, wanted: Finding | AnyGuarantee) -> None:
        self._runs, self._seeds, self._wanted = runs, seeds, wanted
        self._left = RUNS

    def smallest(self, made: CandidatePair) -> CandidatePair:
        """Return the smallest of the pairs tried that still shows it."""
        return self._rounder(self._simpler(self._fewer(made)))

    def _fewer(self, made: CandidatePair) -> CandidatePair:
        """Remove records that both sides share, first half of them, then smaller parts."""
        row, (one, other) = made.row, made.sides
        changed_one, changed_other = (
            one[row : len(one) - _after(made)],
            other[row : len(other) - _after(made)],
        )
        before, after = list(one[:row]), list(one[len(one) - _after(made) :])

        def of(kept: Sequence[tuple[bool, int]]) -> CandidatePair:
            first = tuple(number for is_before, number in kept if is_before)
            last = tuple(number for is_before, number in kept if not is_before)
            return replace(made, one=(*first, *changed_one, *last), other=(*first, *changed_other, *last))

        kept = [(True, number) for number in before] + [(False, number) for number in after]
        part = len(kept)
        while part and kept:
            at, shorter = 0, False
            while at < len(kept):
                fewer = kept[:at] + kept[at + part :]
                if self._shows(of(fewer)):
                    kept, shorter = fewer, True
                else:
                    at += part
            part = min(part // 2, len(kept)) if not shorter or part > len(kept) or part > 1 else 0
        return of(kept)

    def _simpler(self, made: CandidatePair) -> CandidatePair:
        """Replace the changed records by the one nearest to zero."""
        plain = made.pool.smallest
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
        """Whether one recording and its replay show the finding, or a loss beyond the guarantee."""
        try:
            pair = made.pair()
            runs = replace(made.runs(self._runs), moved=set())
            with np.errstate(all="ignore"):
                recorded = runs.record(pair.data, LiveNoise(self._seeds.spawn(1)[0]))
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
        except DpauditError:  # a run that did not end in its time, or data that its own class refuses
            return False


def _after(made: CandidatePair) -> int:
    """The number of shared records after the one that differs."""
    return max(len(made.one), len(made.other)) - made.row - 1


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
    raise TypeError(type(value).__name__)


def _plainly(value: Any) -> str:
    """A value for a reader: arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return repr(value.tolist())
    if isinstance(value, tuple):
        return f"({', '.join(map(_plainly, value))})"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}({', '.join(f'{n}={_plainly(v)}' for n, v in vars(value).items())})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k!r}: {_plainly(v)}' for k, v in value.items())}}}"
    return repr(value)
