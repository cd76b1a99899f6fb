"""A mechanism that runs on a secret random part of the records."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dpaudit.claims.sensitivity import Norm, Sensitivity
from dpaudit.mechanisms.additive import Gaussian, Laplace
from dpaudit.mechanisms.calibrated import Array
from dpaudit.models import Model, Positive

Inner = Annotated[Gaussian | Laplace, Field(discriminator="kind")]


class PoissonSampled(Model):
    """`mechanism` on a sum over units, each unit in it with probability `rate`, independently.

    Obligation: who was sampled stays secret; the inner sensitivity bounds the change of the sum when
    one sampled unit is taken out as well as when it changes. Pure epsilon becomes
    log(1 + rate (e^epsilon - 1)) (Balle, Barthe and Gaboardi 2018, Theorem 8 and section 4; the same
    holds under replace-one, as the sum without the unit is within epsilon of both).
    """

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Annotated[Positive, Field(le=1)]
    mechanism: Inner

    @property
    def sensitivity(self) -> Sensitivity:
        """The inner mechanism's: that of the sum over whoever was sampled."""
        return self.mechanism.sensitivity

    @property
    def norm(self) -> Norm:
        """The norm of the inner mechanism's sensitivity."""
        return self.mechanism.norm

    def sample(self, rows: Array, generator: np.random.Generator) -> Array:
        """The noisy sum [...] of the sampled ones of the units' rows [n, ...]."""
        chosen = generator.random(len(rows)) < self.rate
        return self.mechanism.sample(rows[chosen].sum(axis=0), generator)

    def log_density(self, output: Array, without: Array, with_unit: Array) -> float:
        """Log density of `output` where one unit's membership is all that is unknown.

        Args:
            output: the noisy sum.
            without: the sum over the other sampled units.
            with_unit: the same sum with the unit in it.
        """
        inside = math.log(self.rate) + self.mechanism.log_density(output, with_unit)
        if self.rate == 1.0:
            return inside
        outside = math.log1p(-self.rate) + self.mechanism.log_density(output, without)
        return float(np.logaddexp(outside, inside))
