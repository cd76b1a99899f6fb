"""A library that knows nothing of dpaudit: it adds its own noise to a sum."""

import numpy as np


def noise(scale: float) -> float:
    """Laplace noise."""
    return float(np.random.default_rng().laplace(0.0, scale))


def private_sum(values: list[float], bound: float, epsilon: float) -> float:
    """The sum of values of at most a bound, epsilon-DP if a value is added or removed."""
    return sum(min(max(value, -bound), bound) for value in values) + noise(bound / epsilon)
