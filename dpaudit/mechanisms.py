"""Noise mechanisms: parameters, and how to sample; never how they compose.

The union is closed: an accountant matches on it and ends with `assert_never`, so that a mechanism
added here makes the type checker name every accountant that lacks its case. Each class states its
proof obligation: the theorem it rests on and what that theorem requires.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dpaudit.errors import NormMismatch
from dpaudit.models import Model, Positive
from dpaudit.sensitivity import CONVERSIONS, Norm, Sensitivity

Array = NDArray[np.float64]

#: The sampler that draws floating-point noise; a certificate over it says that it is not exact.
FLOATING_POINT_SAMPLER = "numpy-float64"


class Additive(Model):
    """What Gaussian and Laplace share: a sensitivity in one norm, and independent noise on each entry."""

    #: The norm in which the mechanism's theorem measures sensitivity.
    norm: ClassVar[Norm]

    sensitivity: Sensitivity

    @model_validator(mode="after")
    def _norm_fits(self) -> Self:
        needed, given = self.norm, self.sensitivity.norm
        if given != needed:
            conversion = CONVERSIONS.get((given, needed), "no sound conversion is known")
            raise NormMismatch(
                f"a {type(self).__name__} mechanism needs its sensitivity in norm {needed!r}, got {given!r}",
                where=f"{type(self).__name__}.sensitivity",
                remedy=f"{conversion}; or derive the sensitivity in norm {needed!r}",
            )
        return self


class Gaussian(Additive):
    """Independent Gaussian noise of standard deviation `sigma` on every entry.

    Obligation: the query's L2 distance between neighbouring data sets is at most the sensitivity;
    then the release is (sensitivity/sigma)-GDP, exactly (Dong, Roth, Su 2022, Theorem 2.7), and
    sensitivity^2/(2 sigma^2)-zCDP (Bun and Steinke 2016, Proposition 1.6).
    """

    norm: ClassVar[Norm] = "l2"

    kind: Literal["gaussian"] = "gaussian"
    sigma: Positive

    def sample(self, value: Array, generator: np.random.Generator) -> Array:
        """`value`, of any shape, plus noise of the same shape."""
        return value + generator.normal(0.0, self.sigma, value.shape)


class Laplace(Additive):
    """Independent Laplace noise of scale `scale` on every entry.

    Obligation: the query's L1 distance between neighbouring data sets is at most the sensitivity;
    then the release is (sensitivity/scale)-DP (Dwork, McSherry, Nissim, Smith 2006, Theorem 1).
    """

    norm: ClassVar[Norm] = "l1"

    kind: Literal["laplace"] = "laplace"
    scale: Positive

    def sample(self, value: Array, generator: np.random.Generator) -> Array:
        """`value`, of any shape, plus noise of the same shape."""
        return value + generator.laplace(0.0, self.scale, value.shape)


AnyMechanism: TypeAlias = Gaussian | Laplace

#: The same union as a field of a model, told apart by its kind.
Mechanism = Annotated[AnyMechanism, Field(discriminator="kind")]


def distance(norm: Norm, difference: Array) -> float:
    """The size of a difference of queries in a mechanism's norm; at most the largest double."""
    limit = np.finfo(np.float64).max
    entries = np.minimum(np.abs(difference).ravel(), limit)
    largest = float(entries.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # Scaled to the largest entry first, so that squares neither overflow nor vanish.
    entries = entries / largest
    length = float(entries.sum() if norm == "l1" else np.linalg.norm(entries))
    return min(length * largest, float(limit))
