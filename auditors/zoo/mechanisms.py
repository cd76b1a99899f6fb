"""The mechanisms of the zoo that draw their own noise: ``(data, generator, trials) -> outputs``.

Data are vectors of query answers, [queries], each of which one record moves by at most 1. Sparse vector
with threshold 0 and epsilon 1 and, where it stops, at the first "yes".

Lyu, M., Su, D. and Li, N. (2017). Understanding the Sparse Vector Technique for Differential Privacy.
PVLDB 10(6), Figure 1: its Algorithms 1 to 6; Algorithms 1 and 2 then are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import laplace as laplace_distribution

Array = NDArray[np.float64]

QUERIES = 10


def first_yes(answers: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The position of each row's first "yes"; the number of queries where there is none. [n]."""
    positions: NDArray[np.int64] = answers.argmax(axis=1)
    positions[~answers.any(axis=1)] = answers.shape[1]
    return positions


def sparse_vector_1(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithms 1 and 2, stopped at the first yes: Lap(2) on the threshold, Lap(4) on the queries."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    return first_yes(data + generator.laplace(scale=4.0, size=(trials, data.size)) >= threshold)


def sparse_vector_3(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 3: says the noisy answer too, and so how high the threshold is at most. [n, 2]."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    noisy = data + generator.laplace(scale=2.0, size=(trials, data.size))
    position = first_yes(noisy >= threshold)
    value = np.append(noisy, np.zeros((trials, 1)), axis=1)[np.arange(trials), position]
    return np.column_stack([position, value])


def sparse_vector_3_log_ratio(outputs: Array) -> Array:
    """How much likelier Algorithm 3's outputs [n, 2] are if all queries are 0 than if all are 1, [n].

    With the threshold integrated over by a sum, as closely as choosing an event needs.
    """
    grid, step = np.linspace(-40.0, 40.0, 8001, retstep=True)
    position, value = outputs[:, 0].astype(int), outputs[:, 1]
    sides = []
    for query in (0.0, 1.0):
        no = laplace_distribution.cdf(grid, loc=query, scale=2.0)  # of a threshold here, [grid]
        by_position = laplace_distribution.pdf(grid, scale=2.0) * no ** np.arange(QUERIES + 1)[:, None]
        below = np.log(np.cumsum(by_position, axis=1) * step)  # [queries + 1, grid]
        at = np.clip(np.searchsorted(grid, value), 0, len(grid) - 1)
        yes = position < QUERIES
        said = laplace_distribution.logpdf(value, loc=query, scale=2.0)
        sides.append(np.where(yes, below[position, at] + said, below[QUERIES, -1]))
    ratio: Array = sides[0] - sides[1]
    return ratio


def sparse_vector_4(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 4: Lap(4) on the threshold, and only Lap(4/3) on the queries, however many."""
    threshold = generator.laplace(scale=4.0, size=(trials, 1))
    return first_yes(data + generator.laplace(scale=4.0 / 3.0, size=(trials, data.size)) >= threshold)


def sparse_vector_5(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 5: no noise on the queries, and no stop. [n, queries]."""
    return data >= generator.laplace(scale=2.0, size=(trials, 1))


def sparse_vector_6(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 6: Lap(2) on the queries, and no stop. [n, queries]."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    return data + generator.laplace(scale=2.0, size=(trials, data.size)) >= threshold


def noisy_maximum(data: Array, generator: Generator, trials: int) -> Any:
    """The largest noisy answer itself, where only its position would be private."""
    return (data + generator.laplace(scale=2.0, size=(trials, data.size))).max(axis=1)


def laplace(data: Array, generator: Generator, trials: int) -> Any:
    """Laplace noise of scale 1, in floating point: private but for its last bits."""
    return data[0] + generator.laplace(size=trials)


def randomized_response(data: Array, generator: Generator, trials: int) -> Any:
    """The truth with probability e / (1 + e), else a lie."""
    truth = generator.random(trials) < math.e / (1.0 + math.e)
    return np.where(truth, data[0], 1.0 - data[0])


def own_variance(data: Array, generator: Generator, trials: int) -> Any:
    """Its spread depends on the data, by less than the claim's delta can show."""
    return generator.normal(scale=1.0 + 0.05 * data[0], size=trials)
