"""The input of a sampling audit: one score, or one row of features, for each run on either data set."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.curator.clipping import require_unmasked
from dpaudit.errors import DataError
from dpaudit.mechanisms import Array


@dataclass(frozen=True)
class Samples:
    """Independent runs on two neighbouring data sets: scores [n] or features [n, k] of each.

    The runs of either side are exchangeable, so that any share of them, taken by position, is a sample too.
    `seed` is the root seed from which the runs were drawn, so that any one can be run again. `kinds` [2, n]
    tell outcomes apart by what is no number; left out, they are all of one kind. A NaN is an outcome like
    others, and fills up the numbers of shorter outcomes. A score may be infinite: the log-likelihood ratio of
    what one side can never return is. `learn` is whether a score is to be learned of features [n, k] even
    where each run gave one number. `DataError` is raised where the shapes differ, or for fewer than two runs
    a side.
    """

    data: Array
    neighbour: Array
    seed: int = 0
    kinds: Array | None = None
    learn: bool = True

    def __post_init__(self) -> None:
        for name in ("data", "neighbour"):
            require_unmasked(getattr(self, name), "samples")
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        told = self.kinds is None or self.kinds.shape == (2, len(self.data))
        same = self.data.shape == self.neighbour.shape and told
        if not same or self.data.ndim not in {1, 2} or len(self.data) < 2:
            what = f"scores of shapes {self.data.shape} and {self.neighbour.shape}"
            why = "an audit compares as many runs on the one data set as on the other"
            remedy = "give two arrays [n] of scores, or [n, k] of features, with n of at least 2"
            raise DataError(what, where="samples", why=why, remedy=remedy)

    def __len__(self) -> int:
        return len(self.data)

    def split(self, share: float) -> tuple[Samples, Samples]:
        """The first `share` of the runs of each side, and the rest; each holds at least one run."""
        require_fraction("share", share)
        at = min(max(round(len(self) * share), 1), len(self) - 1)
        return self.part(0, at), self.part(at, len(self))

    def part(self, begin: int, end: int) -> Samples:
        """Runs `begin` to `end - 1` of each side."""
        part = object.__new__(Samples)  # checked as a whole; a part may hold one run
        kinds = None if self.kinds is None else self.kinds[:, begin:end]
        fields = {"data": self.data[begin:end], "neighbour": self.neighbour[begin:end], "kinds": kinds}
        for name, value in (fields | {"seed": self.seed, "learn": self.learn}).items():
            object.__setattr__(part, name, value)
        return part

    def scored(self, data: Array, neighbour: Array) -> Samples:
        """Scores [n] in the place of the runs' numbers."""
        part = self.part(0, len(self))
        for name, value in (("data", data), ("neighbour", neighbour), ("kinds", None)):
            object.__setattr__(part, name, value)
        return part

    def rows(self, side: int) -> Array:
        """One side's numbers as rows [n, k]."""
        runs = self.neighbour if side else self.data
        return runs[:, None] if runs.ndim == 1 else runs

    def kinds_of(self, side: int) -> Array:
        """The kinds of one side's outcomes, [n]."""
        return np.zeros(len(self)) if self.kinds is None else self.kinds[side]

    @property
    def ordinary(self) -> bool:
        """Whether each run gave one number of one kind, no NaN and no text: a score without learning."""
        rows = [self.rows(side) for side in (0, 1)]
        if self.data.ndim == 2 and (self.learn or not rows[0].shape[1]):
            return False
        if self.kinds is not None:
            kind = self.kinds[0, 0]
            if kind < 0 or kind % 1 or not (self.kinds == kind).all():
                return False
        return not any(np.isnan(one[:, 0]).any() or not np.isnan(one[:, 1:]).all() for one in rows)


@dataclass(frozen=True)
class Rounding:
    """A rounding of scores.

    A score computed in floating point carries the last bits of the noise it was computed from, and
    these distinguish the two data sets however private the mechanism is on the real line (Mironov
    2012). An audit of the mechanism must not see them; an audit of the floating-point grid must.

    Each score is rounded by its own magnitude, to 36 bits; where the scores differ by little beside their
    magnitude, more finely, to 2^-16 of their spread (multiples of `most`), but never to more than 44 bits of
    itself or of the median score (multiples of `least`). No score is rounded more coarsely because another
    one is large.
    """

    least: float
    most: float

    def __call__(self, scores: Array) -> Array:
        """Scores [n], rounded; the order stays, and infinities stay as they are."""
        finite = np.where(np.isfinite(scores), scores, 0.0)
        # |score| lies in [2^(e - 1), 2^e).
        magnitude = np.ldexp(1.0, np.minimum(np.frexp(finite)[1], 1023))
        step = np.maximum(np.minimum(magnitude * 2.0**-36, self.most), magnitude * 2.0**-44)
        step = np.maximum(step, max(self.least, 2.0**-1022))
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.round(finite / step) * step
        return np.where(np.isfinite(scores) & np.isfinite(near), near, scores)


def rounding(scores: Array) -> Rounding:
    """The rounding of scores [n], from a share of them that is not tested; they may be infinite."""
    finite = scores[np.isfinite(scores)]
    if len(finite) == 0:
        return Rounding(0.0, 0.0)
    low, high = np.quantile(finite / 2, [0.1, 0.9]) * 2
    median = float(np.median(np.abs(finite) / 2)) * 2
    return Rounding(_power(median) * 2.0**-44, _power(float(high / 2 - low / 2)) * 2.0**-15)


def _power(value: float) -> float:
    """The largest power of two that is at most a value >= 0; 0 of 0."""
    return math.ldexp(0.5, math.frexp(value)[1]) if value else 0.0
