"""How a public table is named in a ledger's header: by its hash."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def digest(values: NDArray[np.float64]) -> str:
    """SHA-256 of the numbers as little-endian doubles, hexadecimal."""
    return hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()
