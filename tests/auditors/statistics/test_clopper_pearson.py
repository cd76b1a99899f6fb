import math

import pytest
from mpmath import mp, mpf

from dpaudit.auditors.statistics.clopper_pearson import (
    epsilon_lower,
    largest_refutable_epsilon,
    largest_refuted,
    least_enough,
    proportion_lower,
    proportion_upper,
    trials_needed,
)
from dpaudit.errors import InvalidParameter


def test_published_vectors() -> None:
    assert proportion_lower(300, 1000, 0.025) == pytest.approx(0.271721, abs=5e-7)
    assert proportion_upper(100, 1000, 0.025) == pytest.approx(0.120288, abs=5e-7)
    assert epsilon_lower(300, 1000, 100, 1000, 1e-5, 0.05) == pytest.approx(0.81485, abs=5e-6)
    assert epsilon_lower(100, 1000, 0, 1000, 1e-5, 0.05) == pytest.approx(3.10440, abs=5e-6)
    assert [trials_needed(float(epsilon), 1e-5, 0.95) for epsilon in (1, 2, 4, 8)] == [12, 30, 204, 10999]


@pytest.mark.parametrize(("successes", "trials", "error"), [(3, 40, 0.025), (900, 1000, 1e-6), (1, 9, 0.5)])
def test_bounds_solve_the_binomial_tail(successes: int, trials: int, error: float) -> None:
    with mp.workdps(60):

        def at_least(k: int, p: float) -> mpf:
            chance = mpf(p)
            return mp.fsum(
                mp.binomial(trials, i) * chance**i * (1 - chance) ** (trials - i)
                for i in range(k, trials + 1)
            )

        low = proportion_lower(successes, trials, error)
        high = proportion_upper(successes, trials, error)
        assert float(at_least(successes, low)) == pytest.approx(error, rel=1e-9)
        assert float(1 - at_least(successes + 1, high)) == pytest.approx(error, rel=1e-9)
        # Rounded the safe way, however little.
        assert at_least(successes, low) <= error
        assert 1 - at_least(successes + 1, high) <= error


def test_no_evidence_is_no_bound() -> None:
    assert epsilon_lower(0, 100, 0, 100, 1e-5, 0.05) == 0.0
    assert epsilon_lower(100, 1000, 100, 1000, 1e-5, 0.05) == 0.0
    assert epsilon_lower(1000, 1000, 1000, 1000, 0.0, 0.05) == 0.0
    assert epsilon_lower(5, 1000, 0, 1000, 0.9, 0.05) == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.2])
def test_largest_refutable_is_the_formula_and_trials_needed_its_inverse(delta: float) -> None:
    for epsilon in (0.3, 1.0, 2.0, 6.0):
        needed = trials_needed(epsilon, delta, 0.95)
        assert largest_refutable_epsilon(needed, delta, 0.95) >= epsilon
        assert needed == 1 or largest_refutable_epsilon(needed - 1, delta, 0.95) < epsilon
        root = 0.025 ** (1 / needed)
        formula = math.log((root - delta) / (1 - root))
        assert largest_refutable_epsilon(needed, delta, 0.95) == pytest.approx(formula, rel=1e-9)


def test_the_ends_of_what_can_be_counted() -> None:
    assert proportion_upper(9, 10, 1e-14) <= 1.0
    assert proportion_lower(1, 1, 0.5) == pytest.approx(0.5, rel=1e-9)
    assert proportion_upper(0, 1, 0.5) == pytest.approx(0.5, rel=1e-9)
    assert proportion_upper(7, 7, 0.5) == 1.0
    assert trials_needed(0.0, 0.0, 0.95) == 6  # 2^-6 < 0.025 < 2^-5


@pytest.mark.parametrize("edge", [0.25, 3.0, 6.9, 7.5])
def test_the_largest_number_that_is_refuted_is_never_past_the_edge(edge: float) -> None:
    asked: list[float] = []

    def refuted(number: float) -> bool:
        asked.append(number)
        return number <= edge

    found = largest_refuted(refuted, 7.0, 22)
    assert min(edge, 7.0) - 7.0 / 2**22 <= found <= min(edge, 7.0)
    assert all(0.0 <= number <= 7.0 for number in asked)
    assert largest_refuted(lambda number: number > 0.0, 7.0, 22) == 0.0


@pytest.mark.parametrize("least", range(1, 40))
def test_the_least_number_that_is_enough_is_found(least: int) -> None:
    for first in (1, 2) if least > 1 else (1,):
        assert least_enough(lambda n: n >= least, first, 64) == least
    assert least_enough(lambda n: n >= least, 1, 16) == (least if least <= 16 else None)


def test_nonsense_is_refused() -> None:
    for arguments in [(-1, 10, 0.1), (11, 10, 0.1), (0, 0, 0.1), (1, 10, 0.0), (1, 10, math.nan)]:
        with pytest.raises(InvalidParameter):
            proportion_lower(*arguments)
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            epsilon_lower(1, 10, 1, 10, delta, 0.05)
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter):
            trials_needed(epsilon, 0.0, 0.95)
