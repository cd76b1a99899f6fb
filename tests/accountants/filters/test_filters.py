"""Filters admit what fits and nothing more; odometers hold at every moment at once.

The odometers' statistical test has a fixed seed; under the theorem its false-alarm probability is below 1e-6.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaudit import Claim, Curator, Ledger, Release, run
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.implied import budget_bounds
from dpaudit.accountants.filters.filters import GDPFilter, PureFilter, ZCDPFilter
from dpaudit.accountants.filters.odometers import GDPOdometer, ZCDPOdometer
from dpaudit.accountants.filters.renyi import RDPFilter
from dpaudit.certificate.verdicts import Proof, leading_figure
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import BudgetExceeded, CannotBound, InvalidParameter, NotCertifiable
from dpaudit.mechanisms import RandomizedResponse
from tests import make, oracles

#: mu of a 1-DP release: twice the normal quantile of e / (1 + e).
PURE_MU = 2.0 * NormalDist().inv_cdf(math.e / (1.0 + math.e))


def gaussian(mu: float, **fields: Any) -> Release:
    return make.release(make.gaussian(1.0, mu), **fields)


def test_squares_of_mu_add_up_to_the_budget_and_no_further() -> None:
    held = GDPFilter(5.0)
    held.spend(gaussian(3.0))
    held.spend(gaussian(2.0, count=4))
    assert held.spent == 5.0
    for refused in (gaussian(0.01), gaussian(1e-3, count=1000)):
        with pytest.raises(BudgetExceeded, match="mu, GDP"):
            held.spend(refused)
        assert held.spent == 5.0
    held.spend(gaussian(0.0))


def test_a_mechanism_without_mu_is_refused_and_not_charged() -> None:
    held = GDPFilter(5.0)
    held.spend(gaussian(1.0))
    with pytest.raises(CannotBound):
        held.spend(make.release(make.discrete_gaussian(9.0), label="d"))
    assert held.spent == 1.0
    held.spend(make.release(make.laplace(1.0), label="l"))
    assert held.spent == pytest.approx(math.hypot(1.0, PURE_MU), rel=1e-10)


def test_parts_of_a_split_cost_as_much_as_the_relation_says() -> None:
    parts = [gaussian(3.0, part=name, by="values") for name in "ab"]
    one, two = GDPFilter(3.0, Neighbouring.ADD_OR_REMOVE_ONE), GDPFilter(3.0)
    for part in parts:
        one.spend(part)
    two.spend(parts[0])
    with pytest.raises(BudgetExceeded):
        two.spend(parts[1])


def test_pure_filter() -> None:
    held = PureFilter(1.0)
    held.spend(make.release(make.laplace(4.0), 4, label="l"))
    assert held.spent == 1.0
    with pytest.raises(BudgetExceeded, match="pure DP"):
        held.spend(make.release(make.laplace(1e6), label="l"))


#: Of the last two the double nearest to 1 + 1e-9, times the budget, is a step above the exact product.
@pytest.mark.parametrize("budget", [0.3, 1.0, 6.356072046715506, 1.5096])
def test_no_filter_admits_more_than_its_budget_proves_in_the_end(budget: float) -> None:
    [bound] = budget_bounds(PureDP(epsilon=budget), PureDP(epsilon=0.0))
    most = leading_figure(bound.guarantee)
    for epsilon, fits in ((most, True), (math.nextafter(most, math.inf), False)):
        release = make.release(RandomizedResponse(epsilon=epsilon, categories=2))
        ledger = make.ledger(release, schedule="filtered", budget=PureDP(epsilon=budget))
        if fits:
            PureFilter(budget).spend(release)
            assert account(ledger).bounds
            continue
        with pytest.raises(BudgetExceeded):
            PureFilter(budget).spend(release)
        with pytest.raises(NotCertifiable, match="the budget was"):
            account(ledger)


@pytest.mark.parametrize("figure", [math.nan, math.inf, -1.0])
def test_a_budget_is_a_number(figure: float) -> None:
    for kind in (GDPFilter, ZCDPFilter, PureFilter):
        with pytest.raises(InvalidParameter):
            kind(figure)


def until_refused(data: Any, curator: Any) -> float:
    del data
    total = 0.0
    while True:
        try:
            total += float(curator.release(0.0, make.gaussian(2.0), label="step"))
        except BudgetExceeded:
            return total


def test_a_run_of_data_dependent_length_is_bounded_by_the_gdp_budget() -> None:
    claim = Claim(ApproxDP(epsilon=4.8866, delta=1e-6))
    ledger = run(until_refused, None, claim=claim, budget=GDPFilter(1.0), seed=1).ledger
    assert len(ledger.releases) == 4
    found = account(ledger)
    assert found.verdict is Proof.PROVED
    (bound,) = found.bounds
    assert bound.method == "budget"
    assert bound.guarantee.epsilon == pytest.approx(4.886554117462212, rel=1e-7)  # type: ignore[union-attr]
    assert bound.guarantee.epsilon >= 4.886554117462212  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("budget", "wanted", "figure"),
    [
        (GDP(mu=1.0), GDP(mu=0.0), 1.0),
        (GDP(mu=1.0), ZCDP(rho=0.0), 0.5),
        (GDP(mu=1.0), RDP(alpha=3.0, epsilon=0.0), 1.5),
        (PureDP(epsilon=1.0), PureDP(epsilon=0.0), 1.0),
        (PureDP(epsilon=1.0), ZCDP(rho=0.0), math.tanh(0.5)),
        (PureDP(epsilon=1.0), RDP(alpha=100.0, epsilon=0.0), 1.0),
        (PureDP(epsilon=1.0), GDP(mu=0.0), PURE_MU),
        (PureDP(epsilon=1.0), ApproxDP(epsilon=0.0, delta=0.1), math.log(math.e - 0.1 * (1.0 + math.e))),
    ],
)
def test_what_a_budget_alone_proves(budget: AnyGuarantee, wanted: AnyGuarantee, figure: float) -> None:
    (bound,) = budget_bounds(budget, wanted)
    assert bound.guarantee.kind == wanted.kind
    assert leading_figure(bound.guarantee) == pytest.approx(figure, rel=1e-8)
    assert leading_figure(bound.guarantee) >= figure * (1 - 1e-15)


def test_a_gaussian_budget_has_no_pure_epsilon() -> None:
    assert budget_bounds(GDP(mu=1.0), PureDP(epsilon=0.0)) == []
    with pytest.raises(CannotBound):
        budget_bounds(ApproxDP(epsilon=1.0, delta=1e-6), ZCDP(rho=0.0))


def test_an_odometer_reads_zero_then_rises_and_says_that_it_is_ex_post() -> None:
    meter = ZCDPOdometer(1e-6)
    assert meter.reading.epsilon == 0.0
    readings = []
    for _ in range(20):
        meter.add(gaussian(0.3))
        readings.append(meter.reading)
    assert [r.epsilon for r in readings] == sorted(r.epsilon for r in readings)
    assert leading_figure(readings[-1].spent) == pytest.approx(0.9, rel=1e-14)
    assert "ex post" in str(readings[-1])
    with pytest.raises(CannotBound):
        GDPOdometer(1e-6).add(make.release(make.discrete_gaussian(1.0), label="d"))
    with pytest.raises(InvalidParameter):
        ZCDPOdometer(0.0)


def test_both_odometers_agree_on_gaussian_noise() -> None:
    one, other = ZCDPOdometer(1e-6), GDPOdometer(1e-6)
    for meter in (one, other):
        meter.add(gaussian(0.5, count=16))
    assert other.reading.spent == GDP(mu=2.0)
    assert one.reading.epsilon == pytest.approx(other.reading.epsilon, rel=1e-14)


@pytest.mark.parametrize("rho", [1e-4, 0.1, 0.5, 7.0, 300.0])
def test_an_odometer_is_above_the_best_bound_at_one_time_and_not_far(rho: float) -> None:
    meter = ZCDPOdometer(1e-6)
    meter.add(gaussian(math.sqrt(2.0 * rho)))
    best = rho + 2.0 * math.sqrt(rho * math.log(1e6))  # with the best order for this rho, known beforehand
    assert best < meter.reading.epsilon < 1.2 * best


@pytest.mark.parametrize("rho", [3e-7, 0.01, 0.37, 4.0, 3e5])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-300])
def test_an_odometer_reads_the_least_of_its_lines_rounded_up(rho: float, delta: float) -> None:
    meter = GDPOdometer(delta)
    meter.add(gaussian(math.sqrt(2.0 * rho)))
    with mp.workdps(40):
        spent = mpf(leading_figure(meter.reading.spent)) ** 2 / 2
        target = mp.log(40) - mp.log(mpf(delta))
        orders = [mp.sqrt(target / mpf(2) ** rung) for rung in range(-20, 20)]
        line = min((1 + a) * spent + target / a for a in orders)
        assert line <= meter.reading.epsilon <= line * (1 + mpf("1e-12"))


def test_the_loss_never_passes_the_odometer_however_the_run_is_stopped() -> None:
    # 4000 paths of 2000 releases, whose noise grows and shrinks with the loss so far; every moment counts.
    # Each path fails with probability at most 1/40: more than 180 of 4000 has probability below 1e-11.
    delta, paths, steps = 0.025, 4000, 2000
    generator = np.random.default_rng(20240521)
    loss, spent = np.zeros(paths), np.zeros(paths)
    failed, naive = np.zeros(paths, dtype=bool), np.zeros(paths, dtype=bool)
    orders = np.sqrt(math.log(40 / delta) / 2.0 ** np.arange(-20.0, 20.0))[:, None]
    for _ in range(steps):
        mu = np.where(loss > 0.0, 0.02, 0.1)
        loss += 0.5 * mu**2 + mu * generator.normal(size=paths)
        spent += 0.5 * mu**2
        lines = ((1.0 + orders) * spent + math.log(40 / delta) / orders).min(axis=0)
        failed |= loss > lines
        naive |= loss > spent + 2.0 * np.sqrt(spent * math.log(1.0 / delta))
    assert failed.sum() <= 180
    assert naive.sum() > failed.sum()
    # The lines of this simulation are the odometer's own.
    meter = ZCDPOdometer(delta)
    meter.add(gaussian(math.sqrt(2.0 * float(spent[0]))))
    assert meter.reading.epsilon == pytest.approx(float(lines[0]), rel=1e-12)


def test_a_group_costs_more_than_the_unit_that_was_held_to_the_budget() -> None:
    for budget, factor in ((GDP(mu=1.0), 3), (PureDP(epsilon=1.0), 3), (ZCDP(rho=1.0), 9)):
        (bound,) = budget_bounds(budget, budget, group_size=3)
        assert leading_figure(bound.guarantee) == pytest.approx(factor, rel=1e-8)
        assert leading_figure(bound.guarantee) >= factor


SAMPLED = make.poisson(make.gaussian(2.0), 0.05, 1.0)


def test_one_renyi_order_holds_sampled_mechanisms_to_a_budget() -> None:
    step, cost = make.release(SAMPLED), float(oracles.sampled_log_moment(0.5, 0.05, 3)) / 2
    held = RDPFilter(3.0, 7.5 * cost)
    for times in range(1, 8):
        held.spend(step)
        assert held.spent == pytest.approx(times * cost, rel=1e-9)
    with pytest.raises(BudgetExceeded, match="epsilon, RDP"):
        held.spend(step)
    assert held.spent <= 7 * cost * (1 + 1e-9)


def test_a_run_held_to_a_renyi_order_proves_what_follows_from_it() -> None:
    """By Proposition 12 of Canonne, Kamath and Steinke (2020), in mpmath; other scales are left open."""

    def steps(data: Any, curator: Any) -> None:
        for _ in range(5):
            curator.release_sum(np.zeros((3, 2)), bound=1.0, mechanism=SAMPLED, label="step")

    claim = Claim(ApproxDP(epsilon=2.0, delta=1e-5), unit="row", neighbouring="add-or-remove-one")
    made = run(steps, None, claim=claim, budget=RDPFilter(8.0, 0.25))
    [bound] = account(made.ledger).bounds
    with mp.workdps(30):
        expected = oracles.renyi_epsilon(mpf(7), 7 * mpf(0.25), 1e-5)
    assert isinstance(bound.guarantee, ApproxDP)
    assert float(expected) <= bound.guarantee.epsilon <= float(expected) * (1 + 1e-8)
    assert budget_bounds(RDP(alpha=8.0, epsilon=0.25), RDP(alpha=4.0, epsilon=0.0))[0].guarantee == RDP(
        alpha=4.0, epsilon=0.25 * (1 + 1e-9)
    )
    for scale in (RDP(alpha=9.0, epsilon=0.0), ZCDP(rho=0.0), GDP(mu=0.0), PureDP(epsilon=0.0)):
        assert budget_bounds(RDP(alpha=8.0, epsilon=0.25), scale) == []
    with pytest.raises(CannotBound):
        budget_bounds(RDP(alpha=8.0, epsilon=0.25), ApproxDP(epsilon=0.0, delta=1e-5), group_size=2)


def test_the_filter_within_a_target_keeps_it_and_admits_a_mechanism_often() -> None:
    target = ApproxDP(epsilon=3.0, delta=1e-5)
    held = RDPFilter.within(target, SAMPLED)
    assert isinstance(held.budget, RDP)
    [bound] = budget_bounds(held.budget, target)
    assert 2.99 < leading_figure(bound.guarantee) <= 3.0
    held.spend(make.release(SAMPLED, label="step"))
    assert held.budget.epsilon / held.spent > 500
    for small in (0.9, 0.7):
        target = ApproxDP(epsilon=small, delta=1e-5)
        [bound] = budget_bounds(RDPFilter.within(target, SAMPLED).budget, target)
        assert 0.99 * small < leading_figure(bound.guarantee) <= small
    once = RDPFilter.within(ApproxDP(epsilon=6.0, delta=1e-5), gaussian(1.0).mechanism)
    once.spend(gaussian(1.0))
    with pytest.raises(BudgetExceeded):
        once.spend(gaussian(1.0))
    with pytest.raises(CannotBound, match="not even one"):
        RDPFilter.within(ApproxDP(epsilon=1e-3, delta=1e-9), SAMPLED)


@pytest.mark.parametrize(("alpha", "epsilon"), [(1.0, 1.0), (math.nan, 1.0), (2.0, -1.0), (2.0, math.nan)])
def test_an_order_is_above_one_and_its_budget_a_number(alpha: float, epsilon: float) -> None:
    with pytest.raises(InvalidParameter):
        RDPFilter(alpha, epsilon)


@pytest.mark.parametrize("own", list(Neighbouring))
@pytest.mark.parametrize("other", list(Neighbouring))
def test_a_renyi_filter_holds_runs_under_its_own_relation(own: Neighbouring, other: Neighbouring) -> None:
    """At order 4 a replaced unit costs a 46th of an added one where its contribution is half the change."""
    ledger = Ledger(make.header(other))
    if own is other:
        Curator(ledger, budget=RDPFilter(4.0, 1.0, own))
        return
    with pytest.raises(InvalidParameter, match=f"a filter for {own} in a run under {other}"):
        Curator(ledger, budget=RDPFilter(4.0, 1.0, own))


def test_a_filter_on_another_scale_may_count_more_parts_than_the_run_but_not_fewer() -> None:
    Curator(Ledger(make.header()), budget=ZCDPFilter(1.0, Neighbouring.REPLACE_ONE))
    with pytest.raises(InvalidParameter, match="one part of a split"):
        Curator(Ledger(make.header("replace-one")), budget=ZCDPFilter(1.0, Neighbouring.ADD_OR_REMOVE_ONE))
