"""The search for the least factor on made-up curves, and where the second accountant disagrees."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpaudit import L2, Neighbouring
from dpaudit.accountants.calibration import calibration
from dpaudit.accountants.calibration.calibration import (
    ScaledComposition,
    _smallest,
    calibrate,
    scale_ledger,
    scaled,
)
from dpaudit.accountants.calibration.check import Opinion
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.composition.costs import rho
from dpaudit.accountants.privacy_loss import Bracket, PrivacyLoss
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import GaussianSparseVector, MixtureOfGaussians, OpaquePureDP, RandomizedResponse
from tests import make
from tests.sweeps import sweep

TARGET = ZCDP(rho=1.0)
GAUSSIAN = make.gaussian(7.0)


def falling(factor: float) -> float:
    return math.log(3.0 / factor)


def a_step(factor: float) -> float:
    return 1.0 if factor < 3.0 else -1.0


def unsteady(factor: float) -> float:
    """As a figure whose rounding is on the wrong side a little beyond the place."""
    return 1e-300 if 3.0 <= factor < 3.0 * (1.0 + 1e-9) else falling(factor)


def refused_below(factor: float) -> float:
    if factor < 0.5:
        raise CannotBound("so little noise has no bound", where="test")
    return falling(factor)


@pytest.mark.parametrize("excess", [falling, a_step, unsteady, refused_below])
@pytest.mark.parametrize("start", [1e-200, 1e-3, 1.0, 2.9, 3.1, 50.0, 1e200])
@pytest.mark.parametrize("resolution", [1e-12, 1e-6])
def test_the_least_factor_is_found_from_anywhere_and_never_a_smaller_one(
    excess: Callable[[float], float], start: float, resolution: float
) -> None:
    found = _smallest(excess, start, TARGET, resolution)
    assert excess(found) <= 0.0
    assert found >= 3.0
    assert found <= 3.0 * (1.0 + 4.0 * (1e-9 if excess is unsteady else 0.0) + 4.0 * resolution)


def test_where_no_factor_is_enough_or_any_is() -> None:
    with pytest.raises(CannotBound, match="no amount of noise"):
        _smallest(lambda factor: 1.0, 1.0, TARGET, 1e-12)
    with pytest.raises(CannotBound, match="no amount of noise"):
        _smallest(lambda factor: math.inf, 1.0, TARGET, 1e-12)
    with pytest.raises(InvalidParameter, match="met without noise"):
        _smallest(lambda factor: -math.inf, 1.0, TARGET, 1e-12)
    with pytest.raises(InvalidParameter, match="met without noise"):
        _smallest(lambda factor: 0.0, 1.0, TARGET, 1e-12)

    def refused(factor: float) -> float:
        raise CannotBound(f"at {factor}", where="test")

    with pytest.raises(CannotBound, match="at "):
        _smallest(refused, 1.0, TARGET, 1e-12)
    # As far as some hundreds of powers of two it is looked for.
    for least in (1e-100, 1e100):
        found = _smallest(lambda factor, least=least: math.log(least / factor), 1.0, TARGET, 1e-12)
        assert least <= found <= least * (1.0 + 1e-11)


LEAST = math.sqrt(0.5)  # for rho = 1 at sensitivity 1


def disagreeing(monkeypatch: pytest.MonkeyPatch, until: float, *, proves: bool) -> None:
    """A second accountant that agrees only from so much more noise on."""
    right = ScaledComposition.opinion

    def opinion(self: ScaledComposition, factor: float, method: str) -> Opinion:
        return replace(right(self, factor, method), agrees=factor >= LEAST * (1.0 + until), proves=proves)

    monkeypatch.setattr(ScaledComposition, "opinion", opinion)


@sweep("until", [1e-13, 1e-9, 2e-7], everyday=(0, 2))
def test_an_answer_is_raised_until_a_proof_confirms_it(until: float, monkeypatch: pytest.MonkeyPatch) -> None:
    disagreeing(monkeypatch, until, proves=True)
    found = calibrate(GAUSSIAN, TARGET)
    assert LEAST * (1.0 + until) <= found.value <= LEAST * (1.0 + 5.0 * until)
    assert found.factor == found.value
    assert found.opinion.agrees
    assert 0.0 <= found.slack <= 1e-6


@pytest.mark.parametrize(("until", "proves"), [(1e-13, False), (1e-5, True)])
def test_no_answer_is_raised_by_much_or_for_an_estimate(
    until: float, proves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disagreeing(monkeypatch, until, proves=proves)
    with pytest.raises(CannotBound, match="one of the two accountants is wrong"):
        calibrate(GAUSSIAN, TARGET)


def test_the_slack_is_what_a_perfect_accountant_might_save() -> None:
    # Where only rho is known, zCDP is what proves the target, and uses all of it.
    found = calibrate(make.discrete_gaussian(1.0, 2.0), ApproxDP(epsilon=5.0, delta=1e-6))
    assert found.bound.method == "zcdp"
    assert 0.0 <= found.slack < 1e-9
    # One Laplace release is proved and enclosed exactly.
    assert calibrate(make.laplace(1.0), PureDP(epsilon=0.5)).slack == 0.0


@pytest.mark.parametrize(("used", "slack"), [(0.75, 0.25), (1.5, 0.0), (-1.0, 1.0)])
def test_the_slack_is_a_share_of_the_target(
    used: float, slack: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ScaledComposition.bound
    monkeypatch.setattr(ScaledComposition, "bound", lambda self, factor: (right(self, factor)[0], used))
    assert calibrate(GAUSSIAN, TARGET).slack == slack


def test_noise_is_scaled_towards_more_of_it() -> None:
    for factor in (1.1, 1 / 3, 7.3):
        sigma = scaled(GAUSSIAN, factor).sigma
        assert Fraction(sigma) >= Fraction(7.0) * Fraction(factor)
        assert Fraction(math.nextafter(sigma, 0.0)) < Fraction(7.0) * Fraction(factor)
        epsilon = scaled(RandomizedResponse(epsilon=0.7), factor).epsilon
        assert Fraction(epsilon) <= Fraction(0.7) / Fraction(factor)
        assert Fraction(math.nextafter(epsilon, 1e9)) > Fraction(0.7) / Fraction(factor)
    given = OpaquePureDP(epsilon=1.0, justification="a paper")
    assert scaled(given, 2.0) is given
    for mechanism, factor in ((GAUSSIAN, 1e308), (RandomizedResponse(epsilon=1e-300), 1e200)):
        with pytest.raises(CannotBound, match=r"every double|positive double"):
            scaled(mechanism, factor)


def test_a_divergence_is_rho_times_its_order() -> None:
    found = calibrate(GAUSSIAN, RDP(alpha=3.0, epsilon=0.7))
    assert Fraction(3) / (2 * Fraction(found.value) ** 2) <= Fraction(0.7)
    assert found.value == pytest.approx(math.sqrt(3.0 / 1.4), rel=1e-13)
    assert found.bound.guarantee.alpha == 3.0


def test_a_ledger_with_nothing_to_scale_is_refused_and_one_below_its_target_has_less_noise() -> None:
    release = make.release(GAUSSIAN, label="sum")
    found = scale_ledger([release], TARGET)
    assert found.factor == pytest.approx(LEAST / 7.0, rel=1e-14)
    assert found.fixed == ()
    given = make.release(OpaquePureDP(epsilon=0.1, justification="a paper"), label="given")
    with pytest.raises(CannotBound, match="no release has noise"):
        scale_ledger([given, given], TARGET)
    both = scale_ledger([given, release], TARGET)
    assert both.fixed == ("given",)
    assert both.factor > found.factor


APPROXIMATE = ApproxDP(epsilon=1.0, delta=1e-6)
SIGMA = 4.22467888933  # for APPROXIMATE, of Gaussian noise at sensitivity 1


def test_upper_ends_prove_and_lower_ends_only_tell_the_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    delta, epsilon = PrivacyLoss.delta, PrivacyLoss.epsilon

    def wide(exact: Callable[[PrivacyLoss, float], Bracket]) -> Callable[[PrivacyLoss, float], Bracket]:
        return lambda self, at: Bracket(0.5 * exact(self, at).lower, exact(self, at).upper)

    monkeypatch.setattr(PrivacyLoss, "delta", wide(delta))
    monkeypatch.setattr(PrivacyLoss, "epsilon", wide(epsilon))
    found = calibrate(GAUSSIAN, APPROXIMATE)
    assert found.value == pytest.approx(SIGMA, rel=1e-11)
    assert found.bound.guarantee.delta == pytest.approx(1e-6, rel=1e-9)
    assert found.slack == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize("order", [(1.0, 3.0), (3.0, 1.0)])
def test_of_several_parts_the_costliest_counts(
    order: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    releases = [
        make.release(make.gaussian(sigma), part=part, label=part)
        for part, sigma in zip("ab", order, strict=True)
    ]
    exact = PrivacyLoss.delta

    def loose(self: PrivacyLoss, epsilon: float) -> Bracket:
        """The costliest part's lower end is the lower one."""
        upper = exact(self, epsilon).upper
        return Bracket(0.0 if upper > 1e-20 else upper, upper)

    monkeypatch.setattr(PrivacyLoss, "delta", loose)
    found = scale_ledger(releases, APPROXIMATE)
    assert found.factor == pytest.approx(SIGMA, rel=1e-11)
    assert found.bound.guarantee.delta == pytest.approx(1e-6, rel=1e-9)
    assert found.slack < 1e-9
    right = calibration.opinion

    def against(runs: Any, relation: Any, target: Any) -> Opinion:
        """A second accountant that contradicts what concerns the costliest part alone."""
        costliest = any(mechanism.sigma < 2.0 * SIGMA for mechanism, _ in runs)
        return replace(right(runs, relation, target), agrees=not costliest, proves=False)

    monkeypatch.setattr(calibration, "opinion", against)
    with pytest.raises(CannotBound, match="one of the two accountants is wrong"):
        scale_ledger(releases, APPROXIMATE)


def test_of_several_parts_with_comparisons_the_costliest_counts() -> None:
    releases = [
        make.release(
            GaussianSparseVector(sigma=sigma, sensitivity=L2(1.0), answers=1, steps=1000),
            part=part,
            label=part,
        )
        for part, sigma in (("a", 30.0), ("b", 10.0), ("c", 30.0))
    ]
    one = ScaledComposition(compose(releases[1:2], Neighbouring.REPLACE_ONE), APPROXIMATE)
    all_of_them = ScaledComposition(compose(releases, Neighbouring.REPLACE_ONE), APPROXIMATE)
    beside = make.release(make.gaussian(1000.0), label="s")
    mixed = ScaledComposition(compose([releases[1], beside], Neighbouring.REPLACE_ONE), APPROXIMATE)
    assert mixed.bound(1.0)[0].method == "rdp"
    for factor in (1.0, 2.0):
        assert all_of_them.excess(factor) == one.excess(factor)
        assert all_of_them.bound(factor) == one.bound(factor)
        assert all_of_them.bound(factor)[0].method == "rdp"


def test_a_mixture_is_composed_in_both_orders() -> None:
    mixture = MixtureOfGaussians(sigma=1.0, sensitivities=(0.0, 1.0), probabilities=(0.9, 0.1))
    releases = [make.release(mixture), make.release(GAUSSIAN, label="s")]
    made = compose(releases, Neighbouring.ADD_OR_REMOVE_ONE)
    first, second = ScaledComposition(made, APPROXIMATE)._terms(1.0)
    assert first != second


@pytest.mark.parametrize("found", [0.0, 1e-9, 1e-7, 1e-6, 2e-6, 1.0, math.inf])
def test_the_excess_is_positive_where_the_target_is_not_met(
    found: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrivacyLoss, "delta", lambda self, at: Bracket(found, found))
    made = make.composition(GAUSSIAN)
    excess = ScaledComposition(made, APPROXIMATE).excess(1.0)
    assert (excess > 0.0) == (found > 1e-6)
    if 0.0 < found < math.inf:
        assert excess == pytest.approx(math.log(found / 1e-6), rel=1e-12)
    else:
        assert abs(excess) == math.inf


def test_figures_of_divergences_and_of_mu_are_rounded_up() -> None:
    made = make.composition((GAUSSIAN, 3))
    renyi = ScaledComposition(made, RDP(alpha=3.3, epsilon=1.0))
    gaussian = ScaledComposition(made, GDP(mu=1.0))
    for factor in (0.7, 1.1, 1.3, 1.9, 2.3):
        exact = 3 / (2 * Fraction(scaled(GAUSSIAN, factor).sigma) ** 2)
        total = Fraction(renyi._total(rho, factor))
        assert exact <= total
        assert total * Fraction(3.3) <= Fraction(renyi._additive(factor)) <= total * Fraction(3.3000001)
        assert 2 * exact <= Fraction(gaussian._additive(factor)) ** 2 <= 2 * exact * (1 + Fraction(1e-15))
