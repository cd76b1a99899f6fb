"""LSL: first-visit Monte Carlo by least squares with a ridge.

Balle, Gomrokchi and Precup (2016), section 3.2. Not private; `dp_lsl` is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import FirstVisits

_Vector = NDArray[np.float64]


def lsl(visits: FirstVisits, features: _Vector, weights: _Vector, ridge: float) -> _Vector:
    """theta_X = (Phi' Gamma_X Phi + lambda/(2m) I)^-1 Phi' Gamma_X F_X (equation 11); [d].

    Gamma_X = diag(rho_s |X_s|/m).

    Args:
        visits: counts and mean returns.
        features: Phi, [N, d].
        weights: rho, [N], at least 0.
        ridge: lambda, positive.
    """
    Gamma = weights * visits.counts / visits.episodes  # [N]
    theta = np.linalg.solve(
        _hessian(Gamma, features, ridge, visits.episodes), features.T @ (Gamma * visits.means)
    )
    return np.asarray(theta, dtype=np.float64)


def lsl_excess(
    theta: _Vector, best: _Vector, visits: FirstVisits, features: _Vector, weights: _Vector, ridge: float
) -> float:
    """J_X(theta) - J_X(best), by how much the empirical risk (equation 10) is above its minimum."""
    Gamma = weights * visits.counts / visits.episodes
    difference = theta - best
    return float(difference @ _hessian(Gamma, features, ridge, visits.episodes) @ difference)


def _hessian(Gamma: _Vector, features: _Vector, ridge: float, episodes: int) -> _Vector:
    hessian: _Vector = features.T @ (Gamma[:, None] * features)
    return hessian + ridge / (2.0 * episodes) * np.eye(features.shape[1])
