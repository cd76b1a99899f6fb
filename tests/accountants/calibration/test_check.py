"""The second accountant: it agrees where closed forms meet a target, and does not a little further.

The closed forms are computed with mpmath at 40 digits or more.
"""

import math
from fractions import Fraction
from typing import Any

import pytest
from mpmath import mp, mpf

from dpaudit import L2, OpaqueApproxDP
from dpaudit.accountants.bridges import dp_accounting_check
from dpaudit.accountants.calibration import check
from dpaudit.accountants.calibration.check import (
    Opinion,
    approximate,
    opinion,
    opinion_of_divergences,
    opinion_of_rho,
)
from dpaudit.accountants.privacy_loss.contour.factors import Cumulant
from dpaudit.certificate import second_opinion
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import AnyMechanism, GaussianSparseVector
from tests import make, oracles

ADD = Neighbouring.ADD_OR_REMOVE_ONE
GAUSSIAN = make.gaussian(2.0)
LAPLACE = make.laplace(2.0)
Runs = list[tuple[AnyMechanism, int]]


def asked(runs: Runs, target: AnyGuarantee) -> Opinion:
    return opinion(runs, ADD, target)


def too_much_work(*_: object) -> None:
    raise CannotBound("too many formulae", where="test")


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 20.0])
def test_gaussian_noise_is_proved_by_the_contour(epsilon: float) -> None:
    with mp.workdps(60):
        exact = oracles.gaussian_delta(1.0, epsilon)
        for share, agrees in ((1 + 1e-9, True), (1 - 1e-9, False)):
            target = ApproxDP(epsilon=epsilon, delta=float(exact * share))
            found = asked([(GAUSSIAN, 4)], target)
            assert (found.method, found.agrees, found.proves) == ("contour", agrees, True)
            assert exact <= found.guarantee.delta <= exact * (1 + mpf("1e-9"))
    assert asked([(make.gaussian(1.0, 0.0), 1)], ApproxDP(epsilon=0.0, delta=1e-9)).agrees


def test_a_pure_epsilon_proves_where_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases of 1/2 are 1-DP: delta at epsilon is at most (e - e^epsilon) / (1 + e)."""
    runs: Runs = [(LAPLACE, 2)]
    for epsilon in (1.0, 0.9):
        most = (math.e - math.exp(epsilon)) / (1 + math.e)
        found = asked(runs, ApproxDP(epsilon=epsilon, delta=max(1e-6, most * (1 + 1e-9))))
        assert (found.method, found.agrees, found.proves) == ("pure", True, True)
        assert found.guarantee.delta == pytest.approx(max(most, 5e-324), rel=1e-9)
    other: Any = object()
    monkeypatch.setattr(check, "_by_dp_accounting", lambda *_: other)
    monkeypatch.setattr(check, "enclose_delta", too_much_work)
    assert asked(runs, ApproxDP(epsilon=0.9, delta=1e-3)) is other
    # What may reveal everything has no pure epsilon.
    opaque = OpaqueApproxDP(epsilon=0.1, delta=1e-9, justification="a theorem")
    assert asked([(opaque, 1)], ApproxDP(epsilon=0.9, delta=1e-3)) is other


@pytest.mark.parametrize("count", [1, 5])
def test_rho_is_contradicted_by_the_divergence_of_some_order(count: int) -> None:
    for mechanism, rho in ((GAUSSIAN, 0.125), (make.discrete_gaussian(2.0), 0.125)):
        runs: Runs = [(mechanism, count)]
        found = asked(runs, ZCDP(rho=count * rho))
        assert (found.method, found.agrees, found.proves) == ("renyi", True, False)
        assert count * rho * (1 - 1e-12) <= leading_figure(found.guarantee) <= count * rho
        assert not asked(runs, ZCDP(rho=count * rho * (1 - 1e-9))).agrees
    # Of Laplace noise the largest D(alpha) / alpha is that of orders near 1.
    with mp.workdps(30):
        kl = mp.exp(mpf(-0.5)) - 1 + mpf(0.5)
    laplace = asked([(LAPLACE, count)], ZCDP(rho=1.0)).guarantee
    assert 0.999 * count * kl < leading_figure(laplace) <= count * kl


@pytest.mark.parametrize("alpha", [1.5, 3.0, 40.0])
def test_a_divergence_is_proved_at_its_order(alpha: float) -> None:
    with mp.workdps(40):
        a = mpf(alpha)
        exact = 3 * a / 8 + 2 * oracles.laplace_log_moment(mpf(1) / 2, a - 1) / (a - 1)
        for share, agrees in ((1 + 1e-9, True), (1 - 1e-9, False)):
            found = asked([(GAUSSIAN, 3), (LAPLACE, 2)], RDP(alpha=alpha, epsilon=float(exact * share)))
            assert (found.method, found.agrees, found.proves) == ("renyi", agrees, True)
            assert exact <= leading_figure(found.guarantee) <= exact * (1 + mpf("1e-9"))


def test_a_divergence_of_gaussian_noise_is_rounded_up() -> None:
    for alpha in (1.1, 1.7, 2.9, 3.3, 7.7, 21.3):
        for sigma in (0.7, 1.3, 3.1):
            runs: Runs = [(make.gaussian(sigma), 3)]
            exact = 3 * Fraction(alpha) / 2 / Fraction(sigma) ** 2
            figure = Fraction(leading_figure(asked(runs, RDP(alpha=alpha, epsilon=1.0)).guarantee))
            assert exact <= figure <= exact * (1 + Fraction(1e-12))


def test_errors_of_moments_count_and_quotients_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment of 1/4 that may be 3/4 too small, at order 4: the divergence may be 1/3, and no double is."""
    monkeypatch.setattr(check, "total_cumulant", lambda *_: Cumulant(0.25, 0.0, 0.0, 0.75))
    figure = leading_figure(asked([(GAUSSIAN, 1)], RDP(alpha=4.0, epsilon=1.0)).guarantee)
    assert Fraction(1, 3) <= Fraction(figure) <= Fraction(1, 3) * (1 + Fraction(1e-12))
    monkeypatch.setattr(check, "minimum", lambda *_: math.log(3.0))
    found = opinion_of_divergences([(GAUSSIAN, 1)], ADD, ApproxDP(epsilon=1.0, delta=1e-6))
    with mp.workdps(40):
        exact = oracles.renyi_epsilon(mpf(3), 1, 1e-6)
        assert exact <= leading_figure(found.guarantee) <= exact * (1 + mpf("1e-12"))


def test_the_larger_order_of_a_sampled_pair_counts() -> None:
    sampled = make.poisson(make.gaussian(1.0), 0.2)
    exact = float(oracles.sampled_log_moment(1.0, 0.2, 3)) / 2
    found = asked([(sampled, 1)], RDP(alpha=3.0, epsilon=1.0))
    assert exact * (1 - 1e-12) <= leading_figure(found.guarantee) <= exact * (1 + 1e-9)


def test_mu_is_contradicted_where_delta_is_above_the_gaussian_curve() -> None:
    for runs, mu in (([(GAUSSIAN, 4)], 1.0), ([(GAUSSIAN, 1), (make.gaussian(1.0), 1)], 1.25**0.5)):
        for share, agrees in ((1 + 1e-9, True), (1 - 1e-9, False)):
            found = asked(runs, GDP(mu=mu * share))  # type: ignore[arg-type]
            assert (found.method, found.agrees, found.proves) == ("contour", agrees, False)
    # Laplace noise of 1/2 is mu-GDP at mu = 2 Phi^-1(e^(1/2) / (1 + e^(1/2))), by its pure epsilon.
    assert asked([(LAPLACE, 1)], GDP(mu=0.6221)).agrees
    assert not asked([(LAPLACE, 1)], GDP(mu=0.45)).agrees
    assert asked([(make.gaussian(1.0, 0.0), 1)], GDP(mu=0.1)).agrees


def test_pure_epsilons_add_up() -> None:
    for share, agrees in ((1.0, True), (1 - 1e-9, False)):
        found = asked([(LAPLACE, 3), (make.laplace(1.0), 1)], PureDP(epsilon=2.5 * share))
        assert (found.method, found.agrees, found.proves) == ("privacy-loss", agrees, True)
        assert leading_figure(found.guarantee) == pytest.approx(2.5, rel=1e-12)
    with pytest.raises(CannotBound, match="no finite pure epsilon"):
        asked([(GAUSSIAN, 1)], PureDP(epsilon=100.0))


def least_of_orders(log_moment: Any, delta: float) -> mpf:
    """By the best of many orders 1 + t."""
    orders = (mpf(2) ** (mpf(k) / 32) for k in range(-200, 500))
    return min(oracles.renyi_epsilon(t, log_moment(t), delta) for t in orders)


@pytest.mark.parametrize(("rho", "delta"), [(0.1, 1e-6), (3.0, 1e-12), (1e-2, 1e-2), (100.0, 0.1)])
def test_what_rho_implies_is_found_by_the_best_order(rho: float, delta: float) -> None:
    with mp.workdps(30):
        best = least_of_orders(lambda t: mpf(rho) * t * (1 + t), delta)
        for share, agrees in ((1 + 1e-3, True), (1 - 1e-3, False)):
            found = opinion_of_rho(rho, ApproxDP(epsilon=float(best * share), delta=delta))
            assert (found.method, found.agrees, found.proves) == ("renyi", agrees, True)
            assert best * (1 - mpf("1e-3")) <= leading_figure(found.guarantee) <= best


@pytest.mark.parametrize(("answers", "steps"), [(2, 100), (3, 2), (4, 4)])
def test_comparisons_add_up_with_others_by_the_best_order(answers: int, steps: int) -> None:
    """Zhu and Wang 2020: at most so many of the steps come out, or all as if they were released."""
    vector = GaussianSparseVector(sigma=4.0, sensitivity=L2(1.0), answers=answers, steps=steps)
    pair: Any = vector.dominating_pair()
    yeses = min(answers, steps)
    outcomes = sum(math.comb(steps, k) for k in range(yeses + 1))
    squares = mpf(float(pair.threshold)) ** 2 + yeses * mpf(float(pair.against)) ** 2
    alone = steps * mpf(float(pair.alone)) ** 2

    def moment(t: mpf) -> mpf:
        one = min((1 + t) * t / 2 * squares + mp.log(outcomes), (1 + t) * t / 2 * alone)
        return 3 * one + (1 + t) * t / 2 * mpf(0.25)

    with mp.workdps(30):
        for runs, log_moment in (
            ([(vector, 3), (GAUSSIAN, 1)], moment),
            ([(vector, 3)], lambda t: moment(t) - (1 + t) * t / 8),
        ):
            best = least_of_orders(log_moment, 1e-6)
            for share, agrees in ((1 + 1e-3, True), (1 - 1e-3, False)):
                target = ApproxDP(epsilon=float(best * share), delta=1e-6)
                found = opinion_of_divergences(runs, ADD, target)  # type: ignore[arg-type]
                assert (found.method, found.agrees, found.proves) == ("renyi", agrees, True)
                assert best * (1 - mpf("1e-3")) <= leading_figure(found.guarantee) <= best * (1 + mpf("1e-9"))


def test_comparisons_and_others_are_rounded_up_at_every_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """At order 3, where a sample's moment is a binomial sum; of its two orders the larger one counts."""
    monkeypatch.setattr(check, "minimum", lambda *_: math.log(2.0))
    target = ApproxDP(epsilon=1.0, delta=1e-6)
    for sigma, rate in ((4.0, 0.2), (9.1, 0.013), (0.9, 0.3)):
        vector = GaussianSparseVector(sigma=sigma, sensitivity=L2(1.0), answers=2, steps=100)
        gaussian = make.gaussian(sigma)
        sampled = make.poisson(gaussian, rate)
        pair: Any = vector.dominating_pair()
        with mp.workdps(40):
            square = 1 / mpf(sigma) ** 2
            drawn = oracles.sampled_log_moment(1 / mpf(sigma), rate, 3) / 2
            threshold, against, alone = (
                mpf(each.numerator) / each.denominator for each in (pair.threshold, pair.against, pair.alone)
            )
            outcomes = mp.log(1 + 100 + 4950) / 2
            told = mpf(3) / 2 * (threshold**2 + 2 * against**2)
            compared = min(outcomes + told, 150 * alone**2)
            rest = mp.log(mpf(2) / 3) - (mp.log(mpf(1e-6)) + mp.log(3)) / 2
            for runs, divergence in (
                ([(gaussian, 1)], mpf(3) / 2 * square),
                ([(sampled, 1)], drawn),
                ([(gaussian, 2), (sampled, 1)], drawn + 3 * square),
                ([(vector, 5), (gaussian, 1)], 5 * compared + mpf(3) / 2 * square),
            ):
                found = opinion_of_divergences(runs, ADD, target)  # type: ignore[arg-type]
                exact = divergence + rest
                assert exact <= leading_figure(found.guarantee) <= exact * (1 + mpf("1e-12"))


def test_other_noise_beside_gaussian_is_left_to_the_other_accountants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other: Any = object()
    monkeypatch.setattr(check, "_by_dp_accounting", lambda *_: other)
    monkeypatch.setattr(check, "enclose_delta", too_much_work)
    assert asked([(GAUSSIAN, 1), (LAPLACE, 1)], ApproxDP(epsilon=1.0, delta=1e-6)) is other


class Made:
    """An enclosure by dp-accounting that was made up."""

    def __init__(self, at_least: float, epsilon: float, *, same: bool = True) -> None:
        self.at_least, self.epsilon, self.same = at_least, epsilon, same


@pytest.mark.parametrize(
    ("coarse", "fine", "expected"),
    [
        # Epsilon 2 is the target: coarsely 2.0002 confirms it, and finely what is a hundredth above it.
        (Made(1.9, 2.00019), None, (2.00019, True, 2.00019 / 2.0 - 1.0)),
        (Made(1.9, 2.00021), Made(1.95, 2.019), (2.019, True, 2.019 / 2.0 - 1.0)),
        (Made(1.9, 2.00021), Made(1.95, 2.021), None),
        (Made(1.9, 1.95), None, (1.95, True, 1.0 - 1.95 / 2.0)),
        (Made(1.9, 2.03), Made(1.95, 2.01), (2.01, True, 2.01 / 2.0 - 1.0)),
        (Made(1.9, 1.95, same=False), Made(1.95, 2.01), (2.01, True, 2.01 / 2.0 - 1.0)),
        (Made(1.9, 2.03), Made(2.0003, 2.01), (2.0003, False, 2.0003 / 2.0 - 1.0)),
        (Made(1.9, 2.03), Made(2.0001, 2.01), (2.01, True, 2.01 / 2.0 - 1.0)),
        (Made(1.9, 2.03), Made(1.9, 2.03), None),
        (Made(1.9, 2.03), Made(1.9, 2.01, same=False), None),
        (Made(1.9, 2.03), Made(2.0003, 2.01, same=False), (2.0003, False, 2.0003 / 2.0 - 1.0)),
    ],
)
def test_dp_accounting_confirms_contradicts_or_cannot_tell(
    coarse: Made,
    fine: Made | None,
    expected: tuple[float, bool, float] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def enclose(exposures: Any, neighbouring: Any, near: Any, *, coarsely: bool = False) -> Made:
        found = coarse if coarsely else fine
        assert found is not None
        return found

    monkeypatch.setattr(dp_accounting_check, "enclose", enclose)
    monkeypatch.setattr(check, "_by_balls", too_much_work)
    target = ApproxDP(epsilon=2.0, delta=1e-6)
    if expected is None:
        with pytest.raises(CannotBound, match="too far apart"):
            asked([(LAPLACE, 50)], target)
        return
    found = asked([(LAPLACE, 50)], target)
    assert (found.method, found.proves) == (second_opinion.DP_ACCOUNTING, False)
    assert (leading_figure(found.guarantee), found.agrees) == expected[:2]
    assert found.resolution == pytest.approx(expected[2], rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "coarse", "fine", "expected"),
    [
        (1.0, Made(0.9, 1.02), Made(1.00015, 1.005), (1.00015, False, 1.5e-4)),
        (0.5, Made(0.4, 0.52), Made(0.45, 0.5049), (0.5049, True, 0.0098)),
        # A hundredth of so small an epsilon is less than the tolerance.
        (0.005, Made(0.004, 0.00507), Made(0.004, 0.00501), (0.00501, True, 0.002)),
        (0.0, Made(0.0, 0.0), None, (0.0, True, 0.0)),
    ],
)
def test_small_epsilons_are_held_to_a_tolerance_and_to_a_share(
    epsilon: float, coarse: Made, fine: Made | None, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        dp_accounting_check, "enclose", lambda *_, coarsely=False: coarse if coarsely else fine
    )
    found = asked([(LAPLACE, 50)], ApproxDP(epsilon=epsilon, delta=1e-6))
    assert (leading_figure(found.guarantee), found.agrees) == expected[:2]
    assert found.resolution == pytest.approx(expected[2], rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (0.5, 1.0, (True, True, 0.0)),
        (0.5, 0.7, (True, True, 0.0)),
        (0.5, 1.0 + 0.9e-5, (True, False, 0.9e-5)),
        (0.5, 1.0 + 1.1e-5, None),
        (1.0, 1.0 + 1.1e-5, None),
        (1.0 + 1e-9, 1.1, (False, False, 0.1)),
    ],
)
def test_balls_confirm_contradict_or_cannot_tell(
    lower: float, upper: float, expected: tuple[bool, bool, float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of delta over the target's."""
    target = ApproxDP(epsilon=2.0, delta=1e-15)  # out of dp-accounting's range
    monkeypatch.setattr(check, "enclose_delta", lambda *_: (lower * 1e-15, upper * 1e-15, None))
    if expected is None:
        with pytest.raises(CannotBound, match="too far apart"):
            asked([(LAPLACE, 50)], target)
        return
    found = asked([(LAPLACE, 50)], target)
    assert (found.method, found.agrees, found.proves) == ("interval", *expected[:2])
    assert found.guarantee == ApproxDP(epsilon=2.0, delta=upper * 1e-15)
    assert found.resolution == pytest.approx(expected[2], rel=1e-6)


def test_balls_come_first_where_they_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a delta that dp-accounting's limits allow; where quick balls cannot tell, it is asked."""
    other: Any = object()
    monkeypatch.setattr(check, "_by_dp_accounting", lambda *_: other)
    runs: Runs = [(make.poisson(GAUSSIAN), 1000)]
    found = asked(runs, ApproxDP(epsilon=2.0, delta=1e-6))
    assert (found.method, found.agrees, found.proves) == ("interval", True, True)
    monkeypatch.setattr(check, "_QUICK", 10)
    assert asked(runs, ApproxDP(epsilon=2.0, delta=1e-6)) is other
    monkeypatch.setattr(check, "_QUICK", 40_000)
    monkeypatch.setattr(check, "enclose_delta", lambda *_: (0.5e-6, 1.1e-6, None))
    assert asked(runs, ApproxDP(epsilon=2.0, delta=1e-6)) is other


def test_a_delta_at_an_end_of_its_range_is_moved_inside() -> None:
    for given, found in ((0.0, 5e-324), (1e-9, 1e-9), (1.0, 1.0 - 2.0**-53), (1.5, 1.0 - 2.0**-53)):
        assert approximate(1.0, given) == ApproxDP(epsilon=1.0, delta=found)
