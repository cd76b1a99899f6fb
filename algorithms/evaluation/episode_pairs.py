"""Neighbouring episodes that are hard on policy evaluation by least squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import Episodes
from dpaudit.claims.pairs import Pair

_Vector = NDArray[np.float64]

#: Episodes that visit one state alone, so that its count is out of the other counts' way.
_CROWD = 1000


def worst_episode_pairs(
    features: _Vector, weights: _Vector, discount: float, largest_return: float
) -> tuple[Pair, Pair]:
    """Two pairs: one moves the parameters most, the other changes the noise's scale most.

    **Returns**: one episode in all, which visits every state, once with returns of F_max and once of 0, or,
    where features mix states with either sign, with those that move the parameters further. All counts are
    1: the bound is then at its largest, whatever beta is, and smoothing adds nothing. With tabular features
    and equal weights DP-LSW's parameters move by exactly what the noise is calibrated to.

    **Visits**: two episodes visit every state, and many one state alone; one of the two is replaced by
    another that visits this state alone. All counts but one fall from 2 to 1, and log psi changes by beta.

    Args:
        features: Phi, [N, d].
        weights: [N], at least 0.
        discount: gamma.
        largest_return: F_max.
    """
    n_states = len(features)
    high = _furthest(features, weights)
    everywhere = np.arange(n_states)
    full, opposite = (
        (everywhere, _rewards(largest_return * up.astype(np.float64), discount)) for up in (high, ~high)
    )
    alone = Episodes.of([full], n_states)
    returns = Pair(alone, alone.replace(0, opposite), "one episode, all its returns replaced", unit=0)

    lightest = int(np.argmin(weights))
    short = (np.array([lightest]), np.zeros(1))
    empty = (everywhere, np.zeros(n_states))
    crowd = Episodes.of([full, empty, *[short] * _CROWD], n_states)
    description = "an episode that visits every state, replaced by one that visits a single state"
    return returns, Pair(crowd, crowd.replace(0, short), description, unit=0)


def _furthest(features: _Vector, weights: _Vector) -> NDArray[np.bool_]:
    """At which states a return of F_max, of 0 elsewhere, moves the parameters furthest; by local search."""
    root = np.sqrt(weights)
    moves = np.linalg.pinv(root[:, None] * features) * root  # [d, N]
    signs = np.ones(len(features))
    best = np.linalg.norm(moves @ signs)
    for start in (signs, np.sign(np.linalg.svd(moves)[2][0]) + 0.0):
        found = np.where(start >= 0.0, 1.0, -1.0)
        for _ in range(100):
            step = np.where(moves.T @ (moves @ found) >= 0.0, 1.0, -1.0)
            if (step == found).all():
                break
            found = step
        length = np.linalg.norm(moves @ found)
        if length > best * (1.0 + 1e-9):
            signs, best = found, length
    return signs > 0.0


def _rewards(returns: _Vector, discount: float) -> _Vector:
    """Rewards whose discounted sums are the given returns."""
    return returns - discount * np.append(returns[1:], 0.0)
