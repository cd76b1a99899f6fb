"""Independent continuous noise on every entry of a value."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.mechanisms.calibrated import Array, Calibrated, residual
from dpaudit.models import Positive


class Gaussian(Calibrated):
    """Independent Gaussian noise of standard deviation `sigma` on every entry.

    Obligation: the query's L2 distance between neighbouring data sets is at most the sensitivity;
    then the release is (sensitivity/sigma)-GDP, exactly (Dong, Roth, Su 2022, Theorem 2.7), and
    sensitivity^2/(2 sigma^2)-zCDP (Bun and Steinke 2016, Proposition 1.6).
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l2",)

    kind: Literal["gaussian"] = "gaussian"
    sigma: Positive

    def sample(self, value: Array, generator: np.random.Generator) -> Array:
        """`value`, of any shape, plus noise of the same shape."""
        return value + generator.normal(0.0, self.sigma, value.shape)

    def log_density(self, output: Array, query: Array) -> float:
        """Log density of `output` given the query, summed over entries; same shapes."""
        return normal_log_density(residual(output, query), self.sigma)


class Laplace(Calibrated):
    """Independent Laplace noise of scale `scale` on every entry.

    Obligation: the query's L1 distance between neighbouring data sets is at most the sensitivity;
    then the release is (sensitivity/scale)-DP (Dwork, McSherry, Nissim, Smith 2006, Theorem 1).
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l1",)

    kind: Literal["laplace"] = "laplace"
    scale: Positive

    def sample(self, value: Array, generator: np.random.Generator) -> Array:
        """`value`, of any shape, plus noise of the same shape."""
        return value + generator.laplace(0.0, self.scale, value.shape)

    def log_density(self, output: Array, query: Array) -> float:
        """Log density of `output` given the query, summed over entries; same shapes."""
        noise = residual(output, query)
        return -float(np.abs(noise / self.scale).sum()) - noise.size * math.log(2.0 * self.scale)


def normal_log_density(noise: Array, sigma: float) -> float:
    """Log density of independent centred Gaussians of standard deviation `sigma`, summed."""
    exponent = 0.5 * float(np.square(noise / sigma).sum())
    return -exponent - noise.size * (math.log(sigma) + 0.5 * math.log(2.0 * math.pi))
