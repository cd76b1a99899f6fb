"""Forced samples: runs in which an auditor decides beforehand who is drawn in each batch.

A sum over a secret sample is the sum of the drawn units' rows, and a row is a function of its own unit's
record. Sums over several samples therefore satisfy linear equations, whoever stands at which place: the sums
over a sample and over the rest add up to the sum over both. Each draw has samples of its own, in an order of
its own, so that a sum over another draw's sample does not satisfy them.
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
    """Who is in a draw, [units], and its number in the run; None where only one sample is possible."""

    number: int | None
    chosen: NDArray[np.bool_]


class Coins:
    """The samples of one of `RUNS` runs that are to be compared.

    Args:
        seed: decides the samples of all these runs.
        run: which of them this is, from 0.
    """

    def __init__(self, seed: int, run: int) -> None:
        self.seed, self.run = seed, run
        self._number = -1

    def draw(self, mechanism: OnSample, units: int) -> Drawn:
        """Draw the next sample of so many units."""
        self._number += 1
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
        """As of `LiveNoise`; 0 of any other source."""
        return getattr(self._noise, "sampler_seed", 0)

    def answer(self, question: Question) -> Array:
        """The other source's answer."""
        return self._noise.answer(question)


def equations(seed: int, number: int, mechanism: OnSample) -> NDArray[np.int64]:
    """Factors [k, RUNS] of a draw's sums in the runs, with which each of k sums of them is zero."""
    order, _ = _order(seed, number)
    of_samples = _ONE_SIZE if isinstance(mechanism, FixedSizeSampled) else _ANY_SIZE
    return np.array(of_samples)[:, order]


def _order(seed: int, number: int) -> tuple[NDArray[np.int64], np.random.Generator]:
    """Which of its samples a draw has in which run: [RUNS]; and the generator of the samples themselves.

    Of `RUNS` draws that follow each other each begins at another run.
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
    """A half, the rest, all of the places, a few of them or none, and the others.

    A few are half as many as a sample has at the rate, and at least one unless that is 0.
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
