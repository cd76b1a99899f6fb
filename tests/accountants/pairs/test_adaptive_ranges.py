"""The table of adaptive choices against every strategy that is tried, and against the choices one by one."""

import math
from typing import Any

import numpy as np
import pytest

from dpaudit import Exponential, Neighbouring
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.curves import pld_profile, rdp_profile
from dpaudit.accountants.pairs.adaptive_ranges import _largest_delta, adaptive_terms, block_term
from dpaudit.accountants.privacy_loss import BoundedRangeTerm, DiscreteTerm, GaussianTerm, PrivacyLoss
from tests import make
from tests.sweeps import sweep


def loss_of(epsilon: float, count: int) -> PrivacyLoss:
    return PrivacyLoss.compose(adaptive_terms(epsilon, count))


def best(epsilon: float, x: Any, later: Any, grid: int) -> Any:
    """The best of a grid of h for one more choice, `later` what follows: no more than the truth."""
    found = np.zeros_like(x)
    for h in np.linspace(0.0, epsilon, grid).tolist():
        p = -math.expm1(h - epsilon) / -math.expm1(-epsilon)
        found = np.maximum(found, p * later(x - h) + (1.0 - p) * later(x - h + epsilon))
    return found


def told(x: Any) -> Any:
    return np.maximum(-np.expm1(x), 0.0)


@sweep("epsilon", [0.1, 1.0, 4.0], everyday=(1,))
def test_two_and_three_choices_by_the_best_of_many_strategies(epsilon: float) -> None:
    x = np.linspace(0.0, 2.9 * epsilon, 15)

    def one(x: Any) -> Any:
        return best(epsilon, x, told, 41)

    def two(x: Any) -> Any:
        return best(epsilon, x, one, 31)

    for count, strategies in ((2, two(x)), (3, best(epsilon, x, two, 11))):
        loss = loss_of(epsilon, count)
        found = np.array([loss.delta(at).upper for at in x.tolist()])
        assert np.all(found >= strategies * (1.0 - 1e-12))
        much = strategies > 1e-3
        assert np.all(found[much] <= strategies[much] * 1.1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("cells", [2, 3, 8])
def test_between_the_points_of_a_coarse_lattice_no_choice_is_better(epsilon: float, cells: int) -> None:
    """There the best h lies inside a cell; what follows are the chords between the points of the lattice."""
    (first, one), (second, two) = (_largest_delta(epsilon, runs, cells) for runs in (1, 2))

    def chords(x: Any) -> Any:
        between = np.interp(np.exp(x), np.exp(first), one, right=0.0)
        return np.where(x < first[0], told(x), between)

    for losses, curve, later in ((first, one, told), (second, two, chords)):
        assert np.all(curve >= best(epsilon, losses, later, 301) * (1.0 - 1e-12))


def strategy_delta(epsilon: float, count: int, rng: np.random.Generator, at: list[float]) -> list[float]:
    """delta of one strategy: at every node of the tree of outcomes an h of its own."""
    loss, p = np.zeros(1), np.ones(1)
    for _ in range(count):
        h = epsilon * (rng.random(len(loss)) if rng.random() < 0.5 else np.full(len(loss), rng.random()))
        high = (math.exp(epsilon) - np.exp(h)) / math.expm1(epsilon)
        loss = np.concatenate([loss + h, loss + h - epsilon])
        p = np.concatenate([p * high, p * (1.0 - high)])
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert (p * np.exp(-loss)).sum() == pytest.approx(1.0, abs=1e-9)
    return [float(p @ np.maximum(-np.expm1(x - loss), 0.0)) for x in at]


@sweep("epsilon, count", [(0.2, 5), (1.0, 8), (3.0, 10)], everyday=(0,))
def test_no_random_strategy_exceeds_it_and_one_run_less_would_not_do(epsilon: float, count: int) -> None:
    rng = np.random.default_rng(11)
    at = (epsilon * count * np.array([0.0, 0.1, 0.3, 0.6, 0.9])).tolist()
    loss, fewer = loss_of(epsilon, count), loss_of(epsilon, count - 1)
    tried = np.array([strategy_delta(epsilon, count, rng, at) for _ in range(200)]).max(axis=0)
    assert np.all(tried <= np.array([loss.delta(x).upper for x in at]) * (1.0 + 1e-12))
    # The planted fault: a curve of fewer choices, which the constant strategies exceed.
    assert tried[0] > 0.9 * fewer.delta(0.0).upper
    assert loss.delta(at[-1]).upper > 2.0 * fewer.delta(at[-1]).upper


@sweep("epsilon, count", [(0.01, 64), (0.1, 100), (0.5, 10), (1.0, 20), (2.0, 7)], everyday=(1, 2, -1))
def test_it_lies_between_one_good_strategy_and_the_choices_one_by_one(epsilon: float, count: int) -> None:
    found = loss_of(epsilon, count)
    apart = PrivacyLoss.compose([(BoundedRangeTerm(epsilon), count)])
    half = (math.exp(epsilon) - math.exp(0.5 * epsilon)) / math.expm1(epsilon)
    k = np.arange(count + 1)
    weights = np.array([math.comb(count, int(i)) * half**i * (1.0 - half) ** (count - i) for i in k])
    for share in (0.1, 0.3, 0.6):
        at = share * epsilon * count
        symmetric = float(weights @ told(at - (k - 0.5 * count) * epsilon))
        assert symmetric <= found.delta(at).upper <= apart.delta(at).upper * (1.0 + 1e-9)


def test_in_the_limit_the_variance_is_a_quarter_and_not_a_third() -> None:
    found = loss_of(0.1, 64).epsilon(1e-6).upper
    gaussian = PrivacyLoss.compose([(GaussianTerm(0.5 * 0.1 * 8.0), 1)]).epsilon(1e-6).upper
    assert found == pytest.approx(gaussian, rel=0.02)


@pytest.mark.nightly
def test_more_choices_cost_more() -> None:
    epsilons = [loss_of(0.3, count).epsilon(1e-6).upper for count in (1, 2, 3, 10, 40, 64, 65, 100)]
    assert epsilons == sorted(epsilons)


@pytest.mark.nightly
def test_blocks_add_up_and_extreme_choices_are_taken_one_by_one() -> None:
    for count in (1, 2, 63, 64, 65, 100, 1000):
        terms = adaptive_terms(0.1, count)
        assert len(terms) <= 2
        assert all(isinstance(term, DiscreteTerm) for term, _ in terms) == (count > 1)
    assert adaptive_terms(0.1, 1) == [(BoundedRangeTerm(0.1), 1)]
    for epsilon in (1e-9, 50.0):
        assert adaptive_terms(epsilon, 10) == [(BoundedRangeTerm(epsilon), 10)]
        assert sum(count for _, count in adaptive_terms(epsilon, 1000)) == 1000


def test_the_table_is_a_pair() -> None:
    for epsilon, runs in ((1e-3, 64), (0.5, 10), (8.0, 3)):
        term = block_term(epsilon, runs)
        assert term is not None
        losses, masses = np.array(term.losses), np.array(term.probabilities)
        assert masses.sum() == pytest.approx(1.0, abs=1e-12)
        assert (masses * np.exp(-losses)).sum() <= 1.0 + 1e-9
        assert losses[-1] <= epsilon * runs * (1.0 + 1e-12)


@sweep("epsilon, count, before", [(0.1, 100, 2.4001989), (0.01, 1000, 0.699756)], everyday=(0,))
def test_it_is_below_the_divergences_where_these_were_the_best(
    epsilon: float, count: int, before: float
) -> None:
    release = make.release(Exponential(epsilon=epsilon), count)
    composition = compose([release], Neighbouring.REPLACE_ONE)
    renyi, pairs = rdp_profile(composition).epsilon(1e-6), pld_profile(composition).epsilon(1e-6)
    assert renyi == pytest.approx(before, rel=1e-5)
    assert pairs < 0.95 * renyi


def test_losses_past_the_square_root_of_every_double_leave_no_warning_and_no_gap() -> None:
    term = block_term(8.0, 64)
    assert term is not None
    assert max(term.losses) > 500.0
    # At loss 357 its square overflows: the constant strategy of the best h is still below the bound.
    h = 6.0
    p = -math.expm1(h - 8.0) / -math.expm1(-8.0)
    k = np.arange(65)
    loss = k * h + (64 - k) * (h - 8.0)
    weight = np.array([math.comb(64, int(i)) * p**i * (1.0 - p) ** (64 - i) for i in k.tolist()])
    for at in (300.0, 357.0, 380.0):
        found = sum(
            w * -math.expm1(at - x) for x, w in zip(term.losses, term.probabilities, strict=True) if x > at
        )
        strategy = float((weight * np.maximum(-np.expm1(np.minimum(at - loss, 0.0)), 0.0)).sum())
        assert found >= strategy * (1.0 - 1e-9)
