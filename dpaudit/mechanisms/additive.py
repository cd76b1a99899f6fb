"""Continuous noise on every entry of a value, and symmetric noise on symmetric matrices."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from dpaudit.claims.sensitivity import Norm
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import dominating
from dpaudit.mechanisms.base import ONE, Array, FixedNoise, GaussianNoise, ValueMechanism, fields, residual
from dpaudit.models import Count, Scale
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

    example = fields(sigma=2.0, sensitivity=ONE["l2"])

    kind: Literal["gaussian"] = "gaussian"

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """Return `value`, of any shape, plus noise of the same shape."""
        return randomness.gaussian(value, self.sigma)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        return normal_log_density(residual(output, query), self.sigma)


class LaplaceNoise(FixedNoise, ValueMechanism):
    """Laplace noise on every entry, continuous or discrete."""

    norms: ClassVar[tuple[Norm, ...]] = ("l1",)
    noise_field = "scale"

    scale: Scale

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

    example = fields(scale=2.0, sensitivity=ONE["l1"])

    kind: Literal["laplace"] = "laplace"

    def dominating_pair(self) -> dominating.Laplace:
        """Return the pair of one coordinate, shifted by the whole sensitivity."""
        return dominating.Laplace(self.ratio(self.scale))

    @property
    def grid(self) -> int:
        """The grid's exponent, computed from the scale."""
        return grid(self.scale)

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """Return `value`, of any shape, plus noise of the same shape."""
        return randomness.laplace(value, self.scale)

    def log_density(self, output: Array, query: Array) -> float:
        """As `ValueMechanism.log_density`."""
        noise = residual(output, query)
        return -float(np.abs(noise / self.scale).sum()) - noise.size * math.log(2.0 * self.scale)


def normal_log_density(noise: Array, sigma: float) -> float:
    """Return the summed log density of independent centred Gaussians of standard deviation `sigma`."""
    exponent = 0.5 * float(np.square(noise / sigma).sum())
    return -exponent - noise.size * (math.log(sigma) + 0.5 * math.log(2.0 * math.pi))


class SymmetricGaussian(GaussianNoise, ValueMechanism):
    """Symmetric Gaussian noise: variance sigma^2 on the diagonal, sigma^2/2 off it.

    In the orthonormal basis E_ii, (E_ij + E_ji)/sqrt 2 of the symmetric matrices under the Frobenius
    inner product every coordinate has variance sigma^2: the noise is isotropic there.

    Obligation: the query is a symmetric matrix of `dimension` rows and its Frobenius distance between
    neighbouring data sets is at most the sensitivity; then the release is (sensitivity/sigma)-GDP, exactly
    (Dong, Roth, Su 2022, Theorem 2.7, in those coordinates).
    """

    norms: ClassVar[tuple[Norm, ...]] = ("frobenius",)
    beside_cost: ClassVar[Mapping[str, Any]] = {"dimension": 1}
    drawn_exactly = True

    example = fields(sigma=2.0, dimension=3, sensitivity=ONE["frobenius"])

    kind: Literal["symmetric-gaussian"] = "symmetric-gaussian"
    dimension: Count

    def sample(self, value: Array | OnGrid, randomness: Randomness) -> Array:
        """Return `value`, symmetric matrices [..., dimension, dimension], plus noise of the same shape."""
        return randomness.symmetric(value, self.sigma)

    def log_density(self, output: Array, query: Array) -> float:
        """Return the summed log density of the entries on and above the diagonal; -inf if not symmetric."""
        noise = residual(output, query)
        if not np.array_equal(output, np.swapaxes(output, -1, -2)):
            return -math.inf
        return symmetric_log_density(noise, self.sigma)

    def require_fits(self, query: Array, where: str) -> None:
        """Raise `InvalidParameter` unless the value is symmetric [..., dimension, dimension]."""
        require_symmetric(query, where)
        if query.shape[-1] != self.dimension:
            what = f"a value of shape {query.shape} for dimension {self.dimension}"
            raise InvalidParameter(what, where=where, remedy="give a matrix of the mechanism's dimension")


def require_symmetric(query: Array, where: str) -> None:
    """Raise `InvalidParameter` unless the value holds symmetric matrices in its last two axes."""
    square = query.ndim >= 2 and query.shape[-1] == query.shape[-2]
    if not square or not np.array_equal(query, np.swapaxes(query, -1, -2)):
        what = f"a value of shape {query.shape} that is not a symmetric matrix"
        why = "symmetric noise does not hide the antisymmetric part of a matrix"
        remedy = "release a symmetric matrix, or use an l2 mechanism"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)


def symmetric_log_density(noise: Array, sigma: float) -> float:
    """Return the log density of symmetric noise, over the entries on and above the diagonal."""
    rows, columns = np.triu_indices(noise.shape[-1], k=1)
    diagonal = np.diagonal(noise, axis1=-2, axis2=-1)
    return normal_log_density(diagonal, sigma) + normal_log_density(
        noise[..., rows, columns], sigma / math.sqrt(2.0)
    )
