"""Theorem 5's formulas at the paper's own parameters, and the tail of a path's maximum."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import (
    CodedCalibration,
    FunctionalCalibration,
    path_tail,
)
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import InvalidParameter
from dpaudit.noise.paths import FloatPath

PAPER = FunctionalCalibration()
#: Chance of a false alarm of each statistical test.
ALARM = 1e-6


def test_the_papers_own_parameters() -> None:
    with mpmath.workdps(60):
        v = 4 * mpmath.mpf("3e-4") * mpmath.mpf("3.3") / 64
        c = (v**2 + v) * 16
        times = 2 * mpmath.mpf(5000) / 64 * mpmath.log(mpmath.e + mpmath.mpf("0.9") / mpmath.mpf("5e-5"))
        sigma = mpmath.sqrt(times * c) / mpmath.mpf("0.9")
        rho = mpmath.mpf(5000) / 64 * c / (2 * mpmath.mpf("0.32") ** 2)
    assert PAPER.bound == pytest.approx(float(v), rel=1e-14) == pytest.approx(6.1875e-5)
    assert PAPER.beta == pytest.approx(16161.6, abs=0.05)
    assert PAPER.squared_sensitivity == pytest.approx(float(c), rel=1e-14) == pytest.approx(9.90061e-4)
    assert PAPER.stated_sigma == pytest.approx(float(sigma), rel=1e-14) == pytest.approx(1.368, abs=5e-4)
    assert float(rho) == pytest.approx(0.3777, abs=5e-5)
    # What that sensitivity really gives, claimed 0.9.
    assert gaussian_epsilon(1e-4, math.sqrt(2 * float(rho))) == pytest.approx(3.22, abs=5e-3)


def test_both_premises_fail_there_and_can_hold() -> None:
    maximum, formula = PAPER.premises
    assert not maximum.holds
    assert (maximum.left, maximum.right) == (4.6, pytest.approx(353.1, abs=0.05))
    assert not formula.holds
    enough = FunctionalCalibration(sigma=1.37)
    assert [premise.holds for premise in enough.premises] == [False, True]
    # No sigma meets both: what is asked of it from below makes the path too large.
    slow = FunctionalCalibration(sigma=0.01, k=100.0, step_size=1e-2)
    assert [premise.holds for premise in slow.premises] == [True, False]


def test_k_of_23_which_the_appendix_calls_sufficient() -> None:
    """It says so, uses 2.3, and with either the premises fail; what the formula asks for grows with k."""
    other = FunctionalCalibration(k=23.0)
    maximum, formula = other.premises
    v = 4 * 3e-4 * 24 / 64
    assert other.bound == pytest.approx(v, rel=1e-14) == pytest.approx(4.5e-4)
    assert (maximum.holds, formula.holds) == (False, False)
    assert maximum.left == 46.0
    assert (
        maximum.right == pytest.approx(8.68 * 0.32 / math.sqrt(v), rel=1e-14) == pytest.approx(130.9, abs=0.1)
    )
    squared = 2 * 5000 / 64 * math.log(math.e + 0.9 / 5e-5) * (v * v + v) * 16 / 0.81
    assert other.stated_sigma == pytest.approx(math.sqrt(squared), rel=1e-13) == pytest.approx(3.69, abs=5e-3)


def test_what_the_authors_ran() -> None:
    """The proof's bound for any beta, at beta = 1: (1 + 1/2) v^2 L^2 + L^2 / 2, composed over each update."""
    coded = CodedCalibration()
    v = 4 * 0.01 * 3.3 / 128
    c = 1.5 * v * v * 16 + 8
    assert (coded.updates, coded.beta, coded.mechanism.kernel.beta) == (5000 - 128 + 1, 1.0, 1.0)
    assert coded.squared_sensitivity == pytest.approx(c, rel=1e-14)
    assert coded.mechanism.sensitivity.value == pytest.approx(math.sqrt(c), rel=1e-14)
    squared = 2 * 4873 * math.log(math.e + 0.9 / 5e-5) * c / 0.81
    assert coded.stated_sigma == pytest.approx(math.sqrt(squared), rel=1e-13)
    maximum, formula = coded.premises
    # Under so smooth a kernel a path stays below 2k on the average; the noise is thousands of times short.
    assert maximum.holds
    assert maximum.right == pytest.approx(8.68 * 0.32, rel=1e-14)
    assert not formula.holds
    assert coded.stated_sigma > 3000 * coded.sigma
    assert coded.stated_tail == pytest.approx(math.exp(-((4.6 - 8.68 * 0.32) ** 2) / 2), rel=1e-12)
    assert PAPER.stated_tail == 1.0


@given(beta=st.floats(1e-3, 1e5), v=st.floats(1e-6, 1.0))
def test_the_proofs_bound_is_the_norm_at_its_own_corners(beta: float, v: float) -> None:
    """(f(0)^2 + f(1)^2)/2 + (1/(2 beta)) integral f'^2 + beta^2 f^2 for |f| <= v L and |f'| <= L."""

    class Any_(FunctionalCalibration):  # noqa: N801
        @property
        def beta(self) -> float:
            return beta

        @property
        def bound(self) -> float:
            return v

    level, slope = v * 4.0, 4.0
    norm = (level**2 + level**2) / 2 + (slope**2 + beta**2 * level**2) / (2 * beta)
    assert Any_().squared_sensitivity == pytest.approx(norm, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"sigma": 0.0},
        {"sigma": math.nan},
        {"step_size": -1.0},
        {"k": math.inf},
        {"lipschitz_squared": 0.0},
        {"batch": 0},
        {"batch": 5001},
        {"guarantee": ApproxDP(epsilon=0.0, delta=1e-4)},
    ],
)
def test_bad_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        FunctionalCalibration(**options)


@pytest.mark.parametrize(("sigma", "excess"), [(3.0, 3.0), (3.0, 6.0), (0.5, 0.6), (1.0, 1.5)])
def test_the_tail_of_a_paths_maximum(sigma: float, excess: float) -> None:
    """With sigma^2 in the exponent the bound holds; as printed it is refuted where sigma is above 1."""
    beta, runs = 1e-3, 20_000
    generator = np.random.default_rng(5)
    path, nothing = FloatPath(generator, sigma, beta, (runs,)), np.zeros(runs)
    points = generator.permutation(np.linspace(0.0, 1.0, 65))
    highest = np.max([path.at(float(point), nothing) for point in points], axis=0)
    level = 8.68 * math.sqrt(beta) * sigma + excess
    passed = int((highest >= level).sum())
    bound = path_tail(level, sigma, beta)
    assert bound == pytest.approx(math.exp(-((excess / sigma) ** 2) / 2), rel=1e-12)
    assert stats.binom.sf(passed - 1, runs, bound) > ALARM
    printed = math.exp(-(excess**2) / 2)
    assert (stats.binom.sf(passed - 1, runs, printed) < ALARM) == (sigma > 1.0)


def test_below_the_mean_of_the_maximum_nothing_is_known() -> None:
    assert path_tail(0.0, 1.0, 1.0) == path_tail(8.68, 1.0, 1.0) == 1.0
