from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from dpaudit.accountants.conversions import zcdp_delta
from dpaudit.accountants.gaussian import gaussian_delta
from dpaudit.auditors.claimed import Curve
from dpaudit.auditors.clopper_pearson import largest_refutable_epsilon
from dpaudit.auditors.samples import Samples, rounded, rounding_step
from dpaudit.auditors.threshold import threshold
from dpaudit.claims import Claim
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.guarantees import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.verdicts import Experiment


def gaussian(mu: float, n: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(random.normal(mu, 1, n), random.normal(0, 1, n), seed)


def laplace(shift: float, n: int, seed: int) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(shift + random.laplace(size=n), random.laplace(size=n), seed)


@pytest.mark.parametrize(("n", "bar"), [(10_000, 2.1), (100_000, 2.75)])
def test_yardstick(n: int, bar: float) -> None:
    bounds = [threshold(gaussian(1.0, n, seed), delta=1e-5).epsilon_lower for seed in range(20)]
    assert np.median(bounds) >= bar
    assert max(bounds) < 4.377


def test_a_million_scores_take_seconds() -> None:
    samples = gaussian(1.0, 1_000_000, 0)
    began = time.process_time()
    assert 3.0 < threshold(samples, delta=1e-5).epsilon_lower < 4.377
    assert time.process_time() - began < 5


CLAIMS = [
    (Claim(PureDP(epsilon=1.0)), None, laplace),
    (Claim(ApproxDP(epsilon=4.3772, delta=1e-5)), None, gaussian),
    (Claim(ApproxDP(epsilon=0.5, delta=0.2389)), None, gaussian),
    (Claim(GDP(mu=1.0)), lambda epsilon: gaussian_delta(epsilon, 1.0), gaussian),
    (Claim(ZCDP(rho=0.5)), lambda epsilon: zcdp_delta(0.5, epsilon), gaussian),
]


@pytest.mark.parametrize(("claim", "curve", "mechanism"), CLAIMS)
def test_twice_as_revealing_is_found_and_the_correct_one_is_not(
    claim: Claim, curve: Curve | None, mechanism: Callable[[float, int, int], Samples]
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
    assert audit.largest_refutable_epsilon == largest_refutable_epsilon(80, 0.0, 0.95)
    assert "at least 204" in audit.inconclusive
    enough = threshold(laplace(2.0, 255, 1), claim=Claim(PureDP(epsilon=4.0)))
    assert enough.verdict is Experiment.NOT_REFUTED


def test_distributions_that_do_not_overlap_reach_the_limit_and_no_further() -> None:
    apart = Samples(np.full(1000, math.inf), np.full(1000, -math.inf))
    audit = threshold(apart, claim=Claim(PureDP(epsilon=5.0)))
    assert audit.epsilon_lower == pytest.approx(largest_refutable_epsilon(800, 0.0, 0.95), abs=1e-5)
    assert audit.verdict is Experiment.REFUTED


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
    assert any("grid" in line for line in threshold(leak, claim=claim).not_checked)
    assert not any("grid" in line for line in attack.not_checked)


def test_rounding_keeps_what_matters() -> None:
    scores = np.array([-math.inf, -1.5, 1e-17, 0.0, 2.0, 3.0, math.inf])
    step = rounding_step(scores)
    assert 0 < step < 1e-3
    assert rounded(scores, step) == pytest.approx(scores, abs=step)
    assert rounded(scores, step)[2] == 0.0
    assert rounding_step(np.zeros(5)) == 0.0


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
    with pytest.raises(DataError):
        Samples(np.array([0.0, math.nan]), np.zeros(2))
    with pytest.raises(DataError):
        Samples(np.zeros(3), np.zeros(2))
    with pytest.raises(DataError):
        Samples(np.array([[0.0], [math.inf]]), np.zeros((2, 1)))
