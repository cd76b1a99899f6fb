"""Independent continuous noise on every entry of a value."""

import math
from typing import ClassVar, Literal

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import Array, FixedNoise, GaussianNoise, ValueMechanism, residual
from dpaudit.models import Positive
from dpaudit.noise.grid import OnGrid, grid
from dpaudit.noise.randomness import Randomness


class Gaussian(GaussianNoise, ValueMechanism):
    """Independent Gaussian noise of standard deviation `sigma` on every entry.

    Obligation: the query's L2 distance between neighbouring data sets is at most the sensitivity;
    then the release is (sensitivity/sigma)-GDP, exactly (Dong, Roth, Su 2022, Theorem 2.7), and
    sensitivity^2/(2 sigma^2)-zCDP (Bun and Steinke 2016, Proposition 1.6).
    """

    norms: ClassVar[tuple[Norm, ...]] = ("l2",)
    drawn_exactly = True

    kind: Literal["gaussian"] = "gaussian"

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """`value`, of any shape, plus noise of the same shape."""
        return randomness.gaussian(value, self.sigma)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        return normal_log_density(residual(output, query), self.sigma)


class LaplaceNoise(FixedNoise, ValueMechanism):
    """Laplace noise on every entry, on the line or on the integers."""

    norms: ClassVar[tuple[Norm, ...]] = ("l1",)
    noise_field = "scale"

    scale: Positive

    @property
    def spread(self) -> float:
        """The standard deviation of the noise on one entry."""
        return math.sqrt(2.0) * self.scale


class Laplace(LaplaceNoise):
    """Independent Laplace noise of scale `scale` on every entry.

    Obligation: the query's L1 distance between neighbouring data sets is at most the sensitivity;
    then the release is (sensitivity/scale)-DP (Dwork, McSherry, Nissim, Smith 2006, Theorem 1).
    """

    drawn_exactly = True

    kind: Literal["laplace"] = "laplace"

    def dominating_pair(self) -> dominating.Laplace:
        """One coordinate moved by the whole sensitivity."""
        return dominating.Laplace(self.ratio(self.scale))

    @property
    def grid(self) -> int:
        """The grid's exponent, which follows from the scale."""
        return grid(self.scale)

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """`value`, of any shape, plus noise of the same shape."""
        return randomness.laplace(value, self.scale)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        noise = residual(output, query)
        return -float(np.abs(noise / self.scale).sum()) - noise.size * math.log(2.0 * self.scale)


def normal_log_density(noise: Array, sigma: float) -> float:
    """Log density of independent centred Gaussians of standard deviation `sigma`, summed."""
    exponent = 0.5 * float(np.square(noise / sigma).sum())
    return -exponent - noise.size * (math.log(sigma) + 0.5 * math.log(2.0 * math.pi))
