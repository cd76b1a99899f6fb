"""Noise mechanisms: their parameters, their samplers, and the dominating pair of one run.

Each class states its proof obligation: its theorem and the conditions of that theorem. The core, accountants
and auditors use further methods of the class; `dpaudit.mechanisms.base` holds their defaults. Accountants
compose the pairs.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import Field, SerializationInfo, WrapSerializer, WrapValidator

from dpaudit.errors import UnknownKind
from dpaudit.mechanisms.additive import Gaussian, Laplace, SymmetricGaussian
from dpaudit.mechanisms.base import (
    Answer,
    Array,
    Asked,
    BaseMechanism,
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
from dpaudit.models import did_you_mean
from dpaudit.registry import Registry

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

#: Mechanisms that add noise to one sum over a secret sample of its rows.
AnySampledSum: TypeAlias = PoissonSampled | FixedSizeSampled | TruncatedPoissonSampled | SampledRecords

#: Our own mechanisms by kind.
OWN_KINDS: dict[str, type[AnyMechanism]] = {
    one.model_fields["kind"].default: one for one in get_args(AnyMechanism)
}


class _Kinds(Registry[type[AnyMechanism]]):
    """Mechanisms by kind; subclasses of ours are refused, since they could change the noise."""

    def refusal(self, name: str, entry: object) -> str | None:
        if not isinstance(entry, type) or not issubclass(entry, BaseMechanism):
            return "it is no subclass of dpaudit.mechanisms.BaseMechanism"
        if issubclass(entry, tuple(OWN_KINDS.values())):
            return "it is a subclass of one of dpaudit's mechanisms"
        kind = getattr(entry.model_fields.get("kind"), "default", None)
        return None if kind == name else f"its kind is {kind!r}"


#: Our mechanisms and those of installed packages, by kind.
KINDS = _Kinds("mechanisms", type, OWN_KINDS)


def kind_named(kind: str, where: str) -> type[AnyMechanism]:
    """Return the class of a kind, ours or of another package; raises `UnknownKind`."""
    if kind in KINDS:
        return KINDS[kind]
    known = f"known kinds: {', '.join(KINDS)}; or install the package that adds it"
    raise UnknownKind(f"unknown kind {kind!r}", where=where, remedy=did_you_mean(kind, KINDS) + known)


def _read(value: Any, ours: Callable[[Any], Any]) -> Any:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    if not isinstance(kind, str) or kind in OWN_KINDS:
        return ours(value)
    added = kind_named(kind, "mechanism")
    return value if type(value) is added else added.model_validate(value)


def _written(value: Any, info: SerializationInfo) -> Any:
    return value.model_dump(mode=info.mode, by_alias=info.by_alias, exclude_none=info.exclude_none)


#: A mechanism as a field of a model, discriminated by `kind`; with a lambda, pydantic keeps our JSON schema.
Mechanism = Annotated[
    AnyMechanism,
    Field(discriminator="kind"),
    WrapValidator(_read),
    WrapSerializer(lambda one, ours, info: ours(one) if one.kind in OWN_KINDS else _written(one, info)),
]


__all__ = [
    "KINDS",
    "OWN_KINDS",
    "AboveThreshold",
    "Answer",
    "AnyMechanism",
    "AnySampledSum",
    "Array",
    "Asked",
    "BaseMechanism",
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
    "kind_named",
]
