"""The noise sources of a curator: live noise, no noise, or the outputs of a transcript."""

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

#: An input of the sampler: a plain value, which can be sent to another process.
Given: TypeAlias = Array | OnGrid | float | Fraction


@dataclass(frozen=True)
class Question:
    """A request for one noisy answer: a value, the next item of a stream, or points of a function.

    Attributes:
        release: the ledger's line.
        number: the index of that line in the run; all items of a stream, and all points of a function, share
            it.
        query: the private input: the value, the item, the log weights, or the function's values.
        exact: the answer without noise.
        answering: draws the answers of this release from `given` and randomness.
        given: the inputs of `answering`; empty if nothing is drawn.
        at: the public part of the question: the step of a stream, or the points of a function.
        scale: a noise scale that depends on the data; private like the query.
        user: the user who makes the release, under local trust.
        where: file and line in the algorithm's code, if they are already known.
        batch: the number of the forced draw, if an auditor forced the samples.
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
        """The rows [n, ...] from which a secret sample is summed; None if nothing is sampled."""
        sampled = isinstance(self.release.mechanism, SampledSum | InTurns) and self.given
        rows = self.given[0] if sampled else None
        return rows.to_doubles() if isinstance(rows, OnGrid) else None

    def draw(self, randomness: Randomness, *chosen: Given) -> Array:
        """Draw the noisy answer; `chosen` marks the sampled units, if the sample was drawn before."""
        return self.answering(*self.given, *chosen, randomness) if self.given else self.query.copy()


#: The number of named samples that are kept.
MOST_SAMPLES: Final = 16

_Kept = TypeVar("_Kept")


class NamedSamples(Generic[_Kept]):
    """The last `MOST_SAMPLES` named samples, kept for later releases that use them again.

    The name of a forgotten sample is refused, because a new draw with that name would contradict the ledger.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._forgotten: set[str] = set()
        self._lock = threading.Lock()  # two threads must not draw the same sample twice

    def find(self, sample: str, make: Callable[[], _Kept], label: str) -> _Kept:
        """Return the named sample, drawn now if the name is new; raises `ScheduleBroken` if forgotten."""
        with self._lock:
            if sample in self._forgotten:
                what = f"sample {sample!r}, which {MOST_SAMPLES} others have followed"
                why = "only the last samples are kept"
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
    """Answers a question with the output of the curator."""

    @property
    def description(self) -> Noise:
        """This source, as the ledger's header describes it."""

    def answer(self, question: Question) -> Array:
        """Return the output for one question."""


@runtime_checkable
class Samples(Protocol):
    """A source for runs that no auditor compares, so a sample may be drawn before its rows are known."""

    def chosen(self, mechanism: SampledSum, count: int) -> NDArray[np.bool_]:
        """Draw a sample of `count` units, as a mask [count]; secret."""


class LiveNoise(NeverCopied):
    """Noise drawn freshly for each release.

    Args:
        seed: by default noise is drawn exactly, from bits of the operating system. With a seed, noise is
            drawn in floating point from a seeded generator: the run can be repeated, and anybody who knows
            the seed can subtract the noise.
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
        """A seed for the algorithm's own samplers in another process; None if this source has no seed."""
        if self._seed is None:
            return None
        words = np.random.SeedSequence(self._seed) if isinstance(self._seed, int | None) else self._seed
        return int(words.generate_state(1, np.uint64)[0])

    def chosen(self, mechanism: SampledSum, count: int) -> NDArray[np.bool_]:
        """Draw a sample of `count` units before their values are known, as a mask [count]; secret."""
        return mechanism.chosen(count, self._randomness)

    def answer(self, question: Question) -> Array:
        """Return the answer with the noise of the release's mechanism.

        Raises:
            InvalidParameter: the value is too large for the noise's grid, or the grid is too fine; nothing
                was sampled.
        """
        try:
            return question.draw(self._randomness, *self._named(question))
        except InvalidParameter as error:
            if error.where == OF_NOISE:
                error.where = f"release {question.release.label!r}"
            raise

    def _named(self, question: Question) -> tuple[Array, ...]:
        """Return the mask [n], of 0 and 1, of the sample that a release names; empty if it names none.

        A run without the data worker's values may give another number of rows; they are all zero, and any
        sample of them serves.
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
    """Noise from the randomness of another source, for a run inside one of its releases."""

    def __init__(self, randomness: Randomness, description: Noise) -> None:
        self._randomness, self.description = randomness, description
        self._samples = NamedSamples()
        self._ended = False

    def end(self) -> None:
        """End the run: refuse every later question."""
        self._ended = True

    def answer(self, question: Question) -> Array:
        """Answer as `LiveNoise.answer`; raises `ScheduleBroken` after the run."""
        if self._ended:
            what, where = "a question after its trial has ended", f"release {question.release.label!r}"
            why = "the bound does not cover releases after the trial"
            raise ScheduleBroken(what, where=where, why=why, remedy="release within the trial")
        return super().answer(question)


class NoNoise:
    """A source that answers every question exactly, for debugging; its ledger can never be certified."""

    description = Noise(source="none", seeded=False)

    def answer(self, question: Question) -> Array:
        """Return a copy of the exact answer."""
        return question.exact.copy()


@dataclass(frozen=True, kw_only=True)
class Entry(Answer):
    """One question with its answer.

    Attributes:
        release: the ledger's line.
        where: file and line in the algorithm's code.
        number: as in `Question`.
        user: as in `Question`.
        batch: as in `Question`.
    """

    release: Release
    where: str
    number: int = 0
    user: int | None = None
    batch: int | None = None


@dataclass
class Transcript:
    """All questions and answers of one run: private, for the auditor only."""

    entries: list[Entry] = field(default_factory=list)


class ReplayDiverged(ScheduleBroken):
    """A replayed run requested another release than the recorded run."""

    default_why = "which releases are made, and how, must not depend on the data"


class ReplayedNoise:
    """Returns the recorded output for each release, as long as the releases agree with the transcript."""

    description = Noise(source="replayed", seeded=False)

    def __init__(self, transcript: Transcript) -> None:
        self._entries = transcript.entries
        self._position = 0
        #: The first divergence, kept because the algorithm may catch the exception.
        self.divergence: ReplayDiverged | None = None

    def answer(self, question: Question) -> Array:
        """Return the recorded answer to the question at this position.

        Raises:
            ReplayDiverged: the question differs from the recorded one in anything except its query.
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
    """Return the release without its grid; a replay has none, because its outputs are recorded."""
    return release if release.grid is None else release.model_copy(update={"grid": None})


def _same_place(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def describe(release: Release) -> str:
    """Describe a release in one short phrase."""
    fields = release.to_json()["mechanism"]
    numbers = ", ".join(f"{name}={_short(value)}" for name, value in fields.items() if name != "kind")
    times = f" x{release.count}" if release.count > 1 else ""
    return f"{release.label!r} by {release.mechanism.kind}({numbers}){times}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
