"""Gaussian noise whose scale follows the data smoothly, and the published lemma on it.

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
    """Independent Gaussian noise of a standard deviation s that the data chose, within bounds.

    The scale s itself is private and never written to the ledger.

    Obligation: for every pair of neighbouring data sets, with queries q, q' in R^dimension and scales
    s, s': (a) |q - q'| <= s/alpha in L2, and (b) |log s^2 - log s'^2| <= beta. The release is then
    (epsilon, delta)-DP if alpha and beta suffice for them, as alpha = 5 sqrt(2 ln(2/delta))/epsilon,
    beta = epsilon/(4 (dimension + ln(2/delta))) do for a moderate epsilon (Nissim, Raskhodnikova and
    Smith 2011; Balle, Gomrokchi and Precup 2016, Lemma 1).
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
        """The pair of Gaussian noise whose scale the data change by bounded factors."""
        return dominating.Smooth(self.alpha, self.beta, self.dimension, self.epsilon)

    def for_group(self, size: int, times: Times) -> tuple[Self, int]:
        """beta times the size; each shift is at most e^((k-1) beta/2)/alpha times the smaller end's scale.

        Along the chain the scale changes by at most e^(beta/2) a step, and there are k shifts.
        """
        beta = times(self.beta, size)
        growth = math.exp(min(0.5 * beta, 700.0)) * (1.0 + 1e-12)
        alpha = self.alpha / (size * growth) * (1.0 - 1e-15)
        return self.model_copy(update={"alpha": alpha, "beta": beta}), 1

    def moves(self, one: Sequence[Answer], other: Sequence[Answer]) -> Sequence[Move]:
        """The query's distance against the smaller scale, and the change of the scale."""
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
        """Where the scale is known."""
        query, scale, _ = queries[0]
        return None if scale is None else self.log_density(answers[0].output, query, scale)

    def gaussian_share(self, answers: Sequence[Answer], differences: Sequence[Array]) -> float:
        """The sum of the squares of the differences over the recorded scale."""
        return sum_of_squares(differences[0] / (answers[0].scale or math.inf))

    def sample(self, value: Array, scale: float, randomness: Randomness) -> Array:
        """`value`, of `dimension` entries, plus noise of standard deviation `scale`."""
        return randomness.scaled_by_data(value, scale)

    def log_density(self, output: Array, query: Array, scale: float) -> float:
        """Log density of `output` given the query and the scale, summed over entries; same shapes."""
        return normal_log_density(residual(output, query), scale)


def lemma_parameters(epsilon: float, delta: float, dimension: int) -> tuple[float, float]:
    """The lemma's alpha = 5 sqrt(2 ln(2/delta))/epsilon and beta = epsilon/(4 (d + ln(2/delta))).

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
    """The largest privacy loss outside the event of probability delta that the lemma's proof excludes.

    Noise is (epsilon, delta)-DP for every epsilon of at least this. For a large epsilon in few dimensions
    the lemma's own alpha and beta give more than epsilon, and the lemma is false. With t = ln(2/delta):
    outside the event the chi-square |z|^2 is at most 2 d + 3 t (Laurent and Massart 2000) and the
    coordinate along the shift at most sqrt(2 t), so that under the larger scale first

        L <= (e^beta - 1) (d + 1.5 t) + e^(beta/2) sqrt(2 t)/alpha + 1/(2 alpha^2),

    and under the smaller first L <= d beta/2 + sqrt(2 t)/alpha + 1/(2 alpha^2).

    Here alpha is the least ratio of scale to shift, in (0, inf), and beta the largest change of the log
    variance, in [0, inf). The loss is in nats, rounded up; infinite past the largest double.

    Raises:
        InvalidParameter: an argument is out of range.
    """
    tail = _tail(delta)
    if not (0.0 < alpha < math.inf and 0.0 <= beta < math.inf and dimension >= 1):
        what = f"alpha = {alpha!r}, beta = {beta!r} in {dimension!r} dimensions"
        where = "the lemma on smooth noise"
        remedy = "give alpha > 0, beta >= 0, both finite, and at least one dimension"
        raise InvalidParameter(what, where=where, why="they bound how noise follows the data", remedy=remedy)
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
