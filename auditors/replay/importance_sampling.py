"""Recordings drawn where the loss is large, with their importance weights.

The loss of a pair is large where outputs lie far from the data's query on the side away from the
neighbour's; ordinary noise hardly ever lands there. Here noise is shifted along the difference of the
queries in a first recording, the pilot, by one of several multiples drawn for each recording. For any pilot,
the recording's likelihood under the mixture is known exactly, and so is its importance weight (Owen and Zhou
2000: the deterministic mixture).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpaudit.auditors.replay.hidden_samples import Steps, Unit
from dpaudit.auditors.replay.likelihood import log_ratio, queries_of
from dpaudit.auditors.statistics.gaussian_pair import epsilon_below
from dpaudit.curator.noise import Entry, LiveNoise, Question
from dpaudit.mechanisms import AnyMechanism, Array, Asked, Queries, SmoothGaussian, StreamMechanism
from dpaudit.mechanisms.additive import LaplaceNoise
from dpaudit.mechanisms.base import FixedNoise


@dataclass(frozen=True)
class Tilts:
    """The multiples of the pilot's difference that shift recordings, and their frequencies.

    The last of `multiples` [k] is the intended one, 0 keeps every weight below 1 over its share; `shares` [k]
    add up to 1.
    """

    multiples: tuple[float, ...] = (0.0,)
    shares: tuple[float, ...] = (1.0,)

    @classmethod
    def toward(cls, mu: float, delta: float) -> Self:
        """Return multiples with which a Gaussian pair `mu` apart has a loss near its epsilon at `delta`."""
        if not 0.0 < mu < 1e6:
            return cls()
        multiple = epsilon_below(delta, mu) / mu**2 - 0.5
        # A third of a standard deviation more: only a loss above epsilon counts.
        return cls.by(max(0.0, multiple) + 1.0 / (3.0 * mu))

    @classmethod
    def by(cls, multiple: float) -> Self:
        """Return tilts that use this multiple nearly always."""
        return cls((0.0, multiple), (0.05, 0.95))


@dataclass
class TiltedNoise(LiveNoise):
    """Live noise, shifted by a multiple of known directions.

    The directions are the pilot's differences of queries, in the order of its questions; a direction that
    does not fit its question is not used.
    """

    seed: np.random.SeedSequence
    directions: Sequence[Array]
    pilot: Sequence[Entry]
    multiple: float
    units: Sequence[Unit | None]

    def __post_init__(self) -> None:
        noise, steps = self.seed.spawn(2) if any(self.units) else (self.seed, self.seed)
        super().__init__(noise)
        self._steps = np.random.default_rng(steps)
        #: The direction of every question answered so far.
        self._used: list[Array] = []
        self._sums: dict[int, Array] = {}

    def answer(self, question: Question) -> Array:
        """Return the live answer, moved as if the query had been moved."""
        direction = self._direction(question)
        self._used.append(direction)
        mechanism = question.release.mechanism
        moved = shift(mechanism, direction, self.multiple)
        if isinstance(mechanism, StreamMechanism) and question.query.size:
            # The output is the sum of the items so far.
            moved = self._sums[question.number] = moved + self._sums.get(question.number, 0.0)
        output = super().answer(question)
        steps = Steps.of(question, self._unit(len(self._used) - 1), self.multiple)
        if steps is not None:
            moved = steps.draw(self._steps)
        return output + moved if moved.any() else output

    def _unit(self, position: int) -> Unit | None:
        return self.units[position] if position < len(self.units) else None

    def _direction(self, question: Question) -> Array:
        position = len(self._used)
        if position >= len(self.pilot):
            return np.zeros_like(question.query)
        entry, direction = self.pilot[position], self.directions[position]
        same_points = entry.at is question.at or (
            entry.at is not None and question.at is not None and np.array_equal(entry.at, question.at)
        )
        fits = type(entry.release.mechanism) is type(question.release.mechanism)
        fits = fits and direction.shape == question.query.shape and bool(np.isfinite(direction).all())
        return direction if fits and same_points else np.zeros_like(question.query)

    def log_weight(self, entries: Sequence[Entry], tilts: Tilts) -> float:
        """Return the log of the density without a shift over the density under the mixture."""
        asked = queries_of(entries)

        def moved(multiple: float) -> Queries:
            return [
                Asked(
                    entry.query + shift(entry.release.mechanism, direction, multiple), entry.scale, entry.rows
                )
                for entry, direction in zip(entries, self._used, strict=True)
            ]

        def of_samples(multiple: float) -> float:
            each = [(entry, Steps.of(entry, self._unit(at), multiple)) for at, entry in enumerate(entries)]
            return sum(steps.log_ratio(entry) for entry, steps in each if steps is not None)

        def ratio(multiple: float) -> float:
            return log_ratio(entries, moved(multiple), asked) + of_samples(multiple)

        ratios = [ratio(multiple) if multiple else 0.0 for multiple in tilts.multiples]
        return -float(np.logaddexp.reduce(ratios + np.log(tilts.shares)))


def shift(mechanism: AnyMechanism, direction: Array, multiple: float) -> Array:
    """Return the shift of a query: zero if no noise is added, and whole numbers on integers."""
    if not isinstance(mechanism, FixedNoise | SmoothGaussian):
        return np.zeros_like(direction)
    moved = multiple * direction
    if isinstance(mechanism, LaplaceNoise):
        # The loss is bounded and is largest from the query on: further out only the weights change.
        moved = np.clip(moved, -0.5 * mechanism.scale, 0.5 * mechanism.scale)
    return np.rint(moved) if mechanism.integer_noise else moved
