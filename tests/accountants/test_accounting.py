import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mpmath import mp
from numpy.typing import NDArray
from scipy.integrate import simpson

from dpaudit import (
    GDP,
    L1,
    L2,
    RDP,
    ZCDP,
    ApproxDP,
    Claim,
    Curator,
    Gaussian,
    Laplace,
    Ledger,
    Premise,
    Proof,
    PureDP,
    run,
)
from dpaudit.accountants.accounting import account, bounds
from dpaudit.accountants.curves.curves import profiles
from dpaudit.accountants.filters.filters import ZCDPFilter
from dpaudit.certificate.conditions import Code, Condition, Releases
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE, leading_figure
from dpaudit.errors import CannotBound, ClaimMismatch, NotCertifiable
from dpaudit.mechanisms import OpaqueApproxDP
from tests import make, oracles

GAUSSIAN = Gaussian(sigma=2.0, sensitivity=L2(1.0, "proved"))  # rho = 1/8, mu = 1/2
LAPLACE = Laplace(scale=2.0, sensitivity=L1(1.0, "proved"))  # epsilon = 1/2


def ledger(*mechanisms: Any, claimed: Any = None, **header: Any) -> Ledger:
    labelled = (make.release(m, label=f"r{index}", claimed=claimed) for index, m in enumerate(mechanisms))
    return make.ledger(*labelled, **{"neighbouring": "replace-one", **header})


def verdict(claim: Any, *mechanisms: Any) -> Proof | None:
    return account(ledger(*mechanisms), Claim(claim)).verdict


@pytest.mark.parametrize(
    ("kind", "figure", "mechanisms"),
    [
        (lambda x: ZCDP(rho=x), 0.25, [GAUSSIAN] * 2),
        (lambda x: ZCDP(rho=x), 0.5 + math.exp(-0.5) - 1, [LAPLACE]),
        (lambda x: GDP(mu=x), math.sqrt(0.5), [GAUSSIAN] * 2),
        (lambda x: RDP(alpha=3.0, epsilon=x), 0.375, [GAUSSIAN]),
        (lambda x: PureDP(epsilon=x), 1.5, [LAPLACE] * 3),
    ],
)
def test_the_least_true_claim_is_proved_and_a_smaller_one_is_not(
    kind: Any, figure: float, mechanisms: Any
) -> None:
    assert verdict(kind(figure), *mechanisms) is Proof.PROVED
    assert verdict(kind(figure * 1.01), *mechanisms) is Proof.PROVED
    assert verdict(kind(figure * (1 + 0.5 * CLAIM_TOLERANCE)), *mechanisms) is Proof.PROVED
    assert verdict(kind(figure * (1 - 2 * CLAIM_TOLERANCE)), *mechanisms) is Proof.NOT_PROVED
    assert verdict(kind(0.0), *mechanisms) is Proof.NOT_PROVED
    assert verdict(kind(0.0)) is Proof.PROVED  # nothing was released


def test_approximate_claims_are_judged_by_the_exact_gaussian_curve() -> None:
    accounting = account(ledger(*[GAUSSIAN] * 4), Claim(ApproxDP(epsilon=4.0, delta=1e-5)))
    figures = [bound.guarantee.epsilon for bound in accounting.bounds]
    assert figures == sorted(figures)
    best = accounting.bounds[0]
    assert best.method == "gdp"
    with mp.workdps(60):
        assert oracles.gaussian_delta(1.0, best.guarantee.epsilon) <= 1e-5
        assert oracles.gaussian_delta(1.0, best.guarantee.epsilon * (1 - 1e-9)) > 1e-5
    assert accounting.verdict is Proof.NOT_PROVED
    assert verdict(ApproxDP(epsilon=4.4, delta=1e-5), *[GAUSSIAN] * 4) is Proof.PROVED
    assert verdict(ApproxDP(epsilon=0.5, delta=1e-12), LAPLACE) is Proof.PROVED


def fourier_deltas(epsilons: Sequence[float], losses: NDArray[np.float64]) -> list[float]:
    """Deltas of Laplace noise of these pure epsilons, from the density of the total loss; for a smooth one.

    The density is the inverse Fourier transform of the product of E_P[e^(itL)], by the trapezoid rule up to
    |t| = 12 with a period of 200; delta is its mean of 1 - e^(epsilon - l) from epsilon to epsilon + 30, by
    Simpson's rule. Of the product less than 1e-30 is left at |t| = 12, and of the loss beyond epsilon + 30.
    """
    t = 2.0 * np.pi / 200.0 * np.arange(383)
    s = 1j * t
    whole = np.zeros(len(t), dtype=np.complex128)
    for e in losses.tolist():
        whole += np.log(((s + 1.0) * np.exp(s * e) + s * np.exp(-(s + 1.0) * e)) / (2.0 * s + 1.0))
    assert whole[-1].real < math.log(1e-30)
    weight = np.where(t > 0.0, 2.0, 1.0) / 200.0 * np.exp(whole)

    def delta(epsilon: float) -> float:
        loss = np.linspace(epsilon, epsilon + 30.0, 3001)
        density = (np.exp(-1j * np.outer(loss, t)) @ weight).real
        return float(simpson(density * -np.expm1(epsilon - loss), x=loss))

    return [delta(epsilon) for epsilon in epsilons]


def test_ten_thousand_different_releases_have_a_tight_total() -> None:
    """Both ends are those of an inverse Fourier transform, within 1e-7; other accountants' are far above."""
    scales = np.linspace(60.0, 90.0, 10_000)
    releases = [make.laplace(scale) for scale in scales.tolist()]
    found = account(ledger(*releases), Claim(ApproxDP(epsilon=9.0, delta=1e-6))).bounds
    methods = {bound.method: bound.guarantee for bound in found}
    assert found[0].method == "pld"
    upper, lower = methods["pld"].epsilon, found[0].at_least
    assert lower <= upper <= lower * (1.0 + 1e-9)
    too_small, too_large = fourier_deltas([upper * (1.0 + share) for share in (-1e-7, 1e-7)], 1.0 / scales)
    assert too_large < 1e-6 < too_small
    assert [f"{one:.4g}" for one in (upper, methods["gdp"].epsilon)] == ["6.946", "9.086"]
    assert upper < 0.95 * methods["zcdp"].epsilon < 0.9 * methods["gdp"].epsilon


def test_a_scale_without_a_bound_proves_nothing() -> None:
    accounting = account(ledger(GAUSSIAN, claimed=PureDP(epsilon=9.0)), Claim(PureDP(epsilon=1e9)))
    assert accounting.bounds == ()
    assert accounting.verdict is Proof.NOT_PROVED
    assert accounting.releases[0].verdict is Proof.NOT_PROVED


def test_a_false_premise_unproves_and_no_claim_means_no_verdict() -> None:
    claim = ZCDP(rho=1.0)
    for left, proof in ((1.0, Proof.PROVED), (3.0, Proof.NOT_PROVED), (math.nan, Proof.NOT_PROVED)):
        premise = Premise(name="p", left=left, relation="<", right=2.0)
        assert account(ledger(GAUSSIAN), Claim(claim, premises=(premise,))).verdict is proof
    unclaimed = account(ledger(GAUSSIAN))
    assert unclaimed.verdict is None
    assert unclaimed.bounds[0].guarantee == ZCDP(rho=0.125)
    with pytest.raises(ClaimMismatch):
        account(ledger(GAUSSIAN), Claim(claim, unit="user"))


def test_releases_are_judged_one_by_one_beside_the_total() -> None:
    accounting = account(ledger(GAUSSIAN, GAUSSIAN, claimed=ZCDP(rho=0.1)), Claim(ZCDP(rho=0.25)))
    assert accounting.verdict is Proof.PROVED
    assert [release.verdict for release in accounting.releases] == [Proof.NOT_PROVED] * 2
    assert not accounting.all_proved
    accounting = account(ledger(GAUSSIAN, GAUSSIAN, claimed=ZCDP(rho=0.125)), Claim(ZCDP(rho=0.24)))
    assert accounting.verdict is Proof.NOT_PROVED
    assert [release.verdict for release in accounting.releases] == [Proof.PROVED] * 2
    assert not accounting.all_proved
    assert [release.verdict for release in account(ledger(GAUSSIAN)).releases] == [None]


def spends(times: int) -> Any:
    def algorithm(data: Any, curator: Curator) -> None:
        for _ in range(times):
            curator.release(0.0, GAUSSIAN, label="x")

    return algorithm


def test_a_filtered_schedule_proves_its_budget_and_nothing_less() -> None:
    for times in (0, 1, 4):
        made = run(spends(times), None, budget=ZCDPFilter(0.5)).ledger
        assert account(made, Claim(ZCDP(rho=0.5))).verdict is Proof.PROVED
        assert account(made, Claim(ZCDP(rho=0.499))).verdict is Proof.NOT_PROVED
        assert account(made, Claim(GDP(mu=10.0))).verdict is Proof.NOT_PROVED
        assert account(made, Claim(RDP(alpha=2.0, epsilon=1.0))).verdict is Proof.PROVED
        loose = account(made, Claim(ApproxDP(epsilon=10.0, delta=1e-6))).bounds
        assert [bound.method for bound in loose] == ["budget"]
        # What a filter admits may exceed the budget by the stated tolerance: the bound holds for that too.
        assert account(made).bounds[0].guarantee.rho >= 0.5


def test_releases_above_the_budget_that_a_ledger_states_are_refused() -> None:
    for budget in (ZCDP(rho=0.2), GDP(mu=0.1), PureDP(epsilon=5.0)):
        with pytest.raises((NotCertifiable, CannotBound)):
            account(ledger(GAUSSIAN, GAUSSIAN, schedule="filtered", budget=budget))


def test_more_noise_or_fewer_releases_never_cost_more() -> None:
    wanted = [ZCDP(rho=0.0), GDP(mu=0.0), ApproxDP(epsilon=0.0, delta=1e-6), RDP(alpha=2.0, epsilon=0.0)]

    def least(sigma: float, count: int, guarantee: Any) -> float:
        return leading_figure(bounds(make.composition((make.gaussian(sigma), count)), guarantee)[0].guarantee)

    for guarantee in wanted:
        quieter = [least(sigma, 5, guarantee) for sigma in (0.3, 1.0, 1.001, 30.0)]
        longer = [least(2.0, count, guarantee) for count in (1, 2, 50, 10**6)]
        assert all(a > b for a, b in itertools.pairwise(quieter))
        assert all(a < b for a, b in itertools.pairwise(longer))


@pytest.mark.parametrize(
    "mechanism", [make.gaussian(1e-300, 1e10), make.gaussian(5e-324), make.laplace(1e-300, 1e300)]
)
@pytest.mark.parametrize(
    "wanted", [ZCDP(rho=1.0), GDP(mu=1.0), ApproxDP(epsilon=1.0, delta=0.1), RDP(alpha=2.0, epsilon=1.0)]
)
def test_a_cost_past_every_double_is_refused(mechanism: Any, wanted: Any) -> None:
    with pytest.raises(CannotBound):
        account(ledger(mechanism), Claim(wanted))
    with pytest.raises(CannotBound):
        profiles(make.composition(mechanism))


def test_what_is_taken_on_trust_is_listed() -> None:
    fixed, only = (
        Condition(code=code, replayed=False) for code in (Code.FIXED_SEQUENCE, Code.ONLY_THROUGH_LEDGER)
    )
    assert account(ledger(GAUSSIAN)).not_checked == (fixed, only)
    declared = account(ledger(*[make.gaussian(2.0)] * 7)).not_checked[0]
    assert declared.code is Code.DECLARED_SENSITIVITY
    assert declared.releases == Releases(number=7, labels=("r0", "r1", "r2", "r3", "r4"), more_labels=True)
    made = Ledger(ledger().header)
    made.append(make.release(GAUSSIAN, part="half"))
    assert {Code.NO_FOOTER, Code.SPLIT_BY_POSITION} <= {one.code for one in account(made).not_checked}
    assert Code.SPLIT_BY_VALUES not in {one.code for one in account(made).not_checked}
    made.append(make.release(GAUSSIAN, part="a", by="values"))
    assert Code.SPLIT_BY_VALUES in {one.code for one in account(made).not_checked}
    made.hashed = False
    assert Condition(code=Code.NO_HASHES) in account(made).not_checked
    honest = Claim(ZCDP(rho=1.0), assumptions=("honest users",))
    assert Condition(code=Code.ASSUMED, text="honest users") in account(made, honest).not_checked
    filtered = account(run(spends(1), None, budget=ZCDPFilter(1.0)).ledger).not_checked
    assert only in filtered
    assert fixed not in filtered


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-5, 3e-4, 0.05])
def test_an_opaque_release_without_a_claim_of_its_own_is_shown_where_it_has_a_bound(delta: float) -> None:
    """It fails with probability delta, so there is no epsilon at a smaller one."""
    opaque = OpaqueApproxDP(epsilon=0.5, delta=delta, justification="another library's proof")
    accounting = account(make.ledger(opaque), Claim(ApproxDP(epsilon=0.5, delta=delta)))
    assert accounting.verdict == "PROVED"
    (release,) = accounting.releases
    assert isinstance(release.proved, ApproxDP)
    assert release.proved.delta >= delta
    assert release.proved.epsilon <= 0.5 * (1 + 1e-9)
