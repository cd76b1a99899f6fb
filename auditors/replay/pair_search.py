"""A search for worse pairs than those given: records at extremes, taken out, doubled, among other records.

A candidate is recorded once and replayed once. A pair with a finding is the worst. Otherwise pairs are
ranked by the moves of their releases, in units of the noise, and then by the moves relative to the declared
sensitivity. The search continues from the worst candidate until no candidate is worse or its runs are spent.
It only chooses which pairs are audited, with fresh noise: its own runs are no evidence.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable
from dpaudit.auditors.replay import exact_loss, likelihood
from dpaudit.auditors.replay.recording import Runs, movements
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.noise import LiveNoise, ReplayDiverged
from dpaudit.errors import UsageError
from dpaudit.processes.changes import Records, changed, named, records_of, words
from dpaudit.processes.hosted import HostedData

#: The default number of runs of one search.
SEARCH_RUNS: Final = 120
_COLUMNS: Final = 8

#: The units of privacy that are single records.
RECORDS: Final = ("record", "row", "example")

#: The changes to the data on both sides.
_Sides: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class WorsePair:
    """The worst pair of a search, if it is worse than every given pair, and the number of pairs tried."""

    pair: Pair | None
    tried: int

    @property
    def pairs(self) -> Sequence[Pair]:
        """Return the pair, if there is one."""
        return () if self.pair is None else (self.pair,)

    def words(self) -> list[str]:
        """Describe the number of pairs tried, and the pair that is audited beside the given pairs."""
        found = (
            "none worse" if self.pair is None else f"the last pair is audited too: {self.pair.description}"
        )
        return [f"{self.tried} pairs with other values, {found}"] if self.tried else []


def require_records(unit: str) -> None:
    """Raise `UsageError` for a unit that may have several records: a search changes one of them."""
    if unit not in RECORDS:
        what, why = f"a search for pairs per {unit}", f"it changes one record, and a {unit} may have several"
        remedy = f"give pairs that change a whole {unit}; where each is one record, claim it per record"
        raise UsageError(what, where="search_pairs", why=why, remedy=remedy)


def records_in(pair: Pair) -> Records | None:
    """Return the records of a pair, here or in another process; None if no record can be changed."""
    if isinstance(pair.data, HostedData):
        return None if pair.data.records is None else Records(*pair.data.records)
    return records_of(pair.data, pair.neighbour)


def search(runs: Runs, pairs: Sequence[Pair], *, seed: int, most: int = SEARCH_RUNS) -> WorsePair:
    """Search from each given pair with records that can be changed, the worst pair first."""
    sequence = np.random.SeedSequence([seed, 0x5EA7C4])
    left = most // 2

    def score(pair: Pair) -> tuple[float, float]:
        nonlocal left
        left -= 1
        return _score(replace(runs, unit=pair.unit, moved=set()), pair, sequence.spawn(1)[0])

    bases = [(records, pair) for pair in pairs if (records := records_in(pair)) is not None]
    given = sorted([(score(pair), number) for number, (_, pair) in enumerate(bases)], reverse=True)
    worst, value, tried = None, max((one for one, _ in given), default=(0.0, 0.0)), 0
    for own, number in given:
        known, base = bases[number]
        here, start, ahead = own, None, True
        while ahead:
            ahead, nearest = False, start
            for sides in _around(start, known, runs.neighbouring):
                if left <= 0 or value[0] == math.inf:
                    return WorsePair(worst, tried)
                pair, tried = _pair(base, sides), tried + 1
                now = score(pair)
                if now > here:
                    here, nearest, ahead = now, sides, True
                if now > value:
                    worst, value = pair, now
            start = nearest
    return WorsePair(worst, tried)


def _score(runs: Runs, pair: Pair, seed: np.random.SeedSequence) -> tuple[float, float]:
    recorded = runs.record(pair.data, LiveNoise(seed.spawn(1)[0]))
    other = runs.replay(pair.neighbour, recorded)
    errors = [side.error for side in (recorded, other) if not isinstance(side.error, ReplayDiverged)]
    if any(error is not None for error in errors):
        return -1.0, 0.0  # the algorithm may refuse data outside its domain
    with suppress(NotComparable):
        if runs.between_sides(recorded, other) or runs.leaks(recorded, other):
            return math.inf, 0.0
    differences = exact_loss.query_differences(recorded.entries, other.entries)
    square = sum(share for share, _ in likelihood.gaussian_share(recorded.entries, differences))
    moves = movements(recorded.entries, other.entries)
    return float(square), sum(move.measured / move.declared for move in moves if move.declared > 0.0)


def _pair(base: Pair, sides: _Sides) -> Pair:
    one, other = (_made(base.data, changes) for changes in sides)
    described = f"found from {base.description!r}: {words(sides[0])}, and {words(sides[1])}"
    return Pair(one, other, described, unit=None if base.unit is None else _row(sides))


def _row(sides: _Sides) -> int:
    """Return the index of the record that differs."""
    return int((sides[0] or sides[1])[-1].split()[1].split(".")[0])


def _made(data: Any, changes: Sequence[str]) -> Any:
    if not isinstance(data, HostedData):
        return changed(data, changes)
    return replace(data, name=named(data.name, changes), size=None) if changes else data


def _around(start: _Sides | None, known: Records, relation: Neighbouring) -> Iterator[_Sides]:
    """Return candidates near a place: first changes of one record, then values of the others."""
    if start is None:
        for row in dict.fromkeys((known.row, known.largest, known.number - 1)):
            yield from _of_one(row, known, relation)
        return
    row = _row(start)
    for others in ("others-low", "others-high", "others-zero"):
        if known.number > 1:
            yield (f"{others} {row}", *start[0]), (f"{others} {row}", *start[1])


def _of_one(row: int, known: Records, relation: Neighbouring) -> Iterator[_Sides]:
    places = [str(row)]
    if known.columns > 1:
        places += [f"{row}.{column}" for column in range(min(known.columns, _COLUMNS))]
    if relation is Neighbouring.REPLACE_ONE:
        for other in dict.fromkeys((known.largest, known.smallest)):
            if other != row:
                yield (), (f"like {row}.{other}",)
        for place in places:
            yield (f"high {place}",), (f"low {place}",)
            yield (), (f"high {place}",)
            yield (), (f"low {place}",)
        return
    removed = relation is Neighbouring.ADD_OR_REMOVE_ONE
    gone = f"drop {row}" if removed else f"zero {row}"
    yield (), (gone,)
    for place in places:
        yield (f"high {place}",), (f"high {place}", gone)
        yield (f"low {place}",), (f"low {place}", gone)
    if removed:
        yield (), (f"double {row}",)
