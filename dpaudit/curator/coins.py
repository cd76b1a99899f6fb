"""Forced samples: an auditor chooses the sample of each batch before the run.

A sum over a secret sample is the sum of the drawn units' rows, and a row is a function of its own unit's
record. Sums over several samples therefore satisfy linear equations, for any order of the units: for
example, the sum over a sample plus the sum over the remaining units equals the sum over all units. Each draw
has its own samples in its own order, so a sum over the sample of another draw violates the equations.
"""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.noise import NoiseSource, Question
from dpaudit.mechanisms import Array, FixedSizeSampled, OnSample, TruncatedPoissonSampled

#: The number of runs that an auditor compares; a draw has a different sample in each run.
RUNS: Final = 5

#: Orders in which the runs use a draw's samples. After a cyclic shift, the sums violate the unshifted
#: equations for any rows, even if two of the five samples are the same (all units, and all minus the empty
#: sample).
_ORDERS: Final = ((0, 1, 2, 4, 3), (0, 1, 3, 2, 4), (0, 2, 4, 3, 1), (0, 3, 4, 1, 2))

#: An empty sample is forced only if its log probability is above this: a rarer one may end a run.
_LIKELY: Final = math.log(1e-3)

#: Coefficients of the linear equations: the sums over the samples of `_any_size` and `_one_size`, multiplied
#: by each row of coefficients, add up to zero.
_ANY_SIZE: Final = ((1, 1, -1, 0, 0), (0, 0, -1, 1, 1))
_ONE_SIZE: Final = ((1, 1, -1, -1, 0), (1, 0, 0, 0, -1))


class Drawn(NamedTuple):
    """A draw: its number in the run (None if only one sample is possible) and its units as a mask [units]."""

    number: int | None
    chosen: NDArray[np.bool_]


class Coins:
    """The samples of one of the `RUNS` runs that an auditor compares.

    Args:
        seed: determines the samples of all `RUNS` runs.
        run: the index of this run, from 0.
        alone: the index of the only unit that this run draws if the sample size is random; by default the
            sample follows from `run`.
    """

    def __init__(self, seed: int, run: int, alone: int | None = None) -> None:
        self.stated = seed, run, alone
        self.seed, self.run, self.alone = self.stated
        self._number = -1

    def draw(self, mechanism: OnSample, units: int) -> Drawn:
        """Draw the next sample from `units` units."""
        self._number += 1
        if self.alone is not None and units and not isinstance(mechanism, FixedSizeSampled):
            return Drawn(self._number, np.arange(units) == self.alone % units)
        order, generator = _order(self.seed, self._number)
        samples = _samples(mechanism, units, self._number, generator)
        if samples is None:
            return Drawn(None, np.ones(units, dtype=np.bool_))
        chosen = np.zeros(units, dtype=np.bool_)
        chosen[samples[order[self.run]]] = True
        return Drawn(self._number, chosen)


class ForcedSamples:
    """A noise source with forced samples and the noise of another source."""

    def __init__(self, noise: NoiseSource, coins: Coins) -> None:
        self._noise, self.coins = noise, coins
        self.description = noise.description

    @property
    def sampler_seed(self) -> int | None:
        """The seed of `LiveNoise`; 0 for any other source."""
        return getattr(self._noise, "sampler_seed", 0)

    def answer(self, question: Question) -> Array:
        """Return the other source's answer."""
        return self._noise.answer(question)


def equations(seed: int, number: int, mechanism: OnSample) -> NDArray[np.int64]:
    """Return the coefficients [k, RUNS] of the k linear equations between a draw's sums in the runs."""
    order, _ = _order(seed, number)
    of_samples = _ONE_SIZE if isinstance(mechanism, FixedSizeSampled) else _ANY_SIZE
    return np.array(of_samples)[:, order]


def _order(seed: int, number: int) -> tuple[NDArray[np.int64], np.random.Generator]:
    """Return the index of a draw's sample in each run, [RUNS], and the generator of its samples.

    The order is shifted by one run from each draw to the next.
    """
    block = np.random.default_rng([seed, number // RUNS])
    order = np.roll(np.array(_ORDERS[block.integers(len(_ORDERS))]), number)
    generator = np.random.default_rng([seed, number, 1])
    return order, generator


def _samples(
    mechanism: OnSample, units: int, number: int, generator: np.random.Generator
) -> list[NDArray[np.int64]] | None:
    """Return the unit indices of `RUNS` samples, or None if only one sample is possible."""
    if mechanism.most_likely >= 1.0:
        return None
    places = generator.permutation(units)
    if isinstance(mechanism, FixedSizeSampled):
        return _one_size(places, mechanism.size)
    most = mechanism.most if isinstance(mechanism, TruncatedPoissonSampled) else units
    empty = bool(mechanism.sizes(units)[0] > _LIKELY)
    return _any_size(places[:most], mechanism.most_likely, generator, empty=empty, halves=number % 3 != 2)


def _any_size(
    places: NDArray[np.int64], rate: float, generator: np.random.Generator, *, empty: bool, halves: bool
) -> list[NDArray[np.int64]] | None:
    """Return five samples: one half, the other half, all units, a few units, and all units except these few.

    The few units number half the expected sample size, at least one, and at most half of all units. Where an
    empty sample is forced (`empty`), it takes the place of the few units. The first two samples are then the
    few units and all others, unless `halves` is set.
    """
    if len(places) < 2:
        return None
    half, again = len(places) // 2, generator.permutation(places)
    few = min(max(round(rate * len(places) / 2), 1), half)
    first = few if empty and not halves else half
    second = 0 if empty else few
    return [places[:first], places[first:], places, again[:second], again[second:]]


def _one_size(places: NDArray[np.int64], size: int) -> list[NDArray[np.int64]] | None:
    """Return two samples of one size, the same two with some units exchanged, and the first sample again."""
    apart = min(size, len(places) - size)
    if apart < 1:
        return None
    one, other = places[:size].copy(), places[::-1][:size].copy()
    swapped, twin = one.copy(), other.copy()
    some = (apart + 1) // 2
    swapped[:some], twin[:some] = other[:some], one[:some]
    return [one, other, swapped, twin, one]
