"""The same mechanisms with more or less noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.closed_forms.rounding import down, up
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianProcess,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)


def scaled(mechanism: AnyMechanism, factor: float) -> AnyMechanism:
    """A mechanism whose noise is `factor` times as large, rounded towards more noise.

    A scale is multiplied; the epsilon of randomized response or of the exponential mechanism is divided.
    What is opaque, or has its noise from the data, stays as it is.

    Raises:
        CannotBound: the noise is past the largest double, or the epsilon below the smallest.
    """
    match mechanism:
        case Gaussian() | DiscreteGaussian() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            return mechanism.model_copy(update={"sigma": _times(mechanism.sigma, factor)})
        case Laplace() | DiscreteLaplace():
            return mechanism.model_copy(update={"scale": _times(mechanism.scale, factor)})
        case RandomizedResponse() | Exponential():
            return mechanism.model_copy(update={"epsilon": _divided(mechanism.epsilon, factor)})
        case PoissonSampled():
            return mechanism.model_copy(update={"mechanism": scaled(mechanism.mechanism, factor)})
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated() | SmoothGaussian():
            return mechanism
        case _:
            assert_never(mechanism)


def with_noise(mechanism: AnyMechanism, noise: float) -> AnyMechanism:
    """The mechanism with another value of its `noise_parameter`, if it has one."""
    if isinstance(mechanism, PoissonSampled):
        return mechanism.model_copy(update={"mechanism": with_noise(mechanism.mechanism, noise)})
    found = noise_parameter(mechanism)
    return mechanism if found is None else mechanism.model_copy(update={found[0]: noise})


def noise_parameter(mechanism: AnyMechanism) -> tuple[str, float] | None:
    """The name and value of the number that sets the noise; None where no such number is free."""
    match mechanism:
        case Gaussian() | DiscreteGaussian() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            return "sigma", mechanism.sigma
        case Laplace() | DiscreteLaplace():
            return "scale", mechanism.scale
        case RandomizedResponse() | Exponential():
            return "epsilon", mechanism.epsilon
        case PoissonSampled():
            return noise_parameter(mechanism.mechanism)
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated() | SmoothGaussian():
            return None
        case _:
            assert_never(mechanism)


def _times(noise: float, factor: float) -> float:
    product = up(Fraction(noise) * Fraction(factor))
    if not math.isfinite(product):
        raise CannotBound(f"noise {noise!r} times {factor!r} exceeds every double", where="factor")
    return product


def _divided(epsilon: float, factor: float) -> float:
    quotient = down(Fraction(epsilon) / Fraction(factor))
    if not 0.0 < quotient < math.inf:
        raise CannotBound(f"epsilon {epsilon!r} over {factor!r} is no double", where="factor")
    return quotient
