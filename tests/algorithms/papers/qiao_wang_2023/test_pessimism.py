import math
from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.environments.tabular import random_mdp, uniform_policy
from dpaudit.algorithms.environments.treatment import treatment_data
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import (
    PenaltyConstants,
    bernstein_penalty,
    pessimistic_value_iteration,
    transition_estimate,
)
from dpaudit.algorithms.papers.qiao_wang_2023.private_counts import gaussian_error_bound, private_counts
from dpaudit.errors import InvalidParameter


def by_hand(
    counts: np.ndarray, rewards: np.ndarray, error: float, delta: float, constants: PenaltyConstants
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 1 with plain loops and one-based h, written from the page."""
    horizon, n_states, n_actions = rewards.shape
    iota = math.log(horizon * n_states * n_actions / delta)
    values = {horizon + 1: [0.0] * n_states}
    policy = np.zeros((horizon, n_states), dtype=int)
    for h in range(horizon, 0, -1):
        values[h] = []
        for s in range(n_states):
            clipped = []
            for a in range(n_actions):
                cell = counts[h - 1, s, a]
                n = math.fsum(cell)
                p = [count / n for count in cell] if n > error else [1.0 / n_states] * n_states
                mean = math.fsum(q * v for q, v in zip(p, values[h + 1], strict=True))
                second = math.fsum(q * v * v for q, v in zip(p, values[h + 1], strict=True))
                variance = max(0.0, second - mean**2)
                if constants.form == "hoeffding":
                    variance = float(horizon**2)
                if n > error:
                    gamma = constants.variance * math.sqrt(variance * iota / (n - error))
                    gamma += constants.privacy * n_states * horizon * error * iota / n
                else:
                    gamma = constants.unvisited * horizon
                clipped.append(max(0.0, min(rewards[h - 1, s, a] + mean - gamma, horizon - h + 1)))
            policy[h - 1, s] = clipped.index(max(clipped))
            values[h].append(max(clipped))
    return policy, np.array([values[h] for h in range(1, horizon + 2)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("error", [0.0, 3.0, 15.0])
@pytest.mark.parametrize("form", ["bernstein", "hoeffding"])
def test_line_by_line_against_plain_loops(seed: int, error: float, form: Any) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_mdp(3, 2, 4, seed=seed)
    counts = rng.integers(0, 4000, (4, 3, 2, 3)) * rng.integers(0, 2, (4, 3, 2, 1)) + rng.random((4, 3, 2, 3))
    constants = PenaltyConstants(privacy=0.5, form=form)
    solution = pessimistic_value_iteration(
        counts, mdp.rewards, error_bound=error, failure_probability=0.05, constants=constants
    )
    policy, values = by_hand(counts, mdp.rewards, error, 0.05, constants)
    np.testing.assert_allclose(solution.values, values, atol=1e-7)
    assert np.array_equal(solution.actions, policy)
    assert solution.actions.dtype == np.int64


def test_the_defaults_are_the_published_constants() -> None:
    constants = PenaltyConstants()
    assert (constants.variance, constants.privacy) == (math.sqrt(2.0), 16.0)
    assert constants.unvisited > 1.0


def test_infinite_data_without_noise_finds_the_optimum() -> None:
    mdp = random_mdp(3, 2, 3, seed=0)
    solution = pessimistic_value_iteration(1e14 * mdp.transitions, mdp.rewards, error_bound=0.0)
    assert np.array_equal(solution.actions, mdp.optimal_policy())
    np.testing.assert_allclose(solution.values, mdp.optimal_values(), atol=1e-5)


def test_no_data_is_worth_nothing_and_ties_go_to_the_lowest_action() -> None:
    rewards = np.ones((3, 2, 4))
    for error in (0.0, 10.0):
        solution = pessimistic_value_iteration(np.zeros((3, 2, 4, 2)), rewards, error_bound=error)
        assert not solution.values.any()
        assert not solution.actions.any()
    # An exact tie between actions 1 and 3, both visited alike, above 0 and 2, which never were.
    counts = np.zeros((1, 1, 4, 1))
    counts[0, 0, [1, 3]] = 5.0
    assert pessimistic_value_iteration(counts, np.ones((1, 1, 4)), error_bound=0.0).actions.tolist() == [[1]]


@pytest.mark.parametrize("seed", range(3))
def test_pessimism_is_below_the_policys_true_value(seed: int) -> None:
    """Holds with probability 1 - 2 delta by the theorem; delta = 1e-7, and the seeds are fixed."""
    mdp = random_mdp(2, 2, 2, seed=seed)
    data = mdp.sample_trajectories(300_000, uniform_policy(mdp), np.random.default_rng(seed))
    sigma = 0.5
    bound = gaussian_error_bound(sigma, 2 * 2 * 2**2 * 2, 1e-7)
    rng = np.random.default_rng(seed + 10)
    n_sa, n_sas = (counts + sigma * rng.normal(size=counts.shape) for counts in data.visit_counts())
    counts = private_counts(n_sa, n_sas, bound)
    solution = pessimistic_value_iteration(counts, mdp.rewards, error_bound=bound, failure_probability=1e-7)
    assert solution.values[0].max() > 0.0  # not by being empty
    assert (solution.values <= mdp.evaluate(solution.actions) + 1e-12).all()


def test_estimate_is_a_distribution_at_the_threshold_too() -> None:
    counts = np.array([[3.0, 1.0], [4.0, 1.0], [0.0, 0.0]])
    estimate = transition_estimate(counts, 4.0)
    # n = 4 is not above E = 4: uniform, as printed.
    assert estimate.tolist() == [[0.5, 0.5], [0.8, 0.2], [0.5, 0.5]]
    assert transition_estimate(counts, 0.0).tolist() == [[0.75, 0.25], [0.8, 0.2], [0.5, 0.5]]


def test_a_count_barely_above_the_bound_overflows_to_infinity_not_to_nan() -> None:
    bound = 4.0
    penalty = bernstein_penalty(
        np.array([[[0.5, 0.5]], [[1.0, 0.0]]]),
        np.array([[np.nextafter(bound, 5.0)], [np.nextafter(bound, 5.0)]]),
        np.array([0.0, 1.0]),
        horizon=2,
        error_bound=bound,
        failure_probability=0.1,
        constants=PenaltyConstants(privacy=0.0),
    )
    assert penalty[0, 0] > 1e6
    assert penalty[1, 0] == 0.0
    tiny = pessimistic_value_iteration(np.full((2, 2, 1, 2), 5e-324), np.ones((2, 2, 1)), error_bound=0.0)
    assert np.isfinite(tiny.values).all()


def test_more_trajectories_and_less_noise_learn_better() -> None:
    """The built-in data as shipped, with a practical C2: rho = 1 learns, rho = 0.001 does not."""
    data, mdp = treatment_data()
    n_sa, n_sas = data.visit_counts()
    found = {}
    for rho in (1.0, 0.001):
        sigma = math.sqrt(2 * mdp.horizon / rho)
        bound = gaussian_error_bound(sigma, 2 * 4 * 4**2 * 2, 0.1)
        rng = np.random.default_rng(0)
        counts = private_counts(
            n_sa + sigma * rng.normal(size=n_sa.shape), n_sas + sigma * rng.normal(size=n_sas.shape), bound
        )
        solution = pessimistic_value_iteration(
            counts, mdp.rewards, error_bound=bound, constants=PenaltyConstants(privacy=0.1)
        )
        found[rho] = mdp.suboptimality(solution.actions)
    assert found[1.0] < 0.05
    assert found[0.001] > 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"counts_sas": np.full((2, 3, 2, 3), -1.0)},
        {"counts_sas": np.full((2, 3, 2, 3), np.nan)},
        {"counts_sas": np.ones((2, 3, 2, 2))},
        {"rewards": np.full((2, 3, 2), 1.5)},
        {"rewards": np.full((2, 3, 2), np.nan)},
        {"rewards": np.zeros((0, 3, 2))},
        {"error_bound": -1.0},
        {"error_bound": math.inf},
        {"error_bound": math.nan},
        {"failure_probability": 0.0},
        {"failure_probability": 1.0},
    ],
)
def test_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "counts_sas": np.ones((2, 3, 2, 3)),
        "rewards": np.ones((2, 3, 2)),
        "error_bound": 1.0,
    }
    pessimistic_value_iteration(**good)
    with pytest.raises(InvalidParameter):
        pessimistic_value_iteration(**(good | change))


@pytest.mark.parametrize(
    "change",
    [{"variance": -1.0}, {"privacy": math.nan}, {"privacy": math.inf}, {"unvisited": 1.0}, {"form": "best"}],
)
def test_constants_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        PenaltyConstants(**change)
