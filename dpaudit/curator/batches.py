"""Sums over batches: each sample is drawn before the rows of its units are computed."""

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
    """The bound and the norm to which a row is clipped, and the exponent of its grid."""

    bound: float
    norm: Norm
    exponent: int


class _Batch(NamedTuple):
    """A draw: its number of units, its number in an audited run, and the sample that its releases name."""

    units: int
    number: int | None
    sample: str | None


class _Draws:
    """The draws that one or more sums share, and the batches that each sum must still release."""

    def __init__(self) -> None:
        self._like: tuple[object, ...] | None = None
        self._labels: list[str] = []
        self._waiting: list[deque[_Batch]] = []
        self._released: list[int] = []

    def join(self, admission: Admission, release: Release, mechanism: OnSample | ValueMechanism) -> int:
        """Add a sum and return its index.

        Raises `InvalidParameter` if the other sums have another sampling, or a batch was already drawn.
        """
        sampling = mechanism.sampling if isinstance(mechanism, OnSample) else ()
        like = admission, release.partition, sampling
        if self._labels and self._like != like:
            what = f"sums on the draws of {self._labels[0]!r}, with another sampling, part or curator"
            why = "all sums on the same draws have the same sample"
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
        """Whether several sums share the draws."""
        return len(self._labels) > 1

    def begin(self, batch: _Batch) -> None:
        """Add a batch that every sum must release."""
        for waiting in self._waiting:
            waiting.append(batch)

    def first(self, place: int) -> _Batch | None:
        """Return a sum's next batch, or None; raises `ScheduleBroken` if another sum is a batch behind."""
        late = [
            label for label, n in zip(self._labels, self._released, strict=True) if n < self._released[place]
        ]
        if late:
            what = f"a batch before the sum {late[0]!r} of the last one was released"
            why = "the sum would belong to another draw"
            remedy = "release every sum of a batch by noisy() before those of the next one"
            raise ScheduleBroken(what, where=f"release {self._labels[place]!r}", why=why, remedy=remedy)
        return self._waiting[place][0] if self._waiting[place] else None

    def take(self, place: int) -> _Batch | None:
        """Remove and return the batch that a sum releases now, or None."""
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

    Each sum takes three steps: `draw` returns the drawn units, `add` takes their rows, all at once or a few
    at a time, and `noisy` writes a line of the ledger and returns the sum. The drawn units must stay secret.
    Several batches may be drawn in advance; they are filled in the order of their draws.

    An auditor compares the sums over all units: in a recorded or replayed run every unit is drawn, and
    the sample is taken when the noise is added. In some runs the auditor forces the samples and compares the
    sums over them: see `dpaudit.curator.coins`.

    Sums opened with `draw_with` share every draw: a `draw` of any of them counts for all. Each adds its own
    rows and is released by its own `noisy`; all sums of a batch are released before those of the next batch.
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
        #: Internal: the draws, which other sums may share.
        self.draws: _Draws = _Draws() if draw_with is None else draw_with.draws
        self._place = self.draws.join(admission, release, mechanism)
        self._batch: _Batch | None = None  # receives rows now
        self._rows = 0
        self._parts: list[NDArray[Any]] = []

    @property
    def mechanism(self) -> OnSample | ValueMechanism:
        """The mechanism of every sum, as written in the ledger."""
        return self._mechanism

    def draw(self, units: int) -> NDArray[np.int64]:
        """Draw one more batch from `units` units; return the indices of the drawn units, increasing.

        Raises `InvalidParameter` if `units` is not a whole number, or not the number that the mechanism
        states.
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
        """Forget the drawn batches that are not yet released, for all sums that share the draws."""
        self.draws.clear()

    def add(self, contributions: ArrayLike) -> None:
        """Clip the rows [m, *shape] of some units of the batch, and add them exactly.

        Raises:
            InvalidParameter: the rows have another shape, or are a masked array.
            ScheduleBroken: no batch was drawn, the batch has fewer units, or another sum of the previous
                batch has not been released.
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
        """Charge and write the release, and return the noisy sum of the batch.

        Raises:
            ScheduleBroken: the row of a drawn unit is missing, or another sum of the previous batch has not
                been released.
            BudgetExceeded: the budget does not suffice; nothing was written, and the batch is dropped.
        """
        batch = self.draws.take(self._place)
        rows, parts = (self._rows, self._parts) if batch is self._batch else (0, [])
        self._batch, self._rows, self._parts = None, 0, []
        if batch is None or rows != batch.units:
            what = "no batch drawn" if batch is None else f"{rows} rows of a batch of {batch.units} units"
            why = "the sum would be over another sample than the ledger states"
            raise ScheduleBroken(what, where=self._where, why=why, remedy="add the row of every drawn unit")
        nothing = np.zeros((0, *self._shape), dtype=np.int64)
        given = OnGrid(np.concatenate([nothing, *parts]), self._clipping.exponent)
        release = told_apart(self._release, self._release.label, batch.sample)
        return noisy_sum(self._admission, release, self._mechanism, given, batch.number)

    @property
    def _kept_apart(self) -> bool:
        """Whether rows are kept separately because the sample is taken later, with the noise."""
        return isinstance(self._mechanism, OnSample) and self._admission.sampler is None


def draw_sample(admission: Admission, mechanism: OnSample, units: int) -> Drawn:
    """Draw the next sample from `units` units; draw all of them if an auditor compares whole sums."""
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
    """Charge and write a release, and return the noisy sum of the drawn units' rows [n, ...].

    In an audited run all units were drawn, and the sample is taken from their rows here.
    """
    summed, share = total(given), 1.0
    query = as_query(summed.to_doubles(), release.label)
    values: tuple[Given, ...] = (summed,)
    if isinstance(mechanism, OnSample):
        if admission.sampler is None and admission.coins is None:
            values, share = (given,), mechanism.expected_share
        else:  # all rows that were added are in the sample
            values = given, np.ones(len(given.integers))
    number, answering = admission.admit(release), mechanism.answering()
    return admission.ask(Question(release, number, query, share * query, answering, values, batch=draw))
