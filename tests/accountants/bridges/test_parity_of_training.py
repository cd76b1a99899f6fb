"""What the tests of Opacus' and of jax-privacy's accountants expect, as their main branches have them.

Theirs: opacus/tests/accountants_test.py; jax_privacy/accounting.py, tests/accounting/analysis_test.py and
calibrate_test.py. Bounds here may be lower, never higher by more than the last digit that is given.
"""

import math

import pytest
from scipy import stats

from dpaudit import L2, MatrixMechanism, Neighbouring, SampledMatrix, Toeplitz, calibrate
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.curves.curves import pld_profile, rdp_profile
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.mechanisms import (
    AnyMechanism,
    FixedSizeSampled,
    MixtureOfGaussians,
    PoissonSampled,
    SampledRecords,
    TruncatedPoissonSampled,
)
from tests import make

ADD, REPLACE = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE
DELTA, UNITS, BATCH, UPDATES = 1e-5, 50_000, 1024, 10_000


def composed(mechanism: AnyMechanism, count: int, relation: Neighbouring = ADD) -> Composition:
    return make.composition((mechanism, count), relation=relation)


def opacus(sigma: float, steps: int) -> Composition:
    return composed(PoissonSampled(rate=0.04, mechanism=make.gaussian(sigma)), steps)


def test_opacus_renyi_accountant() -> None:
    run = opacus(1.5, int(90 / 0.04))
    assert rdp_profile(run).epsilon(DELTA) <= 7.32911117143 + 1e-9
    assert pld_profile(run).epsilon(DELTA) < 7.0


@pytest.mark.nightly
@pytest.mark.parametrize(("steps", "sigma"), [(int(90 / 0.04), 1.416), (2000, 1.3562)])
def test_opacus_noise_multipliers(steps: int, sigma: float) -> None:
    found = calibrate(
        PoissonSampled(rate=0.04, mechanism=make.gaussian(1.0)),
        ApproxDP(epsilon=8.0, delta=DELTA),
        count=steps,
    )
    assert found.value < sigma + 5e-5


def test_opacus_gaussian_accountant_is_an_estimate() -> None:
    """It takes the central limit for the truth: its figures are no bounds, so that no bound need be below.

    The composition's own lower bound exceeds them: the truth of 6.64 its 6.59, and with its noise multiplier
    for an epsilon of 8 the truth is 8.07.
    """
    loss = pld_profile(opacus(1.5, int(90 // 0.04)))
    assert loss.bracket(DELTA)[0] > 6.6
    assert pld_profile(opacus(1.3232421875, int(90 / 0.04))).bracket(DELTA)[0] > 8.0


def jax(mechanism: AnyMechanism, relation: Neighbouring = ADD) -> Composition:
    return composed(mechanism, UPDATES, relation)


def test_jax_privacy_poisson_batches() -> None:
    run = jax(PoissonSampled(rate=BATCH / UNITS, mechanism=make.gaussian(4.0)))
    assert rdp_profile(run).epsilon(DELTA) <= 2.27535 * (1 + 1e-5)
    assert pld_profile(run).epsilon(DELTA) <= 2.09245 * (1 + 1e-5)


@pytest.mark.parametrize("bands", [64, 1])
def test_jax_privacy_banded_strategies(bands: int) -> None:
    """Of a cycle of so many steps; their multiplier is for a strategy whose columns have norm 1."""
    column = Toeplitz(coefficients=(1.0 / math.sqrt(bands),) * bands)
    steps = 100 * bands
    inner = MatrixMechanism(sigma=4.0, sensitivity=L2(1.0), steps=steps, separation=bands, strategy=column)
    banded = pld_profile(composed(SampledMatrix(rate=BATCH / UNITS, mechanism=inner), UPDATES // 100))
    assert banded.epsilon(DELTA) <= 2.09245 * (1 + 1e-5)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(1024, 6.87451, marks=pytest.mark.nightly),
        pytest.param(1056, 4.06910, marks=pytest.mark.nightly),
        pytest.param(1088, 2.45377, marks=pytest.mark.nightly),
        (1120, 2.11659),
        pytest.param(1152, 2.09310, marks=pytest.mark.nightly),
    ],
)
def test_jax_privacy_truncated_batches(most: int, expected: float) -> None:
    """Theirs takes the number of units as known, and zeroes one; here up to so many are added or removed."""
    cut = TruncatedPoissonSampled(
        rate=BATCH / UNITS, most=most, units=UNITS, mechanism=make.gaussian(4.0, 2.0), contribution=1.0
    )
    assert pld_profile(jax(cut)).epsilon(DELTA) <= expected * (1 + 1e-5)


def test_jax_privacy_fixed_batches() -> None:
    """Their noise is twice as large, as another unit takes the place of one that is taken out.

    Of one that is replaced in the data as well they say nothing; then it is a little more.
    """
    fixed = FixedSizeSampled(size=BATCH, units=UNITS, mechanism=make.gaussian(8.0, 2.0))
    assert rdp_profile(jax(fixed)).epsilon(DELTA) <= 2.27535 * (1 + 1e-5)
    assert pld_profile(jax(fixed)).epsilon(DELTA) < 2.1 < pld_profile(jax(fixed, REPLACE)).epsilon(DELTA)


def test_jax_privacy_users_with_two_records() -> None:
    records = SampledRecords(rate=BATCH / UNITS, records=2, mechanism=make.gaussian(4.0))
    assert pld_profile(jax(records)).epsilon(DELTA) <= 5.00008 * (1 + 1e-5)


@pytest.mark.nightly
def test_jax_privacy_users_with_two_records_in_fixed_batches() -> None:
    """As they model it: a record that is drawn moves the sum by 2, and how many are is hypergeometric."""
    weights = stats.hypergeom(UNITS, 2, BATCH).pmf([0, 1, 2]).tolist()
    moved = MixtureOfGaussians(sigma=4.0, sensitivities=(0.0, 2.0, 4.0), probabilities=weights)
    assert pld_profile(jax(moved)).epsilon(DELTA) <= 11.48878 * (1 + 1e-5)


@pytest.mark.nightly
def test_jax_privacy_examples() -> None:
    """Of its accounting module's docstring."""
    sgd = PoissonSampled(rate=0.1, mechanism=make.gaussian(3.0))
    assert pld_profile(composed(sgd, 512)).epsilon(1e-6) < 3.775
    assert pld_profile(composed(sgd, 155)).epsilon(1e-6) <= 2.0
    found = calibrate(sgd, ApproxDP(epsilon=1.0, delta=1e-6), count=512)
    assert found.value < 9.665
