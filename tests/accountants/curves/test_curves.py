"""Accountants of one composition beside each other: the tighter is never above the looser."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, Release
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.curves.curves import LossProfile, pld_profile, rdp_profile
from dpaudit.mechanisms import AnyMechanism, DiscreteLaplace, OpaquePureDP, PoissonSampled, RandomizedResponse
from tests.sweeps import sweep

LAPLACE = Laplace(scale=1.0, sensitivity=L1(1.0))


def composition(*runs: tuple[AnyMechanism, int]) -> Composition:
    releases = [Release(label="r", mechanism=mechanism, count=count) for mechanism, count in runs]
    return compose(releases, Neighbouring.ADD_OR_REMOVE_ONE)


def sampled(rate: float, noise: Any) -> PoissonSampled:
    return PoissonSampled(rate=rate, mechanism=noise)


def gaussian(sigma: float) -> Gaussian:
    return Gaussian(sigma=sigma, sensitivity=L2(1.0))


@sweep(
    "runs, delta",
    [
        ([(sampled(0.01, LAPLACE), 1)], 1e-6),
        ([(sampled(0.01, LAPLACE), 2)], 1e-6),
        ([(sampled(0.01, LAPLACE), 10)], 1e-12),
        ([(sampled(1e-6, LAPLACE), 1)], 1e-300),
        ([(sampled(1e-9, gaussian(0.3)), 10**9)], 1e-300),
        ([(sampled(1e-3, gaussian(0.2)), 1000)], 1e-30),
        ([(sampled(0.5, LAPLACE), 5), (gaussian(3.0), 2), (RandomizedResponse(epsilon=0.5), 3)], 1e-9),
        ([(sampled(0.5, LAPLACE), 100), (LAPLACE, 3)], 1e-100),
        ([(LAPLACE, 10)], 1e-30),
        ([(DiscreteLaplace(scale=3.0, sensitivity=L1(2.0)), 7)], 1e-20),
        ([(OpaquePureDP(epsilon=0.3, justification="x"), 3), (LAPLACE, 1)], 1e-15),
    ],
    everyday=(0, 3, 5, 8, 9, 10),
)
def test_the_exact_curve_is_never_above_that_of_divergences(
    runs: list[tuple[AnyMechanism, int]], delta: float
) -> None:
    pairs, renyi = pld_profile(composition(*runs)), rdp_profile(composition(*runs))
    assert pairs.epsilon(delta) <= renyi.epsilon(delta) * (1.0 + 1e-13)
    for share in (0.25, 0.8, 0.99):
        epsilon = share * renyi.epsilon(delta)
        assert pairs.delta(epsilon) <= renyi.delta(epsilon) * (1.0 + 1e-9)


def test_one_sampled_laplace_release_has_its_closed_form() -> None:
    found = pld_profile(composition((sampled(0.01, LAPLACE), 1)))
    assert isinstance(found, LossProfile)
    lower, upper = found.bracket(1e-6)
    assert lower == pytest.approx(0.01703151876, abs=5e-12)
    assert upper == pytest.approx(0.01703151876, abs=5e-12)
