"""Smooth upper bounds on how far least-squares value estimates move: psi of Algorithms 1 and 2.

A function psi of the visit counts is beta-smooth if log psi changes by at most beta where every count
changes by at most one; that is all a replaced trajectory does. The least such bound above phi is
max_k e^(-k beta) phi_k, where phi_k is the largest phi within k of the counts (Nissim, Raskhodnikova and
Smith 2007; Lemma 4 of the paper below).

The paper computes either maximum in O(K N). Both are found faster here:

* LSW: between the points where a count reaches 1 every term w/max(v - k, 1)^2 is log-convex in k, and so
  is their sum: log of e^(-k beta) phi_k is convex there, and its maximum at an end. There are at most
  U + 1 ends for U different counts.
* LSL: sum_s rho_s min(v_s + k, m) is concave in k; so are its root, that plus a constant, and its
  logarithm. The maximum is where the increment falls below beta, which bisection finds in O(N log m).

Balle, B., Gomrokchi, M. and Precup, D. (2016). Differentially Private Policy Evaluation. ICML.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_Vector = NDArray[np.float64]


class SmoothBound(NamedTuple):
    """A smooth bound on the squared sensitivity, up to a public factor.

    Attributes:
        psi: its value.
        k: the distance at which the maximum lies.
    """

    psi: float
    k: int


def lsw_bound(counts: _Vector, weights: _Vector, beta: float) -> SmoothBound:
    """max over k in 0..max |X_s| of e^(-k beta) sum_s w_s/max(|X_s| - k, 1)^2 (equation 9, Lemma 5).

    Args:
        counts: [N] whole numbers, |X_s|.
        weights: [N] at least 0, w.
        beta: positive.
    """
    distinct, places = np.unique(counts, return_inverse=True)  # [U]
    gathered = np.bincount(places, weights=weights)  # [U], the weight of all states with one count
    ends = np.unique(np.concatenate([[0.0], np.maximum(distinct - 1.0, 0.0)]))  # [U + 1] at most
    best = SmoothBound(-math.inf, 0)
    for some in np.array_split(ends, -(-len(ends) * len(distinct) // _MOST_ENTRIES)):
        left = np.maximum(distinct - some[:, None], 1.0)  # [ends, U]
        values = np.exp(-some * beta) * (gathered / (left * left)).sum(axis=1)
        at = int(values.argmax())
        if values[at] > best.psi:
            best = SmoothBound(float(values[at]), int(some[at]))
    return best


#: Of the table of ends and counts that is held at once.
_MOST_ENTRIES = 1 << 22


def lsl_bound(counts: _Vector, weights: _Vector, beta: float, factor: float, episodes: int) -> SmoothBound:
    """max over k in 0..m of e^(-k beta) phi_k (equation 12).

    phi_k = (c sqrt(sum_s rho_s min(|X_s| + k, m)) + norm2(rho))^2. Lemma 9 prints max where equation (12) has
    min; the bound with the max is not beta-smooth, as k ends at m.

    Args:
        counts: [N] whole numbers in 0..m, |X_s|.
        weights: [N] at least 0, rho.
        beta: positive.
        factor: c = norm(Phi) norm_inf(rho)/sqrt(2 lambda).
        episodes: m.
    """
    rest = float(np.linalg.norm(weights))

    def increment(k: int) -> float:
        """log phi_(k+1) - log phi_k, without cancellation."""
        before = float(weights @ np.minimum(counts + k, episodes))
        growth = float(weights @ (counts + k < episodes))
        root, next_root = math.sqrt(before), math.sqrt(before + growth)
        step = growth / (root + next_root) if growth else 0.0
        return 2.0 * math.log1p(factor * step / (factor * root + rest))

    low, high = 0, episodes  # the least k whose increment is at most beta
    while low < high:
        middle = (low + high) // 2
        if increment(middle) > beta:
            low = middle + 1
        else:
            high = middle
    root = math.sqrt(float(weights @ np.minimum(counts + low, episodes)))
    return SmoothBound(math.exp(-low * beta) * (factor * root + rest) ** 2, low)
