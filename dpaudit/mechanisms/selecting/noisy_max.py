"""Report noisy max: the index of the largest of finitely many noisy numbers."""

import math
from fractions import Fraction
from typing import Literal

import numpy as np

from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import Array, fields
from dpaudit.mechanisms.selecting.integrals import gauss_legendre, log_integral
from dpaudit.mechanisms.selection import Choice
from dpaudit.noise.randomness import Randomness

#: Quadrature nodes for a product of linear factors: exact for up to 128 factors; see `log_probability`.
_NODES = 64
#: With Laplace noise and more candidates, probabilities are not computed: each takes milliseconds.
_MOST_WITH_LAPLACE = 128
#: Beyond this number divided by the sum of the weights, less than e^-60 of the integral remains.
_REACH = 60.0


class ReportNoisyMax(Choice):
    """The index of the largest log weight plus independent noise of scale 1; `noise_law` names the noise.

    With exponential noise this is permute-and-flip: candidates are visited in random order, and a candidate
    with a log weight d below the largest is accepted with probability e^-d (Ding, Kifer, Saghaian, Steinke,
    Wang, Xiao and Zhang 2021). At the same epsilon its expected score is at least the expected score of the
    exponential mechanism, which corresponds to Gumbel noise (McKenna and Sheldon 2020, Theorem 2).

    Obligation: between neighbouring data sets the changes of the log weights have a range of at most epsilon
    over the candidates; then the choice is epsilon-DP (McKenna and Sheldon 2020, Theorem 1; for Laplace
    noise Dwork and Roth 2014, Claim 3.9). Proof for both: given all other noise, a candidate is chosen if
    its own noise exceeds a threshold; the threshold changes by at most epsilon, and -log P(noise > x) has a
    slope of at most 1. Scores of sensitivity s satisfy the condition with w = epsilon score/(2 s), and with
    w = epsilon score/s if one unit moves all scores in one direction. The range of the loss is not bounded by
    epsilon: for two candidates with equal log weights that change by epsilon/2 in opposite directions, the
    losses are epsilon and -log(2 - e^-epsilon).
    """

    example = fields(epsilon=0.5, noise_law="exponential")

    kind: Literal["report-noisy-max"] = "report-noisy-max"
    noise_law: Literal["exponential", "laplace"] = "exponential"

    def dominating_pair(self) -> dominating.Pure:
        """Return the pair that dominates every epsilon-DP pair."""
        return dominating.Pure(self.epsilon)

    def sample(
        self, log_weights: Array, randomness: Randomness, exactly: tuple[Array, Fraction] | None = None
    ) -> Array:
        """As `Choice.sample`."""
        draw = randomness.permute_and_flip if self.noise_law == "exponential" else randomness.noisy_max
        return np.array(float(draw(log_weights, exactly)))

    def log_probability(self, index: int, log_weights: Array) -> float | None:
        """Return the log probability up to about 1e-12, or None for too many candidates with Laplace noise.

        Let the noise be exponential and p_j = exp(w_j - max w). Candidate i is chosen if its coin, of
        probability p_i, is heads and it comes first among the candidates with heads. This has probability p_i
        times the integral over t in [0, 1] of the product of 1 - p_j t over all j other than i, a polynomial.
        For S the sum of these p_j, its modulus at a complex point at distance d from [0, 1] is at most
        e^(S d); hence `_NODES` nodes on [0, min(1, 60/S)] give a quadrature error below e^-60.
        """
        if self.noise_law == "laplace":
            return _laplace(index, log_weights)
        shifted = log_weights - log_weights.max()
        others = np.exp(np.delete(shifted, index))
        reach = min(1.0, _REACH / max(float(others.sum()), 1.0))
        nodes, weights = gauss_legendre(_NODES)
        products = np.log1p(-np.outer(0.5 * reach * (1.0 + nodes), others)).sum(axis=1)
        return float(shifted[index] + math.log(0.5 * reach * float(np.exp(products) @ weights)))


def _laplace(index: int, log_weights: Array) -> float | None:
    if log_weights.size > _MOST_WITH_LAPLACE:
        return None
    others = np.delete(log_weights, index)

    def log_of(x: Array) -> Array:
        above = x[:, None] - others
        tails = np.log1p(-0.5 * np.exp(-np.maximum(above, 0.0)))
        return np.asarray(
            np.where(above < 0.0, above - math.log(2.0), tails).sum(axis=1)
            - np.abs(x - log_weights[index])
            - math.log(2.0)
        )

    return log_integral(log_of, log_weights, 1.0)
