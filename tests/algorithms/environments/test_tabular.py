from importlib import import_module
from itertools import product

import numpy as np
import pytest

from dpaudit.algorithms.environments.frozen_lake import MAP, MOVES, frozen_lake_mdp, recording_policy
from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp, uniform_policy
from dpaudit.algorithms.environments.treatment import HEALTHY, TREAT, WAIT, treatment_mdp
from dpaudit.errors import InvalidParameter


def value_by_paths(mdp: TabularMDP, policy: np.ndarray) -> np.ndarray:
    """The value from each first state, summed over every path; no recursion, no matrix product."""
    values = np.zeros(mdp.n_states)
    for first in range(mdp.n_states):
        for rest in product(range(mdp.n_states), repeat=mdp.horizon - 1):
            path = (first, *rest)
            chance, earned = 1.0, 0.0
            for h, state in enumerate(path):
                earned += mdp.rewards[h, state, policy[h, state]]
                if h + 1 < mdp.horizon:
                    chance *= mdp.transitions[h, state, policy[h, state], path[h + 1]]
            values[first] += chance * earned
    return values


@pytest.mark.parametrize(("sizes", "seed"), [((2, 2, 3), 0), ((2, 3, 2), 1), ((3, 2, 2), 2), ((2, 2, 1), 3)])
def test_optimum_against_every_policy_and_every_path(sizes: tuple[int, int, int], seed: int) -> None:
    mdp = random_mdp(*sizes, seed=seed)
    shape = (mdp.horizon, mdp.n_states)
    best = np.full(mdp.n_states, -np.inf)
    values_of_policies = []
    for choice in product(range(mdp.n_actions), repeat=mdp.horizon * mdp.n_states):
        policy = np.array(choice).reshape(shape)
        by_paths = value_by_paths(mdp, policy)
        np.testing.assert_allclose(mdp.evaluate(policy)[0], by_paths, rtol=1e-12)
        best = np.maximum(best, by_paths)
        values_of_policies.append(mdp.initial @ by_paths)
    np.testing.assert_allclose(mdp.optimal_values()[0], best, rtol=1e-12)
    assert mdp.initial @ mdp.evaluate(mdp.optimal_policy())[0] == pytest.approx(max(values_of_policies))
    assert mdp.suboptimality(mdp.optimal_policy()) == 0.0
    lowest = np.array(next(product(range(mdp.n_actions), repeat=mdp.horizon * mdp.n_states))).reshape(shape)
    expected = max(values_of_policies) - mdp.initial @ value_by_paths(mdp, lowest)
    assert mdp.suboptimality(lowest) == pytest.approx(expected, abs=1e-12)


def test_a_stochastic_policy_is_the_average_of_its_last_step() -> None:
    mdp = random_mdp(3, 2, 1, seed=4)
    each = [mdp.evaluate(np.full((1, 3), action))[0] for action in range(2)]
    np.testing.assert_allclose(mdp.evaluate(uniform_policy(mdp))[0], (each[0] + each[1]) / 2.0)


def test_random_mdp_is_fixed_by_its_seed() -> None:
    first, again, other = (random_mdp(3, 2, 4, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.transitions, again.transitions)
    assert np.array_equal(first.rewards, again.rewards)
    assert not np.array_equal(first.transitions, other.transitions)


def test_trajectories_follow_the_process() -> None:
    """Frequencies of (s, a, s') at every step against exact occupancies.

    144 cells of n = 200 000; by Hoeffding each is off by more than 0.007 with probability at most
    2 exp(-2 n 0.007^2) = 6e-9, so all of them hold but with probability 1e-6.
    """
    mdp = random_mdp(4, 3, 3, seed=7)
    behaviour = np.random.default_rng(8).dirichlet(np.ones(3), size=(3, 4))
    n = 200_000
    data = mdp.sample_trajectories(n, behaviour, np.random.default_rng(9))
    _, counts = data.visit_counts()
    occupancy = mdp.initial
    for h in range(3):
        exact = occupancy[:, None, None] * behaviour[h][:, :, None] * mdp.transitions[h]
        assert np.abs(counts[h] / n - exact).max() < 0.007
        occupancy = exact.sum(axis=(0, 1))
    steps = np.broadcast_to(np.arange(3), data.actions.shape)
    assert np.array_equal(data.rewards, mdp.rewards[steps, data.states[:, :-1], data.actions])


def test_the_frequency_test_can_fail() -> None:
    mdp, twin = random_mdp(4, 3, 3, seed=7), random_mdp(4, 3, 3, seed=10)
    data = twin.sample_trajectories(200_000, uniform_policy(twin), np.random.default_rng(9))
    exact = mdp.initial[:, None, None] * uniform_policy(mdp)[0][:, :, None] * mdp.transitions[0]
    assert np.abs(data.visit_counts()[1][0] / len(data) - exact).max() > 0.007


def test_what_cannot_happen_is_never_drawn() -> None:
    mdp = frozen_lake_mdp(8)
    data = mdp.sample_trajectories(20_000, mdp.optimal_policy(), np.random.default_rng(0))
    _, counts = data.visit_counts()
    assert counts[mdp.transitions == 0.0].sum() == 0
    steps = np.broadcast_to(np.arange(8), data.actions.shape)
    assert np.array_equal(data.actions, mdp.optimal_policy()[steps, data.states[:, :-1]])


def test_the_last_outcome_is_not_drawn_by_rounding() -> None:
    """Ten tenths sum to 1 - 2^-53, the largest uniform draw: the eleventh outcome must stay out."""

    class Largest(np.random.Generator):
        def random(self, size: int) -> np.ndarray:  # type: ignore[override]
            return np.full(size, np.nextafter(1.0, 0.0))

    tenths = np.array([0.1] * 10 + [0.0])
    assert tenths.cumsum()[-1] == np.nextafter(1.0, 0.0)
    mdp = TabularMDP(np.broadcast_to(tenths, (1, 11, 1, 11)), np.zeros((1, 11, 1)), tenths)
    data = mdp.sample_trajectories(3, uniform_policy(mdp), Largest(np.random.PCG64(0)))
    assert data.states.tolist() == [[9, 9]] * 3


VALID = random_mdp(2, 2, 2, seed=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("transitions", np.full((2, 2, 2, 2), 0.6)),
        ("transitions", np.stack([np.full((2, 2, 2), -0.5), np.full((2, 2, 2), 1.5)], axis=-1)),
        ("transitions", np.full((2, 2, 2, 2), np.nan)),
        ("transitions", np.full((2, 2, 2), 0.5)),
        ("transitions", np.full((2, 2, 2, 3), 1.0 / 3.0)),
        ("rewards", np.full((2, 2, 2), 1.1)),
        ("rewards", np.full((2, 2, 2), -0.1)),
        ("rewards", np.full((3, 2, 2), 0.5)),
        ("initial", np.array([0.5, 0.4])),
        ("initial", np.array([0.5, 0.25, 0.25])),
    ],
)
def test_what_is_no_process_is_refused(field: str, value: np.ndarray) -> None:
    parts = {"transitions": VALID.transitions, "rewards": VALID.rewards, "initial": VALID.initial}
    TabularMDP(**parts)
    with pytest.raises(InvalidParameter):
        TabularMDP(**(parts | {field: value}))


@pytest.mark.parametrize(
    "policy",
    [
        np.full((2, 2), 2),
        np.full((2, 2), -1),
        np.zeros((2, 2)),
        np.zeros((3, 2), dtype=int),
        np.full((2, 2, 2), 0.6),
        np.full((2, 2, 3), 1.0 / 3.0),
    ],
)
def test_what_is_no_policy_is_refused(policy: np.ndarray) -> None:
    with pytest.raises(InvalidParameter):
        VALID.evaluate(policy)


@pytest.mark.parametrize("horizon", [1, 2, 4, 8])
def test_the_treatment_optimum_is_the_one_written_down(horizon: int) -> None:
    mdp = treatment_mdp(horizon)
    by_hand = np.full((horizon, 4), TREAT)  # treat whoever is not healthy, except at the last visit
    by_hand[:, HEALTHY] = WAIT
    by_hand[-1] = WAIT
    assert np.array_equal(mdp.optimal_policy(), by_hand)
    # No near ties: every other action costs at least 0.05.
    values = mdp.optimal_values()
    gaps = np.sort(mdp.rewards + np.einsum("hsat,ht->hsa", mdp.transitions, values[1:]), axis=2)
    assert (gaps[:, :, 1] - gaps[:, :, 0]).min() > 0.0499


def test_frozen_lake_is_gymnasiums() -> None:
    gymnasium = import_module("gymnasium")
    environment = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True).unwrapped
    assert environment.desc.tobytes().decode() == MAP
    kernel, rewards = np.zeros((16, 4, 16)), np.zeros((16, 4))
    for state, actions in environment.P.items():
        for action, outcomes in actions.items():
            for chance, following, reward, _ in outcomes:
                kernel[state, action, following] += chance
                rewards[state, action] += chance * reward
    mdp = frozen_lake_mdp(3)
    for h in range(3):
        np.testing.assert_allclose(mdp.transitions[h], kernel, atol=1e-15)
        np.testing.assert_allclose(mdp.rewards[h], rewards, atol=1e-15)
    assert np.array_equal(mdp.initial, environment.initial_state_distrib)


def test_frozen_lake_map_and_moves_agree() -> None:
    for state, row in enumerate(MOVES):
        y, x = divmod(state, 4)
        there = [(y, x - 1), (y + 1, x), (y, x + 1), (y - 1, x)]
        stays = MAP[state] in "GH"
        clamped = [4 * min(max(v, 0), 3) + min(max(u, 0), 3) for v, u in there]
        assert row.tolist() == ([state] * 4 if stays else clamped)
    np.testing.assert_allclose(recording_policy().sum(axis=2), 1.0)
