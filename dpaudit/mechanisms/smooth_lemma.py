"""The published lemma on Gaussian noise whose scale follows the data smoothly, and where its proof holds.

Nissim, K., Raskhodnikova, S. and Smith, A. (2011). Smooth sensitivity and sampling in private data analysis.
Balle, B., Gomrokchi, M. and Precup, D. (2016). Differentially Private Policy Evaluation. ICML. Lemma 1.
"""

from __future__ import annotations

import math

from dpaudit.errors import InvalidParameter


def lemma_parameters(epsilon: float, delta: float, dimension: int) -> tuple[float, float]:
    """The lemma's alpha = 5 sqrt(2 ln(2/delta))/epsilon and beta = epsilon/(4 (d + ln(2/delta))).

    Args:
        epsilon: in (0, inf).
        delta: in (0, 1).
        dimension: d >= 1.

    Raises:
        InvalidParameter: an argument is out of range.
    """
    tail = _tail(delta)
    if not 0.0 < epsilon < math.inf or dimension < 1:
        raise InvalidParameter(
            f"epsilon = {epsilon!r} in {dimension!r} dimensions",
            where="the lemma on smooth noise",
            why="its noise grows as 1/epsilon",
            remedy="give a positive, finite epsilon and at least one dimension",
        )
    return 5.0 * math.sqrt(2.0 * tail) / epsilon, epsilon / (4.0 * (dimension + tail))


def lemma_loss(alpha: float, beta: float, dimension: int, delta: float) -> float:
    """The largest privacy loss outside the event of probability delta that the lemma's proof excludes.

    Noise is (epsilon, delta)-DP for every epsilon of at least this. For a large epsilon in few dimensions
    the lemma's own alpha and beta give more than epsilon, and the lemma is false. With t = ln(2/delta):
    outside the event the chi-square |z|^2 is at most 2 d + 3 t (Laurent and Massart 2000) and the
    coordinate along the shift at most sqrt(2 t), so that under the larger scale first

        L <= (e^beta - 1) (d + 1.5 t) + e^(beta/2) sqrt(2 t)/alpha + 1/(2 alpha^2),

    and under the smaller first L <= d beta/2 + sqrt(2 t)/alpha + 1/(2 alpha^2).

    Args:
        alpha: the least ratio of scale to shift, in (0, inf).
        beta: the largest change of the log variance, in [0, inf).
        dimension: d >= 1.
        delta: in (0, 1).

    Returns:
        Nats, rounded up; infinite past what doubles hold.

    Raises:
        InvalidParameter: an argument is out of range.
    """
    tail = _tail(delta)
    if not (0.0 < alpha < math.inf and 0.0 <= beta < math.inf and dimension >= 1):
        raise InvalidParameter(
            f"alpha = {alpha!r}, beta = {beta!r} in {dimension!r} dimensions",
            where="the lemma on smooth noise",
            why="they bound how noise follows the data",
            remedy="give alpha > 0, beta >= 0, both finite, and at least one dimension",
        )
    if beta > 700.0:
        return math.inf
    shift = math.exp(0.5 * beta) * math.sqrt(2.0 * tail) / alpha + 0.5 / (alpha * alpha)
    scale = max(math.expm1(beta) * (dimension + 1.5 * tail), 0.5 * dimension * beta)
    return (shift + scale) * (1.0 + 1e-12)


def _tail(delta: float) -> float:
    if not 0.0 < delta < 1.0:
        raise InvalidParameter(
            f"delta = {delta!r}",
            where="the lemma on smooth noise",
            why="the event that its proof excludes has this probability",
            remedy="give a delta in (0, 1)",
        )
    return math.log(2.0 / delta)
