"""Forced samples: runs in which an auditor decides beforehand who is drawn in each batch.

A sum over a secret sample is the sum of the drawn units' rows, and a row is a function of its own unit's
record. Sums over several samples therefore satisfy linear equations, in whatever order the units are stored:
the sum over a sample and the sum over the remaining units add up to the sum over all. Each draw has its own
samples in its own order, so that a sum over another draw's sample violates its equations.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.noise import NoiseSource, Question
from dpaudit.mechanisms import Array, FixedSizeSampled, OnSample, TruncatedPoissonSampled

#: The number of runs that are compared with each other; in each of them a draw has another sample.
RUNS: Final = 5

#: Orders of samples in runs. Begun at another run, each has sums that satisfy no equation of the former ones,
#: whatever the rows are: also if two samples of the five are the same, as all units and all but nobody are.
_ORDERS: Final = ((0, 1, 2, 4, 3), (0, 1, 3, 2, 4), (0, 2, 4, 3, 1), (0, 3, 4, 1, 2))

#: Log of the probability from which on an empty sample is forced too: less likely ones may end a run.
_LIKELY: Final = math.log(1e-3)

#: In terms of the samples of `_any_size` and `_one_size`: sums over them, times these, add up to zero.
_ANY_SIZE: Final = ((1, 1, -1, 0, 0), (0, 0, -1, 1, 1))
_ONE_SIZE: Final = ((1, 1, -1, -1, 0), (1, 0, 0, 0, -1))


class Drawn(NamedTuple):
    """The units in a draw, [units], and the draw's number in the run, None if only one sample is possible."""

    number: int | None
    chosen: NDArray[np.bool_]


class Coins:
    """The samples of one of `RUNS` runs that are to be compared.

    Args:
        seed: decides the samples of all these runs.
        run: the index of this run, from 0.
        alone: the place of the only unit that this run draws, in samples of any size; None: as `run` says.
    """

    def __init__(self, seed: int, run: int, alone: int | None = None) -> None:
        self.stated = seed, run, alone
        self.seed, self.run, self.alone = self.stated
        self._number = -1

    def draw(self, mechanism: OnSample, units: int) -> Drawn:
        """Draw the next sample of so many units."""
        self._number += 1
        if self.alone is not None and units and not isinstance(mechanism, FixedSizeSampled):
            return Drawn(self._number, np.arange(units) == self.alone % units)
        order, generator = _order(self.seed, self._number)
        samples = _samples(mechanism, units, generator)
        if samples is None:
            return Drawn(None, np.ones(units, dtype=np.bool_))
        chosen = np.zeros(units, dtype=np.bool_)
        chosen[samples[order[self.run]]] = True
        return Drawn(self._number, chosen)


class ForcedSamples:
    """Another source's noise for a run whose samples are forced."""

    def __init__(self, noise: NoiseSource, coins: Coins) -> None:
        self._noise, self.coins = noise, coins
        self.description = noise.description

    @property
    def sampler_seed(self) -> int | None:
        """The seed of `LiveNoise`; 0 for any other source."""
        return getattr(self._noise, "sampler_seed", 0)

    def answer(self, question: Question) -> Array:
        """The other source's answer."""
        return self._noise.answer(question)


def equations(seed: int, number: int, mechanism: OnSample) -> NDArray[np.int64]:
    """The coefficients [k, RUNS] of the k linear equations that a draw's sums in the runs satisfy."""
    order, _ = _order(seed, number)
    of_samples = _ONE_SIZE if isinstance(mechanism, FixedSizeSampled) else _ANY_SIZE
    return np.array(of_samples)[:, order]


def _order(seed: int, number: int) -> tuple[NDArray[np.int64], np.random.Generator]:
    """Return the index of a draw's sample in each run, [RUNS], and the generator of its samples.

    Each of `RUNS` consecutive draws begins at another run.
    """
    block = np.random.default_rng([seed, number // RUNS])
    order = np.roll(np.array(_ORDERS[block.integers(len(_ORDERS))]), number)
    generator = np.random.default_rng([seed, number, 1])
    return order, generator


def _samples(
    mechanism: OnSample, units: int, generator: np.random.Generator
) -> list[NDArray[np.int64]] | None:
    """The places of the units in each of `RUNS` samples; None where only one sample is possible."""
    if mechanism.most_likely >= 1.0:
        return None
    places = generator.permutation(units)
    if isinstance(mechanism, FixedSizeSampled):
        return _one_size(places, mechanism.size)
    most = mechanism.most if isinstance(mechanism, TruncatedPoissonSampled) else units
    empty = mechanism.sizes(units)[0] > _LIKELY
    return _any_size(places[:most], 0.0 if empty else mechanism.most_likely, generator)


def _any_size(
    places: NDArray[np.int64], rate: float, generator: np.random.Generator
) -> list[NDArray[np.int64]] | None:
    """Return half of the places, the other half, all, a few (or none), and all but these.

    A few are half the expected size of a sample at the rate, but at least one unless the rate is 0.
    """
    if len(places) < 2:
        return None
    half, again = len(places) // 2, generator.permutation(places)
    few = min(max(round(rate * len(places) / 2), int(rate > 0.0)), half)
    return [places[:half], places[half:], places, again[:few], again[few:]]


def _one_size(places: NDArray[np.int64], size: int) -> list[NDArray[np.int64]] | None:
    """Two samples of one size, two that exchange some of their units, and the first one again."""
    apart = min(size, len(places) - size)
    if apart < 1:
        return None
    one, other = places[:size].copy(), places[::-1][:size].copy()
    swapped, twin = one.copy(), other.copy()
    some = (apart + 1) // 2
    swapped[:some], twin[:some] = other[:some], one[:some]
    return [one, other, swapped, twin, one]
