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
    from dpaudit.certificate.certificate import Certificate, judge
    from dpaudit.certificate.verdicts import Accounting, Audit, Experiment, Finding, Proof
    from dpaudit.claims.bounds import Bound
    from dpaudit.claims.claims import Claim, Premise
    from dpaudit.claims.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
    from dpaudit.claims.pairs import Pair
    from dpaudit.claims.relations import Neighbouring, TrustModel, View
    from dpaudit.claims.sensitivity import L1, L2, RKHS, Frobenius, Sensitivity
    from dpaudit.curator.curator import Curator, Filter
    from dpaudit.curator.noise import LiveNoise, NoNoise, ReplayedNoise, Transcript
    from dpaudit.curator.running import Algorithm, Run, run
    from dpaudit.curator.views import UserViews
    from dpaudit.errors import DpauditError
    from dpaudit.ledger.ledger import Header, Ledger
    from dpaudit.ledger.releases import Partition, Release
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

# Public name -> its module, imported at first use: `dpaudit --help` must not wait for numpy.
_MODULES = {
    "Accounting": "certificate.verdicts",
    "Algorithm": "curator.running",
    "ApproxDP": "claims.guarantees",
    "Audit": "certificate.verdicts",
    "Bound": "claims.bounds",
    "Certificate": "certificate.certificate",
    "Claim": "claims.claims",
    "Curator": "curator.curator",
    "DiscreteGaussian": "mechanisms",
    "DiscreteLaplace": "mechanisms",
    "DpauditError": "errors",
    "Experiment": "certificate.verdicts",
    "Exponential": "mechanisms",
    "ExponentialKernel": "mechanisms",
    "Filter": "curator.curator",
    "Finding": "certificate.verdicts",
    "Frobenius": "claims.sensitivity",
    "GDP": "claims.guarantees",
    "Gaussian": "mechanisms",
    "GaussianProcess": "mechanisms",
    "Header": "ledger.ledger",
    "L1": "claims.sensitivity",
    "L2": "claims.sensitivity",
    "Laplace": "mechanisms",
    "Ledger": "ledger.ledger",
    "LiveNoise": "curator.noise",
    "Neighbouring": "claims.relations",
    "NoNoise": "curator.noise",
    "OpaqueApproxDP": "mechanisms",
    "OpaquePureDP": "mechanisms",
    "OpaqueZCDP": "mechanisms",
    "Pair": "claims.pairs",
    "Partition": "ledger.releases",
    "PoissonSampled": "mechanisms",
    "Premise": "claims.claims",
    "Proof": "certificate.verdicts",
    "PureDP": "claims.guarantees",
    "RDP": "claims.guarantees",
    "RKHS": "claims.sensitivity",
    "RandomizedResponse": "mechanisms",
    "Release": "ledger.releases",
    "ReplayedNoise": "curator.noise",
    "Run": "curator.running",
    "Sensitivity": "claims.sensitivity",
    "SmoothGaussian": "mechanisms",
    "SymmetricGaussian": "mechanisms",
    "Tabulated": "mechanisms",
    "Transcript": "curator.noise",
    "TreeAggregation": "mechanisms",
    "TrustModel": "claims.relations",
    "UserViews": "curator.views",
    "View": "claims.relations",
    "ZCDP": "claims.guarantees",
    "judge": "certificate.certificate",
    "run": "curator.running",
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
