"""Where a curator's noise comes from: drawn live, left out, or repeated from a transcript."""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.ledger import Noise
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Answer, Array, InTurns, SampledSum
from dpaudit.noise.bits import NeverCopied
from dpaudit.noise.grid import OnGrid
from dpaudit.noise.randomness import OF_NOISE, Randomness

#: What a question hands to whoever draws its answer: plain values, which another process can be sent.
Given: TypeAlias = Array | OnGrid | float | Fraction


@dataclass(frozen=True)
class Question:
    """What a release asks of the noise: one value, one more item of a stream, or points of a function.

    Attributes:
        release: the ledger's line.
        number: the place of that line in the run; all items of one stream, all points of one function
            share it.
        query: what the data say: the value, the item, the log weights, the function's values.
        exact: the answer without noise.
        answering: what draws the answers of this release, from `given` and randomness.
        given: the values that noise is added to, or that a choice is made by; empty where nothing is drawn.
        at: what is public about the question: the step of a stream, the points of a function.
        scale: a noise scale that the data chose; private like the query.
        user: whose release it is, under local trust.
        where: file and line in the algorithm's code, if they are known already.
        batch: the number of the draw whose places the algorithm was given, where it was given any.
    """

    release: Release
    number: int
    query: Array
    exact: Array
    answering: Callable[..., Array]
    given: tuple[Given, ...] = ()
    at: Array | None = None
    scale: float | None = None
    user: int | None = None
    where: str | None = None
    batch: int | None = None

    @property
    def rows(self) -> Array | None:
        """The rows [n, ...] of which a secret sample is summed; None where nothing is sampled."""
        sampled = isinstance(self.release.mechanism, SampledSum | InTurns) and self.given
        rows = self.given[0] if sampled else None
        return rows.to_doubles() if isinstance(rows, OnGrid) else None

    def draw(self, randomness: Randomness, *chosen: Given) -> Array:
        """Draw the noisy answer; `chosen` marks the units in the sample, if it was drawn before."""
        return self.answering(*self.given, *chosen, randomness) if self.given else self.query.copy()


#: So many samples that releases name are kept.
MOST_SAMPLES: Final = 16

_Kept = TypeVar("_Kept")


class NamedSamples(Generic[_Kept]):
    """What is kept of the samples that releases name: of the last `MOST_SAMPLES`, for later releases on them.

    A forgotten name is refused, because a new draw under it would contradict the ledger.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._forgotten: set[str] = set()
        self._lock = threading.Lock()  # two threads that release at the same time are on one draw

    def find(self, sample: str, make: Callable[[], _Kept], label: str) -> _Kept:
        """Return what is kept of a sample, made now if it is new; raises `ScheduleBroken`: forgotten."""
        with self._lock:
            if sample in self._forgotten:
                what = f"sample {sample!r}, which {MOST_SAMPLES} others have followed"
                why = "who was drawn is kept for the last samples only"
                remedy = "make all releases of a sample before those of later ones"
                raise ScheduleBroken(what, where=f"release {label!r}", why=why, remedy=remedy)
            if sample not in self._kept:
                self._kept[sample] = make()
                if len(self._kept) > MOST_SAMPLES:
                    first = next(iter(self._kept))
                    del self._kept[first]
                    self._forgotten.add(first)
            return self._kept[sample]


class NoiseSource(Protocol):
    """Answers a question with the output that leaves the curator."""

    @property
    def description(self) -> Noise:
        """This source, as the ledger's header describes it."""

    def answer(self, question: Question) -> Array:
        """The output of one question."""


@runtime_checkable
class Samples(Protocol):
    """A source whose runs nobody looks into, so that a sample may be drawn before its units' values."""

    def chosen(self, mechanism: SampledSum, count: int) -> NDArray[np.bool_]:
        """Who of so many units is in a sample: [count]; secret."""


class LiveNoise(NeverCopied):
    """Noise drawn for the release alone.

    Args:
        seed: left out, noise is drawn exactly, from bits of the operating system; given, in floating point
            from a generator of its own: the run can be repeated, and whoever knows the seed can subtract the
            noise.
    """

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        try:
            self._randomness = Randomness.live(seed)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(
                f"seed {seed!r}: {error}", where="seed", remedy="give a whole number >= 0"
            ) from None
        self.description = Noise(source="live", sampler=self._randomness.sampler, seeded=seed is not None)
        self._seed = seed
        self._samples: NamedSamples[NDArray[np.bool_]] = NamedSamples()

    @property
    def sampler_seed(self) -> int | None:
        """A seed for samplers that are an algorithm's own and run elsewhere; None: none is stated."""
        if self._seed is None:
            return None
        words = np.random.SeedSequence(self._seed) if isinstance(self._seed, int | None) else self._seed
        return int(words.generate_state(1, np.uint64)[0])

    def chosen(self, mechanism: SampledSum, count: int) -> NDArray[np.bool_]:
        """Who of so many units is in a sample, before their values are known: [count]; secret."""
        return mechanism.chosen(count, self._randomness)

    def answer(self, question: Question) -> Array:
        """The answer with noise of the release's mechanism.

        Raises:
            InvalidParameter: the value is too large for the noise's grid, or the grid too fine; nothing was
                sampled.
        """
        try:
            return question.draw(self._randomness, *self._named(question))
        except InvalidParameter as error:
            if error.where == OF_NOISE:
                error.where = f"release {question.release.label!r}"
            raise

    def _named(self, question: Question) -> tuple[Array, ...]:
        """Who is in the sample that a release names, [n] of 0 and 1; nothing where it draws its own.

        A run without the values of the data's worker may give other rows than were drawn from: rows of zeros,
        whose sample does not matter.
        """
        release, given = question.release, question.given
        mechanism = release.mechanism
        if release.sample is None or len(given) != 1 or not isinstance(mechanism, SampledSum):
            return ()
        rows = given[0]
        count = len(rows.integers) if isinstance(rows, OnGrid) else 0
        draw = functools.partial(mechanism.chosen, count, self._randomness)
        chosen = self._samples.find(release.sample, draw, release.label)
        return ((chosen if len(chosen) == count else draw()).astype(np.float64),)


class SharedNoise(LiveNoise):
    """Noise of another source's randomness, for a run inside one of its releases."""

    def __init__(self, randomness: Randomness, description: Noise) -> None:
        self._randomness, self.description = randomness, description
        self._samples = NamedSamples()
        self._ended = False

    def end(self) -> None:
        """The run is over: nothing is answered any more."""
        self._ended = True

    def answer(self, question: Question) -> Array:
        """As `LiveNoise.answer`; raises `ScheduleBroken` after the run."""
        if self._ended:
            what, where = "a question after its trial has ended", f"release {question.release.label!r}"
            why = "the bound is about trials whose curators nobody keeps"
            raise ScheduleBroken(what, where=where, why=why, remedy="release within the trial")
        return super().answer(question)


class NoNoise:
    """Every question answered exactly, for debugging; its ledger can never be certified."""

    description = Noise(source="none", seeded=False)

    def answer(self, question: Question) -> Array:
        """A copy of the exact answer."""
        return question.exact.copy()


@dataclass(frozen=True, kw_only=True)
class Entry(Answer):
    """One question as it was answered.

    Attributes:
        release: the ledger's line.
        where: file and line in the algorithm's code.
        number: as in `Question`.
        user: whose release it is, under local trust.
        batch: as in `Question`.
    """

    release: Release
    where: str
    number: int = 0
    user: int | None = None
    batch: int | None = None


@dataclass
class Transcript:
    """Every question of one run with its answer: private, and only for the auditor."""

    entries: list[Entry] = field(default_factory=list)


class ReplayDiverged(ScheduleBroken):
    """A replayed run asked for another release than the recorded one."""

    default_why = "which releases are made, and how, must not depend on the data"


class ReplayedNoise:
    """Forces each release to return what the transcript recorded, as long as the releases agree."""

    description = Noise(source="replayed", seeded=False)

    def __init__(self, transcript: Transcript) -> None:
        self._entries = transcript.entries
        self._position = 0
        #: The first divergence, kept although the algorithm may have caught it.
        self.divergence: ReplayDiverged | None = None

    def answer(self, question: Question) -> Array:
        """The recorded answer to the question at this position.

        Raises:
            ReplayDiverged: the question differs from the recorded one in anything but its query.
        """
        self._require_same(question)
        output = self._entries[self._position].output
        self._position += 1
        return output.copy()

    def _require_same(self, question: Question) -> None:
        difference = self._difference(question)
        if difference is not None and self.divergence is None:
            self.divergence = ReplayDiverged(difference, where=f"release {self._position + 1}")
        if self.divergence is not None:
            raise self.divergence

    def _difference(self, question: Question) -> str | None:
        release, query = question.release, question.query
        if self._position >= len(self._entries):
            return f"release {release.label!r} is one more than the {len(self._entries)} recorded"
        recorded = self._entries[self._position]
        if _off_grid(release) != _off_grid(recorded.release):
            return f"{describe(release)} where {describe(recorded.release)} was recorded"
        if query.shape != recorded.query.shape:
            return f"{release.label!r} has shape {query.shape} where {recorded.query.shape} was recorded"
        if question.number != recorded.number:
            return f"{release.label!r} is release {question.number + 1}, recorded as {recorded.number + 1}"
        if not _same_place(question.at, recorded.at):
            return f"{release.label!r} is called at another point than was recorded"
        return None


def _off_grid(release: Release) -> Release:
    """The release but for its grid, which a replay does not have: its outputs are given."""
    return release if release.grid is None else release.model_copy(update={"grid": None})


def _same_place(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def describe(release: Release) -> str:
    """A release in one short phrase."""
    fields = release.to_json()["mechanism"]
    numbers = ", ".join(f"{name}={_short(value)}" for name, value in fields.items() if name != "kind")
    times = f" x{release.count}" if release.count > 1 else ""
    return f"{release.label!r} by {release.mechanism.kind}({numbers}){times}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
