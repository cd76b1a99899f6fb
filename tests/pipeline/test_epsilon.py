"""The forward question against closed forms and figures that other programs computed."""

import math
from typing import Any

import pytest
from mpmath import mp, mpf

import dpaudit
from dpaudit import (
    L1,
    L2,
    ApproxDP,
    Gaussian,
    Laplace,
    Neighbouring,
    PoissonSampled,
    RandomizedResponse,
    Release,
)
from dpaudit.claims.guarantees import GDP, ZCDP, PureDP
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.pipeline.epsilon import Cost

STEP = PoissonSampled(rate=0.01, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))


def gaussian_delta(epsilon: float, mu: float) -> mpf:
    """Balle and Wang 2018, Theorem 8."""
    with mp.workdps(50):
        loss, shift = mpf(epsilon), mpf(mu)
        tail = mp.exp(loss) * mp.ncdf(-loss / shift - shift / 2)
        return mp.ncdf(-loss / shift + shift / 2) - tail


def figure(*arguments: Any, **options: Any) -> float:
    guarantee = dpaudit.epsilon(*arguments, **options).guarantee
    assert isinstance(guarantee, ApproxDP)
    return guarantee.epsilon


@pytest.mark.parametrize(("count", "delta"), [(1, 1e-5), (30, 1e-6), (1, 0.01)])
def test_gaussian_noise_is_on_its_closed_form(count: int, delta: float) -> None:
    found = figure(Gaussian(sigma=2.0, sensitivity=L2(1.0)), delta, count=count)
    mu = 0.5 * math.sqrt(count)
    assert gaussian_delta(found, mu) <= delta < gaussian_delta(found * (1 - 1e-9) - 1e-12, mu)


@pytest.mark.parametrize(("count", "epsilon"), [(1000, 2.12451517112), (10_000, 6.90738449505)])
def test_sampled_noise_has_the_epsilon_that_quadrature_finds(count: int, epsilon: float) -> None:
    """benchmarks/peers/truth.py, which shares no code with the package."""
    assert figure(STEP, 1e-6, count=count) == pytest.approx(epsilon, rel=1e-11)


def test_the_relation_decides_what_sampling_amplifies() -> None:
    replaced = figure(STEP, 1e-6, count=10, neighbouring=Neighbouring.REPLACE_ONE)
    whole = figure(Gaussian(sigma=1.0, sensitivity=L2(1.0)), 1e-6, count=10)
    assert replaced == pytest.approx(whole, rel=1e-9)
    assert figure(STEP, 1e-6, count=10) < 0.1 * replaced


def test_releases_compose() -> None:
    gaussians = [
        Release(label=f"{sigma}", mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0)), count=2)
        for sigma in (1.0, 3.0)
    ]
    together = figure(gaussians, 1e-6)
    mu = math.sqrt(2.0 * (1.0 + 1.0 / 9.0))
    assert gaussian_delta(together, mu) <= 1e-6 < gaussian_delta(together * (1 - 1e-9), mu)


def test_every_scale() -> None:
    laplace = Laplace(scale=2.0, sensitivity=L1(1.0))
    cost = Cost([Release(label="x", mechanism=laplace, count=4)], Neighbouring.ADD_OR_REMOVE_ONE)
    pure, zcdp, gdp = (cost.bound(scale).guarantee for scale in (PureDP(epsilon=9), ZCDP(rho=9), GDP(mu=9)))
    assert isinstance(pure, PureDP)
    assert pure.epsilon == 2.0
    assert isinstance(zcdp, ZCDP)
    # Harrison and Manurangsi 2025: epsilon + e^-epsilon - 1 each.
    assert zcdp.rho == pytest.approx(4 * (0.5 + math.exp(-0.5) - 1.0), rel=1e-12)
    assert isinstance(gdp, GDP)
    # Dong, Roth, Su 2022, Proposition 2.4: -2 Phi^-1(1 / (1 + e^epsilon)) each.
    single = float(-2 * mp.sqrt(2) * mp.erfinv(2 / (1 + mp.exp("0.5")) - 1))
    assert gdp.mu == pytest.approx(2.0 * single, rel=1e-9)
    response = Cost(
        [Release(label="x", mechanism=RandomizedResponse(epsilon=1.0))], Neighbouring.ADD_OR_REMOVE_ONE
    )
    rho = response.bound(ZCDP(rho=0.0)).guarantee
    assert isinstance(rho, ZCDP)
    assert rho.rho == pytest.approx(math.tanh(0.5), rel=1e-12)


def test_points_of_the_curve_are_bounds() -> None:
    release = Release(label="x", mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
    for curve in Cost([release], Neighbouring.REPLACE_ONE).curves():
        for epsilon, delta in curve.points[1::8]:
            assert delta >= gaussian_delta(epsilon, 1.0), curve.method


def test_what_cannot_be_answered() -> None:
    noise = Gaussian(sigma=1.0, sensitivity=L2(1.0))
    release = Release(label="x", mechanism=noise)
    wrong: list[tuple[Any, dict[str, Any]]] = [
        ([], {"delta": 1e-5}),
        (noise, {"delta": 0.0}),
        (noise, {"delta": 1.0}),
        (noise, {"delta": math.nan}),
        (noise, {"delta": "small"}),
        (noise, {"delta": 1e-5, "count": 0}),
        (noise, {"delta": 1e-5, "count": 1.5}),
        ([release], {"delta": 1e-5, "count": 2}),
        ("gaussian", {"delta": 1e-5}),
        ([noise], {"delta": 1e-5}),
        (noise, {"delta": 1e-5, "neighbouring": "add-or-remove"}),
    ]
    for releases, options in wrong:
        with pytest.raises(InvalidParameter):
            dpaudit.epsilon(releases, **options)
    cost = Cost([release], Neighbouring.REPLACE_ONE)
    with pytest.raises(CannotBound):
        cost.bound(PureDP(epsilon=0.0))
