"""The best order of sampled Gaussian noise by Newton's method: never worse than a search by values."""

import math
from typing import Any

import pytest
from mpmath import mp

from dpaudit import ApproxDP, Claim, Neighbouring, SampledMatrix
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves import rdp
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.accountants.curves.sampled_orders import best_order, moment_of, sampled_factors
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import AnyMechanism, PoissonSampled
from tests import make, oracles
from tests.sweeps import sweep

ADD, REPLACE = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE


def noise(rate: float, sigma: float = 1.0) -> PoissonSampled:
    return make.poisson(make.gaussian(sigma), rate)


def profile(*made: tuple[AnyMechanism, int], relation: Neighbouring = ADD, **more: Any) -> RenyiProfile:
    return RenyiProfile.of(make.composition(*make.releases(made, **more), relation=relation))


@pytest.mark.parametrize(
    "made",
    [
        [(noise(0.01), 1)],
        [(noise(0.001, 2.0), 1)],
        [(noise(0.01), 1000)],
        [(noise(0.3, 0.2), 7)],
        [(noise(0.9, 5.0), 100)],
        [(noise(1e-6, 50.0), 1)],
        [(noise(0.01 + 0.0009 * i, 0.8 + 0.06 * i), 1 + 3 * i) for i in range(10)],
    ],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12, 1e-100])
def test_no_search_by_values_finds_less(
    made: list[tuple[PoissonSampled, int]], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = profile(*made)
    assert found._factors
    by_newton = found.epsilon(delta)
    monkeypatch.setattr(rdp, "best_order", lambda directions, target: None)
    by_values = found.epsilon(delta)
    assert by_newton <= by_values * (1.0 + 1e-12)
    monkeypatch.setattr(rdp, "sampled_factors", lambda composition: ())
    singly = profile(*made)
    assert not singly._factors
    assert by_newton <= singly.epsilon(delta) * (1.0 + 1e-9)
    assert found.delta(by_newton) <= delta * (1.0 + 1e-4)
    assert found.divergence(7.5) == singly.divergence(7.5)


def test_where_the_other_order_of_the_pair_costs_more_all_orders_are_searched() -> None:
    first, second = sampled_factors(make.composition(noise(0.01)))
    target = -math.log(1e-6)
    assert best_order((first, second), target) is not None
    assert best_order((second, first), target) is None
    assert best_order((), target) is None


def test_where_the_rule_errs_by_more_than_a_trifle_all_orders_are_searched() -> None:
    directions = sampled_factors(make.composition(noise(4e-5, 70.0)))
    assert best_order(directions, 5.5) is None


@pytest.mark.parametrize(
    ("made", "relation", "more"),
    [
        ([(noise(0.01), 1), (make.gaussian(1.0), 1)], ADD, {}),
        ([(noise(0.01), 1), (make.laplace(1.0), 1)], ADD, {}),
        ([(noise(1.0), 1)], ADD, {}),
        ([(noise(0.01), 1)], REPLACE, {}),
        ([(noise(0.01), 2 * 10**12)], ADD, {}),
        ([(make.poisson(make.laplace(1.0)), 1)], ADD, {}),
        ([(make.poisson(make.gaussian(1.0, 0.0)), 1)], ADD, {}),
        ([(noise(0.01), 1)], ADD, {"partition": Partition(split="s", part="a")}),
    ],
)
def test_all_else_is_left_to_the_general_accountant(
    made: list[tuple[AnyMechanism, int]], relation: Neighbouring, more: dict[str, Any]
) -> None:
    assert profile(*made, relation=relation, **more)._factors == ()


def test_a_factor_stands_for_all_turns_of_all_runs() -> None:
    """5 runs of 101 steps, of which a unit may be in 11; and the ends of the ranges are inside."""
    sampled = SampledMatrix(rate=0.01, mechanism=make.banded(1.0, 101, separation=10))
    for made, runs, mu in (
        ((sampled, 5), 55.0, math.sqrt(1.25)),
        ((noise(0.01), 10**12), 1e12, 1.0),
        ((noise(0.01, 1e-3), 1), 1.0, 1e3),
    ):
        found = profile(made)._factors
        assert [(factor.count, factor.rate) for (factor,) in found] == [(runs, 0.01)] * 2
        assert [factor.parameter for (factor,) in found] == pytest.approx([mu, mu], rel=1e-15)
        assert [factor.mixture_first for (factor,) in found] == [True, False]


def test_the_moment_is_never_below_a_closed_form() -> None:
    for rate, mu in ((0.01, 1.0), (0.3, 0.5), (1e-4, 2.0)):
        first, _ = sampled_factors(make.composition((noise(rate, 1 / mu), 3)))
        for t in (1, 2, 5):
            with mp.workdps(40):
                least = 3 * oracles.sampled_log_moment(mu, rate, t + 1)
            assert least <= moment_of(first)(float(t)) <= least + 1e-12 * (1 + least)


@sweep("claimed", [None, ApproxDP(epsilon=3.0, delta=1e-6)], everyday=(1,))
def test_a_line_of_sampled_noise_needs_few_quadratures(
    claimed: ApproxDP | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count, whatever the machine: 140 a line where each is computed by itself and searched by values."""
    number = 40
    claim = Claim(ApproxDP(epsilon=8.0, delta=1e-6))
    steps = [noise(0.01 * (1.0 + i / number)) for i in range(number)]
    ledger = make.ledger(*make.releases(steps, claimed=claimed), claim=claim)
    rules, made = SampledGaussianFactor.rule, []
    monkeypatch.setattr(SampledGaussianFactor, "rule", lambda *given: made.append(given) or rules(*given))
    found = account(ledger)
    assert [len(made) < each * number for each in (2, 25)] == [False, True]
    assert found.overview.failed == 0
    assert found.bounds[0].guarantee.epsilon < found.bounds[1].guarantee.epsilon < 8.0
