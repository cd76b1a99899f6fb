from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpaudit.auditors.sampling.one_run import one_run, one_run_epsilon_lower, one_run_p_value
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP, PureDP
from dpaudit.errors import DataError, InvalidParameter


def test_published_vectors() -> None:
    assert one_run_p_value(1000, 100, 90, 1.0, 0.0) == pytest.approx(2.7358e-5, rel=1e-4)
    assert one_run_epsilon_lower(1000, 100, 90, 0.0, 0.05) == pytest.approx(1.63082, abs=5e-6)


@pytest.mark.parametrize(
    ("m", "r", "v", "epsilon", "delta"),
    [(1000, 100, 90, 1.0, 1e-5), (50, 20, 18, 0.5, 1e-3), (10, 4, 4, 0.1, 0.01), (200, 200, 130, 0.2, 1e-6)],
)
def test_theorem_with_delta(m: int, r: int, v: int, epsilon: float, delta: float) -> None:
    with mpmath.workdps(60):
        right = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        mass = [mpmath.binomial(r, k) * right**k * (1 - right) ** (r - k) for k in range(r + 1)]
        steepest = max(mpmath.fsum(mass[max(v - i, 0) : v]) / i for i in range(1, m + 1))
        exact = min(mpmath.mpf(1), mpmath.fsum(mass[v:]) + 2 * m * mpmath.mpf(delta) * steepest)
    value = one_run_p_value(m, r, v, epsilon, delta)
    assert exact <= value <= exact * (1 + mpmath.mpf("1e-8"))


def test_bound_falls_with_canaries_times_delta() -> None:
    bounds = [one_run_epsilon_lower(m, 100, 90, 1e-5, 0.05) for m in (100, 10_000, 1_000_000)]
    assert bounds[0] > bounds[1] > bounds[2] == 0.0


def _canaries(epsilon: float, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Randomized response about each coin: epsilon-DP per canary, exactly."""
    random = np.random.default_rng(seed)
    coins = random.random(m) < 0.5
    told = np.where(random.random(m) < 1 / (1 + np.exp(-epsilon)), coins, ~coins)
    return told + 1e-3 * random.random(m), coins


def test_twice_as_revealing_is_found_and_the_correct_one_is_not() -> None:
    found = [
        one_run(*_canaries(epsilon, 1000, 3), guess_in=400, guess_out=400, claim=Claim(PureDP(epsilon=1.0)))
        for epsilon in (2.0, 1.0)
    ]
    assert [audit.verdict for audit in found] == [Experiment.REFUTED, Experiment.NOT_REFUTED]
    assert found[0].refuted_by == ("epsilon", "p-value")
    assert 1.6 < found[0].epsilon_lower < 2.0
    assert found[1].epsilon_lower < 1.0


def test_too_few_guesses_are_inconclusive() -> None:
    audit = one_run(
        *_canaries(3.0, 20, 1), guess_in=3, guess_out=3, claim=Claim(ApproxDP(epsilon=1.0, delta=1e-5))
    )
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert audit.largest_refutable_epsilon < 1.0


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        one_run_p_value(10, 11, 5, 1.0, 0.0)
    with pytest.raises(InvalidParameter):
        one_run(np.zeros(4), np.ones(4, dtype=bool), guess_in=3, guess_out=2)
    with pytest.raises(DataError):
        one_run(np.array([0.0, np.nan]), np.ones(2, dtype=bool), guess_in=1, guess_out=0)
    with pytest.raises(DataError):
        one_run(np.zeros(2), np.ones(2), guess_in=1, guess_out=0)
