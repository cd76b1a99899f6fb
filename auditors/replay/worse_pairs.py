"""The search that every replay makes: other pairs of the records that the given pairs hold.

A fault in preprocessing may depend on the largest record, on the number of records or on a boundary far from
the given pair. So the search tries data sets of few distinct records, then changes of single given records,
then *paths* from one data set to another, on which each step changes one record. If the ends of a path
differ in more than the releases, or queries move further than that many steps allow, so do two neighbouring
steps, and bisection finds them.

A claim holds for the data sets of its domain, and the algorithm's author knows that domain better than a
search does: records may have a norm of 1, their number may be public, the "records" may be a vector of
statistics. So every record of a searched pair is a record of the given pair. The number of records changes
only if it changes in the given pair. Entries that are plain numbers change only as in the given pair. Data on
which the algorithm raises are skipped, and so is a vector of numbers if the algorithm does not accept one
entry fewer. The runs of the search are no evidence: the pair that it finds is run again, with other noise.
"""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable
from dpaudit.auditors.replay.pair_search import RECORDS
from dpaudit.auditors.replay.recording import Recording, Runs, flow_difference, movements
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.noise import LiveNoise, ReplayDiverged
from dpaudit.errors import DpauditError
from dpaudit.mechanisms import Array
from dpaudit.processes.changes import changed, named, take
from dpaudit.processes.host import Host
from dpaudit.processes.hosted import HostedData
from dpaudit.processes.records import Pool, pool_of

#: Runs of one search, at most: about half of those that the audit of one given pair makes.
RUNS: Final = 64
_EVEN: Final = 1e-9  # a path is even if all its parts move queries equally, up to rounding
_WORST: Final = 5  # records that are tried in each place

#: Records by their numbers in a pool, in order.
Numbers: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class CandidatePair:
    """A pair made of the records of a given pair.

    Attributes:
        base: the given pair.
        pool: its records.
        one, other: the records of the two sides.
        plain: to how many decimals numbers are cut on both sides; None: not at all.
    """

    base: Pair
    pool: Pool
    one: Numbers
    other: Numbers
    plain: int | None = None

    @property
    def row(self) -> int:
        """Return the position of the record that differs, on the longer side."""
        both = zip(self.one, self.other, strict=False)
        return next((at for at, (a, b) in enumerate(both) if a != b), min(len(self.one), len(self.other)))

    @property
    def sides(self) -> tuple[Numbers, Numbers]:
        """The records of both sides."""
        return self.one, self.other

    def changes(self) -> tuple[list[str], list[str]]:
        """Return the names of the changes that make either side from the given pair's data."""
        cut = [] if self.plain is None else [f"plain {self.plain}"]
        return [take(self.one), *cut], [take(self.other), *cut]

    def pair(self) -> Pair:
        """Return the two data sets, or their names in the process that holds the given pair."""
        one, other = map(_made, (self.base, self.base), self.changes(), map(len, self.sides))
        told = (
            f"{_counted(self.one)}, and {_counted(self.other)}, of the records of {self.base.description!r}"
        )
        unit = None if self.base.unit is None else self.row
        return replace(self.base, data=one, neighbour=other, description=told, unit=unit)

    def runs(self, runs: Runs) -> Runs:
        """Return the way to run the algorithm on this pair."""
        unit = None if self.base.unit is None else self.row
        return replace(runs, unit=unit, one_more=len(self.one) != len(self.other))

    @classmethod
    def of(cls, pair: Pair, unit: str, host: Host | None) -> "CandidatePair | None":
        """Return a given pair as a candidate; None if its records are not known."""
        if isinstance(pair.data, HostedData):
            found = None if host is None else host.call(_pool, pair.data, pair.neighbour, unit).result()
            pool = None if found is None else Pool(*found)
        else:
            pool = pool_of(pair.data, pair.neighbour, unit)
        return None if pool is None else cls(pair, pool, tuple(range(pool.number)), tuple(pool.beside))


@dataclass(frozen=True)
class SearchResult:
    """The result of a search: the pair with a difference, if any, and the number of pairs compared."""

    candidate: CandidatePair | None = None
    compared: int = 0
    possible: bool = False

    def words(self) -> list[str]:
        """Describe the pair that was found, if any."""
        return (
            []
            if self.candidate is None
            else [f"other pairs of the given records, found {self.candidate.pair().description}"]
        )


def search_records(
    runs: Runs,
    pairs: Sequence[Pair],
    *,
    seed: int,
    unit: str,
    host: Host | None,
    until: float | None = None,
) -> SearchResult:
    """Compare other pairs of the given pairs' records, until one shows a difference or the runs are spent.

    Args:
        runs: the way to run the algorithm; labels of queries that move on any pair are added to it.
        pairs: the given pairs.
        seed: the seed of all noise.
        unit: the claim's unit of privacy: records are changed only if each record is one unit.
        host: the process that holds the data, if it is another one.
        until: the value of `time.monotonic` after which no further run begins.
    """
    bases = [made for pair in pairs if (made := CandidatePair.of(pair, unit, host)) is not None]
    bases = [made for made in bases if unit in RECORDS or made.pool.are_units]
    bases = [made for made in bases if (made.pool.mine, made.pool.theirs) != (None, None)]
    bases = [made for made in bases if _candidates(made.pool, runs.neighbouring)]
    possible = False
    search = _Search(runs, np.random.SeedSequence([seed, 0x9A125]), until)
    with suppress(_Spent), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few records may have no standard deviation
        for base in bases:
            if not search.takes_records(base):
                continue
            possible = True
            found = next(
                filter(
                    None, (search.tried(base, each) for each in _candidates(base.pool, runs.neighbouring))
                ),
                None,
            )
            if found is not None:
                return SearchResult(found, search.compared, possible=True)
    return SearchResult(None, search.compared, possible=possible)


class _Spent(Exception):
    """All runs are made."""


class _Search:
    def __init__(self, runs: Runs, seeds: np.random.SeedSequence, until: float | None) -> None:
        self._runs, self._seeds = runs, seeds
        self._left, self.compared = RUNS, 0
        self._until = math.inf if until is None else until
        self._recorded: dict[Numbers, Recording | None] = {}

    def takes_records(self, base: CandidatePair) -> bool:
        """Return whether the algorithm seems to take records: without one of them it makes the same releases.

        Data may also be a vector of statistics or of scores, whose entries are not records and must not be
        replaced by each other.
        """
        given = tuple(range(base.pool.number))
        recorded = self._record(base, given)
        if recorded is None or base.pool.are_records:
            return recorded is not None
        shapes = {one.release.label: one.query.shape for one in recorded.entries}
        for less in (given[:-1], given[1:]) if len(given) > 1 else (given * 2,):
            other = self._record(base, less)
            found = () if other is None else other.entries
            if found and all(
                shapes.get(one.release.label, one.query.shape) == one.query.shape for one in found
            ):
                return True
        return False

    def tried(self, base: CandidatePair, candidates: "_Candidates") -> CandidatePair | None:
        """Return the first of these pairs with a difference."""
        if isinstance(candidates, _Path):
            return self._path(base, candidates)
        if isinstance(candidates, _Fan):
            return self._fan(base, candidates)
        recorded = self._record(base, candidates.start)
        for other in candidates.others if recorded is not None else ():
            made = replace(base, one=candidates.start, other=other)
            if recorded is not None and self._differs(made, recorded):
                return made
        return None

    def _fan(self, base: CandidatePair, fan: "_Fan") -> CandidatePair | None:
        """Return a pair of the first path with ends that differ in more than queries."""
        recorded = self._record(base, fan.paths[0].at(0))
        if recorded is None:
            return None
        for path in fan.paths:
            other = self._replay(base, path.at(path.length), recorded)
            if _ran(other) and self._diverges(recorded, other):
                return self._path(base, path)
        return None

    def _path(self, base: CandidatePair, path: "_Path") -> CandidatePair | None:
        """Return a pair with a difference, at the step of a path where the releases jump."""
        recorded, last = self._record(base, path.at(0)), path.length
        if recorded is None:
            return None
        runs, usual = {0: recorded}, None
        steps = sorted({0, 1, last // 4, last // 2, 3 * last // 4, last - 1, last})
        while True:
            for step in steps:
                runs[step] = runs[step] if step in runs else self._replay(base, path.at(step), recorded)
                if not _ran(runs[step]):
                    return None
            diverged = {step: self._diverges(recorded, runs[step]) for step in steps}
            gaps = {gap: 1.0 for gap in itertools.pairwise(steps) if diverged[gap[0]] != diverged[gap[1]]}
            if not gaps:
                known = [gap for gap in itertools.pairwise(steps) if not diverged[gap[0]]]
                usual = _usual_step(runs, known) if usual is None else usual
                gaps = {gap: _unevenness(runs, gap, usual) for gap in known}
            first, end = max(gaps, key=gaps.__getitem__, default=(0, 0))
            if first == end or gaps[first, end] < _EVEN:
                return None
            if end - first == 1:
                one, other = path.pair(first)
                made = replace(base, one=one, other=other)
                again = self._record(base, one)
                return made if again is not None and self._differs(made, again) else None
            steps = [first, (first + end) // 2, end]

    def _differs(self, made: CandidatePair, recorded: Recording) -> bool:
        runs = made.runs(self._runs)
        other = self._replay(made, made.other, recorded)
        self.compared += 1
        if not _ran(other):
            return False
        with suppress(NotComparable):
            return bool(runs.between_sides(recorded, other) or runs.leaks(recorded, other))
        return False

    def _diverges(self, recorded: Recording, other: Recording) -> bool:
        """Return whether anything except the queries differs, for data sets at any distance."""
        if flow_difference(recorded, other) is not None:
            return True
        with suppress(NotComparable):
            return bool(self._runs.leaks(recorded, other))
        return False

    def _record(self, base: CandidatePair, numbers: Numbers) -> Recording | None:
        if numbers not in self._recorded:
            self._spend()
            noise = LiveNoise(self._seeds.spawn(1)[0])
            recorded = self._runs.record(_made(base.base, [take(numbers)], len(numbers)), noise)
            self._recorded[numbers] = recorded if recorded.error is None else None
        return self._recorded[numbers]

    def _replay(self, base: CandidatePair, numbers: Numbers, recorded: Recording) -> Recording:
        self._spend()
        return self._runs.replay(_made(base.base, [take(numbers)], len(numbers)), recorded)

    def _spend(self) -> None:
        if self._left <= 0 or time.monotonic() >= self._until:
            raise _Spent
        self._left -= 1


def _ran(recording: Recording) -> bool:
    """Return whether a run ended or diverged; if it raised, it may not accept such data."""
    return recording.error is None or isinstance(recording.error, ReplayDiverged)


def _usual_step(runs: Mapping[int, Recording], gaps: Sequence[tuple[int, int]]) -> Array:
    """Return the typical move of the queries by one step of a path."""
    return np.median([_move(runs[one], runs[two]) / (two - one) for one, two in gaps], axis=0)


def _unevenness(runs: Mapping[int, Recording], gap: tuple[int, int], usual: Array) -> float:
    """Return how far a gap's moves exceed the usual ones; return a larger value if they exceed the ledger."""
    one, two = gap
    with suppress(ValueError, DpauditError):
        made = movements(runs[one].entries, runs[two].entries)
        speed = max((move.measured / (move.declared or 1e-300) / (two - one) for move in made), default=0.0)
        if speed > 1.0 + 1e-6:
            return 1e9 * speed
        return float(np.abs(_move(runs[one], runs[two]) - (two - one) * usual).max(initial=0.0))
    return 0.0


def _move(one: Recording, other: Recording) -> Array:
    """Return the move of each query, in units of the declared sensitivity."""
    declared = {move.entry.number: move.declared for move in movements(one.entries, one.entries)}
    parts = [
        (two.query - first.query).ravel() / (declared.get(first.number) or 1.0)
        for first, two in zip(one.entries, other.entries, strict=True)
    ]
    return np.concatenate([np.zeros(0), *parts])


@dataclass(frozen=True)
class _Star:
    """A data set and some of its neighbours."""

    start: Numbers
    others: Sequence[Numbers]


@dataclass(frozen=True)
class _Path:
    """Data sets that differ from step to step in one record.

    Attributes:
        length: the number of steps.
        at: the records at each step, from 0 to the length.
        changed: the two records between which the record that a step replaces may change; None: any.
    """

    length: int
    at: Callable[[int], Numbers]
    changed: tuple[int, int] | None = None

    def pair(self, step: int) -> tuple[Numbers, Numbers]:
        """Return the two neighbours of a step."""
        here = self.at(step)
        if self.changed is None:
            return here, self.at(step + 1)
        one, other = ((*here[:step], each, *here[step + 1 :]) for each in self.changed)
        return one, other


@dataclass(frozen=True)
class _Fan:
    """Paths that begin at one data set."""

    paths: Sequence[_Path]


_Candidates: TypeAlias = _Star | _Path | _Fan


def _candidates(pool: Pool, relation: Neighbouring) -> Sequence["_Candidates"]:
    """Return the comparisons in order; none if the pair's numbers of records contradict the relation."""
    if pool.mine is not None and pool.theirs is not None:
        return _of_other_records(pool, relation)
    return _of_more_or_fewer(pool) if relation is Neighbouring.ADD_OR_REMOVE_ONE else ()


def _of_more_or_fewer(pool: Pool) -> list["_Candidates"]:
    """Return the comparisons for added or removed records: few records, copies of one, the given ones."""
    given, number = tuple(range(pool.number)), pool.number
    worst = pool.extremes[:_WORST]
    starts: list[Numbers] = [(one,) for one in worst[:3]]
    starts += [(worst[0], worst[-1])] * (len(worst) > 1)
    small = [_Star(start, [(*start, other) for other in pool.extremes]) for start in starts]
    copied = [
        _Path(number + 1, partial(_added, (one,) * number, other))
        for one, other in ((pool.smallest, pool.ends[1]), pool.ends[::-1])
    ]
    filled = []
    for fill in tuple(dict.fromkeys((pool.smallest, *worst)))[:2]:
        start, others = (fill,) * number, [other for other in worst if other != fill]
        ends = [(*start, other) for other in others]
        filled.append(_Star(start, [*ends, *((other, *start) for other in others[:2])]))
    rows = [row for row in dict.fromkeys((*worst, 0, number - 1)) if row < number]
    without = [given[:row] + given[row + 1 :] for row in rows if number > 1]
    changed = _Star(given, [*without, *((*given, other) for other in worst)])
    grown = [_Path(number - 1, lambda step: given[: 1 + step])] * (number > 1)
    grown.append(_Path(number, lambda step: given + given[:step]))
    return [small[0], small[-1], *copied, *filled, changed, *grown, *small[1:-1]]


def _of_other_records(pool: Pool, relation: Neighbouring) -> list["_Candidates"]:
    """Return the comparisons for replaced records: among copies of one, and among the given records."""
    given, number, at = tuple(range(pool.number)), pool.number, int(pool.mine or 0)
    worst, own = pool.extremes[:_WORST], (at, int(pool.theirs or 0))
    free = pool.are_records and not pool.are_named and relation is Neighbouring.REPLACE_ONE
    changed = None if free else own
    ends = (pool.smallest, pool.ends[1]), pool.ends[::-1]
    paths = [_Path(number, partial(_filled, (one,) * number, other), changed) for one, other in ends]
    filled = [_Path(number, partial(_filled, given, one), changed) for one in pool.extremes]
    if free:
        copied = [
            _Path(number, partial(_filled, (pool.smallest,) * number, one), changed) for one in pool.extremes
        ]
        tried: list[_Candidates] = [*paths, _Fan(filled), _Fan(copied)]
    else:
        own_paths = [
            _Path(number, partial(_filled, (one,) * number, other)) for one, other in (own, own[::-1])
        ]
        tried = [*own_paths, *paths]
    fills = tuple(dict.fromkeys((pool.smallest, *worst)))
    for turn, fill in enumerate(fills[:2] if free else fills):
        before, after = (fill,) * at, (fill,) * (number - 1 - at)
        sides = [(*before, one, *after) for one in (worst if free else own)]
        firsts = 2 if free and turn == 0 else 1
        tried += [_Star(side, sides[turned + 1 :]) for turned, side in enumerate(sides[:firsts])]
    rows = [row for row in dict.fromkeys((at, 0, *pool.ends)) if row < number][:3]
    if free:
        changes = ((row, other) for row in rows for other in worst if other != row)
        tried.append(_Star(given, [(*given[:row], other, *given[row + 1 :]) for row, other in changes]))
    else:
        for row in rows:
            one, other = ((*given[:row], each, *given[row + 1 :]) for each in own)
            tried.append(_Star(one, [other]))
        tried.append(_Fan(filled))
    return [
        *tried,
        *(_Path(number, partial(_filled, given, one), changed) for one in dict.fromkeys(pool.ends)),
    ]


def _added(copied: Numbers, one: int, step: int) -> Numbers:
    """Return copies of one record, and `step` copies of another record."""
    return copied + (one,) * step


def _filled(given: Numbers, fill: int, step: int) -> Numbers:
    """Return the given records with the first `step` replaced."""
    return (fill,) * step + given[step:]


def _made(base: Pair, changes: Sequence[str], size: int) -> Any:
    """Return changed data of the given pair, with `size` records."""
    if isinstance(base.data, HostedData):
        return replace(base.data, name=named(base.data.name, changes), size=size)
    return changed(base.data, changes, base.neighbour)


def _counted(numbers: Numbers) -> str:
    distinct = len(set(numbers))
    records = "1 record" if len(numbers) == 1 else f"{len(numbers)} records"
    return records if distinct == len(numbers) else f"{records}, {distinct} of them distinct"


def _pool(data: Any, neighbour: Any, unit: str) -> tuple[Any, ...] | None:
    """Return the records of a pair as plain values."""
    found = pool_of(data, neighbour, unit)
    return None if found is None else astuple(found)
