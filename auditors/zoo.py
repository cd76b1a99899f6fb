"""A zoo of mechanisms to hold auditors against: broken ones with known faults, and innocents.

Each comes with a neighbouring pair on which it shows what it is, a score that tells the two sides apart,
its claim, and the epsilon that holds exactly on that pair. An auditor whose lower bound exceeds it is
wrong; one whose bound stays below the claim of a broken one is weak.

Data are vectors of query answers, each of which one record moves by at most 1.

Lyu, M., Su, D. and Li, N. (2017). Understanding the Sparse Vector Technique for Differential Privacy.
PVLDB 10(6), Figure 1: its Algorithms 1 to 6, here with threshold 0, sensitivity 1, epsilon 1 and, where
they stop, at the first "yes"; Algorithms 1 and 2 then are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpaudit.auditors.plain import Plain, Rows
from dpaudit.auditors.scores import RowScore
from dpaudit.claims import Claim
from dpaudit.guarantees import ApproxDP, PureDP
from dpaudit.pairs import Pair
from dpaudit.running import name_of

Array = NDArray[np.float64]

QUERIES = 10
DELTA = 1e-5


@dataclass(frozen=True)
class Specimen:
    """One mechanism of the zoo.

    Attributes:
        mechanism: ``(data, generator) -> output``, with a batch form; it carries its claim.
        pair: where it shows its fault.
        score: from an output to a number that tells the sides apart.
        pair_epsilon: the least epsilon that holds on the pair at the claim's delta, rounded up; the
            mechanism's own may be larger.
        source: where it is from, and what is wrong with it.
    """

    mechanism: Plain
    pair: Pair
    score: RowScore
    pair_epsilon: float
    source: str

    @property
    def claim(self) -> PureDP | ApproxDP:
        """The guarantee that is claimed."""
        claim = self.mechanism.claim
        if claim is None or not isinstance(claim.guarantee, (PureDP, ApproxDP)):
            raise TypeError(self.mechanism.name)
        return claim.guarantee

    @property
    def delta(self) -> float:
        """The claim's delta."""
        return self.claim.delta if isinstance(self.claim, ApproxDP) else 0.0

    @property
    def innocent(self) -> bool:
        """Whether the pair is within the claim."""
        return self.pair_epsilon <= self.claim.epsilon


def first_yes(answers: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The position of each row's first "yes"; the number of queries where there is none. [n]."""
    positions: NDArray[np.int64] = answers.argmax(axis=1)
    positions[~answers.any(axis=1)] = answers.shape[1]
    return positions


def _sparse_vector_1(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithms 1 and 2, stopped at the first yes: Lap(2) on the threshold, Lap(4) on the queries."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    return first_yes(data + generator.laplace(scale=4.0, size=(trials, data.size)) >= threshold)


def _sparse_vector_3(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 3: says the noisy answer too, and so how high the threshold is at most. [n, 2]."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    noisy = data + generator.laplace(scale=2.0, size=(trials, data.size))
    position = first_yes(noisy >= threshold)
    value = np.append(noisy, np.zeros((trials, 1)), axis=1)[np.arange(trials), position]
    return np.column_stack([position, value])


def _sparse_vector_4(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 4: Lap(4) on the threshold, and only Lap(4/3) on the queries, however many."""
    threshold = generator.laplace(scale=4.0, size=(trials, 1))
    return first_yes(data + generator.laplace(scale=4.0 / 3.0, size=(trials, data.size)) >= threshold)


def _sparse_vector_5(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 5: no noise on the queries, and no stop. [n, queries]."""
    return data >= generator.laplace(scale=2.0, size=(trials, 1))


def _sparse_vector_6(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 6: Lap(2) on the queries, and no stop. [n, queries]."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    return data + generator.laplace(scale=2.0, size=(trials, data.size)) >= threshold


def _noisy_maximum(data: Array, generator: Generator, trials: int) -> Any:
    """The largest noisy answer itself, where only its position would be private."""
    return (data + generator.laplace(scale=2.0, size=(trials, data.size))).max(axis=1)


def _laplace(data: Array, generator: Generator, trials: int) -> Any:
    return data[0] + generator.laplace(size=trials)


def _randomized_response(data: Array, generator: Generator, trials: int) -> Any:
    truth = generator.random(trials) < math.e / (1.0 + math.e)
    return np.where(truth, data[0], 1.0 - data[0])


def _half_the_noise(data: Array, generator: Generator, trials: int) -> Any:
    return data[0] + generator.normal(scale=0.5, size=trials)


def _own_variance(data: Array, generator: Generator, trials: int) -> Any:
    """Its spread depends on the data, by less than the claim's delta can show."""
    return generator.normal(scale=1.0 + 0.05 * data[0], size=trials)


def _on_the_grid_of_one(outputs: Array) -> Array:
    """Whether an output is a multiple of 2^-53, as every 1.0 + noise is and few a 0.0 + noise are."""
    scaled = outputs * 2.0**53
    return np.asarray(scaled == np.round(scaled), dtype=np.float64)


@dataclass(frozen=True)
class _Single:
    """The single form of a mechanism written for many runs at once."""

    rows: Rows

    def __call__(self, data: Any, generator: Generator) -> Any:
        return self.rows(data, generator, 1)[0]

    @property
    def name(self) -> str:
        return name_of(self.rows).strip("_")


def _specimen(
    rows: Rows,
    data: Array,
    neighbour: Array,
    score: RowScore,
    pair_epsilon: float,
    source: str,
    *,
    guarantee: PureDP | ApproxDP | None = None,
) -> Specimen:
    claim = Claim(guarantee or PureDP(epsilon=1.0), unit="record", neighbouring="replace-one")
    mechanism = Plain(_Single(rows), rows=rows, claim=claim)
    return Specimen(mechanism, Pair(data, neighbour, source), score, pair_epsilon, source)


_HALF = QUERIES // 2
_LOW_THEN_HIGH = np.repeat([-1.0, 0.0], _HALF)
_HIGH_THEN_LOW = np.repeat([0.0, -1.0], _HALF)
_ZERO, _ONE = np.zeros(1), np.ones(1)

_negated = RowScore(np.negative)
# The positions in the order in which they speak for the neighbour, the last (5, then 6, ...) most.
_position = RowScore(lambda outputs: np.array([0, 1, 3, 4, 5, 10, 9, 8, 7, 6, 2])[outputs])

#: Every specimen under its name.
ZOO: Mapping[str, Specimen] = {
    "sparse-vector-1": _specimen(
        _sparse_vector_1, _HIGH_THEN_LOW, _LOW_THEN_HIGH, _position, 0.8389, "Lyu et al. Algorithm 1: correct"
    ),
    "sparse-vector-2": _specimen(
        _sparse_vector_1, _HIGH_THEN_LOW, _LOW_THEN_HIGH, _position, 0.8389, "Lyu et al. Algorithm 2: correct"
    ),
    "sparse-vector-3": _specimen(
        _sparse_vector_3,
        np.zeros(QUERIES),
        np.full(QUERIES, -1.0),
        RowScore(lambda outputs: outputs[:, 0] - outputs[:, 1]),
        QUERIES / 2,
        "Lyu et al. Algorithm 3: returns the noisy answer",
    ),
    "sparse-vector-4": _specimen(
        _sparse_vector_4,
        _HIGH_THEN_LOW,
        _LOW_THEN_HIGH,
        _position,
        1.6595,
        "Lyu et al. Algorithm 4: too little noise on the queries",
    ),
    "sparse-vector-5": _specimen(
        _sparse_vector_5,
        np.array([0.0, 1.0]),
        np.array([1.0, 0.0]),
        RowScore(lambda outputs: outputs[:, 1] & ~outputs[:, 0]),
        math.inf,
        "Lyu et al. Algorithm 5: no noise on the queries",
    ),
    "sparse-vector-6": _specimen(
        _sparse_vector_6,
        _HIGH_THEN_LOW,
        _LOW_THEN_HIGH,
        RowScore(lambda outputs: outputs[:, _HALF:].sum(axis=1) - outputs[:, :_HALF].sum(axis=1)),
        4.0309,
        "Lyu et al. Algorithm 6: answers without end",
    ),
    "noisy-maximum": _specimen(
        _noisy_maximum,
        np.zeros(5),
        np.full(5, -1.0),
        _negated,
        2.5,
        "Ding, Wang, Wang, Zhang, Kifer 2018: returns the largest noisy answer instead of its position",
    ),
    "laplace-on-the-grid": _specimen(
        _laplace,
        _ZERO,
        _ONE,
        RowScore(_on_the_grid_of_one),
        math.inf,
        "Mironov 2012: Laplace noise in floating point, whose last bits tell the answer",
    ),
    "half-the-noise": _specimen(
        _half_the_noise,
        _ONE,
        _ZERO,
        _negated,
        9.9973,
        "Gaussian noise that says sigma 1 and draws sigma 1/2",
        guarantee=ApproxDP(epsilon=4.3772, delta=DELTA),
    ),
    "laplace": _specimen(
        _laplace,
        _ONE,
        _ZERO,
        RowScore(lambda outputs: -np.round(outputs, 6)),  # away from the grid
        1.0,
        "Dwork, McSherry, Nissim, Smith 2006: correct",
    ),
    "randomized-response": _specimen(
        _randomized_response, _ONE, _ZERO, _negated, 1.0, "Warner 1965: correct"
    ),
    "own-variance": _specimen(
        _own_variance,
        _ZERO,
        _ONE,
        RowScore(np.abs),
        0.7153,
        "Gaussian noise whose variance depends on the data, within its claim at delta 1e-5",
        guarantee=ApproxDP(epsilon=1.0, delta=DELTA),
    ),
}
