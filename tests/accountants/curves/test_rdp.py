"""Renyi divergences composed, and what follows from the best order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpaudit import GDP, L1, L2, RDP, ApproxDP, Gaussian, Laplace, Neighbouring, PureDP, Release
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.closed_forms.conversions import rdp_epsilon, zcdp_delta, zcdp_epsilon
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteGaussian,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    SmoothGaussian,
)

ADD = Neighbouring.ADD_OR_REMOVE_ONE
GAUSSIAN = Gaussian(sigma=2.0, sensitivity=L2(1.0))
LAPLACE = Laplace(scale=2.0, sensitivity=L1(1.0))


def profile(
    *mechanisms: tuple[AnyMechanism, int], relation: Neighbouring = ADD, group: int = 1
) -> RenyiProfile:
    releases = [Release(label="r", mechanism=m, count=n) for m, n in mechanisms]
    return RenyiProfile.of(compose(releases, relation, group))


@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-30, 1e-300])
@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(sigma=1.0, sensitivity=L2(1.0)),
        DiscreteGaussian(sigma=1.0, sensitivity=L2(1.0)),
        OpaqueZCDP(rho=0.5, justification="x"),
    ],
)
def test_where_only_rho_is_known_it_is_the_zcdp_conversion(mechanism: Any, delta: float) -> None:
    for count in (1, 7, 1000):
        exact = zcdp_epsilon(0.5 * count, delta)
        assert profile((mechanism, count)).epsilon(delta) == pytest.approx(exact, rel=1e-9)
        assert profile((mechanism, count)).delta(exact + 1.0) == pytest.approx(
            zcdp_delta(0.5 * count, exact + 1.0), rel=1e-6
        )


def test_the_order_is_continuous() -> None:
    """At no order of a fine grid is there a smaller bound: the search misses nothing, a coarse grid would."""
    found = profile((LAPLACE, 30), (GAUSSIAN, 2))
    for delta in (0.3, 1e-6, 1e-20):
        best = found.epsilon(delta)
        grid = [rdp_epsilon(1.0 + t, found.divergence(1.0 + t), delta) for t in np.geomspace(1e-3, 1e4, 4000)]
        assert best <= min(grid) * (1 + 1e-9)
        assert best >= min(grid) * (1 - 1e-5)


def test_a_5_dp_ledger_is_at_most_5_dp() -> None:
    for mechanism, count in (
        (OpaquePureDP(epsilon=5.0, justification="x"), 1),
        (OpaquePureDP(epsilon=0.5, justification="x"), 10),
        (Laplace(scale=1.0, sensitivity=L1(1.0)), 5),
    ):
        for delta in (1e-3, 1e-9, 1e-30, 1e-300):
            assert profile((mechanism, count)).epsilon(delta) <= 5.0
        assert profile((mechanism, count)).divergence(1e12) <= 5.0


def test_renyi_claims_are_bounded_by_the_mechanisms_own_divergence() -> None:
    for alpha in (1.0 + 1e-9, 2.0, 33.3, 1e4):
        composition = compose([Release(label="x", mechanism=LAPLACE, count=3)], ADD)
        [bound] = bounds(composition, RDP(alpha=alpha, epsilon=0.0))
        assert bound.method == "rdp"
        t, e = alpha - 1.0, 0.5
        exact = 3 * np.logaddexp(
            math.log1p(t) + t * e - math.log1p(2 * t), math.log(t) - (t + 1) * e - math.log1p(2 * t)
        )
        assert bound.guarantee.epsilon * t == pytest.approx(exact, rel=1e-9, abs=1e-15)
    mixed = compose([Release(label="x", mechanism=GAUSSIAN), Release(label="y", mechanism=LAPLACE)], ADD)
    assert bounds(mixed, RDP(alpha=2.0, epsilon=0.0))[0].guarantee.epsilon > 0.25
    assert bounds(mixed, GDP(mu=0.0))[0].method == "gdp"
    assert bounds(mixed, PureDP(epsilon=0.0)) == []


def test_what_may_be_revealed_is_taken_off_delta() -> None:
    lossy = OpaqueApproxDP(epsilon=0.1, delta=1e-7, justification="x")
    found = profile((lossy, 10), (GAUSSIAN, 1))
    clean = profile((OpaquePureDP(epsilon=0.1, justification="x"), 10), (GAUSSIAN, 1))
    revealed = 1 - (1 - 1e-7) ** 10
    assert found.epsilon(2e-6) == pytest.approx(clean.epsilon(2e-6 - revealed), rel=1e-6)
    assert found.delta(1.0) == pytest.approx(clean.delta(1.0) + revealed, rel=1e-6)
    assert found.delta(1e6) >= revealed * (1 - 1e-12)
    with pytest.raises(CannotBound, match="reveal everything"):
        found.epsilon(1e-6 * (1 - 1e-5))
    with pytest.raises(CannotBound):
        found.divergence(2.0)


def test_the_larger_direction_counts_after_composing() -> None:
    sampled = PoissonSampled(rate=0.2, mechanism=Gaussian(sigma=0.7, sensitivity=L2(1.0)))
    found = profile((sampled, 20), (LAPLACE, 3))
    for t in (0.3, 3.0):
        each = [direction(t) for direction in found._directions]
        assert len(each) == 2
        assert each[0] != each[1]
        assert found.divergence(1 + t) * t == pytest.approx(max(each), rel=1e-9)


def test_smooth_noise_composes_with_the_rest() -> None:
    smooth = SmoothGaussian(alpha=12.0, beta=0.01, dimension=3, epsilon=0.5, delta=1e-8)
    once, often = profile((smooth, 1)), profile((smooth, 30), (GAUSSIAN, 1))
    assert once.epsilon(1e-6) < often.epsilon(1e-6)
    rest = profile((smooth, 30)).divergence(3.0) + profile((GAUSSIAN, 1)).divergence(3.0)
    assert often.divergence(3.0) == pytest.approx(rest, rel=1e-12)
    with pytest.raises(CannotBound, match="order"):
        once.divergence(1.0 + 1.0 / math.expm1(0.01))
    composition = compose([Release(label="x", mechanism=smooth, count=3)], ADD)
    found = bounds(composition, ApproxDP(epsilon=0.0, delta=1e-6))
    assert {bound.method: bound.at_least for bound in found} == {"rdp": None, "pld+rdp": None}


@pytest.mark.parametrize("delta", [1e-6, 1e-20, 1e-100, 1e-300])
@pytest.mark.parametrize("beta", [0.3, 0.0148, 0.005, 1e-4])
def test_the_best_order_is_found_beside_infinite_divergences(beta: float, delta: float) -> None:
    found = profile((SmoothGaussian(alpha=22.0, beta=beta, dimension=1, epsilon=0.3, delta=1e-9), 10))
    wall = 1.0 / math.expm1(beta)
    tried = [1.0 + share * wall for share in np.linspace(0.001, 0.999, 200).tolist()]
    best = min(rdp_epsilon(order, found.divergence(order), delta) for order in tried)
    assert found.epsilon(delta) <= best * (1.0 + 1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, 1.0, True, "1"])
def test_bad_deltas_and_orders_are_refused(bad: Any) -> None:
    found = profile((GAUSSIAN, 1))
    with pytest.raises(InvalidParameter):
        found.epsilon(bad)
    with pytest.raises(InvalidParameter):
        found.divergence(bad)
    if bad not in (0.0, 1.0) or isinstance(bad, bool):
        with pytest.raises(InvalidParameter):
            found.delta(bad)


def test_nothing_released_and_too_much() -> None:
    assert profile().epsilon(1e-9) == 0.0
    assert profile().delta(0.0) == 0.0
    assert profile((Gaussian(sigma=1.0, sensitivity=L2(0.0)), 3)).epsilon(1e-9) == 0.0
    with pytest.raises(CannotBound):
        profile((Gaussian(sigma=1e-200, sensitivity=L2(1e100)), 1)).epsilon(1e-6)
