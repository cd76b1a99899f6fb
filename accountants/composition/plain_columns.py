"""Plain noise counted in columns: a million different mechanisms take tens of megabytes."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountants.closed_forms.columns import Cost, times_up
from dpaudit.accountants.closed_forms.rounding import Vector
from dpaudit.claims.sensitivity import Basis
from dpaudit.ledger.columns import Flags, Kind, PlainNoise, PlainReleases

#: Below this number of different mechanisms, they are counted one by one.
FEW: Final = 64
_FEWEST_ROWS: Final = 1 << 15  # waiting rows before an early merge
_MOST_RUNS: Final = 2**53  # limit on all runs, so that every count is a double


class Columns(NamedTuple):
    """Many Gaussian or Laplace mechanisms: sensitivity, scale (or sigma) and number of runs, all [n]."""

    sensitivity: Vector
    scale: Vector
    runs: Vector


_Sort = tuple[Kind, Basis]


class PlainCounts:
    """The number of runs of each plain mechanism, in order of first appearance."""

    def __init__(self) -> None:
        self._waiting: dict[_Sort, list[Columns]] = {}
        self._merged: dict[_Sort, Columns] = {}
        self._number = 0  # of waiting rows
        self._runs = 0

    def add(self, block: PlainReleases) -> bool:
        """Add the runs of a block, ignoring its partitions; return False, adding nothing, at 2^53 runs."""
        rows = Columns(block.sensitivity, block.scale, block.runs)
        return self._add(block.gaussian, block.basis, rows)

    def _add(self, gaussian: Flags, bases: NDArray[np.str_], rows: Columns) -> bool:
        # In doubles the sum is exact below 2^53, and never falls below it from there on. Integers would wrap.
        runs = float(rows.runs.sum())
        if self._runs + runs >= _MOST_RUNS:
            return False
        self._runs += int(runs)
        kinds: tuple[tuple[Kind, Flags], ...] = (("gaussian", gaussian), ("laplace", ~gaussian))
        for basis, (kind, of_kind) in itertools.product(get_args(Basis), kinds):
            chosen = of_kind & (bases == basis)
            if chosen.any():
                of_sort = Columns(*(column[chosen] for column in rows))
                self._waiting.setdefault((kind, basis), []).append(of_sort)
        self._number += len(gaussian)
        if self._number > max(_FEWEST_ROWS, sum(len(rows.runs) for rows in self._merged.values())):
            self._merge()
        return True

    def add_counts(self, counts: Sequence[tuple[PlainNoise, int]]) -> bool:
        """Add mechanisms with their numbers of runs; returns as `add` does."""
        if not counts:
            return True
        if any(count > _MOST_RUNS for _, count in counts):
            return False
        kinds, bases, *numbers = zip(*(noise for noise, _ in counts), strict=True)
        rows = Columns(*(np.array(column, np.float64) for column in (*numbers, [n for _, n in counts])))
        return self._add(np.array(kinds) == "gaussian", np.array(bases), rows)

    def __len__(self) -> int:
        """Return the number of different mechanisms."""
        self._merge()
        return sum(len(rows.runs) for rows in self._merged.values())

    def items(self) -> Iterator[tuple[PlainNoise, int]]:
        """Yield each mechanism and its number of runs."""
        self._merge()
        for (kind, basis), rows in self._merged.items():
            for sensitivity, scale, runs in zip(*(column.tolist() for column in rows), strict=True):
                yield PlainNoise(kind, basis, sensitivity, scale), int(runs)

    def columns(self, kind: Kind) -> list[Columns]:
        """Return the columns of one kind; rows with equal numbers may differ in the basis of sensitivity."""
        self._merge()
        return [rows for (its, _), rows in self._merged.items() if its == kind]

    def costs(self, cost: Cost, alone: Callable[[PlainNoise, int], float]) -> list[float]:
        """Return the cost of all runs of each mechanism, rounded up; `alone` handles NaN entries."""
        self._merge()
        found: list[float] = []
        for (kind, basis), (sensitivity, scale, runs) in self._merged.items():
            terms = times_up(cost.many(kind, sensitivity, scale), runs)
            for row in np.flatnonzero(np.isnan(terms)).tolist():
                one = PlainNoise(kind, basis, float(sensitivity[row]), float(scale[row]))
                terms[row] = alone(one, int(runs[row]))
            found += terms.tolist()
        return found

    def _merge(self) -> None:
        for sort, parts in self._waiting.items():
            before = [self._merged[sort]] if sort in self._merged else []
            self._merged[sort] = _merged(before + parts)
        self._waiting, self._number = {}, 0


def _merged(parts: list[Columns]) -> Columns:
    sensitivity, scale, runs = (np.concatenate(column) for column in zip(*parts, strict=True))
    order: NDArray[np.intp] = np.lexsort((scale, sensitivity))  # stable: the first of equal ones stays first
    in_order = sensitivity[order], scale[order]
    differs = [column[1:] != column[:-1] for column in in_order]
    starts = np.flatnonzero(np.concatenate([[True], differs[0] | differs[1]]))
    first = order[starts]
    as_they_came = np.argsort(first)
    first = first[as_they_came]
    return Columns(sensitivity[first], scale[first], np.add.reduceat(runs[order], starts)[as_they_came])
