import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy

from dpaudit import GDP, ZCDP, ApproxDP, Claim, Experiment, PureDP
from dpaudit.accountants.closed_forms.conversions import zcdp_delta
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.auditors.statistics.claim_points import ClaimedPoints, PrivacyCurve
from dpaudit.auditors.statistics.clopper_pearson import largest_refutable_epsilon
from dpaudit.auditors.statistics.learning.classifier import Learner
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import (
    ROUNDED,
    ThresholdEvent,
    event_for_epsilon,
    out_of_reach,
    threshold,
)
from dpaudit.auditors.statistics.two_proportions import by_epsilon
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array
from tests.auditors.statistics.drawn import gaussian, laplace
from tests.sweeps import sweep


@sweep("n, bar", [(10_000, 2.1), (100_000, 2.75)], everyday=(0,))
def test_yardstick(n: int, bar: float) -> None:
    bounds = [threshold(gaussian(1.0, n, seed), delta=1e-5).epsilon_lower for seed in range(20)]
    assert np.median(bounds) >= bar
    assert max(bounds) < 4.377


@pytest.mark.nightly
def test_a_million_scores_are_tested_in_arrays(python_calls: Any) -> None:
    samples = gaussian(1.0, 1_000_000, 0)
    assert 3.0 < threshold(samples, delta=1e-5).epsilon_lower < 4.377
    assert python_calls(lambda: threshold(samples, delta=1e-5)) < 20_000


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_the_chosen_event_is_close_to_the_best_one_of_laplace_noise(shift: float) -> None:
    """By its probabilities, so that only the choice is at stake: no far-out event is best."""
    n, promised = 8500, by_epsilon(8500, 0.0, 0.05)
    upper = scipy.stats.laplace.sf

    def promise(at: float | Array) -> Array:
        return promised(n * upper(at - shift), n * upper(at))

    for seed in range(10):
        event, _ = event_for_epsilon(laplace(shift, 1500, seed), np.zeros(1), np.zeros(1), n, 0.05)
        # The noise is symmetric: what the data exceeds is as likely as what its neighbour falls below.
        at = event.threshold if event.upper else shift - event.threshold
        assert event.upper != event.swapped
        assert promise(at) >= 0.85 * promise(np.linspace(-2, 8, 1001)).max()


@pytest.mark.parametrize("runs", [9_000, 60_000])
def test_the_event_of_a_log_likelihood_ratio_is_close_to_the_best_one(runs: int) -> None:
    """Ratios of six outcomes, the last of them rare: what few runs show by luck is not believed."""
    p = np.array([0.3, 0.3, 0.2, 0.16, 0.0385, 0.0015])
    ratio = np.array([-0.25, -0.1, 0.05, 0.2, 0.3, 0.4])
    q = p * np.exp(-ratio)
    q /= q.sum()
    ratio, n = np.log(p / q), 6 * runs
    events = [(p[at:].sum(), q[at:].sum()) for at in range(6)] + [
        (q[:at].sum(), p[:at].sum()) for at in range(6)
    ]
    promised = by_epsilon(n, 0.0, 0.05)(*(n * np.array(events).T))
    random = np.random.default_rng(0)
    for _ in range(10):
        sides = [random.choice(ratio, runs, p=side) for side in (p, q)]
        event, _ = event_for_epsilon(Samples(*sides), np.zeros(1), np.zeros(1), n, 0.05)
        lower = int(np.sum(ratio <= event.threshold + 1e-9))
        at = int(np.sum(ratio < event.threshold - 1e-9)) if event.upper else 6 + lower
        assert event.upper != event.swapped
        assert promised[at % 12] >= 0.95 * promised.max()


CLAIMS = [
    (Claim(PureDP(epsilon=1.0)), None, laplace),
    (Claim(ApproxDP(epsilon=4.3772, delta=1e-5)), None, gaussian),
    (Claim(ApproxDP(epsilon=0.5, delta=0.2389)), None, gaussian),
    (Claim(GDP(mu=1.0)), lambda epsilon: gaussian_delta(epsilon, 1.0), gaussian),
    (Claim(ZCDP(rho=0.5)), lambda epsilon: zcdp_delta(0.5, epsilon), gaussian),
]


@pytest.mark.parametrize(("claim", "curve", "mechanism"), CLAIMS)
def test_twice_as_revealing_is_found_and_the_correct_one_is_not(
    claim: Claim, curve: PrivacyCurve | None, mechanism: Callable[[float, int, int], Samples]
) -> None:
    # Gaussian claims at delta 1e-5 are far from their truth: it takes more noise removed to see it.
    size = 60_000 if isinstance(claim.guarantee, ApproxDP | ZCDP) else 20_000
    found = [threshold(mechanism(shift, size, 1), claim=claim, curve=curve) for shift in (2.0, 1.0)]
    assert [audit.verdict for audit in found] == [Experiment.REFUTED, Experiment.NOT_REFUTED]
    assert "p-value" in found[0].refuted_by
    assert found[0].p_value < 1e-3
    assert found[1].epsilon_lower <= found[1].epsilon_claimed


def test_neither_direction_nor_tail_matters() -> None:
    one = gaussian(1.5, 4000, 5)
    mirrored = Samples(-one.data, -one.neighbour)
    exchanged = Samples(one.neighbour, one.data)
    bounds = [threshold(samples).epsilon_lower for samples in (one, mirrored, exchanged)]
    assert bounds[0] > 1
    assert bounds == pytest.approx([bounds[0]] * 3, abs=1e-6)


def test_too_few_runs_say_how_many_it_takes() -> None:
    audit = threshold(laplace(2.0, 100, 1), claim=Claim(PureDP(epsilon=4.0)))
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert audit.largest_refutable_epsilon == largest_refutable_epsilon(85, 0.0, 0.95)
    assert "at least 204, that is 240 runs" in audit.inconclusive[0]
    assert audit.p_value is None
    enough = threshold(laplace(2.0, 255, 1), claim=Claim(PureDP(epsilon=4.0)))
    assert enough.verdict is Experiment.NOT_REFUTED
    assert (enough.pairs, enough.trials) == (1, 255)


def test_one_point_within_reach_suffices_and_the_nearest_says_how_many_runs_it_takes() -> None:
    reach = largest_refutable_epsilon(85, 0.0, 0.95)

    def told(*epsilons: float) -> tuple[str, ...]:
        points = ClaimedPoints(np.array(epsilons), np.zeros(len(epsilons)), 0.0, None)
        return out_of_reach(points, 85, 100, 0.95)

    assert told(9.0, reach - 1e-9) == ()
    assert "at least 204," in told(9.0, 4.0)[0]
    assert len(told(reach)) == 1


@pytest.mark.parametrize("swapped", [False, True])
def test_a_threshold_belongs_to_its_event(swapped: bool) -> None:
    samples = Samples(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    order = -1 if swapped else 1
    assert ThresholdEvent(1.0, True, swapped).counts(samples) == (3, 2)[::order]
    assert ThresholdEvent(1.0, False, swapped).counts(samples) == (2, 4)[::order]
    likelier = "the neighbour" if swapped else "the data"
    assert str(ThresholdEvent(1.0, True, swapped)) == f"score >= 1, likelier on {likelier}"
    assert str(ThresholdEvent(1.0, False, swapped)) == f"score <= 1, likelier on {likelier}"


def test_distributions_that_do_not_overlap_reach_the_limit_and_no_further() -> None:
    apart = Samples(np.full(1000, math.inf), np.full(1000, -math.inf))
    audit = threshold(apart, claim=Claim(PureDP(epsilon=5.0)))
    assert audit.epsilon_lower == pytest.approx(largest_refutable_epsilon(850, 0.0, 0.95), abs=1e-5)
    assert audit.verdict is Experiment.REFUTED


def test_an_event_that_never_happens_on_one_side_is_worth_what_its_test_says() -> None:
    """At an error of 1e-6 a count of 0 means at most 13.8, whatever a normal approximation makes of it."""
    bounds = []
    for seed in range(20):
        drawn = np.random.default_rng(seed).random((2, 120))
        audit = threshold(Samples(drawn[0] + 2, drawn[1]), delta=1e-5, confidence=1 - 1e-6)
        bounds.append(audit.epsilon_lower)
        assert audit.epsilon_lower <= audit.largest_refutable_epsilon
    assert np.median(bounds) > 1.3


def test_equal_constant_scores_refute_nothing() -> None:
    assert threshold(Samples(np.zeros(100), np.zeros(100))).epsilon_lower == 0.0


def test_the_floating_point_grid_is_seen_only_on_request() -> None:
    random = np.random.default_rng(0)
    noise = random.laplace(size=(2, 4000)).round(6)
    # The same number on the real line; the last bits of the float tell the sides apart.
    leak = Samples(noise[0] * 0 + 1.0 + 2**-50, noise[1] * 0 + 1.0)
    claim = Claim(PureDP(epsilon=1.0))
    assert threshold(leak, claim=claim).verdict is Experiment.NOT_REFUTED
    attack = threshold(leak, claim=claim, attack_grid=True)
    assert attack.verdict is Experiment.REFUTED
    assert ROUNDED in threshold(leak, claim=claim).not_checked
    assert ROUNDED not in attack.not_checked


_RARE = 0.01


@sweep(
    "told",
    {
        "a far-out number": lambda random, bit, n: np.where(random.random(n) < _RARE, 1e12, bit),
        "a huge far-out number": lambda random, bit, n: np.where(random.random(n) < 0.4, -1e18, bit),
        "an offset": lambda random, bit, n: 1e15 + 0.01 * random.normal(size=n) + 100 * bit,
        "two scales": lambda random, bit, n: np.where(
            random.random(n) < 0.5, 1e6 * random.normal(size=n), 1e-2 * bit + 1e-3 * random.normal(size=n)
        ),
    }.values(),
    everyday=(0, 3),
    ids=["far out", "huge", "offset", "two scales"],
)
def test_one_number_does_not_blind_to_the_others(told: Any) -> None:
    random = np.random.default_rng(1)
    sides = [told(random, bit, 3000) for bit in (0.0, 1.0)]
    claim = Claim(PureDP(epsilon=0.5))
    for audit in (threshold(Samples(*sides), claim=claim), sequential(Samples(*sides), claim=claim)):
        assert audit.verdict is Experiment.REFUTED
    beside = Samples(*(np.stack([side, random.normal(size=3000)], axis=1) for side in sides))
    learners: tuple[Learner, ...] = ("logistic", "boosting")
    for learner in learners:
        assert threshold(beside, claim=claim, learner=learner).verdict is Experiment.REFUTED
    # Its innocent twin: the same on both sides.
    alike = Samples(told(random, 1.0, 3000), told(random, 1.0, 3000))
    assert threshold(alike, claim=claim).verdict is Experiment.NOT_REFUTED


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_the_last_bits_of_a_likelihood_ratio_are_not_seen(epsilon: float) -> None:
    """On its plateaus the ratio of Laplace noise is one number, up to the rounding of what it was made of."""
    random = np.random.default_rng(2)
    outputs = (np.array([[0.0], [1.0]]) + random.laplace(scale=1 / epsilon, size=(2, 4000))).round(9)
    jitter = np.array([[3.0], [0.0]]) * 2.0**-53
    ratios = epsilon * (np.abs(outputs - 1) - np.abs(outputs)) + jitter * epsilon
    claim = Claim(PureDP(epsilon=epsilon))
    assert threshold(Samples(*ratios), claim=claim).verdict is Experiment.NOT_REFUTED
    assert threshold(Samples(*ratios), claim=claim, attack_grid=True).verdict is Experiment.REFUTED


def test_nonsense_is_refused() -> None:
    good = gaussian(1.0, 100, 0)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            threshold(good, confidence=confidence)
    with pytest.raises(InvalidParameter, match="curve"):
        threshold(good, claim=Claim(ZCDP(rho=0.5)))
    with pytest.raises(InvalidParameter):
        threshold(good, claim=Claim(ZCDP(rho=0.5)), curve=lambda epsilon: math.nan)
    with pytest.raises(InvalidParameter):
        threshold(good, claim=Claim(GDP(mu=1.0)), curve=lambda epsilon: min(1.0, epsilon / 100))
