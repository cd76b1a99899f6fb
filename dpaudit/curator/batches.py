"""Sums over samples that are drawn before what the sampled units contribute is computed."""

import numbers
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import Norm
from dpaudit.curator.admission import Admission, as_query, told_apart
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


class _Batch(NamedTuple):
    """A draw: how many units, its number among an auditor's, and the sample that its releases name."""

    units: int
    number: int | None
    sample: str | None


class _Draws:
    """The draws of one or more sums, and the batches that each sum has still to release."""

    def __init__(self) -> None:
        self._like: tuple[object, ...] | None = None
        self._labels: list[str] = []
        self._waiting: list[deque[_Batch]] = []
        self._released: list[int] = []

    def join(self, admission: Admission, release: Release, mechanism: OnSample | ValueMechanism) -> int:
        """Add a sum; its place. Raises `InvalidParameter`: the others are drawn otherwise, or already."""
        sampling = mechanism.sampling if isinstance(mechanism, OnSample) else ()
        like = admission, release.partition, sampling
        if self._labels and self._like != like:
            what = f"sums on the draws of {self._labels[0]!r}, with another sampling, part or curator"
            why = "who is drawn is the same for all sums that are made on the same draws"
            remedy = "give both the same sampling and partition, and open them by one curator"
            raise InvalidParameter(what, where=f"release {release.label!r}", why=why, remedy=remedy)
        if any(self._waiting) or any(self._released):
            what, why = f"sums on the draws of {self._labels[0]!r}", "batches were drawn for fewer sums"
            remedy = "open all sums before the first draw"
            raise InvalidParameter(what, where=f"release {release.label!r}", why=why, remedy=remedy)
        self._like = like
        self._labels.append(release.label)
        self._waiting.append(deque())
        self._released.append(0)
        return len(self._labels) - 1

    @property
    def shared(self) -> bool:
        """Whether there are several sums."""
        return len(self._labels) > 1

    def begin(self, batch: _Batch) -> None:
        """Let all sums wait for one more batch."""
        for waiting in self._waiting:
            waiting.append(batch)

    def first(self, place: int) -> _Batch | None:
        """The batch that a sum is to release next; raises `ScheduleBroken`: another sum's is older."""
        late = [
            label for label, n in zip(self._labels, self._released, strict=True) if n < self._released[place]
        ]
        if late:
            what = f"a batch before the sum {late[0]!r} of the last one was released"
            why = "a sum would be taken for one on another draw"
            remedy = "release every sum of a batch by noisy() before those of the next one"
            raise ScheduleBroken(what, where=f"release {self._labels[place]!r}", why=why, remedy=remedy)
        return self._waiting[place][0] if self._waiting[place] else None

    def take(self, place: int) -> _Batch | None:
        """The batch that a sum releases now, removed from those it has still to release."""
        batch = self.first(place)
        if batch is not None:
            self._waiting[place].popleft()
            self._released[place] += 1
        return batch

    def clear(self) -> None:
        """Forget all batches."""
        for waiting in self._waiting:
            waiting.clear()
        self._released = [0] * len(self._released)


class Batches(NeverCopied):
    """Noisy sums of units' rows over one batch after another; made by `Curator.batches`.

    Each sum takes three steps: `draw` says whose rows are needed, `add` takes them, all at once or a few at a
    time, and `noisy` writes a line of the ledger and returns the sum. Who was drawn must stay secret. Batches
    may be drawn ahead; they are filled in the order in which they were drawn.

    An auditor who compares runs compares whole sums: in a run that is recorded or replayed everybody is
    drawn, and the sample is taken where the noise is. In some runs the auditor forces the samples, to compare
    sums over them: see `dpaudit.curator.coins`.

    Sums on the same draws (`draw_with`) share every draw, whichever of them draws. Each adds its own rows and
    is released by its own `noisy`; all sums of a batch are released before any of the next.
    """

    def __init__(
        self,
        admission: Admission,
        release: Release,
        mechanism: OnSample | ValueMechanism,
        shape: tuple[int, ...],
        clipping: Clipping,
        draw_with: "Batches | None" = None,
    ) -> None:
        self._admission, self._release, self._mechanism = admission, release, mechanism
        self._shape, self._clipping = shape, clipping
        self._where = f"release {release.label!r}"
        #: Internal: the draws, of this sum and of others on the same ones.
        self.draws: _Draws = _Draws() if draw_with is None else draw_with.draws
        self._place = self.draws.join(admission, release, mechanism)
        self._batch: _Batch | None = None  # whose rows are being added
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
        named = self.draws.shared and isinstance(self._mechanism, OnSample)
        sample = self._admission.ledger.next_sample() if named else None
        self.draws.begin(_Batch(len(found), drawn.number, sample))
        return found

    def drop(self) -> None:
        """Forget all batches that were drawn and not released, of all sums on the same draws."""
        self.draws.clear()

    def add(self, contributions: ArrayLike) -> None:
        """Clip the rows [m, *shape] of some units of the batch, and add them up exactly.

        Raises:
            InvalidParameter: rows of another shape, or a masked array.
            ScheduleBroken: no batch was drawn, it has fewer units, or another sum of the batch before has
                not been released.
        """
        batch = self.draws.first(self._place)
        if batch is not self._batch:
            self._batch, self._rows, self._parts = batch, 0, []
        require_unmasked(contributions, self._where)
        rows = np.asarray(contributions)
        if rows.ndim == 0 or rows.shape[1:] != self._shape or rows.dtype.kind not in "fiub":
            what = f"rows of shape {rows.shape} and type {rows.dtype} where sums have shape {self._shape}"
            remedy = "give one row of numbers for each unit that was drawn"
            raise InvalidParameter(what, where=self._where, remedy=remedy)
        drawn = 0 if batch is None else batch.units
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
            ScheduleBroken: not every unit that was drawn had its row added; or another sum of the batch
                before has not been released.
            BudgetExceeded: the budget does not suffice; nothing was written, and the batch is dropped.
        """
        batch = self.draws.take(self._place)
        rows, parts = (self._rows, self._parts) if batch is self._batch else (0, [])
        self._batch, self._rows, self._parts = None, 0, []
        if batch is None or rows != batch.units:
            what = "no batch drawn" if batch is None else f"{rows} rows of a batch of {batch.units} units"
            why = "another sample than the ledger states would be released"
            raise ScheduleBroken(what, where=self._where, why=why, remedy="add the row of every drawn unit")
        nothing = np.zeros((0, *self._shape), dtype=np.int64)
        given = OnGrid(np.concatenate([nothing, *parts]), self._clipping.exponent)
        release = told_apart(self._release, self._release.label, batch.sample)
        return noisy_sum(self._admission, release, self._mechanism, given, batch.number)

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
