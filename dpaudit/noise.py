"""Where a curator's noise comes from: drawn live, left out, or repeated from a transcript."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger import Noise
from dpaudit.mechanisms import Array
from dpaudit.releases import Release


class NoiseSource(Protocol):
    """Answers a query with the output that leaves the curator."""

    @property
    def description(self) -> Noise:
        """What the ledger's header says of this source."""

    def answer(self, query: Array, release: Release) -> Array:
        """The noisy output of one release, of the query's shape."""


class LiveNoise:
    """Noise drawn from a generator of its own.

    Args:
        seed: left out, the operating system chooses it; given, the run can be repeated, and whoever
            knows the seed can subtract the noise.
    """

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        self.description = Noise(source="live", seeded=seed is not None)
        try:
            self._generator = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise InvalidParameter(
                f"seed {seed!r}: {error}", where="seed", remedy="give a whole number >= 0"
            ) from None

    def answer(self, query: Array, release: Release) -> Array:
        """The query plus noise of the release's mechanism."""
        return release.mechanism.sample(query, self._generator)


class NoNoise:
    """Every query answered exactly, for debugging; its ledger can never be certified."""

    description = Noise(source="none", seeded=False)

    def answer(self, query: Array, release: Release) -> Array:
        """A copy of the query."""
        del release
        return query.copy()


@dataclass(frozen=True)
class Entry:
    """One release as it happened: what was asked, what came out, and from where in the code."""

    release: Release
    query: Array
    output: Array
    where: str


@dataclass
class Transcript:
    """Every release of one run, with its query: private, and for the auditor alone."""

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

    def answer(self, query: Array, release: Release) -> Array:
        """The recorded output of the release at this position.

        Raises:
            ReplayDiverged: the release differs from the recorded one in anything at all.
        """
        self._require_same(query, release)
        output = self._entries[self._position].output
        self._position += 1
        return output.copy()

    def _require_same(self, query: Array, release: Release) -> None:
        difference = self._difference(query, release)
        if difference is not None and self.divergence is None:
            self.divergence = ReplayDiverged(difference, where=f"release {self._position + 1}")
        if self.divergence is not None:
            raise self.divergence

    def _difference(self, query: Array, release: Release) -> str | None:
        if self._position >= len(self._entries):
            return f"release {release.label!r} is one more than the {len(self._entries)} recorded"
        recorded = self._entries[self._position]
        if release != recorded.release:
            return f"{describe(release)} where {describe(recorded.release)} was recorded"
        if query.shape != recorded.query.shape:
            return f"{release.label!r} has shape {query.shape} where {recorded.query.shape} was recorded"
        return None


def describe(release: Release) -> str:
    """A release in one short phrase."""
    numbers = ", ".join(
        f"{name}={value}" for name, value in release.to_json()["mechanism"].items() if name != "kind"
    )
    times = f" x{release.count}" if release.count > 1 else ""
    return f"{release.label!r} by {release.mechanism.kind}({numbers}){times}"
