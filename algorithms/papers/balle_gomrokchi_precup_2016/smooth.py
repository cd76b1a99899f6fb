"""Gaussian noise under a smooth bound on how far a least-squares value estimate moves, and its calibration.

A function psi of the visit counts is beta-smooth if log psi changes by at most beta where every count
changes by at most one; that is all a replaced trajectory does. The least such bound above phi is
max_k e^(-k beta) phi_k, where phi_k is the largest phi within k of the counts (Nissim, Raskhodnikova and
Smith 2007; Lemma 4 of Balle, Gomrokchi and Precup 2016).

The paper computes either maximum in O(K N). Both are found faster here:

* LSW: between the points where a count reaches 1 every term w/max(v - k, 1)^2 is log-convex in k, and so
  is their sum: log of e^(-k beta) phi_k is convex there, and its maximum at an end. There are at most
  U + 1 ends for U different counts.
* LSL: sum_s rho_s min(v_s + k, m) is concave in k; so are its root, that plus a constant, and its
  logarithm. The maximum is where the increment falls below beta, which bisection finds in O(N log m).

**Calibration**, alpha and beta: ``lemma`` is the paper's Lemma 1. ``exact`` keeps its beta and takes the
least alpha at which the worst pair of Gaussians meets (epsilon, delta): 6 to 40 times less noise. Neither is
relied on: the ledger holds alpha and beta, and accounting proves what they give.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms.data.trajectories import TERMS
from dpaudit.algorithms.public_parameters import Array, require_word
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import SmoothGaussian
from dpaudit.mechanisms.smooth import lemma_loss, lemma_parameters

CalibrationName: TypeAlias = Literal["lemma", "exact"]


class SmoothBound(NamedTuple):
    """A smooth bound on the squared sensitivity, up to a public factor, and the distance k of its maximum."""

    psi: float
    k: int


def lsw_bound(counts: Array, weights: Array, beta: float) -> SmoothBound:
    """max over k in 0..max |X_s| of e^(-k beta) sum_s w_s/max(|X_s| - k, 1)^2 (equation 9, Lemma 5).

    Counts |X_s| are [N] whole numbers, weights w [N] at least 0, and beta is positive.
    """
    distinct, places = np.unique(counts, return_inverse=True)  # [U]
    gathered = np.bincount(places, weights=weights)  # [U], the weight of all states with one count
    ends = np.unique(np.concatenate([[0.0], np.maximum(distinct - 1.0, 0.0)]))  # [U + 1] at most
    best = SmoothBound(-math.inf, 0)
    for some in np.array_split(ends, -(-len(ends) * len(distinct) // 2**22)):  # a part of the table at once
        left = np.maximum(distinct - some[:, None], 1.0)  # [ends, U]
        values = np.exp(-some * beta) * (gathered / (left * left)).sum(axis=1)
        at = int(values.argmax())
        if values[at] > best.psi:
            best = SmoothBound(float(values[at]), int(some[at]))
    return best


def lsl_bound(counts: Array, weights: Array, beta: float, factor: float, episodes: int) -> SmoothBound:
    """max over k in 0..m of e^(-k beta) phi_k (equation 12).

    phi_k = (c sqrt(sum_s rho_s min(|X_s| + k, m)) + norm2(rho))^2, c = norm(Phi) norm_inf(rho)/sqrt(2
    lambda). Counts |X_s| are [N] whole numbers in 0..m, weights rho [N] at least 0. Lemma 9 prints max where
    equation (12) has min; the bound with the max is not beta-smooth, as k ends at m.
    """
    rest = float(np.linalg.norm(weights))

    def increment(k: int) -> float:
        """log phi_(k+1) - log phi_k, without cancellation."""
        before = float(weights @ np.minimum(counts + k, episodes))
        growth = float(weights @ (counts + k < episodes))
        root, next_root = math.sqrt(before), math.sqrt(before + growth)
        step = growth / (root + next_root) if growth else 0.0
        return 2.0 * math.log1p(factor * step / (factor * root + rest))

    low, high = 0, episodes  # the least k with an increment of at most beta
    while low < high:
        middle = (low + high) // 2
        if increment(middle) > beta:
            low = middle + 1
        else:
            high = middle
    root = math.sqrt(float(weights @ np.minimum(counts + low, episodes)))
    return SmoothBound(math.exp(-low * beta) * (factor * root + rest) ** 2, low)


@dataclass(frozen=True)
class SmoothCalibration:
    """The noise of one smooth release of dimension d; `InvalidParameter` if no Gaussian noise will do."""

    name: CalibrationName
    guarantee: ApproxDP
    dimension: int

    def __post_init__(self) -> None:
        require_word(self.name, "calibration", get_args(CalibrationName))
        # Refuses an epsilon or delta of 0.
        lemma_parameters(self.guarantee.epsilon, self.guarantee.delta, self.dimension)

    @cached_property
    def mechanism(self) -> SmoothGaussian:
        """What stands in the ledger: public numbers alone, never the scale that the data chose."""
        epsilon, delta, dimension = self.guarantee.epsilon, self.guarantee.delta, self.dimension
        alpha, beta = lemma_parameters(epsilon, delta, dimension)
        if self.name == "exact":
            alpha = least_alpha(epsilon, delta, dimension, beta)
        return SmoothGaussian(alpha=alpha, beta=beta, dimension=dimension, epsilon=epsilon, delta=delta)

    def claim(self, *premises: Premise) -> Claim:
        """(epsilon, delta)-DP for a trajectory, and with ``lemma`` the range in which the lemma is proved."""
        noise = self.mechanism
        if self.name == "lemma":
            left = min(lemma_loss(noise.alpha, noise.beta, noise.dimension, noise.delta), 1e300)
            name = "largest loss outside probability delta"
            source = "Balle, Gomrokchi and Precup (2016), Lemma 1, whose proof needs it"
            proved = Premise(name=name, left=left, relation="<=", right=noise.epsilon, source=source)
            premises = (*premises, proved)
        return Claim(self.guarantee, **TERMS, premises=premises)


@lru_cache(maxsize=256)
def least_alpha(epsilon: float, delta: float, dimension: int, beta: float) -> float:
    """The least alpha at which the worst pair meets (epsilon, delta), raised by 4e-5.

    Accounting, which rounds up, proves the raised one. The worst pair has the larger variance first, by
    e^beta, and means apart by the smaller scale over alpha. Raises `InvalidParameter` where no alpha will do:
    the change of scale alone shows too much.
    """
    from scipy.optimize import brentq

    def excess(log_alpha: float) -> float:
        return worst_delta(epsilon, math.exp(log_alpha), dimension, beta) - delta

    low, high = -1.0, 0.0
    while excess(low) <= 0.0:  # towards alpha = 0 everything shows, and delta is 1
        low -= 1.0
    while excess(high) > 0.0:
        high += 1.0
        if high > 40.0:
            what = f"beta = {beta} for ({epsilon}, {delta}) in {dimension} dimensions"
            why = "a change of the noise's variance by e^beta alone shows more than that"
            raise InvalidParameter(what, where="the exact calibration", why=why, remedy="give a smaller beta")
    return float(math.exp(brentq(excess, low, high, xtol=1e-9))) * (1.0 + 4e-5)


def worst_delta(epsilon: float, alpha: float, dimension: int, beta: float) -> float:
    """delta(epsilon) of N(q, e^beta I) against N(0, I), |q| = 1/alpha, in floating point.

    Their log ratio exceeds epsilon outside a ball around -q/k, k = e^beta - 1, of squared radius

        (1 + k) (2 (epsilon + (d/2) log(1 + k))/k + |q|^2/k^2),

    and the squared distance from its centre is noncentral chi-square on either side.
    """
    from scipy.stats import ncx2

    growth = math.exp(beta)
    k, squared_shift = math.expm1(beta), alpha**-2.0
    squared_radius = growth * (2.0 * (epsilon + 0.5 * dimension * beta) / k + squared_shift / (k * k))
    first = ncx2.sf(squared_radius / growth, dimension, squared_shift * growth / (k * k))
    second = ncx2.sf(squared_radius, dimension, squared_shift / (k * k))
    delta = float(first - math.exp(epsilon) * second) if second > 0.0 else float(first)
    return 1.0 if math.isnan(delta) else delta  # so far apart that the distribution overflows
