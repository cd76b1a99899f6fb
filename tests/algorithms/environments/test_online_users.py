from itertools import product

import numpy as np
import pytest

from dpaudit.algorithms.environments.hard_mixture import hard_mixture
from dpaudit.algorithms.environments.linear_mdp import random_linear_mdp
from dpaudit.algorithms.environments.linear_mixture import (
    LinearMixtureMDP,
    largest_value_norm,
    one_hot_mixture,
    opposed,
    random_linear_mixture,
    triple_one_hot,
)
from dpaudit.algorithms.environments.online_users import OnlineUsers, User, constant_user, online_users
from dpaudit.algorithms.environments.riverswim import LEFT, RIGHT, inhomogeneous_success, riverswim_mdp
from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp, uniform_policy
from dpaudit.errors import DataError, InvalidParameter


def respond(user: User, step: int, state: int, action: int) -> tuple[float, int]:
    return user.rewards.item(step, state, action), user.next_states.item(step, state, action)


def best_of_every_policy(mdp: TabularMDP) -> float:
    """The optimum by trying every deterministic policy, each by a loop over states: no backward maximum."""
    best = -np.inf
    for choice in product(range(mdp.n_actions), repeat=mdp.horizon * mdp.n_states):
        policy = np.array(choice).reshape(mdp.horizon, mdp.n_states)
        reach, earned = mdp.initial.copy(), 0.0
        for h in range(mdp.horizon):
            following = np.zeros(mdp.n_states)
            for state in range(mdp.n_states):
                earned += reach[state] * mdp.rewards[h, state, policy[h, state]]
                following += reach[state] * mdp.transitions[h, state, policy[h, state]]
            reach = following
        best = max(best, earned)
    return best


@pytest.mark.parametrize(
    "mdp",
    [
        riverswim_mdp(2, 4),
        riverswim_mdp(3, 3),
        riverswim_mdp(3, 4, success=inhomogeneous_success(4, seed=1), normalised=False),
        one_hot_mixture(random_mdp(2, 2, 3, seed=4)),
        random_linear_mixture(3, 2, 3, 4, seed=5),
        random_linear_mdp(3, 2, 3, 4, seed=6),
        hard_mixture(2, 2, 0.3, seed=0),
    ],
    ids=["riverswim-2", "riverswim-3", "inhomogeneous", "one-hot", "mixture", "linear", "hard"],
)
def test_the_optimum_is_the_best_of_every_policy(mdp: TabularMDP) -> None:
    assert mdp.initial @ mdp.optimal_values()[0] == pytest.approx(best_of_every_policy(mdp), rel=1e-12)


def test_riverswim_by_hand() -> None:
    mdp = riverswim_mdp(4, 8)
    np.testing.assert_allclose(mdp.transitions[0, 0, RIGHT], [0.4, 0.6, 0, 0])
    np.testing.assert_allclose(mdp.transitions[3, 1, RIGHT], [0.05, 0.6, 0.35, 0])
    np.testing.assert_allclose(mdp.transitions[7, 3, RIGHT], [0, 0, 0.4, 0.6])
    np.testing.assert_allclose(mdp.transitions[7, 3, LEFT], [0, 0, 1, 0])
    np.testing.assert_allclose(mdp.transitions[7, 0, LEFT], [1, 0, 0, 0])
    assert mdp.rewards[0, 0, LEFT] == 0.005 / 8
    assert mdp.rewards[0, 3, RIGHT] == 1 / 8
    assert np.count_nonzero(mdp.rewards) == 16
    # Certain to succeed, the swimmer is up after S - 1 steps and earns from then on.
    sure = riverswim_mdp(4, 8, success=1.0)
    assert sure.optimal_values()[0, 0] == pytest.approx(5 / 8)
    chances = inhomogeneous_success(8, seed=3)
    assert ((chances >= 0.8) & (chances <= 1.0)).all()
    np.testing.assert_allclose(riverswim_mdp(4, 8, success=chances).transitions[:, 1, RIGHT, 2], chances)


@pytest.mark.parametrize("success", [-0.1, 1.1, np.nan, [0.5, 0.5]])
def test_riverswim_refuses_chances_that_are_none(success: object) -> None:
    with pytest.raises(InvalidParameter):
        riverswim_mdp(3, 3, success=success)  # type: ignore[arg-type]


def test_riverswim_needs_two_ends() -> None:
    with pytest.raises(InvalidParameter, match="1 state"):
        riverswim_mdp(1, 3)


def test_a_mixture_refuses_what_spans_no_kernel() -> None:
    mixture = random_linear_mixture(3, 2, 2, 4, seed=0)
    for features, parameters in (
        (mixture.features, 2 * mixture.parameters),
        (mixture.features[..., :2], mixture.parameters),
        (mixture.features[:, :, :2], mixture.parameters),
        (np.zeros_like(mixture.features), mixture.parameters),
        (np.full_like(mixture.features, np.nan), mixture.parameters),
    ):
        with pytest.raises(InvalidParameter):
            LinearMixtureMDP(features, parameters, mixture.rewards, mixture.initial)


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_norm_is_found_by_no_search_over_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(4, 2, 4, 3))  # opposed ones: all corners
    assert opposed(features)
    bound = largest_value_norm(features)
    values = rng.random((20_000, 4)).round(int(rng.integers(0, 2)))
    found = np.linalg.norm(np.einsum("satd,nt->nsad", features, values), axis=-1).max()
    assert found <= bound * (1 + 1e-12)
    assert found >= 0.8 * bound
    many = np.tile(features, (4, 1, 4, 1))  # 16 states: a bound from above
    corners = rng.integers(0, 2, (2_000, 16))
    assert np.linalg.norm(np.einsum("satd,nt->nsad", many, corners), axis=-1).max() <= largest_value_norm(
        many
    )


def test_one_hot_features_are_longer_than_the_definition_allows() -> None:
    """(3.1) asks for norm at most 1 at values in [0, 1]; one-hot features reach sqrt(S)."""
    assert largest_value_norm(triple_one_hot(5, 2)) == pytest.approx(np.sqrt(5))
    assert not opposed(triple_one_hot(3, 2))
    assert largest_value_norm(random_linear_mixture(4, 2, 3, 5, seed=1).features) == pytest.approx(1.0)


def test_a_user_answers_the_same_whatever_was_asked_before() -> None:
    users = online_users(random_mdp(4, 3, 5, seed=1), 6, seed=2, random_rewards=True)
    forwards = [respond(users[i], h, s, a) for i in range(6) for h, s, a in np.ndindex(5, 4, 3)]
    backwards = [respond(users[i], h, s, a) for i in reversed(range(6)) for h, s, a in np.ndindex(5, 4, 3)]
    by_user = [backwards[k * 60 : (k + 1) * 60] for k in reversed(range(6))]
    assert forwards == [answer for answers in by_user for answer in answers]
    assert len({user.next_states.tobytes() for user in users}) == 6


def test_fewer_users_are_the_first_of_more() -> None:
    mdp = random_mdp(4, 3, 5, seed=1)
    few, more = online_users(mdp, 3, seed=9), online_users(mdp, 5, seed=9)
    for one, other in zip(few, more, strict=False):
        assert one.first_state == other.first_state
        assert np.array_equal(one.next_states, other.next_states)


@pytest.mark.nightly
def test_users_follow_the_process() -> None:
    """Frequencies over 20 000 users; each of 28 bins within 6 standard deviations (1e-7 for all)."""
    mdp = random_mdp(3, 2, 2, seed=7)
    n = 20_000
    users = list(online_users(mdp, n, seed=0, random_rewards=True))
    following = np.stack([user.next_states for user in users])
    for state in range(3):
        for found, chance in (
            ((following == state).mean(axis=0), mdp.transitions[..., state]),
            (np.mean([user.first_state == state for user in users]), mdp.initial[state]),
        ):
            assert (np.abs(found - chance) <= 6 * np.sqrt(chance * (1 - chance) / n)).all()
    rewards = np.mean([user.rewards for user in users], axis=0)
    assert (np.abs(rewards - mdp.rewards) <= 6 * np.sqrt(0.25 / n)).all()


def test_an_impossible_state_is_never_drawn() -> None:
    river = riverswim_mdp(4, 6)
    for user in online_users(river, 200, seed=3):
        assert user.first_state == 0
        assert (np.abs(user.next_states - np.arange(4)[None, :, None]) <= 1).all()


def test_an_episode_walks_the_tree() -> None:
    users = online_users(random_mdp(4, 2, 6, seed=1), 2, seed=2)
    user = users[1]
    states, actions, rewards = user.episode(lambda step, state: (step + state) % 2)
    assert states[0] == user.first_state
    for h in range(6):
        assert actions[h] == (h + states[h]) % 2
        assert (rewards[h], states[h + 1]) == respond(user, h, states[h], actions[h])


def test_replacing_one_user_changes_no_other_user() -> None:
    mdp = random_mdp(3, 2, 4, seed=1)
    users = online_users(mdp, 4, seed=5)
    other = users.replace(2, constant_user(mdp, 1, reward=0.5))
    assert [np.array_equal(a.next_states, b.next_states) for a, b in zip(users, other, strict=True)] == [
        True,
        True,
        False,
        True,
    ]
    assert other[2].episode(lambda step, state: 0).states.tolist() == [1] * 5


@pytest.mark.parametrize(
    ("index", "first", "state", "reward"), [(4, 0, 0, 0.0), (0, 3, 0, 0.0), (0, 0, 3, 0.0), (0, 0, 0, np.nan)]
)
def test_a_user_of_another_process_is_refused(index: int, first: int, state: int, reward: float) -> None:
    mdp = random_mdp(3, 2, 4, seed=1)
    shape = mdp.rewards.shape
    with pytest.raises(DataError):
        online_users(mdp, 4, seed=5).replace(
            index, User(first, np.full(shape, state), np.full(shape, reward))
        )


def test_seeds_that_are_none_are_refused() -> None:
    mdp = random_mdp(3, 2, 4, seed=1)
    for seeds in ([-1], [0.5], [[1]]):
        with pytest.raises(DataError):
            OnlineUsers(mdp, np.array(seeds))
    with pytest.raises(InvalidParameter):
        online_users(mdp, 3, seed=-1)
    with pytest.raises(IndexError):
        online_users(mdp, 3, seed=1)[3]


def test_the_gymnasium_environment_is_the_process() -> None:
    """Its checker finds nothing, and 4000 episodes earn what the policy is worth, to 6 deviations."""
    from gymnasium.utils.env_checker import check_env

    from dpaudit.algorithms.environments.gymnasium_environment import gymnasium_environment

    mdp = random_mdp(3, 2, 4, seed=8)
    environment = gymnasium_environment(mdp)
    check_env(environment, skip_render_check=True)
    rng, earned = np.random.default_rng(0), []
    environment.reset(seed=1)
    for _ in range(4000):
        environment.reset()
        total, over = 0.0, False
        while not over:
            _, reward, over, cut, info = environment.step(int(rng.integers(2)))
            total += float(reward)
            assert not cut
        assert info["step"] == 4
        earned.append(total)
    worth = mdp.initial @ mdp.evaluate(uniform_policy(mdp))[0]
    assert abs(np.mean(earned) - worth) <= 6 * np.std(earned) / np.sqrt(4000)


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpaudit.algorithms import optional_modules
    from dpaudit.algorithms.environments.gymnasium_environment import gymnasium_environment
    from dpaudit.errors import MissingExtra

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional_modules, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"dpaudit\[gymnasium\]"):
        gymnasium_environment(random_mdp(2, 2, 2, seed=0))
