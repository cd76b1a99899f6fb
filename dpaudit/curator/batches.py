"""Sums over samples that are drawn before what the sampled units contribute is computed."""

import numbers
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import Norm
from dpaudit.curator.admission import Admission, as_query
from dpaudit.curator.clipping import require_unmasked
from dpaudit.curator.coins import Drawn
from dpaudit.curator.noise import Given, Question
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Array, OnSample, ValueMechanism
from dpaudit.noise.bits import NeverCopied
from dpaudit.noise.contributions import MOST_ROWS, clip_rows, clipped_sum
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.sums import total


class Clipping(NamedTuple):
    """How a row is clipped: to which norm, and to which grid its entries are rounded."""

    bound: float
    norm: Norm
    exponent: int


class Batches(NeverCopied):
    """Noisy sums of units' rows over one batch after another; made by `Curator.batches`.

    Each sum takes three steps: `draw` says whose rows are needed, `add` takes them, all at once or a few at a
    time, and `noisy` writes a line of the ledger and returns the sum. Who was drawn must stay secret. Batches
    may be drawn ahead; they are filled in the order in which they were drawn.

    An auditor who compares runs compares whole sums: in a run that is recorded or replayed everybody is
    drawn, and the sample is taken where the noise is. In some runs the auditor forces the samples, to compare
    sums over them: see `dpaudit.curator.coins`.
    """

    def __init__(
        self,
        admission: Admission,
        release: Release,
        mechanism: OnSample | ValueMechanism,
        shape: tuple[int, ...],
        clipping: Clipping,
    ) -> None:
        self._admission, self._release, self._mechanism = admission, release, mechanism
        self._shape, self._clipping = shape, clipping
        self._where = f"release {release.label!r}"
        #: The draws that were not released yet: how many units, and the draw's number.
        self._drawn: deque[tuple[int, int | None]] = deque()
        self._rows = 0
        self._parts: list[NDArray[Any]] = []

    @property
    def mechanism(self) -> OnSample | ValueMechanism:
        """What every sum is released through, as the ledger has it."""
        return self._mechanism

    def draw(self, units: int) -> NDArray[np.int64]:
        """The places, of so many units, of those who are in one more batch, in order.

        Raises `InvalidParameter`: no such number, or the mechanism states another one.
        """
        require_kind(units, numbers.Integral, f"{self._where}, draw(units=)")
        self._admission.require_one_unit(units, self._where)
        drawn = Drawn(None, np.ones(units, dtype=np.bool_))
        if isinstance(self._mechanism, OnSample):
            known = self._admission.ledger.header.neighbouring is not Neighbouring.ADD_OR_REMOVE_ONE
            self._mechanism.require_units(units, self._where, known=known)
            drawn = draw_sample(self._admission, self._mechanism, units)
        found = np.flatnonzero(drawn.chosen)
        self._drawn.append((len(found), drawn.number))
        return found

    def drop(self) -> None:
        """Forget all batches that were drawn and not released."""
        self._drawn.clear()
        self._rows, self._parts = 0, []

    def add(self, contributions: ArrayLike) -> None:
        """Clip the rows [m, *shape] of some units of the batch, and add them up exactly.

        Raises:
            InvalidParameter: rows of another shape, or a masked array.
            ScheduleBroken: no batch was drawn, or it has fewer units.
        """
        require_unmasked(contributions, self._where)
        rows = np.asarray(contributions)
        if rows.ndim == 0 or rows.shape[1:] != self._shape or rows.dtype.kind not in "fiub":
            what = f"rows of shape {rows.shape} and type {rows.dtype} where sums have shape {self._shape}"
            remedy = "give one row of numbers for each unit that was drawn"
            raise InvalidParameter(what, where=self._where, remedy=remedy)
        drawn = self._drawn[0][0] if self._drawn else 0
        if self._rows + len(rows) > drawn:
            what = f"{self._rows + len(rows)} rows in a batch of {drawn} units"
            why = "a unit with two rows in a sum moves it by twice the bound"
            remedy = "draw each batch by draw(), add one row for each of its units, and release it by noisy()"
            raise ScheduleBroken(what, where=self._where, why=why, remedy=remedy)
        self._rows += len(rows)
        if self._kept_apart:
            self._parts.append(clip_rows(rows.astype(np.float64), *self._clipping).integers)
            return
        part = clipped_sum(rows, *self._clipping).integers[None]
        if self._rows >= MOST_ROWS:
            part = part.astype(object)
        self._parts = [part if not self._parts else self._parts[0] + part]

    def noisy(self) -> Array:
        """The noisy sum of the batch, which is charged and written now.

        Raises:
            ScheduleBroken: not every unit that was drawn had its row added.
            BudgetExceeded: the budget does not suffice; nothing was written, and the batch is dropped.
        """
        drawn, number = self._drawn.popleft() if self._drawn else (None, None)
        rows, parts = self._rows, self._parts
        self._rows, self._parts = 0, []
        if drawn is None or rows != drawn:
            what = "no batch drawn" if drawn is None else f"{rows} rows of a batch of {drawn} units"
            why = "another sample than the ledger states would be released"
            raise ScheduleBroken(what, where=self._where, why=why, remedy="add the row of every drawn unit")
        nothing = np.zeros((0, *self._shape), dtype=np.int64)
        given = OnGrid(np.concatenate([nothing, *parts]), self._clipping.exponent)
        return noisy_sum(self._admission, self._release, self._mechanism, given, number)

    @property
    def _kept_apart(self) -> bool:
        """Whether the sample is still to be taken of the rows."""
        return isinstance(self._mechanism, OnSample) and self._admission.sampler is None


def draw_sample(admission: Admission, mechanism: OnSample, units: int) -> Drawn:
    """Draw the next sample of so many units; everybody where an auditor compares whole sums."""
    if admission.coins is not None:
        return admission.coins.draw(mechanism, units)
    everybody = np.ones(units, dtype=np.bool_)
    sampler = admission.sampler
    return Drawn(0, everybody if sampler is None else sampler.chosen(mechanism, units))


def noisy_sum(
    admission: Admission,
    release: Release,
    mechanism: OnSample | ValueMechanism,
    given: OnGrid,
    draw: int | None = None,
) -> Array:
    """The noisy sum of the rows [n, ...] of those who were drawn, which is charged and written now.

    Where the rows are compared with those of another run, everybody was drawn: the sample is taken of them.
    """
    summed, share = total(given), 1.0
    query = as_query(summed.to_doubles(), release.label)
    values: tuple[Given, ...] = (summed,)
    if isinstance(mechanism, OnSample):
        if admission.sampler is None and admission.coins is None:
            values, share = (given,), mechanism.expected_share
        else:  # what was added up is in the sample
            values = given, np.ones(len(given.integers))
    number, answering = admission.admit(release), mechanism.answering()
    return admission.ask(Question(release, number, query, share * query, answering, values, batch=draw))
