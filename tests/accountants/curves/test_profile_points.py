from __future__ import annotations

import math

import pytest
from scipy.special import ndtr

from dpaudit import (
    L1,
    L2,
    ZCDP,
    ApproxDP,
    Claim,
    Gaussian,
    Header,
    Laplace,
    Ledger,
    OpaqueApproxDP,
    Release,
)
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.certificate.curve_points import LEAST_POINTS, CurvePoints
from dpaudit.mechanisms import AnyMechanism

GAUSSIAN = Gaussian(sigma=2.0, sensitivity=L2(1.0))


def curves(*mechanisms: AnyMechanism, claim: Claim | None = None, **header: object) -> dict[str, CurvePoints]:
    ledger = Ledger(Header(algorithm="a", unit="row", neighbouring="replace-one", claim=claim, **header))  # type: ignore[arg-type]
    for index, mechanism in enumerate(mechanisms):
        ledger.append(Release(label=f"release {index}", mechanism=mechanism))
    ledger.finish()
    return {curve.method: curve for curve in profile_points(ledger, account(ledger))}


def test_every_accountant_has_a_curve_and_none_is_below_the_truth() -> None:
    found = curves(GAUSSIAN, GAUSSIAN)
    assert set(found) == {"gdp", "zcdp", "rdp", "pld"}
    mu = math.sqrt(0.5)
    for curve in found.values():
        assert len(curve.points) >= LEAST_POINTS
        assert curve.points[0][0] == 0.0
        for epsilon, delta in curve.points:
            exact = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
            assert delta >= exact - 1e-15
    tight = [found[name].points for name in ("gdp", "pld")]
    for (_, one), (_, other) in zip(*tight, strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_the_claims_epsilon_is_among_the_points() -> None:
    found = curves(GAUSSIAN, claim=Claim(ApproxDP(epsilon=1.2345, delta=1e-3)))
    assert all(1.2345 in dict(curve.points) for curve in found.values())


def test_a_budget_is_what_has_a_curve() -> None:
    budget = {"schedule": "filtered", "budget": ZCDP(rho=0.5)}
    (curve,) = curves(GAUSSIAN, **budget).values()
    assert curve.method == "zcdp"
    wider = curves(GAUSSIAN, group_size=2, **budget)["zcdp"]
    # At the same epsilon a group of two has four times the rho, hence more delta.
    same = next(e for e, _ in curve.points if e > 1)
    assert max(d for e, d in wider.points if e >= same) > dict(curve.points)[same]


@pytest.mark.nightly
def test_dear_accountants_are_asked_where_they_alone_prove_the_claim() -> None:
    many = [Laplace(scale=3.0 + index / 10, sensitivity=L1(1.0)) for index in range(9)]
    assert "pld" not in curves(*many)
    assert "pld" in curves(*many[:8])
    tight = account_epsilon(many)
    claim = Claim(ApproxDP(epsilon=tight * 1.0001, delta=1e-4))
    assert "pld" in curves(*many, claim=claim)


def account_epsilon(mechanisms: list[Laplace]) -> float:
    ledger = Ledger(Header(algorithm="a", unit="row", neighbouring="replace-one"))
    for mechanism in mechanisms:
        ledger.append(Release(label="r", mechanism=mechanism))
    ledger.finish()
    best = account(ledger, Claim(ApproxDP(epsilon=0.0, delta=1e-4))).bounds[0]
    assert best.method == "pld"
    assert isinstance(best.guarantee, ApproxDP)
    return best.guarantee.epsilon


def test_a_mechanism_that_may_reveal_everything() -> None:
    claim = Claim(ApproxDP(epsilon=1.0, delta=1e-7))
    opaque = OpaqueApproxDP(epsilon=1.0, delta=1e-7, justification="a paper")
    for curve in curves(opaque, claim=claim).values():
        assert min(delta for _, delta in curve.points) >= 1e-7 * (1 - 1e-12)
