"""Admission: charges every release, writes it to the ledger, answers it and keeps it for an auditor."""

import functools
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

from numpy.typing import ArrayLike

from dpaudit.claims.guarantees import RDP, AnyGuarantee
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.clipping import doubles
from dpaudit.curator.coins import Coins
from dpaudit.curator.noise import Entry, LiveNoise, NamedSamples, NoiseSource, Question, Samples, Transcript
from dpaudit.curator.records import SameRecords
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.ledger import OWN_SAMPLE, Header, Ledger
from dpaudit.ledger.places import released_at
from dpaudit.ledger.releases import Draw, Partition, Release
from dpaudit.mechanisms import AnyMechanism, Array
from dpaudit.noise.bits import NeverCopied
from dpaudit.noise.grid import finite

#: Folders of code that releases on the algorithm's behalf; their frames are not the algorithm's.
CORE = tuple(
    str(Path(__file__).parents[1] / name) + os.sep for name in ("curator", "processes", "tables", "training")
)


class Stated(TypedDict, total=False):
    """Optional fields of a release; see `Curator.release` and, for ``sample``, `Curator.release_sum`."""

    partition: Partition | str | None
    claimed: AnyGuarantee | None
    sample: str | None


class Filter(Protocol):
    """A budget that allows or refuses each release before anything is sampled.

    A privacy filter (Rogers, Roth, Ullman, Vadhan 2016): the whole run satisfies `budget` although
    the releases and their number may depend on earlier outputs.
    """

    @property
    def budget(self) -> AnyGuarantee:
        """The guarantee of the whole run."""

    @property
    def neighbouring(self) -> Neighbouring:
        """The relation under which releases are charged."""

    def spend(self, release: Release) -> None:
        """Charge one release; raises `BudgetExceeded` and charges nothing if too little budget is left."""


class Admission(NeverCopied):
    """The noise, the ledger and, if there is one, the budget of one run.

    Args:
        ledger: where every release is written before its output is returned.
        noise: live noise by default, seeded by the operating system.
        budget: a privacy filter; it refuses a release that would exceed the budget, before anything is
            sampled.
        transcript: where questions and answers are kept for an auditor; private.
    """

    def __init__(
        self,
        ledger: Ledger,
        noise: NoiseSource | None = None,
        *,
        budget: Filter | None = None,
        transcript: Transcript | None = None,
    ) -> None:
        if budget is not None:
            _require_no_looser(budget, ledger.header)
        self.ledger = ledger
        self._noise = noise if noise is not None else LiveNoise()
        self._budget = budget
        self._transcript = transcript
        self._process = os.getpid()
        self._paused = ""
        #: Internal: guards the state that all releases, or all answers of one release, share.
        self.lock = threading.RLock()
        #: The user who makes these releases, under local trust.
        self._user: int | None = None
        #: For each named sample: the draw as its first release stated it, and the records.
        self._samples: NamedSamples[tuple[Draw, SameRecords]] = NamedSamples()
        self._drawer = object()  # stands for this curator in the ledger's list of samples
        #: Numbers the run's releases; the curators of all users share it.
        self._numbers: Iterator[int] = itertools.count()

    @property
    def sampler(self) -> Samples | None:
        """Internal: the source that draws a sample before its rows are known; None in an audited run."""
        return self._noise if self._transcript is None and isinstance(self._noise, Samples) else None

    @property
    def coins(self) -> Coins | None:
        """Internal: the samples that an auditor forced, or None."""
        return getattr(self._noise, "coins", None)

    @contextmanager
    def paused(self, why: str) -> Iterator[None]:
        """Internal: refuse every release and every question inside the block."""
        before, self._paused = self._paused, why
        try:
            yield
        finally:
            self._paused = before

    def for_user(self) -> tuple[NoiseSource, Transcript | None, Iterator[int]]:
        """Internal: the noise, transcript and numbering that every user's local curator shares."""
        return self._noise, self._transcript, self._numbers

    def require_one_draw(self, release: Release, records: SameRecords, *, plain_alone: bool) -> None:
        """Internal: require the records and the sampling of the named sample's first release.

        `plain_alone` is as in `SameRecords.same`.

        Raises:
            InvalidParameter: the records or the sampling differ from the first release on that sample.
            ScheduleBroken: this curator does not know which units are in that sample.
        """
        draw, sample = release.draw, release.sample
        if draw is None or sample is None:
            return
        where = f"release {release.label!r}"
        if OWN_SAMPLE.fullmatch(sample):
            what, why = f"sample {sample!r}", "the draws of `curator.batches` have such names"
            raise InvalidParameter(what, where=where, why=why, remedy="give the draw another name")
        self.ledger.require_drawn_by(self._drawer, sample, where)
        first, known = self._samples.find(sample, lambda: (draw, records), release.label)
        first.require_same(draw, sample, release.label)
        if not records.same(known, plain_alone=plain_alone):
            apart = f"{records.number}, and {known.number} before"
            if records.number == known.number:
                apart = "the same number, but with other values or in another order"
            what = f"other records than the first release on sample {sample!r}: {apart}"
            why = "all releases on one sample need the same units in the same order"
            remedy = "give every release on it the same records, and let map= make its rows of each record; "
            remedy += "or name another sample"
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)

    def admit(self, release: Release, where: str | None = None) -> int:
        """Internal: charge and write a release before it is sampled.

        The ledger therefore holds every output.

        Returns:
            The release's number in the run.
        """
        if self.ledger.header.trust_model is TrustModel.LOCAL:
            what = f"release {release.label!r} outside any user"
            where = f"ledger of {self.ledger.header.algorithm!r}"
            why = "under local trust every release belongs to one user"
            raise ScheduleBroken(what, where=where, why=why, remedy="release through curator.user(index)")
        self.charge(release, where)
        return next(self._numbers)

    def require_one_unit(self, rows: int, where: str) -> None:
        """Internal: under local trust, raise `InvalidParameter` for more than one row."""
        if rows > 1 and self.ledger.header.trust_model is TrustModel.LOCAL:
            what = f"{rows} units' rows of one user"
            why = "under local trust a user is one unit, and several clipped rows may exceed the bound"
            remedy = "add a user's rows up, and release the sum as one row"
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)

    def line(self, label: str, mechanism: AnyMechanism, count: int = 1, **stated: Unpack[Stated]) -> Release:
        """Internal: return `new_release`, with the mechanism's grid if this run's noise lies on grids.

        Raises `TrustMismatch` if the run's trust model does not admit the mechanism.
        """
        self.ledger.require_admits(mechanism, f"release {label!r}")
        return new_release(label, mechanism, count, on_grid=self.ledger.header.noise.on_grid, **stated)

    def charge(self, release: Release, where: str | None = None) -> None:
        """Internal: charge the budget for a release, then write it; write nothing if the budget refuses.

        `where` is the release's place in the algorithm's code, if it is already known.
        """
        self._require_own_process(release)
        with self.lock:
            if self._budget is not None:
                self._budget.spend(release)
            self.ledger.append(release, by_curator=True)
            self.ledger.places.note(release.label, released_at(CORE) if where is None else where)

    def ask(self, question: Question) -> Array:
        """Internal: answer a question about an admitted release, and keep both for an auditor."""
        self._require_own_process(question.release)
        if self._user is not None:
            question = replace(question, user=self._user)
        # A view would give access to its whole base array.
        output = self._noise.answer(question).copy()
        if self._transcript is not None:
            self._transcript.entries.append(
                Entry(
                    release=question.release,
                    query=question.query,
                    output=output.copy(),
                    where=released_at(CORE) if question.where is None else question.where,
                    number=question.number,
                    at=question.at,
                    scale=question.scale,
                    rows=question.rows,
                    user=question.user,
                    batch=question.batch,
                )
            )
        return output

    def _require_own_process(self, release: Release) -> None:
        """Raise `ScheduleBroken` while this curator is paused, and in a forked child process.

        The child has a copy of the ledger and of the noise generator.
        """
        if self._paused:
            what, why = f"release {release.label!r} while {self._paused}", "only its own curator may release"
            raise ScheduleBroken(
                what,
                where="curator",
                why=why,
                remedy="release through the curator that the function received",
            )
        if os.getpid() != self._process:
            what = f"release {release.label!r} in another process than the run's"
            why = "the run's ledger and budget would not include it"
            remedy = "compute in other processes, and release in the one that began the run"
            raise ScheduleBroken(what, where="curator", why=why, remedy=remedy)


def new_release(
    label: str,
    mechanism: AnyMechanism,
    count: int = 1,
    *,
    sample: str | None = None,
    on_grid: bool = False,
    **stated: Any,
) -> Release:
    """Return a ledger line; `stated` gives further fields of `Release`.

    `on_grid` says that the run's outputs lie on the grids of their mechanisms.

    Raises:
        InvalidParameter: the mechanism cannot be read back from the line, for example because its class is a
            subclass with its own sampler.
    """
    own = {name: stated[name] for name in sorted(stated) if stated[name] is not None}
    try:
        like = _read_back(mechanism, count, on_grid, **own)
    except TypeError:  # a field is not hashable
        like = _read_back.__wrapped__(mechanism, count, on_grid, **own)
    if like is None:
        what = f"a mechanism of type {type(mechanism).__name__} that cannot be read back from its ledger line"
        why = "the accountants see the mechanism that the line names, not a subclass of it"
        remedy = "use the mechanism itself, or release_opaque with a sampler and a justification"
        raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)
    return told_apart(like, label, sample)


def told_apart(like: Release, label: Any, sample: Any = None) -> Release:
    """Return the release with another label and sample; raises as `Release` does."""
    if type(label) is str and label and label.isascii() and sample is None:
        return like.model_copy(update={"label": label, "sample": None})
    return Release(**{**dict(like), "label": label, "sample": sample})


@functools.lru_cache(maxsize=1024, typed=True)
def _read_back(
    mechanism: AnyMechanism,
    count: int,
    on_grid: bool,  # noqa: FBT001  (only the caller above)
    **stated: Any,
) -> Release | None:
    """Return the release as read back from its ledger line, or None if it differs from the one written."""
    grid = mechanism.grid if on_grid else None
    release = Release(label="label", mechanism=mechanism, count=count, grid=grid, **stated)
    read_back = Release(**{name: value for name, value in release.to_json().items() if name != "record"})
    return read_back if read_back == release else None


def as_query(value: ArrayLike, label: str) -> Array:
    """Return a copy of a query's value as finite doubles.

    Raises:
        InvalidParameter: the value is not an array of numbers, or not finite.
    """
    where = f"release {label!r}"
    query = doubles(value, where)
    if not finite(query):
        why = "NaN and infinity pass through the noise unchanged and reveal the data"
        remedy = "clip each unit's contribution, as release_sum does"
        raise InvalidParameter("a value that is not finite", where=where, why=why, remedy=remedy)
    return query


def require_count(query: Array, count: int, label: str) -> None:
    """Raise `InvalidParameter` if a value does not hold the stated number of repetitions."""
    if count > 1 and (query.ndim == 0 or query.shape[0] != count):
        what = f"count {count} for a value of shape {query.shape}"
        why = "the ledger would account for another number of repetitions"
        remedy = "let the first axis run over the repetitions"
        raise InvalidParameter(what, where=f"release {label!r}", why=why, remedy=remedy)


def _require_no_looser(budget: Filter, header: Header) -> None:
    counted = budget.neighbouring.parts_touched(split_by_values=True)
    needed = header.neighbouring.parts_touched(split_by_values=True)
    other = isinstance(budget.budget, RDP) and budget.neighbouring is not header.neighbouring
    if counted < needed or other:
        what = f"a filter for {budget.neighbouring} in a run under {header.neighbouring}"
        why = "it would count one part of a split, but a unit can change two"
        if other:
            why = "the cost of a sample at a Renyi order depends on the relation"
        remedy = f"make the filter with neighbouring={str(header.neighbouring)!r}"
        raise InvalidParameter(what, where="budget", why=why, remedy=remedy)
