"""Noise mechanisms: parameters, how to sample, and the pair that dominates one run; never how they compose.

Each class states its proof obligation: the theorem it rests on and what that theorem requires. What else the
core, accountants and auditors need to know about a mechanism are methods of its class, whose defaults are in
`dpaudit.mechanisms.base`.
"""

from typing import Annotated, TypeAlias, get_args

from pydantic import Field

from dpaudit.mechanisms.additive import Gaussian, Laplace, SymmetricGaussian
from dpaudit.mechanisms.base import (
    Answer,
    Array,
    Asked,
    Calibrated,
    GaussianNoise,
    Queries,
    ValueMechanism,
    distance,
)
from dpaudit.mechanisms.correlated.amplified import SampledMatrix
from dpaudit.mechanisms.correlated.matrix import MatrixMechanism
from dpaudit.mechanisms.correlated.strategies import BufferedToeplitz, LowerTriangular, Toeplitz
from dpaudit.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.mechanisms.functions import ExponentialKernel, GaussianProcess
from dpaudit.mechanisms.opaque import OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, Tabulated
from dpaudit.mechanisms.samples.batches import FixedSizeSampled, TruncatedPoissonSampled
from dpaudit.mechanisms.samples.mixtures import MixtureOfGaussians, RandomAllocation, SampledRecords
from dpaudit.mechanisms.samples.sampled import HiddenSample, InTurns, OnSample, PoissonSampled, SampledSum
from dpaudit.mechanisms.selecting.keys import KeySelection
from dpaudit.mechanisms.selecting.noisy_max import ReportNoisyMax
from dpaudit.mechanisms.selecting.shuffled import Shuffled
from dpaudit.mechanisms.selecting.sparse_vector import AboveThreshold, GaussianSparseVector, SparseVector
from dpaudit.mechanisms.selecting.tuning import NegativeBinomial, Poisson, PrivateSelection, TrialRelease
from dpaudit.mechanisms.selection import Choice, Exponential, RandomizedResponse
from dpaudit.mechanisms.smooth import SmoothGaussian
from dpaudit.mechanisms.streams import RunningSums, StreamMechanism, Tree, TreeAggregation

OpaqueMechanism: TypeAlias = OpaquePureDP | OpaqueApproxDP | OpaqueZCDP | Tabulated

#: Every mechanism that a ledger may name.
AnyMechanism: TypeAlias = (
    Gaussian
    | Laplace
    | DiscreteGaussian
    | DiscreteLaplace
    | SymmetricGaussian
    | TreeAggregation
    | MatrixMechanism
    | GaussianProcess
    | RandomizedResponse
    | Exponential
    | ReportNoisyMax
    | SparseVector
    | GaussianSparseVector
    | PrivateSelection
    | KeySelection
    | Shuffled
    | SmoothGaussian
    | PoissonSampled
    | FixedSizeSampled
    | TruncatedPoissonSampled
    | SampledMatrix
    | MixtureOfGaussians
    | SampledRecords
    | RandomAllocation
    | OpaqueMechanism
)

#: The same mechanisms by their kinds, for whoever is given a name.
#: Noise on one sum over a secret sample of its rows.
AnySampledSum: TypeAlias = PoissonSampled | FixedSizeSampled | TruncatedPoissonSampled | SampledRecords

KINDS: dict[str, type[AnyMechanism]] = {
    one.model_fields["kind"].default: one for one in get_args(AnyMechanism)
}

#: The same union as a field of a model, told apart by its kind.
Mechanism = Annotated[AnyMechanism, Field(discriminator="kind")]


__all__ = [
    "KINDS",
    "AboveThreshold",
    "Answer",
    "AnyMechanism",
    "AnySampledSum",
    "Array",
    "Asked",
    "BufferedToeplitz",
    "Calibrated",
    "Choice",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "ExponentialKernel",
    "FixedSizeSampled",
    "Gaussian",
    "GaussianNoise",
    "GaussianProcess",
    "GaussianSparseVector",
    "HiddenSample",
    "InTurns",
    "KeySelection",
    "Laplace",
    "LowerTriangular",
    "MatrixMechanism",
    "Mechanism",
    "MixtureOfGaussians",
    "NegativeBinomial",
    "OnSample",
    "OpaqueApproxDP",
    "OpaqueMechanism",
    "OpaquePureDP",
    "OpaqueZCDP",
    "Poisson",
    "PoissonSampled",
    "PrivateSelection",
    "Queries",
    "RandomAllocation",
    "RandomizedResponse",
    "ReportNoisyMax",
    "RunningSums",
    "SampledMatrix",
    "SampledRecords",
    "SampledSum",
    "Shuffled",
    "SmoothGaussian",
    "SparseVector",
    "StreamMechanism",
    "SymmetricGaussian",
    "Tabulated",
    "Toeplitz",
    "Tree",
    "TreeAggregation",
    "TrialRelease",
    "TruncatedPoissonSampled",
    "ValueMechanism",
    "distance",
]
