"""Calibrated noise against published and independently computed values, and answers that must be refused.

The oracles are mpmath at 60 digits, closed forms and published values; none is an accountant of ours.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from mpmath import mp, mpf

from dpaudit import L2, Gaussian
from dpaudit.accountants.calibration.calibration import calibrate, scale_ledger, split
from dpaudit.accountants.privacy_loss import Bracket, PrivacyLoss
from dpaudit.certificate.second_opinion import DP_ACCOUNTING
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import (
    AnyMechanism,
    Exponential,
    GaussianSparseVector,
    MixtureOfGaussians,
    OpaqueApproxDP,
    OpaquePureDP,
    RandomAllocation,
    RandomizedResponse,
    SampledRecords,
)
from tests import make, oracles
from tests.sweeps import sweep

GAUSSIAN = make.gaussian(7.0)
LAPLACE = make.laplace(7.0)
SAMPLED = make.poisson(GAUSSIAN)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (1.0, 1e-6, 4.22467888933),
        (1.0, 1e-12, 6.55782206746),
        (1.0, 1e-30, 11.083102949),
        (10.0, 1e-6, 0.541086831818),
    ],
)
def test_gaussian_vectors(epsilon: float, delta: float, sigma: float) -> None:
    found = calibrate(GAUSSIAN, ApproxDP(epsilon=epsilon, delta=delta))
    assert found.value == pytest.approx(sigma, rel=3e-12)
    assert oracles.gaussian_delta(1 / mpf(found.value), epsilon) <= delta
    assert oracles.gaussian_delta(1 / mpf(found.value * (1 - 1e-11)), epsilon) > delta
    assert (found.parameter, found.bound.method, found.opinion.method) == ("sigma", "gaussian", "contour")
    assert 0.0 <= found.slack < 1e-11


def test_where_the_usual_formula_cancels() -> None:
    # Peers give .3442083 at (20, 1e-9), whose delta is 9.4e-9.
    sigma = calibrate(GAUSSIAN, ApproxDP(epsilon=20.0, delta=1e-9)).value
    assert sigma > 0.3442083
    theirs, ours = (oracles.gaussian_delta(1 / mpf(one), 20.0) for one in (0.3442083, sigma))
    assert float(theirs) == pytest.approx(9.4e-9, rel=0.01)
    assert theirs > 1e-9 >= ours


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_gaussian_closed_forms(count: int) -> None:
    sigma = calibrate(GAUSSIAN, ZCDP(rho=0.3), count=count).value
    assert Fraction(sigma) ** 2 * 2 * Fraction(0.3) >= count * (1 - Fraction(1, 10**15))
    assert sigma == pytest.approx(math.sqrt(count / 0.6), rel=1e-14)
    assert calibrate(GAUSSIAN, GDP(mu=0.7), count=count).value == pytest.approx(
        math.sqrt(count) / 0.7, rel=1e-14
    )
    assert calibrate(GAUSSIAN, RDP(alpha=4.0, epsilon=0.7), count=count).value == pytest.approx(
        math.sqrt(count * 4.0 / 1.4), rel=1e-12
    )


def test_a_tree_pays_for_each_level() -> None:
    assert calibrate(make.tree(1.0, 100, 2.0), ZCDP(rho=0.5)).value == pytest.approx(
        2.0 * math.sqrt(7.0), rel=1e-14
    )


def test_laplace_for_pure() -> None:
    found = calibrate(LAPLACE, PureDP(epsilon=0.1), count=3)
    assert found.value == pytest.approx(30.0, rel=1e-14)
    assert Fraction(3) / Fraction(found.value) <= Fraction(0.1)


def test_one_laplace_has_a_closed_form() -> None:
    # delta(e) = 1 - exp((e - e0) / 2): e0 = e - 2 log(1 - delta)
    found = calibrate(LAPLACE, ApproxDP(epsilon=1.0, delta=1e-3))
    assert found.value == pytest.approx(1.0 / (1.0 - 2.0 * math.log1p(-1e-3)), rel=1e-8)
    assert 1.0 - math.exp((1.0 - 1.0 / found.value) / 2.0) <= 1e-3


def test_many_laplace() -> None:
    # 1e6 releases at .001 have epsilon 4.88561694138 at 1e-6 (ACCOUNTING.md).
    found = calibrate(LAPLACE, ApproxDP(epsilon=4.88561694138, delta=1e-6), count=10**6)
    assert found.value == pytest.approx(1000.0, rel=1e-8)
    assert (found.bound.method, found.opinion.method) == ("contour", "interval")


def test_randomized_response_is_given_the_largest_epsilon() -> None:
    # 50 at log 3 have epsilon 52.6797094088821 at 1e-6.
    response = RandomizedResponse(epsilon=1.0)
    found = calibrate(response, ApproxDP(epsilon=52.6797094088821, delta=1e-6), count=50)
    assert found.parameter == "epsilon"
    assert found.value == pytest.approx(math.log(3.0), rel=1e-10)
    assert calibrate(response, PureDP(epsilon=1.0), count=4).value == pytest.approx(0.25, rel=1e-14)
    largest = calibrate(response, ZCDP(rho=0.5)).value
    assert largest * math.tanh(largest / 2.0) == pytest.approx(0.5, rel=1e-12)
    assert calibrate(Exponential(epsilon=1.0), ZCDP(rho=0.5)).value == pytest.approx(2.0, rel=1e-14)


def test_near_the_largest_loss_a_proof_takes_an_estimate_s_place() -> None:
    found = calibrate(RandomizedResponse(epsilon=1.0), ApproxDP(epsilon=1.0, delta=1e-12))
    assert (found.opinion.method, found.opinion.proves) == ("pure", True)
    assert found.value == pytest.approx(1.0, abs=1e-11)
    assert found.value > 1.0


@pytest.mark.nightly
def test_sampled_gaussian() -> None:
    # q = .01, sigma = 1, 1e3 steps: epsilon 2.12451517112 at 1e-6, by adding or removing one.
    found = calibrate(SAMPLED, ApproxDP(epsilon=2.12451517112, delta=1e-6), count=1000)
    assert found.value == pytest.approx(1.0, rel=1e-7)
    assert (found.parameter, found.opinion.method) == ("sigma", "interval")
    # Under replace-one nothing amplifies Gaussian noise.
    target, replaced = ApproxDP(epsilon=2.0, delta=1e-6), Neighbouring.REPLACE_ONE
    whole = calibrate(GAUSSIAN, target, count=1000).value
    assert calibrate(SAMPLED, target, count=1000, neighbouring=replaced).value == pytest.approx(
        whole, rel=1e-12
    )


def test_discrete_gaussian_by_its_rho() -> None:
    discrete = make.discrete_gaussian(1.0, 2.0)
    assert calibrate(discrete, ZCDP(rho=0.5), count=4).value == pytest.approx(4.0, rel=1e-14)
    found = calibrate(discrete, ApproxDP(epsilon=5.22154, delta=1e-6))
    assert found.value == pytest.approx(2.0, abs=1e-5)
    assert (found.bound.method, found.opinion.method) == ("zcdp", "renyi")


def test_discrete_gaussian_by_the_one_integer_that_moves() -> None:
    found = calibrate(make.discrete_gaussian(1.0), ApproxDP(epsilon=5.0, delta=1e-6))

    def delta(sigma: float) -> float:
        outputs = range(-40, 41)
        weights = [math.exp(-0.5 * (k / sigma) ** 2) for k in outputs]
        losses = [(1 - 2 * k) / (2.0 * sigma**2) for k in outputs]
        above = (w * -math.expm1(min(5.0 - x, 0.0)) for w, x in zip(weights, losses, strict=True))
        return math.fsum(above) / math.fsum(weights)

    assert delta(found.value) <= 1e-6 * (1.0 + 1e-9)
    assert delta(0.9999 * found.value) > 1e-6
    assert found.value < 1.0


@pytest.mark.parametrize(
    ("prototype", "target"),
    [
        (GAUSSIAN, PureDP(epsilon=1.0)),
        (GAUSSIAN, ZCDP(rho=0.0)),
        (LAPLACE, PureDP(epsilon=0.0)),
        (make.discrete_gaussian(1.0), GDP(mu=1.0)),
        (OpaquePureDP(epsilon=1.0, justification="proved elsewhere"), PureDP(epsilon=1.0)),
    ],
)
def test_what_no_noise_achieves(prototype: Gaussian, target: AnyGuarantee) -> None:
    with pytest.raises(CannotBound):
        calibrate(prototype, target)


def test_no_change_needs_no_noise() -> None:
    with pytest.raises(InvalidParameter, match="no noise"):
        calibrate(make.gaussian(1.0, 0.0), ZCDP(rho=1.0))
    with pytest.raises(InvalidParameter):
        calibrate(GAUSSIAN, ZCDP(rho=1.0), count=0)


@sweep(
    "prototype, target, count, method",
    [
        (LAPLACE, ApproxDP(epsilon=1.0, delta=1e-3), 5, DP_ACCOUNTING),
        (SAMPLED, ApproxDP(epsilon=2.0, delta=1e-6), 1000, "interval"),
        (RandomizedResponse(epsilon=1.0, categories=4), ApproxDP(epsilon=3.0, delta=1e-4), 9, DP_ACCOUNTING),
        (LAPLACE, ApproxDP(epsilon=5.0, delta=1e-12), 1000, "interval"),
        (SAMPLED, ApproxDP(epsilon=1.0, delta=1e-6), 20_000, "interval"),
        (Exponential(epsilon=1.0), ApproxDP(epsilon=1.0, delta=1e-6), 20, "interval"),
    ],
    everyday=(2, 5),
)
def test_an_accountant_that_finds_a_third_of_delta_is_contradicted(
    prototype: AnyMechanism, target: ApproxDP, count: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calibrate(prototype, target, count=count).opinion
    assert found.method == method
    assert found.agrees
    right = PrivacyLoss.delta

    def third(self: PrivacyLoss, epsilon: float) -> Bracket:
        return Bracket(*(end / 3.0 for end in right(self, epsilon)))

    monkeypatch.setattr(PrivacyLoss, "delta", third)
    with pytest.raises(CannotBound, match=f"{method}|no second accountant"):
        calibrate(prototype, target, count=count)


def test_a_slip_of_the_second_accountant_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = privacy_loss_distribution.from_laplace_mechanism
    monkeypatch.setattr(
        privacy_loss_distribution,
        "from_laplace_mechanism",
        lambda parameter, **rest: right(parameter=parameter / 1.2, **rest),
    )
    with pytest.raises(CannotBound, match="dp-accounting PLD computes"):
        calibrate(LAPLACE, ApproxDP(epsilon=1.0, delta=1e-3), count=5)


def test_a_ledger_is_scaled_by_one_factor() -> None:
    ledger = make.ledger((make.gaussian(2.0), 4), make.gaussian(1.0))
    found = scale_ledger(ledger, ZCDP(rho=0.25))
    assert found.factor == pytest.approx(2.0, rel=1e-14)  # rho was 4/8 + 1/2
    assert [release.mechanism.sigma for release in found.releases] == [
        pytest.approx(4.0, rel=1e-14),
        pytest.approx(2.0, rel=1e-14),
    ]
    assert found.releases[0].count == 4
    less = scale_ledger(ledger, ApproxDP(epsilon=10.0, delta=1e-6))
    assert less.factor == pytest.approx(0.541086831818 * math.sqrt(2.0), rel=1e-11)
    assert (less.bound.method, less.opinion.method) == ("gaussian", "contour")


@pytest.mark.nightly
def test_parts_of_a_split_and_mixes_are_scaled_together() -> None:
    parts = [make.release(make.laplace(1.0), part=str(k)) for k in range(3)]
    together = [*parts, make.release(RandomizedResponse(epsilon=1.0))]
    found = scale_ledger(together, PureDP(epsilon=1.0))
    assert found.factor == pytest.approx(2.0, rel=1e-14)
    assert found.releases[-1].mechanism.epsilon <= 0.5
    mixed = scale_ledger(together, ApproxDP(epsilon=1.0, delta=1e-6))
    assert 1.9 < mixed.factor < found.factor


def test_what_is_fixed_stays_and_is_named() -> None:
    fixed = OpaqueApproxDP(epsilon=0.1, delta=1e-8, justification="a paper")
    opaque, free = make.release(fixed, label="given"), make.release(GAUSSIAN)
    found = scale_ledger([opaque, free], ApproxDP(epsilon=1.0, delta=1e-6))
    assert found.fixed == ("given",)
    assert found.releases[0] == opaque
    for releases, delta in (([opaque, free], 1e-9), ([opaque], 1e-6)):
        with pytest.raises(CannotBound):
            scale_ledger(releases, ApproxDP(epsilon=1.0, delta=delta))


def test_distinct_noise_that_rounds_to_the_same_is_counted_twice() -> None:
    near = make.releases([make.gaussian(1.0), make.gaussian(math.nextafter(1.0, 2.0))])
    found = scale_ledger(near, ApproxDP(epsilon=1.0, delta=1e-6))
    assert found.factor == pytest.approx(4.22467888933 * math.sqrt(2.0), rel=1e-11)


def test_a_filtered_ledger_is_bounded_by_its_budget_alone() -> None:
    ledger = make.ledger(GAUSSIAN, schedule="filtered", budget=ZCDP(rho=1.0))
    with pytest.raises(CannotBound, match="budget"):
        scale_ledger(ledger, ZCDP(rho=0.5))


@pytest.mark.parametrize("weights", [[1, 1, 1], [0.1, 0.2, 0.7], [1e-300, 1e300, 3.0], [1.0] * 97])
def test_shares_never_exceed_the_budget(weights: list[float]) -> None:
    for rho in (1.0, 0.1, 1e-9):
        shares = split(ZCDP(rho=rho), weights)
        assert sum(Fraction(share.rho) for share in shares) <= Fraction(rho)
        assert math.fsum(share.rho for share in shares) == pytest.approx(rho, rel=1e-14)
        assert sum(Fraction(s.epsilon) for s in split(PureDP(epsilon=rho), weights)) <= Fraction(rho)
        gdp = split(GDP(mu=rho), weights)
        assert sum(Fraction(share.mu) ** 2 for share in gdp) <= Fraction(rho) ** 2
        assert math.fsum(share.mu**2 for share in gdp) == pytest.approx(rho**2, rel=1e-14)


def test_shares_follow_the_weights() -> None:
    assert [share.rho for share in split(ZCDP(rho=1.0), [1, 3])] == [0.25, 0.75]
    assert [share.mu for share in split(GDP(mu=5.0), [9, 16])] == [3.0, 4.0]


@pytest.mark.parametrize("weights", [[], [0.0], [1.0, -1.0], [math.nan], [math.inf]])
def test_weights_are_positive_numbers(weights: list[float]) -> None:
    with pytest.raises(InvalidParameter):
        split(ZCDP(rho=1.0), weights)
    with pytest.raises(CannotBound):
        split(ApproxDP(epsilon=1.0, delta=1e-6), [1.0])


def test_where_no_second_accountant_can_tell_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """dp-accounting is not used for so small a delta, and an enclosure may be too wide to decide."""

    def too_wide(*_: object) -> None:
        raise CannotBound("the balls are too wide", where="test")

    monkeypatch.setattr("dpaudit.accountants.calibration.check._by_balls", too_wide)
    with pytest.raises(CannotBound, match="no second accountant") as refused:
        calibrate(LAPLACE, ApproxDP(epsilon=1.0, delta=1e-12), count=100)
    assert "dp-accounting PLD: it is limited to deltas" in str(refused.value)
    assert "the balls are too wide" in str(refused.value)


@pytest.mark.nightly
def test_so_rare_a_sample_is_confirmed() -> None:
    assert (
        calibrate(make.poisson(GAUSSIAN, 1e-9), ApproxDP(epsilon=1.0, delta=1e-6), count=10**6).opinion.method
        == "interval"
    )


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def comparisons_epsilon(sigma: mpf, answers: int, steps: int, delta: float) -> mpf:
    """Zhu and Wang 2020 for sensitivity 1, at the best order."""
    outcomes = sum(math.comb(steps, k) for k in range(answers + 1))
    squares = (2 * mp.sqrt(answers) + 4 * answers) / sigma**2

    def epsilon(t: mpf) -> mpf:
        return oracles.renyi_epsilon(t, t * (1 + t) / 2 * squares + mp.log(outcomes), delta)

    return min(epsilon(mpf(2) ** (mpf(k) / 64)) for k in range(64 * 14))


@sweep("answers, steps, epsilon, delta", [(2, 100, 1.0, 1e-6), (5, 1000, 3.0, 1e-9)], everyday=(1,))
def test_comparisons_by_their_divergences(answers: int, steps: int, epsilon: float, delta: float) -> None:
    """And less noise than if all noisy values came out, which is what their pair says."""
    prototype = GaussianSparseVector(sigma=1.0, sensitivity=L2(1.0), answers=answers, steps=steps)
    found = calibrate(prototype, ApproxDP(epsilon=epsilon, delta=delta))
    assert found.bound.method == "rdp"
    assert found.opinion.agrees
    assert comparisons_epsilon(mpf(found.value), answers, steps, delta) <= epsilon * (1 + 1e-4)
    assert comparisons_epsilon(mpf(found.value) * (1 - 1e-3), answers, steps, delta) > epsilon
    released = calibrate(GAUSSIAN, ApproxDP(epsilon=epsilon, delta=delta), count=steps)
    assert found.value < released.value


def test_few_comparisons_as_if_all_came_out_and_other_targets_too() -> None:
    prototype = GaussianSparseVector(sigma=1.0, sensitivity=L2(1.0), answers=1, steps=1)
    one = ApproxDP(epsilon=1.0, delta=1e-6)
    assert calibrate(prototype, one).value == pytest.approx(calibrate(GAUSSIAN, one).value, rel=1e-9)
    assert calibrate(prototype, ZCDP(rho=0.125)).value == pytest.approx(2.0)
    with pytest.raises(CannotBound):
        calibrate(prototype, PureDP(epsilon=1.0))


def test_a_wrong_second_opinion_on_comparisons_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a number of outcomes that is far too small the first accountant is contradicted."""
    monkeypatch.setattr("dpaudit.accountants.pairs.comparisons.log_outcomes", lambda answers, steps: 0.0)
    prototype = GaussianSparseVector(sigma=1.0, sensitivity=L2(1.0), answers=2, steps=100)
    with pytest.raises(CannotBound, match="one of the two accountants is wrong"):
        calibrate(prototype, ApproxDP(epsilon=1.0, delta=1e-6))


def mixture_delta(shifts: list[float], weights: list[float], epsilon: float) -> float:
    """The larger delta of both orders, by a fine grid on the line."""
    x = np.linspace(-30.0, 40.0, 700_001)
    width = x[1] - x[0]
    alone = np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
    mixed = sum(p * np.exp(-0.5 * (x - c) ** 2) for c, p in zip(shifts, weights, strict=True))
    mixed = mixed / math.sqrt(2.0 * math.pi)
    sides = ((mixed, alone), (alone, mixed))
    return max(width * float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in sides)


@pytest.mark.nightly
@pytest.mark.parametrize("records", [1, 3])
def test_records_and_mixtures_against_the_line(records: int) -> None:
    rate, target = 0.05, ApproxDP(epsilon=1.0, delta=1e-6)
    weights = [math.comb(records, j) * rate**j * (1 - rate) ** (records - j) for j in range(records + 1)]
    for prototype in (
        SampledRecords(rate=rate, records=records, mechanism=GAUSSIAN),
        MixtureOfGaussians(
            sigma=3.0, sensitivities=tuple(map(float, range(records + 1))), probabilities=weights
        ),
    ):
        found = calibrate(prototype, target)
        truth = mixture_delta([j / found.value for j in range(records + 1)], weights, target.epsilon)
        assert 0.98 * target.delta < truth <= target.delta
        assert found.opinion.method == DP_ACCOUNTING


@pytest.mark.nightly
def test_two_steps_of_random_allocation_against_the_plane() -> None:
    target = ApproxDP(epsilon=1.0, delta=1e-4)
    found = calibrate(RandomAllocation(steps=2, mechanism=GAUSSIAN), target)
    mu, x = 1.0 / found.value, np.linspace(-12.0, 12.0, 3001)
    density = np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi) * (x[1] - x[0])
    ratio = np.exp(mu * x - 0.5 * mu**2)
    ratio = 0.5 * (ratio[:, None] + ratio[None, :])
    both = density[:, None] * density[None, :]
    grown = math.exp(target.epsilon)
    sides = (
        float((both * np.maximum(ratio - grown, 0)).sum()),
        float((both * np.maximum(1 - grown * ratio, 0)).sum()),
    )
    assert 0.98 * target.delta < max(sides) <= target.delta * (1 + 1e-6)


def test_a_thousand_sampled_steps_are_calibrated_in_few_calls(python_calls: Any) -> None:
    """Both accountants together, after the first use of either."""

    def work() -> object:
        return calibrate(SAMPLED, ApproxDP(epsilon=1.0, delta=1e-6), count=1000)

    work()
    assert python_calls(work) < 1_000_000
