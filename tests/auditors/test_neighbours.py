"""Neighbouring tables, and the search for the worst pair."""

from typing import Any

import numpy as np
import pytest

from dpaudit import L2, Curator, Gaussian, OpaquePureDP
from dpaudit.auditors.neighbours import table_pairs
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.worst_pair import replayed_loss, search_worst_pair
from dpaudit.claims.pairs import Pair
from dpaudit.errors import InvalidParameter

TABLE = np.array([[0.2, 0.4, 0.6], [0.1, 0.1, 0.9], [0.5, 0.5, 0.5]])


@pytest.mark.parametrize("row", [-1, 0])
def test_replace_one_changes_that_row_alone(row: int) -> None:
    pairs = list(table_pairs(TABLE, row=row))
    for pair in pairs:
        assert pair.data.shape == pair.neighbour.shape == (3, 3)
        changed = np.flatnonzero((pair.data != pair.neighbour).any(axis=1))
        assert changed.tolist() == [pair.unit] == [row % 3]
        assert pair.neighbour.min() >= 0.0
        assert pair.neighbour.max() <= 1.0
    # The largest change the range allows is among them, in every norm.
    assert max(np.abs(pair.data - pair.neighbour).sum() for pair in pairs) == 3.0
    assert any("duplicate" in pair.description for pair in pairs)


def test_add_or_remove_one_adds_or_removes_one() -> None:
    pairs = list(table_pairs(TABLE, neighbouring="add-or-remove-one", row=1))
    sizes = {len(pair.neighbour) for pair in pairs}
    assert sizes == {2, 4}
    for pair in pairs:
        larger, smaller = sorted((pair.data, pair.neighbour), key=len, reverse=True)
        assert np.array_equal(np.delete(larger, pair.unit, axis=0), smaller)


def test_zero_out_sets_one_row_to_zero() -> None:
    for pair in table_pairs(TABLE, neighbouring="zero-out", lower=-1.0, upper=[1.0, 2.0, 3.0]):
        assert not pair.neighbour[2].any()
        assert np.array_equal(pair.data[:2], pair.neighbour[:2])


def test_generators_leave_the_table_alone() -> None:
    before = TABLE.copy()
    for neighbouring in ("replace-one", "add-or-remove-one", "zero-out"):
        for pair in table_pairs(TABLE, neighbouring=neighbouring):
            pair.neighbour[...] = 7.0
    assert np.array_equal(before, TABLE)


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (np.zeros(3), {}),
        (np.zeros((0, 3)), {}),
        (np.full((2, 2), np.nan), {}),
        (TABLE, {"row": 3}),
        (TABLE, {"lower": 1.0}),
        (TABLE, {"upper": np.inf}),
    ],
)
def test_tables_that_are_none_are_refused(table: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        list(table_pairs(table, **options))


def _hidden_spot(data: Any, generator: np.random.Generator) -> float:
    """Leaks a record near 0.7 five times as much as any other."""
    weight = 5.0 if abs(data[0] - 0.7) < 0.1 else 1.0
    return float(weight * data[0] + generator.normal())


def _pair(point: Any) -> Pair:
    return Pair(np.zeros(1), np.array([point[0]]), f"0 against {point[0]:.3f}")


def _distance(pair: Pair, seed: int) -> float:
    scores = run_trials(Plain(_hidden_spot), pair, 40, seed=seed)
    return abs(float(scores.data.mean() - scores.neighbour.mean()))


def test_the_search_finds_the_spot_and_says_what_it_used(nightly: bool) -> None:
    size: dict[str, int] = {} if nightly else {"population": 5}
    found = search_worst_pair(_pair, [(0.0, 1.0)], _distance, seed=3, generations=8 if nightly else 4, **size)
    assert 0.6 < found.point[0] < 0.8
    assert f"the worst of {found.evaluations} searched" in found.pair.description
    assert found.trial_seed != 3
    assert found.value == _distance(_pair(found.point), found.trial_seed)
    short = [
        search_worst_pair(_pair, [(0.0, 1.0)], _distance, seed=3, generations=2, **size) for _ in range(2)
    ]
    assert short[0].point.tobytes() == short[1].point.tobytes()
    # On fresh trials the leak is still there: 3.5 apart, give or take 0.16.
    assert _distance(found.pair, 3) > 2.5


def test_what_a_search_reports_is_biased_and_a_fresh_test_is_not(nightly: bool) -> None:
    noise = Plain(lambda data, generator: float(generator.normal(scale=1.0 + 1e-9 * data[0])))

    def distance(pair: Pair, seed: int) -> float:
        scores = run_trials(noise, pair, 20, seed=seed + round(1e6 * pair.neighbour[0]))
        return float(scores.neighbour.mean() - scores.data.mean())

    found = search_worst_pair(_pair, [(0.0, 1.0)], distance, seed=1, generations=8)
    standard_error = np.sqrt(2 / 20)
    assert found.value > 2 * standard_error
    runs = 5_000 if nightly else 500
    fresh = run_trials(noise, found.pair, runs, seed=1)
    assert abs(fresh.neighbour.mean() - fresh.data.mean()) < 5 * np.sqrt(2 / runs)


def weighted(data: Any, curator: Curator) -> Any:
    """A record's weight is largest at 0.6, where it is 1: that far apart are the queries at most."""
    query = np.maximum(0.0, 1.0 - 4.0 * np.abs(data - 0.6)).sum()
    return curator.release(query, Gaussian(sigma=1.0, sensitivity=L2(1.0)), label="x")


@pytest.mark.nightly
def test_the_search_finds_the_pair_of_the_largest_exact_loss() -> None:
    objective = replayed_loss(weighted, replays=1)
    found = search_worst_pair(_pair, [(0.0, 1.0)], objective, seed=2, generations=6, population=6)
    assert found.point[0] == pytest.approx(0.6, abs=0.02)
    fresh = replay(weighted, [found.pair], seed=2, delta=1e-5)
    # Where the search came to, 0.98 to 1 apart, and never above the truth of the worst pair there is.
    assert 4.2 < (fresh.epsilon_lower or 0.0) <= 4.3772
    assert found.value == pytest.approx(fresh.epsilon_lower, rel=1e-6)  # one release: in closed form


def test_a_fault_counts_for_more_than_any_loss_and_no_loss_for_none() -> None:
    def leaks(data: Any, curator: Curator) -> Any:
        return weighted(data, curator) + data[0]

    def opaque(data: Any, curator: Curator) -> Any:
        mechanism = OpaquePureDP(epsilon=1.0, justification="known")
        return curator.release_opaque(
            data[0], lambda value, generator: value + generator.laplace(), mechanism, label="x"
        )

    pair = _pair([0.5])
    assert replayed_loss(leaks, replays=1)(pair, 0) == 1e6
    assert replayed_loss(weighted, replays=1)(_pair([0.0]), 0) == 0.0
    assert replayed_loss(opaque, replays=1)(pair, 0) == 0.0


@pytest.mark.parametrize("options", [{"bounds": []}, {"bounds": [(1.0, 0.0)]}, {"generations": 0}])
def test_searches_over_nothing_are_refused(options: dict[str, Any]) -> None:
    given = {"bounds": [(0.0, 1.0)], **options}
    with pytest.raises(InvalidParameter):
        search_worst_pair(_pair, objective=lambda pair, seed: 0.0, **given)
