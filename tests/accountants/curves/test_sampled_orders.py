"""The best order of sampled Gaussian noise by Newton's method: never worse than a search by values."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpaudit import L1, L2, ApproxDP, Claim, Gaussian, Laplace, Ledger, Neighbouring, Release
from dpaudit.accountants.accounting import account
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves import rdp
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.accountants.curves.sampled_orders import best_order, sampled_factors
from dpaudit.accountants.privacy_loss.contour.sampled_gaussian import SampledGaussianFactor
from dpaudit.ledger.ledger import Header
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import AnyMechanism, PoissonSampled

ADD, REPLACE = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE


def noise(rate: float, sigma: float = 1.0) -> PoissonSampled:
    return PoissonSampled(rate=rate, mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0)))


def profile(*made: tuple[AnyMechanism, int], relation: Neighbouring = ADD, **more: Any) -> RenyiProfile:
    return RenyiProfile.of(
        compose([Release(label="r", mechanism=m, count=n, **more) for m, n in made], relation)
    )


@pytest.mark.parametrize(
    "made",
    [
        [(noise(0.01), 1)],
        [(noise(0.001, 2.0), 1)],
        [(noise(0.01), 1000)],
        [(noise(0.3, 0.2), 7)],
        [(noise(0.9, 5.0), 100)],
        [(noise(1e-6, 50.0), 1)],
        [(noise(0.01 + 0.0003 * i, 0.8 + 0.02 * i), 1 + i) for i in range(30)],
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
    first, second = sampled_factors(compose([Release(label="r", mechanism=noise(0.01))], ADD))
    target = -math.log(1e-6)
    assert best_order((first, second), target) is not None
    assert best_order((second, first), target) is None
    assert best_order((), target) is None


def test_where_the_rule_errs_by_more_than_a_trifle_all_orders_are_searched() -> None:
    directions = sampled_factors(compose([Release(label="r", mechanism=noise(4e-5, 70.0))], ADD))
    assert best_order(directions, 5.5) is None


@pytest.mark.parametrize(
    ("made", "relation", "more"),
    [
        ([(noise(0.01), 1), (Gaussian(sigma=1.0, sensitivity=L2(1.0)), 1)], ADD, {}),
        ([(noise(0.01), 1), (Laplace(scale=1.0, sensitivity=L1(1.0)), 1)], ADD, {}),
        ([(noise(1.0), 1)], ADD, {}),
        ([(noise(0.01), 1)], REPLACE, {}),
        ([(noise(0.01), 10**13)], ADD, {}),
        ([(noise(0.01), 1)], ADD, {"partition": Partition(split="s", part="a")}),
    ],
)
def test_all_else_is_left_to_the_general_accountant(
    made: list[tuple[AnyMechanism, int]], relation: Neighbouring, more: dict[str, Any]
) -> None:
    assert profile(*made, relation=relation, **more)._factors == ()


@pytest.mark.parametrize("claimed", [None, ApproxDP(epsilon=3.0, delta=1e-6)])
def test_a_line_of_sampled_noise_needs_few_quadratures(
    claimed: ApproxDP | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count, whatever the machine: 140 a line where each is computed by itself and searched by values."""
    number = 80
    claim = Claim(ApproxDP(epsilon=8.0, delta=1e-6))
    ledger = Ledger(Header(algorithm="a", unit="row", neighbouring=ADD, claim=claim))
    for i in range(number):
        rate = 0.01 * (1.0 + i / number)
        ledger.append(Release(label=f"step {i}", mechanism=noise(rate), claimed=claimed))
    ledger.finish()
    rules, made = SampledGaussianFactor.rule, []
    monkeypatch.setattr(SampledGaussianFactor, "rule", lambda *given: made.append(given) or rules(*given))
    found = account(ledger)
    assert [len(made) < each * number for each in (2, 25)] == [False, True]
    assert found.overview.failed == 0
    assert found.bounds[0].guarantee.epsilon < found.bounds[1].guarantee.epsilon < 8.0
