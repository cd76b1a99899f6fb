"""PEVI: pessimistic value iteration with linear features (Jin, Yang and Wang 2021, Algorithm 2).

Not private. Here too is what VAPVI and DP-VAPVI do once they hold a Gram matrix and regression weights.

Jin, Y., Yang, Z. and Wang, Z. (2021). Is Pessimism Provably Efficient for Offline RL? ICML.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.offline.offline import Policy
from dpaudit.errors import DataError


def pevi(data: TrajectoryData, features: NDArray[np.float64], *, bonus: float, ridge: float = 1.0) -> Policy:
    """Ridge regression of r + V on the features, less ``bonus`` times the elliptical uncertainty.

    Args:
        data: K trajectories.
        features: phi, [S, A, d].
        bonus: beta; the analysis has c d H sqrt(log), the experiments of the literature far less.
        ridge: lambda > 0.

    Raises:
        DataError: the data are of other sizes than the feature map (for the data's holder).
    """
    require_sizes(data, features)
    n_states, _, dimension = features.shape
    horizon = data.horizon
    actions = np.zeros((horizon, n_states), dtype=np.int64)
    values = np.zeros((horizon + 1, n_states))
    for h in reversed(range(horizon)):
        phi = features[data.states[:, h], data.actions[:, h]]  # [K, d]
        gram = phi.T @ phi + ridge * np.eye(dimension)
        target = data.rewards[:, h] + values[h + 1, data.states[:, h + 1]]  # [K]
        weights = solved(gram, phi.T @ target)  # [d]
        action_values = pessimistic_action_values(features, weights, gram, bonus, 0.0, horizon - h)
        actions[h], values[h] = action_values.argmax(axis=1), action_values.max(axis=1)
    return Policy(actions, values)


def pessimistic_action_values(
    features: NDArray[np.float64],
    weights: NDArray[np.float64],
    gram: NDArray[np.float64],
    bonus: float,
    offset: float,
    cap: float,
) -> NDArray[np.float64]:
    """<phi, w> - bonus sqrt(phi' gram^-1 phi) - offset, clipped to [0, cap], at every (s, a).

    Args:
        features: phi, [S, A, d].
        weights: w, [d].
        gram: [d, d], positive definite.
        bonus: multiplies the uncertainty.
        offset: subtracted everywhere.
        cap: the most that the remaining steps can earn.

    Returns:
        [S, A]; 0 where the estimate is no number, which overflow makes it.
    """
    flat = features.reshape(-1, features.shape[-1])  # [S A, d]
    with np.errstate(over="ignore", invalid="ignore"):
        squared = (flat * solved(gram, flat.T).T).sum(axis=1)  # [S A]
        estimate = flat @ weights - bonus * np.sqrt(np.maximum(squared, 0.0)) - offset
    clipped: NDArray[np.float64] = np.fmax(np.minimum(estimate, cap), 0.0).reshape(features.shape[:2])
    return clipped


def solved(gram: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """gram^-1 right, of the shape of ``right``: [d] or [d, n]."""
    return np.asarray(np.linalg.solve(gram, right), dtype=np.float64)


def theoretical_bonus(dimension: int, horizon: int, scale: float) -> float:
    """Beta = scale d H, the analysis' order without its logarithm (Jin, Yang and Wang 2021, Theorem 4.4)."""
    return scale * dimension * horizon


def require_sizes(data: TrajectoryData, features: NDArray[np.float64], horizon: int | None = None) -> None:
    """Raise `DataError` unless the data speak of the feature map's states and actions, and of H steps."""
    found = (data.horizon, data.n_states, data.n_actions)
    wanted = (data.horizon if horizon is None else horizon, *features.shape[:2])
    if found != wanted or not math.prod(wanted):
        raise DataError(
            f"H, S, A = {found}, the public parameters say {wanted}",
            where="trajectories",
            remedy="declare the sizes that the feature map has",
        )
