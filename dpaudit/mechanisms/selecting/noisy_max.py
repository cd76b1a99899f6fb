"""Report noisy max: which of finitely many noisy numbers is the largest, and nothing else about them."""

import math
from fractions import Fraction
from typing import Literal

import numpy as np

from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import Array, fields
from dpaudit.mechanisms.selecting.integrals import gauss_legendre, log_integral
from dpaudit.mechanisms.selection import Choice
from dpaudit.noise.randomness import Randomness

#: Nodes for a product of linear factors: exact up to 128 of them, and for more see `log_probability`.
_NODES = 64
#: With Laplace noise the probabilities of more candidates are left out: each takes milliseconds.
_MOST_WITH_LAPLACE = 128
#: Beyond this over the sum of the weights there is less than e^-60 of the integral.
_REACH = 60.0


class ReportNoisyMax(Choice):
    """The index where log weight plus independent noise of scale 1 is largest; `noise_law` names the noise.

    With exponential noise that is permute-and-flip: in random order, a candidate whose log weight is d below
    the largest is taken with probability e^-d (Ding, Kifer, Saghaian, Steinke, Wang, Xiao and Zhang 2021). At
    the same epsilon its expected score is never below that of the exponential mechanism, which Gumbel noise
    gives (McKenna and Sheldon 2020, Theorem 2).

    Obligation: between neighbouring data sets the change of the log weights varies by at most epsilon
    over the candidates; then the choice is epsilon-DP (McKenna and Sheldon 2020, Theorem 1; for Laplace
    noise Dwork and Roth 2014, Claim 3.9). Proof for both: given all other noise, a candidate is chosen if
    its own noise passes a threshold, which moves by at most epsilon, and -log P(noise > x) has a slope of at
    most 1. Scores of sensitivity s meet it with w = epsilon score/(2 s), and with w = epsilon score/s if one
    unit moves all of them in one direction. Its range is not bounded by epsilon: of two candidates with equal
    log weights, moved by half of epsilon in opposite directions, the losses are epsilon and
    -log(2 - e^-epsilon).
    """

    example = fields(epsilon=0.5, noise_law="exponential")

    kind: Literal["report-noisy-max"] = "report-noisy-max"
    noise_law: Literal["exponential", "laplace"] = "exponential"

    def dominating_pair(self) -> dominating.Pure:
        """The pair that dominates every epsilon-DP pair."""
        return dominating.Pure(self.epsilon)

    def sample(
        self, log_weights: Array, randomness: Randomness, exactly: tuple[Array, Fraction] | None = None
    ) -> Array:
        """As `Choice.sample`."""
        draw = randomness.permute_and_flip if self.noise_law == "exponential" else randomness.noisy_max
        return np.array(float(draw(log_weights, exactly)))

    def log_probability(self, index: int, log_weights: Array) -> float | None:
        """As `Choice.log_probability`, good to about 1e-12; None for too many candidates with Laplace noise.

        With exponential noise and p_j = exp(w_j - max w): candidate i is taken if its coin of p_i shows heads
        and it comes first among those whose coins do, hence with probability p_i times the integral of the
        product of 1 - p_j t, j other than i, over t in [0, 1]. That is a polynomial. For S the sum of the
        p_j, its modulus at a point of the complex plane d away from [0, 1] is at most e^(S d); hence with
        `_NODES` nodes on [0, min(1, 60/S)] the quadrature's error is below e^-60.
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
