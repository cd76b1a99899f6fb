"""LSW: first-visit Monte Carlo by least squares with weights that do not follow the data.

Balle, Gomrokchi and Precup (2016), section 3.1. Not private; `dp_lsw` is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.episodes import FirstVisits

_Vector = NDArray[np.float64]


def lsw(visits: FirstVisits, features: _Vector, weights: _Vector) -> _Vector:
    """theta_X = (Gamma^(1/2) Phi)^+ Gamma^(1/2) F_X, Gamma = diag(w) (equation 8); [d].

    Args:
        visits: counts and mean returns.
        features: Phi, [N, d].
        weights: w, [N], at least 0.
    """
    root = np.sqrt(weights)
    theta = np.linalg.lstsq(root[:, None] * features, root * visits.means)[0]
    return np.asarray(theta, dtype=np.float64)


def lsw_excess(theta: _Vector, best: _Vector, features: _Vector, weights: _Vector) -> float:
    """J_X(theta) - J_X(best), by how much the empirical risk (equation 6) is above its minimum.

    J is quadratic: the difference is the weighted squared norm of Phi (theta - best).
    """
    return float(weights @ np.square(features @ (theta - best)))
