import math

import pytest

from dpaudit import ZCDP, ApproxDP, Claim, Ledger, OpaqueApproxDP
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.profile_points import POINTS, profile_points, understated
from dpaudit.certificate.curve_points import LEAST_POINTS, CurvePoints
from dpaudit.certificate.verdicts import Accounting
from dpaudit.mechanisms import AnyMechanism
from tests import make, oracles

GAUSSIAN = make.gaussian(2.0)
NOTHING = make.gaussian(2.0, 0.0)


def curves(*mechanisms: AnyMechanism, claim: Claim | None = None, **header: object) -> dict[str, CurvePoints]:
    ledger = make.ledger(*mechanisms, claim=claim, **header)
    return {curve.method: curve for curve in profile_points(ledger, account(ledger))}


def test_every_accountant_has_a_curve_and_none_is_below_the_truth() -> None:
    found = curves(GAUSSIAN, GAUSSIAN)
    assert set(found) == {"gdp", "zcdp", "rdp", "pld"}
    mu = math.sqrt(0.5)
    for curve in found.values():
        assert len(curve.points) >= LEAST_POINTS
        assert curve.points[0][0] == 0.0
        for epsilon, delta in curve.points:
            assert delta >= oracles.gaussian_delta(mu, epsilon) - 1e-15
    for epsilon, delta in found["gdp"].points:
        assert delta == pytest.approx(float(oracles.gaussian_delta(mu, epsilon)), rel=1e-4, abs=1e-14)
    tight = [found[name].points for name in ("gdp", "pld")]
    for (_, one), (_, other) in zip(*tight, strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def test_the_claims_epsilon_is_among_the_points() -> None:
    found = curves(GAUSSIAN, claim=Claim(ApproxDP(epsilon=1.2345, delta=1e-3)))
    assert all(1.2345 in dict(curve.points) for curve in found.values())


def test_the_points_are_evenly_spaced_to_where_the_tightest_curve_vanishes() -> None:
    last = curves(GAUSSIAN, GAUSSIAN)["gdp"].points[-1]
    assert last[1] == pytest.approx(1e-10, rel=1e-3)
    for found, end in ((curves(GAUSSIAN, GAUSSIAN), last[0]), (curves(NOTHING), 1.0)):
        for curve in found.values():
            assert [epsilon for epsilon, _ in curve.points] == [end * step / 32 for step in range(POINTS)]


@pytest.fixture
def stated() -> tuple[Ledger, Accounting, dict[str, CurvePoints]]:
    ledger = make.ledger(GAUSSIAN, GAUSSIAN)
    accounting = account(ledger)
    return ledger, accounting, {curve.method: curve for curve in profile_points(ledger, accounting)}


def moved(curve: CurvePoints, factor: float, **fields: str) -> CurvePoints:
    points = tuple((epsilon, min(1.0, delta * factor)) for epsilon, delta in curve.points)
    return curve.model_copy(update={"points": points, **fields})


def test_a_stated_curve_may_not_lie_below_the_one_computed_again(
    stated: tuple[Ledger, Accounting, dict[str, CurvePoints]],
) -> None:
    """Its own method's, even where another one is tighter; of a method that is not used now, all of them."""
    ledger, accounting, found = stated

    def wrong(curve: CurvePoints) -> list[str]:
        return list(understated([curve], ledger, accounting))

    for curve in found.values():
        assert wrong(curve) == wrong(moved(curve, 1.01)) == wrong(moved(curve, 1 - 1e-10)) == []
        [what] = wrong(moved(curve, 0.99))
        assert f"by {curve.method} has delta" in what
        assert wrong(moved(curve, 1.01, rigour="interval")) == [
            f"its curve by {curve.method} has rigour interval, which no curve computed again has"
        ]
    assert wrong(moved(found["gdp"], 1.0, method="zcdp")) != []
    assert wrong(moved(found["gdp"], 1.01, method="of another library")) == []
    assert wrong(moved(found["gdp"], 0.9, method="of another library")) != []


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
    many = [make.laplace(3.0 + index / 10) for index in range(9)]
    assert "pld" not in curves(*many)
    assert "pld" in curves(*many[:8])
    tight = make.epsilon(make.ledger(*many), 1e-4, "pld")
    claim = Claim(ApproxDP(epsilon=tight * 1.0001, delta=1e-4))
    assert "pld" in curves(*many, claim=claim)


def test_a_mechanism_that_may_reveal_everything() -> None:
    claim = Claim(ApproxDP(epsilon=1.0, delta=1e-7))
    opaque = OpaqueApproxDP(epsilon=1.0, delta=1e-7, justification="a paper")
    for curve in curves(opaque, claim=claim).values():
        assert min(delta for _, delta in curve.points) >= 1e-7 * (1 - 1e-12)
