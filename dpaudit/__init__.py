"""State a privacy claim; prove it from a typed ledger; try to break it by experiment.

>>> import numpy as np
>>> from dpaudit import L2, Claim, Curator, Gaussian, ZCDP, run
>>> data = np.random.default_rng(0).normal(size=(100, 3))
>>> def column_sums(data, curator):                  # any callable like this is an algorithm
...     norms = np.linalg.norm(data, axis=1, keepdims=True)
...     rows = data / np.maximum(norms, 1.0)             # [n, d], each row's L2 norm <= 1
...     noise = Gaussian(sigma=4.0, sensitivity=L2(2.0))
...     return curator.release(rows.sum(axis=0), noise, label="column sums")
>>> claim = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")
>>> result = run(column_sums, data, seed=7, claim=claim)
>>> result.output.shape
(3,)
>>> str(result.ledger.claim)
'0.125-zCDP per row (replace-one, central)'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpaudit.bounds import Bound
    from dpaudit.certificate import Certificate, judge
    from dpaudit.claims import Claim, Premise
    from dpaudit.curator import Curator, Filter
    from dpaudit.errors import DpauditError
    from dpaudit.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
    from dpaudit.ledger import Header, Ledger
    from dpaudit.mechanisms import (
        DiscreteGaussian,
        DiscreteLaplace,
        Exponential,
        ExponentialKernel,
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
    from dpaudit.noise import LiveNoise, NoNoise, ReplayedNoise, Transcript
    from dpaudit.pairs import Pair
    from dpaudit.relations import Neighbouring, TrustModel, View
    from dpaudit.releases import Partition, Release
    from dpaudit.running import Algorithm, Run, run
    from dpaudit.sensitivity import L1, L2, RKHS, Frobenius, Sensitivity
    from dpaudit.verdicts import Accounting, Audit, Experiment, Finding, Proof
    from dpaudit.views import UserViews

# Public name -> its module, imported at first use: `dpaudit --help` must not wait for numpy.
_MODULES = {
    "Accounting": "verdicts",
    "Algorithm": "running",
    "ApproxDP": "guarantees",
    "Audit": "verdicts",
    "Bound": "bounds",
    "Certificate": "certificate",
    "Claim": "claims",
    "Curator": "curator",
    "DiscreteGaussian": "mechanisms",
    "DiscreteLaplace": "mechanisms",
    "DpauditError": "errors",
    "Experiment": "verdicts",
    "Exponential": "mechanisms",
    "ExponentialKernel": "mechanisms",
    "Filter": "curator",
    "Finding": "verdicts",
    "Frobenius": "sensitivity",
    "GDP": "guarantees",
    "Gaussian": "mechanisms",
    "GaussianProcess": "mechanisms",
    "Header": "ledger",
    "L1": "sensitivity",
    "L2": "sensitivity",
    "Laplace": "mechanisms",
    "Ledger": "ledger",
    "LiveNoise": "noise",
    "Neighbouring": "relations",
    "NoNoise": "noise",
    "OpaqueApproxDP": "mechanisms",
    "OpaquePureDP": "mechanisms",
    "OpaqueZCDP": "mechanisms",
    "Pair": "pairs",
    "Partition": "releases",
    "PoissonSampled": "mechanisms",
    "Premise": "claims",
    "Proof": "verdicts",
    "PureDP": "guarantees",
    "RDP": "guarantees",
    "RKHS": "sensitivity",
    "RandomizedResponse": "mechanisms",
    "Release": "releases",
    "ReplayedNoise": "noise",
    "Run": "running",
    "Sensitivity": "sensitivity",
    "SmoothGaussian": "mechanisms",
    "SymmetricGaussian": "mechanisms",
    "Tabulated": "mechanisms",
    "Transcript": "noise",
    "TreeAggregation": "mechanisms",
    "TrustModel": "relations",
    "UserViews": "views",
    "View": "relations",
    "ZCDP": "guarantees",
    "judge": "certificate",
    "run": "running",
}

__all__ = [
    "GDP",
    "L1",
    "L2",
    "RDP",
    "RKHS",
    "ZCDP",
    "Accounting",
    "Algorithm",
    "ApproxDP",
    "Audit",
    "Bound",
    "Certificate",
    "Claim",
    "Curator",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DpauditError",
    "Experiment",
    "Exponential",
    "ExponentialKernel",
    "Filter",
    "Finding",
    "Frobenius",
    "Gaussian",
    "GaussianProcess",
    "Header",
    "Laplace",
    "Ledger",
    "LiveNoise",
    "Neighbouring",
    "NoNoise",
    "OpaqueApproxDP",
    "OpaquePureDP",
    "OpaqueZCDP",
    "Pair",
    "Partition",
    "PoissonSampled",
    "Premise",
    "Proof",
    "PureDP",
    "RandomizedResponse",
    "Release",
    "ReplayedNoise",
    "Run",
    "Sensitivity",
    "SmoothGaussian",
    "SymmetricGaussian",
    "Tabulated",
    "Transcript",
    "TreeAggregation",
    "TrustModel",
    "UserViews",
    "View",
    "judge",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("dpaudit")
    if name not in _MODULES:
        raise AttributeError(f"module 'dpaudit' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dpaudit.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
