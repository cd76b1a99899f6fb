"""Noise mechanisms: parameters, and how to sample; never how they compose.

The union is closed: an accountant matches on it and ends with `assert_never`, so that a mechanism
added here makes the type checker name every accountant that lacks its case. Each class states its
proof obligation: the theorem it rests on and what that theorem requires.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, assert_never

from pydantic import Field

from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.mechanisms.additive import Gaussian, Laplace
from dpaudit.mechanisms.calibrated import FLOATING_POINT_SAMPLER, Array, Calibrated, Sampler, distance
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.mechanisms.functions import ExponentialKernel, GaussianProcess, Path
from dpaudit.mechanisms.matrices import SymmetricGaussian
from dpaudit.mechanisms.opaque import OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, Tabulated
from dpaudit.mechanisms.sampled import PoissonSampled
from dpaudit.mechanisms.selection import Exponential, RandomizedResponse
from dpaudit.mechanisms.smooth import SmoothGaussian
from dpaudit.mechanisms.streams import Tree, TreeAggregation
from dpaudit.mechanisms.values import ValueMechanism

OpaqueMechanism: TypeAlias = OpaquePureDP | OpaqueApproxDP | OpaqueZCDP | Tabulated

CalibratedMechanism: TypeAlias = (
    Gaussian
    | Laplace
    | DiscreteGaussian
    | DiscreteLaplace
    | SymmetricGaussian
    | TreeAggregation
    | GaussianProcess
)

AnyMechanism: TypeAlias = (
    CalibratedMechanism | RandomizedResponse | Exponential | SmoothGaussian | PoissonSampled | OpaqueMechanism
)

#: The same union as a field of a model, told apart by its kind.
Mechanism = Annotated[AnyMechanism, Field(discriminator="kind")]


def sensitivity_of(mechanism: AnyMechanism) -> Sensitivity | None:
    """The sensitivity that a mechanism is calibrated to; None for those that have none."""
    match mechanism:
        case (
            Gaussian()
            | Laplace()
            | DiscreteGaussian()
            | DiscreteLaplace()
            | SymmetricGaussian()
            | TreeAggregation()
            | GaussianProcess()
            | PoissonSampled()
        ):
            return mechanism.sensitivity
        case RandomizedResponse() | Exponential() | SmoothGaussian():
            return None
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            return None
        case _:
            assert_never(mechanism)


def floating_point(mechanism: AnyMechanism) -> bool:
    """Whether `FLOATING_POINT_SAMPLER` draws this mechanism's noise in floating point, or may do so."""
    match mechanism:
        case DiscreteGaussian() | DiscreteLaplace():
            return False
        case Gaussian() | Laplace() | SymmetricGaussian() | TreeAggregation() | GaussianProcess():
            return True
        case RandomizedResponse() | Exponential() | SmoothGaussian() | PoissonSampled():
            return True
        case OpaquePureDP() | OpaqueApproxDP() | OpaqueZCDP() | Tabulated():
            return True
        case _:
            assert_never(mechanism)


__all__ = [
    "FLOATING_POINT_SAMPLER",
    "AnyMechanism",
    "Array",
    "Calibrated",
    "CalibratedMechanism",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "ExponentialKernel",
    "Gaussian",
    "GaussianProcess",
    "Laplace",
    "Mechanism",
    "OpaqueApproxDP",
    "OpaqueMechanism",
    "OpaquePureDP",
    "OpaqueZCDP",
    "Path",
    "PoissonSampled",
    "RandomizedResponse",
    "Sampler",
    "SmoothGaussian",
    "SymmetricGaussian",
    "Tabulated",
    "Tree",
    "TreeAggregation",
    "ValueMechanism",
    "distance",
    "floating_point",
    "sensitivity_of",
]
