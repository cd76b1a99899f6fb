"""From the outcomes of runs to what a score is learned from.

An outcome is a kind and numbers. Of the numbers, noise that moves shows in a linear function of them; noise
whose scale, order or ties change shows in none: squares, norms, order statistics and flags of equality are
features too. A number may be drawn from a line or be one of a few values, such as that which stands for no
answer; each is a feature apart. Features come in groups that are likely to tell alike, each of which is
believed as far as the runs bear it out. All that is fitted here, middles, scales and the kinds that are
known, is fitted on runs that are never tested, so that a feature of another run is a function of that run
alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dpaudit.auditors.statistics.samples import Rounding, Samples, rounding
from dpaudit.mechanisms import Array

#: Kinds of outcomes, and values of a column, that get a feature of their own.
_KINDS, _VALUES = 12, 12
#: The share of the runs in which such a value is seen.
_OFTEN = 0.01
#: So many runs show a line.
_LINE = 20
#: With more columns than this squares are left to the norms.
_SQUARED = 200
#: Values beyond it are made smaller, exactly: sums and differences of a few of them are no doubles.
_LARGE, _SMALLER = 2.0**1000, 2.0**-8
_ORDERS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True)
class Column:
    """What is known of one number of the outcomes, from runs that are not tested."""

    rounded: Rounding
    middle: float
    reach: float  # on a scale that a few distant runs stretch, a linear score could not separate the others
    spread: float
    values: tuple[float, ...]  # those that it often has, where they are few
    scale: float = 1.0  # by which its values are multiplied, so that no sum of a few overflows

    @classmethod
    def of(cls, known: Array) -> Column:
        """What is known from values [n], some of which may be NaN or infinite."""
        finite = known[np.isfinite(known)]
        scale = _SMALLER if np.abs(finite).max(initial=0.0) > _LARGE else 1.0
        finite = finite * scale
        rounded = rounding(finite)
        column = rounded(finite) if len(finite) else np.zeros(1)
        values, counts = np.unique(column, return_counts=True)
        often = values[counts >= max(_OFTEN * len(column), 4)]
        few = tuple(often.tolist()) if len(values) > 2 and len(often) <= _VALUES else ()
        # Of what is drawn from a line beside a few values of their own, scale and middle are the line's.
        line = column[~np.isin(column, few)]
        line = line if len(line) >= _LINE else column
        gaps = np.diff(np.quantile(line, [0.01, *np.arange(1, 10) / 10, 0.99]))
        smallest = min((gap for gap in gaps.tolist() if gap > 0), default=0.0)
        low, high = np.quantile(line, [0.1, 0.9])
        return cls(rounded, float(np.median(line)), 8 * smallest, float(high - low), few, scale)

    def near(self, values: Array) -> Array:
        """Values [n], rounded, in the place of NaN the middle, and none infinite."""
        with np.errstate(over="ignore"):
            values = values * self.scale
            far = max(8 * self.reach, 1.0)
            known = np.where(np.isnan(values), self.middle, values)
            known = np.where(np.isinf(known), self.middle + np.copysign(far, known), known)
        return self.rounded(known)

    def clipped(self, near: Array) -> Array:
        """No further than the reach from the middle."""
        return np.clip(near, self.middle - self.reach, self.middle + self.reach)

    def standard(self, near: Array) -> Array:
        """In spreads from the middle, bounded."""
        with np.errstate(over="ignore"):
            return np.clip((near / 2 - self.middle / 2) / max(self.spread / 2, 1e-300), -50.0, 50.0)

    def line(self, near: Array) -> Array:
        """The middle in the place of each of the few values."""
        return np.where(np.isin(near, self.values), self.middle, near) if self.values else near


@dataclass(frozen=True)
class Features:
    """The features of outcomes, in groups."""

    columns: tuple[Column, ...]
    kinds: tuple[float, ...]
    empty: tuple[int, ...]  # the columns that are sometimes NaN or infinite

    @classmethod
    def of(cls, first: Samples) -> Features:
        """The features that runs suggest which are not tested."""
        rows = np.concatenate([first.rows(0), first.rows(1)])
        told = np.concatenate([first.kinds_of(0), first.kinds_of(1)])
        kinds = [kind for kind, _ in Counter(sorted(told.tolist())).most_common(_KINDS)]
        odd = np.flatnonzero((~np.isfinite(rows)).any(axis=0) & np.isfinite(rows).any(axis=0))
        columns = tuple(Column.of(column) for column in rows.T)
        return cls(columns, tuple(kinds) if len(kinds) > 1 else (), tuple(odd[:_SQUARED].tolist()))

    def groups(self, rows: Array, kinds: Array) -> list[Array]:
        """The groups of features [n, f] of rows [n, k].

        They are flags; sums over all columns; each number; its bends and square; norms and order statistics.
        """
        near = self._near(rows)
        told = [(kinds == kind).astype(np.float64) for kind in self.kinds]
        values = [
            (each == value).astype(np.float64)
            for column, each in zip(self.columns, near, strict=True)
            for value in column.values
        ]
        line = [column.line(each) for column, each in zip(self.columns, near, strict=True)]
        clipped = [column.clipped(one) for column, one in zip(self.columns, line, strict=True)]
        standard = [column.standard(one) for column, one in zip(self.columns, line, strict=True)]
        bent = [np.clip(2 * one, -1.0, 1.0) for one in standard] if len(near) <= _SQUARED else []
        squares = [one**2 for one in standard] if len(near) <= _SQUARED else []
        pooled, summaries = list[Array](), [np.abs(one) for one in standard]
        if len(near) > 1:
            common = sorted({value for column in self.columns for value in column.values})[:_VALUES]
            pooled = [np.sum([each == value for each in near], axis=0, dtype=np.float64) for value in common]
            pooled += [np.sum(np.clip(standard, -2.0, 2.0), axis=0), np.sum(bent, axis=0)] if bent else []
            summaries = self._summaries(np.stack(near, axis=1))
            summaries += self._summaries(
                np.stack([column.standard(each) for column, each in zip(self.columns, near, strict=True)], 1)
            )
        groups = [*told, *values, *self._flags(rows)], pooled, [*line, *clipped], [*bent, *squares], summaries
        return [_stacked(len(rows), group) for group in groups]

    def _near(self, rows: Array) -> list[Array]:
        known = rows[:, : len(self.columns)]
        missing = len(self.columns) - known.shape[1]
        known = np.pad(known, ((0, 0), (0, missing)), constant_values=np.nan)
        return [column.near(each) for column, each in zip(self.columns, known.T, strict=True)]

    def _flags(self, rows: Array) -> list[Array]:
        """Which numbers are missing, NaN or infinite, and how many of each row."""
        counts = [np.isnan(rows).sum(axis=1), np.isposinf(rows).sum(axis=1), np.isneginf(rows).sum(axis=1)]
        each = [~np.isfinite(rows[:, at]) for at in self.empty if at < rows.shape[1]]
        each += [np.ones(len(rows), dtype=bool)] * (len(self.empty) - len(each))
        # In a batch without any there is a column all the same: rows of later runs may have some.
        return [one.astype(np.float64) for one in [*counts, *each]]

    def _summaries(self, near: Array) -> list[Array]:
        """Of rows [n, k] the norms, order statistics, and how many entries are equal or zero."""
        size = np.abs(near).max(axis=1)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            share = near / np.maximum(size, 1e-300)[:, None]
            norm = size * np.sqrt(np.mean(share**2, axis=1))
            logs = np.log(np.maximum(norm, 1e-300))
            ordered = np.sort(near, axis=1)
            steps = np.diff(ordered, axis=1)
            found = [size, norm, logs, np.mean(np.abs(near), axis=1), np.mean(near, axis=1)]
            found += list(np.quantile(ordered, _ORDERS, axis=1))
            found += [(one == 0).sum(axis=1) for one in (steps, near, near[:, 1:] - near[:, :-1])]
            found += [np.abs(np.diff(near, axis=1)).max(axis=1), steps.max(axis=1)]
        return [np.nan_to_num(one.astype(np.float64), posinf=1e300, neginf=-1e300) for one in found]


def _stacked(runs: int, columns: list[Array]) -> Array:
    return np.stack(columns, axis=1) if columns else np.empty((runs, 0))
