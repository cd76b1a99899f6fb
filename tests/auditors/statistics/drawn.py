"""Outputs of two sides of noise whose means are a shift apart."""

import numpy as np

from dpaudit.auditors.statistics.samples import Samples


def gaussian(mu: float, n: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(random.normal(mu, 1, n), random.normal(0, 1, n), seed)


def laplace(shift: float, n: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(shift + random.laplace(size=n), random.laplace(size=n), seed)
