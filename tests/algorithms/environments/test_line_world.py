import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dpaudit.algorithms.environments.gymnasium_environment import line_environment
from dpaudit.algorithms.environments.line_world import (
    RewardFunction,
    Walk,
    episode_returns,
    greedy_return,
    middle_rewards,
    moved,
)
from dpaudit.errors import DataError


def test_rewards_of_the_paper() -> None:
    states = np.linspace(0.0, 1.0, 101)
    np.testing.assert_allclose(middle_rewards()(states), 0.5 - np.abs(states - 0.5), atol=1e-15)
    np.testing.assert_allclose(middle_rewards().plus(1.0)(states) - middle_rewards()(states), 1.0)
    assert RewardFunction(np.array([1.0, 3.0]))(0.25) == 1.5


@pytest.mark.parametrize("values", [[], [1.0], [0.0, np.nan], [0.0, np.inf], [[0.0, 1.0]], "x", None, 3.0])
def test_what_is_no_reward_function_is_refused(values: object) -> None:
    with pytest.raises(DataError):
        RewardFunction(values)  # type: ignore[arg-type]


def test_moves_are_clamped() -> None:
    assert moved(0.5, 1, 1.0) == 0.75
    assert moved(0.5, 0, 0.4) == pytest.approx(0.4)
    assert (moved(0.9, 1, 1.0), moved(0.1, 0, 1.0)) == (1.0, 0.0)


def test_a_walk_begins_anew_after_fifty_steps() -> None:
    walk, again = Walk(np.random.default_rng(0)), np.random.default_rng(0)
    state = float(again.random())
    for step in range(1, 120):
        action = step % 2
        state = moved(state, action, float(again.random()))
        assert walk.step(action) == state
        if step % 50 == 0:
            state = float(again.random())
        assert walk.state == state


def test_returns_are_sums_over_whole_episodes() -> None:
    reached = np.concatenate([np.full(50, 0.5), np.full(50, 0.1), np.full(7, 0.5)])
    np.testing.assert_allclose(episode_returns(reached, middle_rewards()), [25.0, 5.0])


def inwards(points: np.ndarray) -> np.ndarray:
    return np.stack([points, 1.0 - points], axis=1)


def test_acting_greedily_and_at_random() -> None:
    states, actions, reached = Walk(np.random.default_rng(0)).explore(inwards, 2000)
    assert (actions == (states < 0.5)).all()
    assert np.abs(reached - states).max() <= 0.25
    states, actions, _ = Walk(np.random.default_rng(0)).explore(inwards, 2000, 0.5)
    # A quarter goes the other way, but for a chance below 1e-6: five standard deviations.
    assert abs((actions != (states < 0.5)).mean() - 0.25) < 5 * (0.25 * 0.75 / 2000) ** 0.5


def test_going_inwards_is_better_than_going_one_way() -> None:
    inward = greedy_return(inwards, middle_rewards(), 200, 0)
    left = greedy_return(lambda points: np.stack([points, points - 1.0], axis=1), middle_rewards(), 200, 0)
    assert left < 2.0
    assert 20.0 < inward < 25.0


def test_the_environment_keeps_gymnasiums_rules_and_ours() -> None:
    environment = line_environment()
    check_env(environment, skip_render_check=True)
    observed, _ = environment.reset(seed=3)
    rng = np.random.default_rng(0)
    for step in range(1, 51):
        before = float(observed[0])
        action = int(rng.integers(2))
        observed, reward, ended, cut, _ = environment.step(action)
        now = float(observed[0])
        assert -1e-12 <= (now - before if action else before - now) <= 0.25
        assert reward == pytest.approx(0.5 - abs(now - 0.5))
        assert (ended, cut) == (step == 50, False)
    higher = line_environment(middle_rewards().plus(1.0))
    higher.reset(seed=0)
    assert higher.step(1)[1] >= 1.0
