"""How far the contour has to be followed: a proved bound on what lies beyond any point of it.

The integrand beyond the node t_N = N h is bounded by a non-increasing step function, so that the sum over the
further nodes is below the integral from t_N on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpaudit.accountants.privacy_loss.contour.factors import Factor, Vector

_RATIO = 1.1
_STEPS = 280  # 1.1^280 = 4e11


class Tail(NamedTuple):
    """Bounds on (1/pi) * integral over t > start of |M(c + it)| / (M(c) t^2), and of |M| / M(c) itself.

    Each [steps]. The second is infinite unless a Gaussian factor is there to damp it.
    """

    start: Vector
    weighted: Vector
    plain: Vector


def tail(factors: Sequence[Factor], c: float, first: float, gaussian_variance: float = 0.0) -> Tail:
    """Bound the tail from every point of a geometric ladder that begins at `first` > 0.

    Args:
        factors: the moment generating function's factors.
        c: abscissa.
        first: the ladder's first rung.
        gaussian_variance: variance of a Gaussian that is one of the factors, for `plain`.
    """
    start: Vector = np.asarray(first * _RATIO ** np.arange(_STEPS), dtype=np.float64)
    end = np.append(start[1:], np.inf)
    logs = np.zeros(_STEPS)
    for factor in factors:
        logs = logs + factor.decay(c, start, end)
    # The largest over this and all later intervals never increases along the ladder.
    modulus = np.exp(np.maximum.accumulate(np.minimum(logs, 0.0)[::-1])[::-1]) * (1.0 + 1e-9)
    pieces = modulus * (1.0 / start - 1.0 / end)
    weighted = np.cumsum(pieces[::-1])[::-1] / np.pi * (1.0 + 1e-9)
    if gaussian_variance > 0.0:
        # Integral beyond T of e^(-v t^2 / 2) <= e^(-v T^2 / 2) / (v T).
        with np.errstate(over="ignore", under="ignore"):
            damping = np.exp(-0.5 * gaussian_variance * start**2 * (1.0 - 1e-12))
            plain = damping / (gaussian_variance * start * np.pi) * (1.0 + 1e-9)
    else:
        plain = np.full(_STEPS, np.inf)
    return Tail(start, weighted, plain)
