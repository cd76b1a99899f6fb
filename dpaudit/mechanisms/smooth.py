"""Gaussian noise whose scale follows the data smoothly."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dpaudit.mechanisms.additive import normal_log_density
from dpaudit.mechanisms.calibrated import Array, residual
from dpaudit.models import Fraction, Model, Positive


class SmoothGaussian(Model):
    """Independent Gaussian noise of a standard deviation s that the data chose, within bounds.

    The scale s itself is private and never stands in the ledger.

    Obligation: for every pair of neighbouring data sets, with queries q, q' in R^dimension and scales
    s, s': (a) |q - q'| <= s/alpha in L2, and (b) |log s^2 - log s'^2| <= beta. The release is then
    (epsilon, delta)-DP if alpha and beta suffice for them, as alpha = 5 sqrt(2 ln(2/delta))/epsilon,
    beta = epsilon/(4 (dimension + ln(2/delta))) do for a moderate epsilon (Nissim, Raskhodnikova and
    Smith 2011; Balle, Gomrokchi and Precup 2016, Lemma 1).
    """

    kind: Literal["smooth-gaussian"] = "smooth-gaussian"
    alpha: Positive
    beta: Positive
    dimension: Annotated[int, Field(ge=1, strict=True)]
    epsilon: Positive
    delta: Fraction

    def sample(self, value: Array, scale: float, generator: np.random.Generator) -> Array:
        """`value`, of `dimension` entries, plus noise of standard deviation `scale`."""
        return value + generator.normal(0.0, scale, value.shape)

    def log_density(self, output: Array, query: Array, scale: float) -> float:
        """Log density of `output` given the query and the scale, summed over entries; same shapes."""
        return normal_log_density(residual(output, query), scale)
