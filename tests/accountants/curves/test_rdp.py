"""Renyi divergences composed, and what follows from the best order."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from scipy.integrate import quad

from dpaudit import GDP, RDP, ApproxDP, Neighbouring, PureDP
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.closed_forms.conversions import rdp_epsilon, zcdp_delta, zcdp_epsilon
from dpaudit.accountants.curves import rdp as rdp_module
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import AnyMechanism, OpaqueApproxDP, OpaquePureDP, OpaqueZCDP, SmoothGaussian
from tests import make, oracles

ADD = Neighbouring.ADD_OR_REMOVE_ONE
GAUSSIAN = make.gaussian(2.0)
LAPLACE = make.laplace(2.0)


def profile(
    *mechanisms: tuple[AnyMechanism, int], relation: Neighbouring = ADD, group: int = 1
) -> RenyiProfile:
    return RenyiProfile.of(make.composition(*mechanisms, relation=relation, units=group))


@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-30, 1e-300])
@pytest.mark.parametrize(
    "mechanism", [make.gaussian(1.0), make.discrete_gaussian(1.0), OpaqueZCDP(rho=0.5, justification="x")]
)
def test_where_only_rho_is_known_it_is_the_zcdp_conversion(mechanism: Any, delta: float) -> None:
    for count in (1, 7, 1000):
        exact = zcdp_epsilon(0.5 * count, delta)
        assert profile((mechanism, count)).epsilon(delta) == pytest.approx(exact, rel=1e-9)
        assert profile((mechanism, count)).delta(exact + 1.0) == pytest.approx(
            zcdp_delta(0.5 * count, exact + 1.0), rel=1e-6
        )


def test_the_order_is_continuous() -> None:
    """At no order of a fine grid is there a smaller bound: the search misses nothing, a coarse grid would."""
    found = profile((LAPLACE, 30), (GAUSSIAN, 2))
    for delta in (0.3, 1e-6, 1e-20):
        best = found.epsilon(delta)
        grid = [rdp_epsilon(1.0 + t, found.divergence(1.0 + t), delta) for t in np.geomspace(1e-3, 1e4, 4000)]
        assert best <= min(grid) * (1 + 1e-9)
        assert best >= min(grid) * (1 - 1e-5)


def test_a_5_dp_ledger_is_at_most_5_dp() -> None:
    for mechanism, count in (
        (OpaquePureDP(epsilon=5.0, justification="x"), 1),
        (OpaquePureDP(epsilon=0.5, justification="x"), 10),
        (make.laplace(1.0), 5),
    ):
        for delta in (1e-3, 1e-9, 1e-30, 1e-300):
            assert profile((mechanism, count)).epsilon(delta) <= 5.0
        assert profile((mechanism, count)).divergence(1e12) <= 5.0


def test_renyi_claims_are_bounded_by_the_mechanisms_own_divergence() -> None:
    for alpha in (1.0 + 1e-9, 2.0, 33.3, 1e4):
        [bound] = bounds(make.composition((LAPLACE, 3)), RDP(alpha=alpha, epsilon=0.0))
        assert bound.method == "rdp"
        with mp.workdps(40):
            t = mpf(alpha) - 1
            exact = 3 * float(oracles.laplace_log_moment(mpf(0.5), t))
        assert bound.guarantee.epsilon * float(t) == pytest.approx(exact, rel=1e-9, abs=1e-15)
    mixed = make.composition(GAUSSIAN, LAPLACE)
    assert bounds(mixed, RDP(alpha=2.0, epsilon=0.0))[0].guarantee.epsilon > 0.25
    assert bounds(mixed, GDP(mu=0.0))[0].method == "gdp"
    assert bounds(mixed, PureDP(epsilon=0.0)) == []


def test_what_may_be_revealed_is_taken_off_delta() -> None:
    lossy = OpaqueApproxDP(epsilon=0.1, delta=1e-7, justification="x")
    found = profile((lossy, 10), (GAUSSIAN, 1))
    clean = profile((OpaquePureDP(epsilon=0.1, justification="x"), 10), (GAUSSIAN, 1))
    revealed = 1 - (1 - 1e-7) ** 10
    assert found.epsilon(2e-6) == pytest.approx(clean.epsilon(2e-6 - revealed), rel=1e-6)
    assert found.delta(1.0) == pytest.approx(clean.delta(1.0) + revealed, rel=1e-6)
    assert found.delta(1e6) >= revealed * (1 - 1e-12)
    with pytest.raises(CannotBound, match="reveal everything"):
        found.epsilon(1e-6 * (1 - 1e-5))
    with pytest.raises(CannotBound):
        found.divergence(2.0)


def test_the_larger_direction_counts_after_composing() -> None:
    sampled = make.poisson(make.gaussian(0.7), 0.2)
    found = profile((sampled, 20), (LAPLACE, 3), (OpaquePureDP(epsilon=0.1, justification="x"), 1))
    for t in (0.3, 3.0):
        each = [direction(t) for direction in found._directions]
        assert len(each) == 2
        assert each[0] != each[1]
        assert found.divergence(1 + t) * t == pytest.approx(max(each), rel=1e-9)


def test_smooth_noise_composes_with_the_rest() -> None:
    smooth = SmoothGaussian(alpha=12.0, beta=0.01, dimension=3, epsilon=0.5, delta=1e-8)
    once, often = profile((smooth, 1)), profile((smooth, 30), (GAUSSIAN, 1))
    assert once.epsilon(1e-6) < often.epsilon(1e-6)
    rest = profile((smooth, 30)).divergence(3.0) + profile((GAUSSIAN, 1)).divergence(3.0)
    assert often.divergence(3.0) == pytest.approx(rest, rel=1e-12)
    with pytest.raises(CannotBound, match="order"):
        once.divergence(1.0 + 1.0 / math.expm1(0.01))
    found = bounds(make.composition((smooth, 3)), ApproxDP(epsilon=0.0, delta=1e-6))
    assert {bound.method: bound.at_least for bound in found} == {"rdp": None, "pld+rdp": None}


@pytest.mark.parametrize("delta", [1e-6, 1e-20, 1e-100, 1e-300])
@pytest.mark.parametrize("beta", [0.3, 0.0148, 0.005, 1e-4])
def test_the_best_order_is_found_beside_infinite_divergences(beta: float, delta: float) -> None:
    found = profile((SmoothGaussian(alpha=22.0, beta=beta, dimension=1, epsilon=0.3, delta=1e-9), 10))
    wall = 1.0 / math.expm1(beta)
    tried = [1.0 + share * wall for share in np.linspace(0.001, 0.999, 200).tolist()]
    best = min(rdp_epsilon(order, found.divergence(order), delta) for order in tried)
    assert found.epsilon(delta) <= best * (1.0 + 1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, 1.0, True, "1"])
def test_bad_deltas_and_orders_are_refused(bad: Any) -> None:
    found = profile((GAUSSIAN, 1))
    with pytest.raises(InvalidParameter):
        found.epsilon(bad)
    with pytest.raises(InvalidParameter):
        found.divergence(bad)
    if bad not in (0.0, 1.0) or isinstance(bad, bool):
        with pytest.raises(InvalidParameter):
            found.delta(bad)


def test_nothing_released_and_too_much() -> None:
    assert profile().epsilon(1e-9) == 0.0
    assert profile().delta(0.0) == 0.0
    assert profile((make.gaussian(1e-3), 1)).delta(0.0) == 1.0
    assert profile((make.gaussian(1.0, 0.0), 3)).epsilon(1e-9) == 0.0
    with pytest.raises(CannotBound):
        profile((make.gaussian(1e-200, 1e100), 1)).epsilon(1e-6)


def exact_moment(t: mpf) -> mpf:
    """log E_P[e^(t L)] of three Gaussians of mu = 1/2 and two Laplace mechanisms of 1/2 (Mironov 2017)."""
    return 3 * t * (1 + t) / 8 + 2 * oracles.laplace_log_moment(mpf(1) / 2, t)


@pytest.mark.parametrize("log_t", [-4.0, -0.3, 0.0, 1.7, 3.0])
def test_at_every_order_the_figures_are_rounded_up(log_t: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the same formulas at 50 digits, at one order, so that no search hides what rounding takes."""
    monkeypatch.setattr(rdp_module, "minimum", lambda function, low, high, absolute: log_t)
    lossy = OpaqueApproxDP(epsilon=0.0, delta=1e-9, justification="x")
    with mp.workdps(50):
        t, revealed = mpf(math.exp(log_t)), 1 - (1 - mpf(1e-9)) ** 7
        moment, taken = exact_moment(t), t * mp.log(1 + 1 / t) + mp.log(1 + t)
        for others, lost in (([], mpf(0)), ([(lossy, 7)], revealed)):
            found = profile((GAUSSIAN, 3), (LAPLACE, 2), *others)
            assert lost <= found.revealed <= lost * (1 + mpf(1e-12))
            for epsilon in np.linspace(5.0, 60.0, 23).tolist():
                exact = mp.exp(moment - t * epsilon - taken) + lost
                if exact < 1:
                    assert exact <= found.delta(epsilon) <= exact * (1 + mpf(1e-11)) + mpf(1e-322)
            for delta in np.geomspace(1e-8, 0.1, 11).tolist():
                exact = (moment - mp.log(delta - lost) - taken) / t
                if exact > 0:
                    assert exact <= found.epsilon(delta) <= exact * (1 + mpf(1e-11))


def test_terms_far_above_the_moment_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the moment is next to nothing, what it was raised by covers no rounding of the other terms."""
    monkeypatch.setattr(rdp_module, "minimum", lambda function, low, high, absolute: 3.0)
    found = profile((make.gaussian(1e4), 1))
    with mp.workdps(50):
        t = mpf(math.exp(3.0))
        for epsilon in np.linspace(5.0, 30.0, 40).tolist():
            log = t * (1 + t) / (2 * mpf(10) ** 8) - t * epsilon - t * mp.log(1 + 1 / t) - mp.log(1 + t)
            assert mp.exp(log) <= found.delta(epsilon) <= mp.exp(log) * (1 + mpf(1e-11))


def test_what_may_be_revealed_is_rounded_up() -> None:
    with mp.workdps(50):
        for delta in np.geomspace(1e-15, 0.3, 60).tolist():
            lossy = OpaqueApproxDP(epsilon=0.0, delta=delta, justification="x")
            exact = 1 - (1 - mpf(delta)) ** 3
            assert exact <= profile((lossy, 3)).revealed <= exact * (1 + mpf(1e-12))


@pytest.mark.parametrize("alpha", [1.0 + 1e-9, 1.5, 2.0, 33.3, 1e6])
def test_divergences_are_rounded_up(alpha: float) -> None:
    with mp.workdps(50):
        t = mpf(alpha) - 1
        exact = exact_moment(t) / t
        assert exact <= profile((GAUSSIAN, 3), (LAPLACE, 2)).divergence(alpha) <= exact * (1 + mpf(1e-11))


@pytest.mark.parametrize("alpha", [1.0 + 1e-9, 1.1, 3.7, 1e5 / 3, 2.0**53 + 2.0, 2.0**60])
def test_an_order_is_never_below_the_one_that_is_asked_for(alpha: float) -> None:
    """alpha - 1 is no double past 2^53; the quotient by it is compared in fractions."""
    found, asked = profile(), list[float]()
    for moment in np.linspace(0.1, 0.9, 40).tolist():
        found.__dict__["_whole"] = (lambda t, moment=moment: asked.append(t) or moment, lambda t: 0.0)
        object.__setattr__(found, "pure", math.inf)
        assert Fraction(found.divergence(alpha)) >= Fraction(moment) / (Fraction(alpha) - 1)
    assert min(map(Fraction, asked)) >= Fraction(alpha) - 1


def test_no_epsilon_is_proved_at_the_delta_that_is_revealed() -> None:
    found = profile((OpaqueApproxDP(epsilon=0.1, delta=1e-7, justification="x"), 3))
    with pytest.raises(CannotBound, match="reveal everything"):
        found.epsilon(found.revealed)


@pytest.mark.parametrize("log_t", [-1.0, 0.7])
def test_an_epsilon_holds_in_both_orders_of_a_sampled_pair(
    log_t: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moments of both orders by quadrature, at one order alpha: the larger one counts."""
    monkeypatch.setattr(rdp_module, "best_order", lambda factors, target: log_t)
    t, rate, sigma, delta = math.exp(log_t), 0.2, 0.7, 1e-6

    def log_ratio(x: float) -> float:  # of (1 - q) N(0, sigma^2) + q N(1, sigma^2) to N(0, sigma^2)
        return math.log1p(rate * math.expm1((x - 0.5) / sigma**2))

    def moment(power: float) -> float:
        """log E[ratio^power] under N(0, sigma^2)."""
        integral, _ = quad(lambda x: stats.norm.pdf(x, 0, sigma) * math.exp(power * log_ratio(x)), -9, 9)
        return 20 * math.log(integral)

    each = moment(1 + t), moment(-t)
    assert abs(each[0] - each[1]) > 1e-3
    sampled = make.poisson(make.gaussian(sigma), rate)
    expected = (max(each) - math.log(delta) - math.log1p(t)) / t - math.log1p(1 / t)
    assert profile((sampled, 20)).epsilon(delta) == pytest.approx(expected, rel=1e-6)


def test_what_is_infinite_at_every_order_has_no_least_value() -> None:
    assert rdp_module._least(lambda log_t: math.inf, 0.0) == math.inf
    assert rdp_module._least(lambda log_t: (log_t - 1.0) ** 2 if log_t < 3.0 else math.inf, 0.0) < 1e-9
