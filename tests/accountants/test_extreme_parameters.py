"""Mechanisms with the largest and smallest parameters: a sound figure, or one of the project's errors."""

import itertools
from typing import Any

from dpaudit import (
    GDP,
    L1,
    L2,
    RDP,
    RKHS,
    ZCDP,
    ApproxDP,
    Claim,
    Exponential,
    ExponentialKernel,
    Frobenius,
    GaussianProcess,
    GaussianSparseVector,
    Header,
    KeySelection,
    Ledger,
    MatrixMechanism,
    MixtureOfGaussians,
    NegativeBinomial,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    Poisson,
    PoissonSampled,
    PrivateSelection,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    ReportNoisyMax,
    SampledRecords,
    Shuffled,
    SmoothGaussian,
    SparseVector,
    SymmetricGaussian,
    Toeplitz,
    TreeAggregation,
    TrialRelease,
    account,
)
from dpaudit.accountants.privacy_loss import PrivacyLoss, SampledGaussianTerm, SampledLaplaceTerm
from dpaudit.errors import DpauditError
from tests import make
from tests.sweeps import sweep

RATES = (1e-300, 1e-290, 1e-41, 1e-3, 1.0 - 1e-16)


@sweep("term", [SampledGaussianTerm, SampledLaplaceTerm], everyday=(1,))
@sweep("parameter, rate", [(1.0, 1e-300), (1e-300, 1e-290), (1e-20, 1e-300), (400.0, 1e-41)], everyday=(1,))
@sweep("count", [2, 10**12], everyday=(1,))
def test_runs_that_hardly_ever_draw_a_unit_have_a_sound_delta(
    term: Any, rate: float, parameter: float, count: int
) -> None:
    several = PrivacyLoss.compose([(term(parameter, rate), count)])
    one = PrivacyLoss.compose([(term(parameter, rate), 1)])
    for epsilon in (0.0, 1.0, 1e6):
        found = several.delta(epsilon)
        assert found.lower <= found.upper <= count * 1e-36
        assert found.upper >= one.delta(epsilon).lower
    assert several.epsilon(1e-6).upper == 0.0


BANDED = Toeplitz(coefficients=(1.0, 0.5))
SIZES = (1e-300, 1e-20, 1.0, 1e20, 1e300)
MECHANISMS: list[Any] = [
    *(make.gaussian(s, v) for s, v in itertools.product(SIZES, SIZES)),
    *(make.laplace(s, v) for s, v in itertools.product(SIZES, SIZES)),
    *(make.discrete_gaussian(s, v) for s, v in itertools.product(SIZES, (1.0, 2.0**60))),
    *(make.discrete_laplace(s, v) for s, v in itertools.product(SIZES, (1.0, 2.0**60))),
    *(SymmetricGaussian(dimension=3, sigma=s, sensitivity=Frobenius(1.0)) for s in SIZES),
    *(TreeAggregation(sigma=s, sensitivity=L2(1.0), steps=n) for s in SIZES for n in (1, 10**9)),
    *(GaussianProcess(sigma=s, sensitivity=RKHS(1.0), kernel=ExponentialKernel(beta=1.0)) for s in SIZES),
    *(RandomizedResponse(epsilon=e, categories=k) for e in SIZES for k in (2, 10**15)),
    *(Exponential(epsilon=e) for e in SIZES),
    *(ReportNoisyMax(epsilon=e) for e in SIZES),
    *(KeySelection(epsilon=e, delta=d, changes=1) for e in SIZES for d in (1e-300, 0.5)),
    *(
        Shuffled(local=RandomizedResponse(epsilon=e, categories=k), users=n)
        for e, k, n in itertools.product(SIZES, (2, 10**15), (1, 10**15))
    ),
    *(
        PrivateSelection(releases=(TrialRelease(mechanism=noise, count=n),), repetitions=law)
        for s, n in itertools.product(SIZES, (1, 10**12))
        for noise in (make.gaussian(s), make.laplace(s))
        for law in (
            NegativeBinomial(eta=1e-300, gamma=1e-300),
            NegativeBinomial(eta=1e300, gamma=1.0 - 2.0**-53),
            Poisson(mean=1e300),
        )
    ),
    *(
        SparseVector(epsilon=e, sensitivity=L1(v), answers=n)
        for e in SIZES
        for v in SIZES
        for n in (1, 10**9)
    ),
    *(
        GaussianSparseVector(sigma=s, sensitivity=L2(v), answers=n, steps=10 * n)
        for s, v, n in itertools.product(SIZES, SIZES, (1, 10**12))
    ),
    *(OpaquePureDP(epsilon=e, justification="x") for e in SIZES),
    *(OpaqueZCDP(rho=e, justification="x") for e in SIZES),
    *(OpaqueApproxDP(epsilon=e, delta=d, justification="x") for e in SIZES for d in (1e-300, 1.0 - 2.0**-53)),
    *(
        SmoothGaussian(alpha=a, beta=b, dimension=n, epsilon=1.0, delta=1e-6)
        for a, b, n in itertools.product((1e-300, 1.0, 1e300), (1e-300, 0.01, 1e300), (1, 10**15))
    ),
    *(
        PoissonSampled(rate=rate, mechanism=noise)
        for rate in RATES
        for s in SIZES
        for noise in (make.gaussian(s), make.laplace(s))
    ),
    *(
        MatrixMechanism(
            sigma=s, steps=n, strategy=BANDED, participations=n, separation=b, sensitivity=L2(1.0)
        )
        for s, n, b in itertools.product(SIZES, (1, 10**9), (1, 2))
    ),
    *(RandomAllocation(steps=n, mechanism=make.gaussian(s)) for s in SIZES for n in (1, 3)),
    *(
        SampledRecords(rate=rate, records=3, mechanism=make.gaussian(s))
        for rate, s in itertools.product(RATES, SIZES)
    ),
    *(MixtureOfGaussians(sigma=s, sensitivities=(0.0, 1e300), probabilities=(0.5, 0.5)) for s in SIZES),
    *(
        MixtureOfGaussians(sigma=s, sensitivities=(0.0, 1e-300, 1.0), probabilities=(0.5, 0.5, 1e-300))
        for s in SIZES
    ),
]
CLAIMS = [ZCDP(rho=1.0), GDP(mu=1.0), PureDP(epsilon=1.0), ApproxDP(epsilon=1.0, delta=1e-6)]
CLAIMS.append(RDP(alpha=2.0, epsilon=1.0))


@sweep("mechanism", MECHANISMS, everyday=[*range(0, 100, 12), *range(100, len(MECHANISMS), 28)])
def test_only_the_projects_own_errors_come_out(mechanism: Any) -> None:
    relations = ("add-or-remove-one", "replace-one") if mechanism.kind == "poisson-sampled" else ("zero-out",)
    for guarantee, relation, count in itertools.product(CLAIMS, relations, (1, 10**12)):
        header = {"algorithm": "a", "unit": "row", "neighbouring": relation, "trust_model": "central"}
        ledger = Ledger(Header.model_validate({**header, "claim": Claim(guarantee)}))
        ledger.append(make.release(mechanism, count))
        ledger.finish()
        try:
            found = account(ledger)
        except DpauditError:
            continue
        assert all(figure >= 0.0 for bound in found.bounds for figure in [_leading(bound)])


def _leading(bound: Any) -> float:
    found = bound.row()
    return next(float(found[name]) for name in ("rho", "mu", "epsilon") if name in found)
