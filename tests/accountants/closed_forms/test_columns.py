"""Costs in columns against the same costs one by one, and against exact rationals."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpaudit import Neighbouring, Partition, Release
from dpaudit.accountants.closed_forms.columns import (
    Cost,
    gaussian_log_moment,
    laplace_log_moment,
    quotients_up,
    times_up,
)
from dpaudit.accountants.closed_forms.rounding import up
from dpaudit.accountants.composition import composition as composing
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.curves.curves import pld_profile, rdp_profile
from dpaudit.accountants.filters.filters import GDPFilter, PureFilter, ZCDPFilter
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.pairs.moments import log_moment
from dpaudit.accountants.privacy_loss import PrivacyLoss
from dpaudit.errors import BudgetExceeded, CannotBound
from dpaudit.ledger.columns import PlainNoise, plain_noise
from tests import make

ANY = st.floats(5e-324, 1.7e308)
USUAL = st.floats(1e-3, 1e3) | st.sampled_from([1.0, 2.0, 0.5, 3.0, 1e-30, 1e30])
ROWS = st.lists(st.tuples(USUAL | st.just(0.0), USUAL) | st.tuples(ANY, ANY), min_size=1, max_size=20)
COSTS: list[Cost] = [pure_epsilon, rho, mu_squared]


def one(cost: Cost, mechanism: Any) -> float:
    try:
        return cost(mechanism)
    except CannotBound:
        return math.nan


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("cost", COSTS, ids=["pure", "rho", "mu_squared"])
@given(rows=ROWS)
def test_columns_cost_what_mechanisms_cost_and_never_less(
    kind: Any, cost: Cost, rows: list[tuple[float, float]]
) -> None:
    sensitivity, scale = np.array(rows).T
    many = cost.many(kind, sensitivity, scale)
    for (value, noise), found in zip(rows, many.tolist(), strict=True):
        if math.isnan(found):  # left to the formula for one mechanism: extreme, or without any bound
            ordinary = 1e-60 <= noise <= 1e60 and (value == 0.0 or 1e-60 <= value <= 1e60)
            assert not ordinary or (value / noise > 700 if kind == "laplace" else cost is pure_epsilon)
            continue
        single = one(cost, PlainNoise(kind, "proved", value, noise).mechanism())
        assert single <= found <= single * (1 + 1e-12)


def test_gaussian_noise_has_a_pure_epsilon_only_where_nothing_moves() -> None:
    moves = [0.0, 5e-324, 0.5, 1.0, 2.0]
    found = pure_epsilon.many("gaussian", np.array(moves), np.ones(5)).tolist()
    assert found[0] == 0.0
    assert all(math.isnan(each) for each in found[1:])


@given(rows=st.lists(st.tuples(USUAL, USUAL), min_size=1, max_size=20))
def test_quotients_and_squares_are_within_two_steps_of_the_exact_ones(
    rows: list[tuple[float, float]],
) -> None:
    sensitivity, scale = np.array(rows).T
    ratios = pure_epsilon.many("laplace", sensitivity, scale).tolist()
    squares = mu_squared.many("gaussian", sensitivity, scale).tolist()
    for (value, noise), ratio, square in zip(rows, ratios, squares, strict=True):
        exact = Fraction(value) / Fraction(noise)
        assert exact <= Fraction(ratio)
        assert Fraction(math.nextafter(ratio, 0.0)) < exact
        assert exact**2 <= Fraction(square)
        assert Fraction(math.nextafter(math.nextafter(square, 0.0), 0.0)) < exact**2


def test_exact_squares_stay_exact() -> None:
    assert mu_squared.many("gaussian", np.array([1.0, 3.0, 0.0]), np.array([2.0, 4.0, 5.0])).tolist() == [
        0.25,
        0.5625,
        0.0,
    ]


@given(st.lists(st.tuples(st.floats(0, 1e300), st.integers(1, 2**53)), min_size=1, max_size=20))
def test_products_round_up_by_at_most_one_step(rows: list[tuple[float, int]]) -> None:
    found = times_up(np.array([c for c, _ in rows]), np.array([float(n) for _, n in rows]))
    for (cost, count), product in zip(rows, found.tolist(), strict=True):
        if math.isnan(product):
            assert not 1e-200 <= cost <= 1e200
        else:
            assert product == composing.repeated(cost, count)


def test_products_of_extreme_costs_are_left_to_be_computed_one_by_one() -> None:
    costs = [0.0, 5e-324, 9e-201, 1e-200, 1.0, 1e200, 2e200, 1e300]
    alone = [1, 2, 6, 7]
    assert np.flatnonzero(np.isnan(times_up(np.array(costs), np.full(8, 3.0)))).tolist() == alone


def test_laplace_noise_of_about_one_against_many_digits() -> None:
    """On both sides of 1, where one form takes the other's place."""
    epsilons = np.linspace(0.5, 2.5, 201)
    with mp.workdps(40):
        exact = [mpf(e) + mp.expm1(-mpf(e)) for e in epsilons.tolist()]
        for truth, found in zip(exact, rho.many("laplace", epsilons, np.ones(201)).tolist(), strict=True):
            assert truth <= found <= truth * (1 + mpf("1e-12"))


@pytest.mark.parametrize("off", [0.0, 1e-6, -1e-6])
def test_mu_is_right_wherever_the_quantile_begins(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older SciPy's quantile is less exact; mu is that of Dong, Roth and Su, with 40 digits."""
    right = scipy.special.ndtri_exp
    monkeypatch.setattr(scipy.special, "ndtri_exp", lambda logarithm: right(logarithm) * (1.0 + off))
    epsilons = np.concatenate([np.linspace(0.9, 3.0, 15), np.geomspace(3.0, 700.0, 15)])
    found = mu_squared.many("laplace", epsilons, np.ones(30)).tolist()
    with mp.workdps(40):
        for epsilon, square in zip(epsilons.tolist(), found, strict=True):
            mu = mp.sqrt(square) / 2
            error = mp.ncdf(-mu) * (1 + mp.exp(epsilon))  # 1 at the least mu, and falls
            assert 1 - mpf("1e-12") * (1 + mu * mu) <= error <= 1


def test_log_moments_of_laplace_noise_against_many_digits() -> None:
    """Mironov 2017, Table II, on both sides of t epsilon = 30, and of 1/2."""
    epsilons = np.array([1e-9, 0.01, 0.4, 0.6, 2.0, 9.9, 10.1, 40.0, 300.0])
    with mp.workdps(60):
        for t in map(mpf, (0.01, 0.5, 3.0, 60.0, 1e4)):
            found = laplace_log_moment(float(t), epsilons, np.ones(9)).tolist()
            for epsilon, log in zip(map(mpf, epsilons.tolist()), found, strict=True):
                up, down = (t + 1) * mp.exp(t * epsilon), t * mp.exp(-(t + 1) * epsilon)
                exact = mp.log((up + down) / (2 * t + 1))
                assert exact <= log <= exact * (1 + mpf("1e-13"))


def pell(number: int) -> list[tuple[int, int]]:
    """Solutions of S^2 - number s^2 = 1 or -1 among the continued fraction's convergents, below 2^53."""
    found, whole = [], math.isqrt(number)
    m, d, a = 0, 1, whole
    (before, top), (under, bottom) = (1, whole), (0, 1)
    while top < 2**53 and whole * whole < number:
        if abs(top * top - number * bottom * bottom) == 1:
            found.append((top, bottom))
        m = d * a - m
        d = (number - m * m) // d
        a = (whole + m) // d
        (before, top), (under, bottom) = (top, a * top + before), (bottom, a * bottom + under)
    return found


def test_squares_of_quotients_next_to_whole_numbers() -> None:
    """(S/s)^2 is within 2^-100 of a whole number, on either side: no allowance may be missing."""
    rows = [row for number in range(2, 300) for row in pell(number)]
    assert len(rows) > 1000
    sensitivity, scale = np.array(rows, dtype=np.float64).T
    for (value, noise), square in zip(
        rows, mu_squared.many("gaussian", sensitivity, scale).tolist(), strict=True
    ):
        exact = Fraction(value, noise) ** 2
        assert exact <= Fraction(square)
        assert Fraction(math.nextafter(math.nextafter(square, 0.0), 0.0)) < exact


def releases(number: int, *, seed: int = 0, split: bool = False) -> list[Release]:
    generator = np.random.default_rng(seed)
    made = []
    for i, (scale, size) in enumerate(generator.uniform(0.5, 9.0, (number, 2)).tolist()):
        noise = make.gaussian(scale, size) if i % 3 else make.laplace(scale, size)
        part = Partition(part=str(i % 7), by="values") if split and i % 2 else None
        made.append(make.release(noise, 1 + i % 4, partition=part, label=f"r{i}"))
    return made


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("cost", [rho, mu_squared], ids=["rho", "mu_squared"])
def test_a_total_is_the_same_in_columns_and_one_by_one(
    cost: Cost, split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    composition = compose(releases(500, split=split), Neighbouring.REPLACE_ONE)
    columns = composition.total(cost)
    monkeypatch.setattr(composing, "_MANY", math.inf)
    single = composition.total(cost)
    assert single <= columns <= single * (1 + 1e-12)


def test_what_has_no_bound_has_none_among_many_either() -> None:
    composition = compose(releases(500), Neighbouring.REPLACE_ONE)
    with pytest.raises(CannotBound, match="gaussian"):
        composition.total(pure_epsilon)
    composition.add(make.release(make.gaussian(1e-300)))
    with pytest.raises(CannotBound, match="exceeds every double"):
        composition.total(rho)


def test_an_exposure_is_a_mapping_of_mechanisms_and_has_its_columns() -> None:
    made = releases(50)
    extra = make.release(made[0].mechanism, 10**20, label="again")
    (exposure,) = compose([*made, extra], Neighbouring.REPLACE_ONE).exposures()
    expected = {release.mechanism: release.count for release in made}
    expected[extra.mechanism] += extra.count
    assert dict(exposure) == expected
    assert exposure[made[1].mechanism] == made[1].count
    with pytest.raises(KeyError):
        exposure[make.gaussian(77.0)]
    for kind in ("gaussian", "laplace"):
        rows = {
            (m.sensitivity.value, plain_noise(m).scale): n  # type: ignore[union-attr]
            for m, n in expected.items()
            if m.kind == kind
        }
        columns = exposure.columns(kind)  # type: ignore[arg-type]
        found = {(s, b): n for s, b, n in zip(*(c.tolist() for c in columns), strict=True)}
        assert found.keys() == rows.keys()
        assert all(rows[key] <= n <= rows[key] * (1 + 2**-52) for key, n in found.items())
    assert exposure.others() == {}


@given(st.lists(st.integers(0, 59), max_size=12), st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_running_total_is_the_total_of_what_is_left(chosen: list[int], kept: list[bool]) -> None:
    made = releases(60, split=True)
    running = Composition(Neighbouring.REPLACE_ONE, running=rho)
    left = []
    for i, keep in zip(chosen, kept, strict=False):
        running.add(made[i])
        if keep:
            left.append(made[i])
        else:
            running.remove(made[i])
    plain = compose(left, Neighbouring.REPLACE_ONE).total(rho)
    assert plain * (1 - 1e-15) <= running.total(rho) <= plain * (1 + 1e-15)


@pytest.mark.parametrize(
    ("kind", "cost"), [(ZCDPFilter, rho), (GDPFilter, mu_squared), (PureFilter, pure_epsilon)]
)
def test_a_filter_computes_each_releases_cost_a_few_times_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, kind: Any, cost: Cost
) -> None:
    calls = 0

    def counted(mechanism: Any) -> float:
        nonlocal calls
        calls += 1
        return cost(mechanism)

    nothing = lambda sensitivity, scale: np.full_like(scale, np.nan)  # noqa: E731
    monkeypatch.setattr(kind, "_cost", Cost(counted, nothing, nothing))
    budget = kind(1e4)
    made = [release for release in releases(300) if release.mechanism.kind == "laplace"]
    for release in made:
        budget.spend(release)
    spent = budget.spent
    assert spent > 0.0
    with pytest.raises(BudgetExceeded):
        budget.spend(make.release(make.laplace(1e-3, 0.2), 10**9))
    assert budget.spent == spent
    assert calls <= 4 * (len(made) + 1)


def test_a_running_cost_of_single_units_is_not_taken_for_that_of_groups() -> None:
    made = releases(100, split=True)
    composition = Composition(Neighbouring.REPLACE_ONE, 3, running=rho)
    for release in made:
        composition.add(release)
    expected = compose(made, Neighbouring.REPLACE_ONE, 3).total(rho)
    assert composition.total(rho) == expected > compose(made, Neighbouring.REPLACE_ONE).total(rho)


@given(rows=ROWS)
def test_quotients_are_never_below_the_exact_ones_however_extreme(rows: list[tuple[float, float]]) -> None:
    sensitivity, scale = np.array(rows).T
    for (value, noise), found in zip(rows, quotients_up(sensitivity, scale).tolist(), strict=True):
        exact = up(Fraction(value) / Fraction(noise))
        assert exact <= found <= math.nextafter(exact, math.inf)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@given(rows=ROWS, exponent=st.floats(-12.0, 12.0))
def test_log_moments_in_columns_are_never_below_single_ones(
    kind: Any, rows: list[tuple[float, float]], exponent: float
) -> None:
    t = 2.0**exponent
    sensitivity, scale = np.array(rows).T
    many = gaussian_log_moment if kind == "gaussian" else laplace_log_moment
    with np.errstate(all="ignore"):
        columns = many(t, sensitivity, scale).tolist()
    for (value, noise), found in zip(rows, columns, strict=True):
        if not math.isfinite(found):
            continue
        single = PlainNoise(kind, "proved", value, noise).mechanism()
        assert log_moment(single, Neighbouring.REPLACE_ONE, mixture_first=True)(t) <= found * (1 + 1e-15)
        assert found <= log_moment(single, Neighbouring.REPLACE_ONE, mixture_first=True)(t) * (1 + 1e-12)


def test_curves_are_the_same_in_columns_and_one_by_one() -> None:
    releases = [make.release(make.gaussian(30.0 + i), part=str(i % 2), label="a") for i in range(80)]
    releases += [make.release(make.laplace(20.0 + i), 3, label="b") for i in range(80)]
    together = compose(releases, Neighbouring.REPLACE_ONE)
    alone = [
        PrivacyLoss.compose(
            (term, times * runs)
            for mechanism, runs in exposure.items()
            for term, times in losses(mechanism, Neighbouring.REPLACE_ONE)
        )
        for exposure in together.exposures()
    ]
    found, renyi = pld_profile(together), rdp_profile(together)
    for delta in (1e-3, 1e-12):
        assert found.epsilon(delta) == pytest.approx(max(a.epsilon(delta).upper for a in alone), rel=1e-13)
    moments = max(
        math.fsum(
            runs * log_moment(mechanism, Neighbouring.REPLACE_ONE, mixture_first=True)(3.0)
            for mechanism, runs in exposure.items()
        )
        for exposure in together.exposures()
    )
    assert moments / 3.0 <= renyi.divergence(4.0) <= moments / 3.0 * (1 + 1e-12)
