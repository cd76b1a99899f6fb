"""State a privacy claim; prove it from a typed ledger; try to refute it by experiment.

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
    from dpaudit.accountants.calibration.calibration import calibrate as calibrate
    from dpaudit.auditors.replay.replay import replay as replay
    from dpaudit.certificate.certificate import Certificate as Certificate
    from dpaudit.certificate.certificate import judge as judge
    from dpaudit.certificate.verdicts import Accounting as Accounting
    from dpaudit.certificate.verdicts import Audit as Audit
    from dpaudit.certificate.verdicts import Experiment as Experiment
    from dpaudit.certificate.verdicts import Finding as Finding
    from dpaudit.certificate.verdicts import Proof as Proof
    from dpaudit.claims.bounds import Bound as Bound
    from dpaudit.claims.claims import Claim as Claim
    from dpaudit.claims.claims import Premise as Premise
    from dpaudit.claims.guarantees import GDP as GDP
    from dpaudit.claims.guarantees import RDP as RDP
    from dpaudit.claims.guarantees import ZCDP as ZCDP
    from dpaudit.claims.guarantees import ApproxDP as ApproxDP
    from dpaudit.claims.guarantees import PureDP as PureDP
    from dpaudit.claims.pairs import Pair as Pair
    from dpaudit.claims.relations import Neighbouring as Neighbouring
    from dpaudit.claims.relations import TrustModel as TrustModel
    from dpaudit.claims.relations import View as View
    from dpaudit.claims.sensitivity import L1 as L1
    from dpaudit.claims.sensitivity import L2 as L2
    from dpaudit.claims.sensitivity import RKHS as RKHS
    from dpaudit.claims.sensitivity import Frobenius as Frobenius
    from dpaudit.claims.sensitivity import Sensitivity as Sensitivity
    from dpaudit.curator.curator import Curator as Curator
    from dpaudit.curator.curator import Filter as Filter
    from dpaudit.curator.deferred import Deferred as Deferred
    from dpaudit.curator.noise import LiveNoise as LiveNoise
    from dpaudit.curator.noise import NoNoise as NoNoise
    from dpaudit.curator.noise import ReplayedNoise as ReplayedNoise
    from dpaudit.curator.noise import Transcript as Transcript
    from dpaudit.curator.running import Algorithm as Algorithm
    from dpaudit.curator.running import Run as Run
    from dpaudit.curator.running import run as run
    from dpaudit.curator.views import UserViews as UserViews
    from dpaudit.errors import DpauditError as DpauditError
    from dpaudit.ledger.ledger import Header as Header
    from dpaudit.ledger.ledger import Ledger as Ledger
    from dpaudit.ledger.releases import Partition as Partition
    from dpaudit.ledger.releases import Release as Release
    from dpaudit.mechanisms import BufferedToeplitz as BufferedToeplitz
    from dpaudit.mechanisms import DiscreteGaussian as DiscreteGaussian
    from dpaudit.mechanisms import DiscreteLaplace as DiscreteLaplace
    from dpaudit.mechanisms import Exponential as Exponential
    from dpaudit.mechanisms import ExponentialKernel as ExponentialKernel
    from dpaudit.mechanisms import FixedSizeSampled as FixedSizeSampled
    from dpaudit.mechanisms import Gaussian as Gaussian
    from dpaudit.mechanisms import GaussianProcess as GaussianProcess
    from dpaudit.mechanisms import GaussianSparseVector as GaussianSparseVector
    from dpaudit.mechanisms import KeySelection as KeySelection
    from dpaudit.mechanisms import Laplace as Laplace
    from dpaudit.mechanisms import LowerTriangular as LowerTriangular
    from dpaudit.mechanisms import MatrixMechanism as MatrixMechanism
    from dpaudit.mechanisms import MixtureOfGaussians as MixtureOfGaussians
    from dpaudit.mechanisms import NegativeBinomial as NegativeBinomial
    from dpaudit.mechanisms import OpaqueApproxDP as OpaqueApproxDP
    from dpaudit.mechanisms import OpaquePureDP as OpaquePureDP
    from dpaudit.mechanisms import OpaqueZCDP as OpaqueZCDP
    from dpaudit.mechanisms import Poisson as Poisson
    from dpaudit.mechanisms import PoissonSampled as PoissonSampled
    from dpaudit.mechanisms import PrivateSelection as PrivateSelection
    from dpaudit.mechanisms import RandomAllocation as RandomAllocation
    from dpaudit.mechanisms import RandomizedResponse as RandomizedResponse
    from dpaudit.mechanisms import ReportNoisyMax as ReportNoisyMax
    from dpaudit.mechanisms import SampledMatrix as SampledMatrix
    from dpaudit.mechanisms import SampledRecords as SampledRecords
    from dpaudit.mechanisms import Shuffled as Shuffled
    from dpaudit.mechanisms import SmoothGaussian as SmoothGaussian
    from dpaudit.mechanisms import SparseVector as SparseVector
    from dpaudit.mechanisms import SymmetricGaussian as SymmetricGaussian
    from dpaudit.mechanisms import Tabulated as Tabulated
    from dpaudit.mechanisms import Toeplitz as Toeplitz
    from dpaudit.mechanisms import TreeAggregation as TreeAggregation
    from dpaudit.mechanisms import TrialRelease as TrialRelease
    from dpaudit.mechanisms import TruncatedPoissonSampled as TruncatedPoissonSampled
    from dpaudit.pipeline.accounting import account as account
    from dpaudit.pipeline.accounting import verify as verify
    from dpaudit.pipeline.audit import audit as audit
    from dpaudit.pipeline.audit import one_run as one_run
    from dpaudit.pipeline.certify import RunDiverged as RunDiverged
    from dpaudit.pipeline.certify import certify as certify
    from dpaudit.pipeline.convert import convert as convert
    from dpaudit.pipeline.epsilon import epsilon as epsilon
    from dpaudit.pipeline.supports import Support as Support
    from dpaudit.pipeline.supports import supports as supports
    from dpaudit.tables.table import Table as Table

# Module -> its public names, imported on first use so that `dpaudit --help` does not import numpy.
_NAMES = {
    "accountants.calibration.calibration": "calibrate",
    "auditors.replay.replay": "replay",
    "certificate.certificate": "Certificate judge",
    "certificate.verdicts": "Accounting Audit Experiment Finding Proof",
    "claims.bounds": "Bound",
    "claims.claims": "Claim Premise",
    "claims.guarantees": "ApproxDP GDP PureDP RDP ZCDP",
    "claims.pairs": "Pair",
    "claims.relations": "Neighbouring TrustModel View",
    "claims.sensitivity": "Frobenius L1 L2 RKHS Sensitivity",
    "curator.curator": "Curator Filter",
    "curator.deferred": "Deferred",
    "curator.noise": "LiveNoise NoNoise ReplayedNoise Transcript",
    "curator.running": "Algorithm Run run",
    "curator.views": "UserViews",
    "errors": "DpauditError",
    "ledger.ledger": "Header Ledger",
    "ledger.releases": "Partition Release",
    "mechanisms": (
        "BufferedToeplitz DiscreteGaussian DiscreteLaplace Exponential ExponentialKernel FixedSizeSampled "
        "Gaussian GaussianProcess GaussianSparseVector KeySelection Laplace LowerTriangular MatrixMechanism "
        "MixtureOfGaussians NegativeBinomial OpaqueApproxDP OpaquePureDP OpaqueZCDP Poisson PoissonSampled "
        "PrivateSelection RandomAllocation RandomizedResponse ReportNoisyMax SampledMatrix SampledRecords "
        "Shuffled SmoothGaussian SparseVector SymmetricGaussian Tabulated Toeplitz TreeAggregation "
        "TrialRelease TruncatedPoissonSampled"
    ),
    "pipeline.accounting": "account verify",
    "pipeline.audit": "audit one_run",
    "pipeline.certify": "RunDiverged certify",
    "pipeline.convert": "convert",
    "pipeline.epsilon": "epsilon",
    "pipeline.supports": "Support supports",
    "tables.table": "Table",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_MODULES)


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
