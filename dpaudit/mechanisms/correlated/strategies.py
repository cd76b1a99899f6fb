"""Strategy matrices C: lower triangular, with a positive diagonal and entries that are doubles.

A ledger holds a strategy by its entries, or by parameters that determine the entries exactly, so every reader
of the line has the same matrix to the last digit.
"""

import math
from abc import abstractmethod
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms.base import Array
from dpaudit.models import Model, Number, Positive

#: Bounds on the magnitude of nonzero entries, so that no square or sum of squares over- or underflows.
_SMALLEST, _LARGEST = 2.0**-400, 2.0**400
_MOST_BUFFERED = 1 << 20
MOST_ENTRIES = 1 << 24  # of a matrix written out to compute its sensitivity


def _in_range(entry: float) -> float:
    if not (entry == 0.0 or _SMALLEST <= abs(entry) <= _LARGEST):
        raise ValueError("an entry must be 0 or, in magnitude, between 2^-400 and 2^400")
    return entry


Entry: TypeAlias = Annotated[Number, AfterValidator(_in_range)]


class _Strategy(Model):
    """The interface of all strategies: their first `steps` rows and columns."""

    @abstractmethod
    def bands(self, steps: int) -> int:
        """Return an upper bound on the number of nonzero diagonals: C_ij = 0 for i - j >= bands."""

    @abstractmethod
    def row(self, step: int) -> Array:
        """Return the last `bands` entries of row `step` (1, 2, ...) up to the diagonal: [w], w <= step."""

    def require_steps(self, steps: int) -> None:
        """Raise `InvalidParameter` if the strategy does not support this number of steps."""

    def diagonals(self, steps: int) -> Array:
        """Return the diagonals [bands, steps]: at (m, j) the entry C_(j + m, j); 0 below the last row.

        Raises:
            InvalidParameter: there are more than `MOST_ENTRIES` numbers.
        """
        bands = self.bands(steps)
        if bands * steps > MOST_ENTRIES:
            what = f"a strategy of {bands} bands and {steps} steps"
            why = f"it has more than {MOST_ENTRIES} entries"
            raise InvalidParameter(what, where="strategy", why=why, remedy="use fewer bands")
        found = np.zeros((bands, steps))
        for step in range(1, steps + 1):
            row = self.row(step)
            across = np.arange(len(row))
            found[len(row) - 1 - across, step - len(row) + across] = row
        return found


class LowerTriangular(_Strategy):
    """A dense or banded strategy, given by each row's last entries up to the diagonal; the others are 0."""

    kind: Literal["lower-triangular"] = "lower-triangular"
    rows: Annotated[tuple[tuple[Entry, ...], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_lower_triangular(self) -> "LowerTriangular":
        for place, row in enumerate(self.rows):
            if not 1 <= len(row) <= place + 1:
                what = f"{len(row)} entries in row {place + 1}"
                why = "a row ends with its diagonal entry and begins no earlier than the first column"
                remedy = "give the lower triangle"
                raise InvalidParameter(what, where="LowerTriangular.rows", why=why, remedy=remedy)
            _require_diagonal(row[-1], f"LowerTriangular.rows[{place}]")
        return self

    def bands(self, steps: int) -> int:
        """Return the length of the longest row."""
        return max(map(len, self.rows[:steps]))

    def row(self, step: int) -> Array:
        """As `_Strategy.row`."""
        return np.array(self.rows[step - 1])

    def require_steps(self, steps: int) -> None:
        """Require one step for each row."""
        if steps != len(self.rows):
            what = f"{steps} steps for a strategy of {len(self.rows)} rows"
            raise InvalidParameter(what, where="steps", remedy="give one row for each step")


class Toeplitz(_Strategy):
    """The strategy C_ij = coefficients[i - j], and 0 beyond the last coefficient."""

    kind: Literal["toeplitz"] = "toeplitz"
    coefficients: Annotated[tuple[Entry, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _has_a_diagonal(self) -> "Toeplitz":
        _require_diagonal(self.coefficients[0], "Toeplitz.coefficients[0]")
        return self

    def first_column(self, steps: int) -> Array:
        """Return the coefficients of the first `steps` rows: [bands]."""
        return np.array(self.coefficients[:steps])

    def bands(self, steps: int) -> int:
        """Return the number of coefficients or of steps, whichever is smaller."""
        return min(len(self.coefficients), steps)

    def row(self, step: int) -> Array:
        """As `_Strategy.row`."""
        return self.first_column(step)[::-1]


class BufferedToeplitz(_Strategy):
    """The Toeplitz strategy of a filter with few buffers.

    Its coefficients are 1 and then, for j = 1, 2, ..., the sums of scales[i] decays[i]^(j-1) (Dvijotham,
    McMahan, Pillutla, Steinke and Thakurta 2024; McMahan, Xu and Zhang 2024). The powers are computed by
    repeated multiplication in doubles, and each sum is rounded once to the nearest double; the rounded sums
    are the strategy's coefficients, exactly. A coefficient below 2^-400 in magnitude is 0.
    """

    kind: Literal["buffered-toeplitz"] = "buffered-toeplitz"
    decays: Annotated[tuple[Annotated[Positive, Field(le=1)], ...], Field(min_length=1, max_length=64)]
    scales: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=64)]

    @model_validator(mode="after")
    def _has_a_scale_for_each_decay(self) -> "BufferedToeplitz":
        if len(self.decays) != len(self.scales):
            what = f"{len(self.decays)} decays and {len(self.scales)} scales"
            remedy = "give one scale for each decay"
            raise InvalidParameter(what, where="BufferedToeplitz", remedy=remedy)
        return self

    def first_column(self, steps: int) -> Array:
        """Return the coefficients of the first `steps` rows: [steps]."""
        return _buffered(self.decays, self.scales, steps)

    def require_steps(self, steps: int) -> None:
        """Require at most 2^20 steps, because the coefficients are computed one by one."""
        if steps > _MOST_BUFFERED:
            what, remedy = f"{steps} steps of a buffered strategy", f"take at most {_MOST_BUFFERED} steps"
            why = "its coefficients are computed one by one"
            raise InvalidParameter(what, where="steps", why=why, remedy=remedy)

    def bands(self, steps: int) -> int:
        """Return the number of steps: all diagonals may be nonzero."""
        return steps

    def row(self, step: int) -> Array:
        """As `_Strategy.row`."""
        return self.first_column(step)[::-1]


@lru_cache(maxsize=8)
def _buffered_up_to(decays: tuple[float, ...], scales: tuple[float, ...], power: int) -> Array:
    """Return the first 2^power coefficients."""
    found, powers = [1.0], [1.0] * len(decays)
    for _ in range(1, 1 << power):
        coefficient = math.fsum(scale * p for scale, p in zip(scales, powers, strict=True))
        found.append(coefficient if abs(coefficient) >= _SMALLEST else 0.0)
        powers = [p * decay for p, decay in zip(powers, decays, strict=True)]
    coefficients = np.array(found)
    coefficients.setflags(write=False)  # cached and shared
    return coefficients


def _buffered(decays: tuple[float, ...], scales: tuple[float, ...], steps: int) -> Array:
    return _buffered_up_to(decays, scales, (steps - 1).bit_length())[:steps]


def _require_diagonal(entry: float, where: str) -> None:
    if not entry > 0.0:
        why = "without it the noisy sums cannot be computed from the noisy answers"
        what, remedy = f"a diagonal entry {entry}", "give a positive diagonal"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)


#: Every strategy that a ledger may name.
Strategy: TypeAlias = Annotated[LowerTriangular | Toeplitz | BufferedToeplitz, Field(discriminator="kind")]
