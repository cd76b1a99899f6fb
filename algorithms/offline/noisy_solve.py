"""Linear systems whose matrix is a noisy release, and may be anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def solve_noisy(gram: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """gram^-1 columns, [d, n]; NaN where the matrix is singular: such an output tells nothing."""
    try:
        return np.linalg.solve(gram, columns).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return np.full(columns.shape, np.nan)
