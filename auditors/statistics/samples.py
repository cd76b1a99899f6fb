"""The input of a sampling audit: one score, or one row of features, for each run on either data set."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.errors import DataError
from dpaudit.mechanisms import Array


@dataclass(frozen=True)
class Samples:
    """Independent runs on two neighbouring data sets: scores [n] or features [n, k] of each.

    The runs of either side are exchangeable, so that any share of them, taken by position, is a sample too.
    `seed` is the root seed from which the runs were drawn, so that any one can be run again. `DataError` is
    raised where the shapes differ, for fewer than two runs a side, a NaN, or an infinite feature. A score may
    be infinite: the log-likelihood ratio of what one side can never return is.
    """

    data: Array
    neighbour: Array
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("data", "neighbour"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if self.data.shape != self.neighbour.shape or self.data.ndim not in {1, 2} or len(self.data) < 2:
            what = f"scores of shapes {self.data.shape} and {self.neighbour.shape}"
            why = "an audit compares as many runs on the one data set as on the other"
            remedy = "give two arrays [n] of scores, or [n, k] of features, with n of at least 2"
            raise DataError(what, where="samples", why=why, remedy=remedy)
        both = np.concatenate([self.data, self.neighbour])
        bad = np.isnan(both) if both.ndim == 1 else ~np.isfinite(both)
        if bad.any():
            what = f"{int(bad.sum())} of the samples' numbers are NaN or infinite"
            why = "an event that holds such a run is neither counted nor not counted"
            remedy = "map failed runs to a number of their own: that a run failed is an output too"
            raise DataError(what, where="samples", why=why, remedy=remedy)

    def __len__(self) -> int:
        return len(self.data)

    def split(self, share: float) -> tuple[Samples, Samples]:
        """The first `share` of the runs of each side, and the rest; each holds at least one run."""
        require_fraction("share", share)
        at = min(max(round(len(self) * share), 1), len(self) - 1)
        parts = object.__new__(Samples), object.__new__(Samples)  # checked as a whole; each may hold one run
        for part, chosen in zip(parts, (slice(at), slice(at, None)), strict=True):
            for name, value in (("data", self.data[chosen]), ("neighbour", self.neighbour[chosen])):
                object.__setattr__(part, name, value)
            object.__setattr__(part, "seed", self.seed)
        return parts


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
