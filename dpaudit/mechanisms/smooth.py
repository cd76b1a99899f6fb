"""Gaussian noise with a scale that varies smoothly with the data, and the published lemma on it.

Nissim, K., Raskhodnikova, S. and Smith, A. (2011). Smooth sensitivity and sampling in private data analysis.
Balle, B., Gomrokchi, M. and Precup, D. (2016). Differentially Private Policy Evaluation. ICML. Lemma 1.
"""

import math
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.additive import normal_log_density
from dpaudit.mechanisms.base import (
    Answer,
    Array,
    BaseMechanism,
    Move,
    Queries,
    Times,
    fields,
    residual,
    sum_of_squares,
)
from dpaudit.models import Count, Fraction, Positive
from dpaudit.noise.randomness import Randomness


class SmoothGaussian(BaseMechanism):
    """Independent Gaussian noise with a standard deviation s that depends on the data, within bounds.

    The scale s is private and not in the ledger.

    Obligation: for every pair of neighbouring data sets, with queries q, q' in R^dimension and scales
    s, s': (a) |q - q'| <= s/alpha in L2, and (b) |log s^2 - log s'^2| <= beta. The release is then
    (epsilon, delta)-DP if alpha and beta suffice for epsilon and delta. For a moderate epsilon,
    alpha = 5 sqrt(2 ln(2/delta))/epsilon and beta = epsilon/(4 (dimension + ln(2/delta))) suffice (Nissim,
    Raskhodnikova and Smith 2011; Balle, Gomrokchi and Precup 2016, Lemma 1).
    """

    released_by = "release_smooth"
    condition = "smooth-bound"
    drawn_exactly = True

    example = fields(alpha=12.0, beta=0.01, dimension=2, epsilon=1.0, delta=0.1)

    kind: Literal["smooth-gaussian"] = "smooth-gaussian"
    alpha: Positive
    beta: Positive
    dimension: Count
    epsilon: Positive
    delta: Fraction

    def dominating_pair(self) -> dominating.Smooth:
        """Return the pair of Gaussian noise with a scale that changes by bounded factors."""
        return dominating.Smooth(self.alpha, self.beta, self.dimension, self.epsilon)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """Return the mechanism with `size` times beta and a smaller alpha.

        Along a chain of k = `size` neighbours the scale changes by a factor of at most e^(beta/2) per step.
        Each of the k shifts is therefore at most e^((k-1) beta/2)/alpha times the smaller scale of the ends.
        """
        beta = times(self.beta, size)
        growth = math.exp(min(0.5 * beta, 700.0)) * (1.0 + 1e-12)
        alpha = self.alpha / (size * growth) * (1.0 - 1e-15)
        return self.model_copy(update={"alpha": alpha, "beta": beta}), 1

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """Return the query's distance in units of the smaller scale, and the change of the scale."""
        scale, scale_other = one[0].scale, other[0].scale
        if scale is None or scale_other is None:
            return []
        moved = self.alpha * float(np.linalg.norm((one[0].query - other[0].query).ravel()))
        drift = 2.0 * abs(float(np.log(scale / scale_other)))
        return [
            Move(moved / min(scale, scale_other), 1.0, "in noise scales over alpha"),
            Move(drift, self.beta, "in the logarithm of the noise variance"),
        ]

    def log_likelihood(self, answers: Sequence[Answer], queries: Queries) -> float | None:
        """Return the log density of the output, or None if the scale is unknown."""
        query, scale, _ = queries[0]
        return None if scale is None else self.log_density(answers[0].output, query, scale)

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """Return the sum of the squares of the differences divided by the recorded scale."""
        return sum_of_squares(differences[0] / (answers[0].scale or math.inf))

    def sample(self, value: Array, scale: float, randomness: Randomness) -> Array:
        """Return `value`, with `dimension` entries, plus noise of standard deviation `scale`."""
        return randomness.scaled_by_data(value, scale)

    def log_density(self, output: Array, query: Array, scale: float) -> float:
        """Return the log density of `output` given the query and the scale, summed over entries."""
        return normal_log_density(residual(output, query), scale)


def lemma_parameters(epsilon: float, delta: float, dimension: int) -> tuple[float, float]:
    """Return the lemma's alpha = 5 sqrt(2 ln(2/delta))/epsilon, beta = epsilon/(4 (d + ln(2/delta))).

    Raises:
        InvalidParameter: an argument is out of range.
    """
    tail = _tail(delta)
    if not 0.0 < epsilon < math.inf or dimension < 1:
        what = f"epsilon = {epsilon!r} in {dimension!r} dimensions"
        where = "the lemma on smooth noise"
        remedy = "give a positive, finite epsilon and at least one dimension"
        raise InvalidParameter(what, where=where, why="its noise grows as 1/epsilon", remedy=remedy)
    return 5.0 * math.sqrt(2.0 * tail) / epsilon, epsilon / (4.0 * (dimension + tail))


def lemma_loss(alpha: float, beta: float, dimension: int, delta: float) -> float:
    """Return the largest privacy loss outside the event of probability delta that the lemma excludes.

    The noise is (epsilon, delta)-DP for every epsilon that is at least this loss. For a large epsilon in few
    dimensions the lemma's own alpha and beta give a loss above epsilon, and the lemma is false. Let
    t = ln(2/delta). Outside the event the chi-square |z|^2 is at most 2 d + 3 t (Laurent and Massart 2000)
    and the coordinate along the shift at most sqrt(2 t). If the first data set has the larger scale, then

        L <= (e^beta - 1) (d + 1.5 t) + e^(beta/2) sqrt(2 t)/alpha + 1/(2 alpha^2),

    and if it has the smaller scale, L <= d beta/2 + sqrt(2 t)/alpha + 1/(2 alpha^2).

    Here alpha is the least ratio of scale to shift, in (0, inf), and beta the largest change of the log
    variance, in [0, inf). The loss is in nats, rounded up; infinite beyond the largest double.

    Raises:
        InvalidParameter: an argument is out of range.
    """
    tail = _tail(delta)
    if not (0.0 < alpha < math.inf and 0.0 <= beta < math.inf and dimension >= 1):
        what = f"alpha = {alpha!r}, beta = {beta!r} in {dimension!r} dimensions"
        where = "the lemma on smooth noise"
        remedy = "give alpha > 0, beta >= 0, both finite, and at least one dimension"
        raise InvalidParameter(what, where=where, why="the lemma needs these ranges", remedy=remedy)
    if beta > 700.0:
        return math.inf
    shift = math.exp(0.5 * beta) * math.sqrt(2.0 * tail) / alpha + 0.5 / (alpha * alpha)
    scale = max(math.expm1(beta) * (dimension + 1.5 * tail), 0.5 * dimension * beta)
    return (shift + scale) * (1.0 + 1e-12)


def _tail(delta: float) -> float:
    if not 0.0 < delta < 1.0:
        where = "the lemma on smooth noise"
        why = "the event that its proof excludes has this probability"
        raise InvalidParameter(f"delta = {delta!r}", where=where, why=why, remedy="give a delta in (0, 1)")
    return math.log(2.0 / delta)
