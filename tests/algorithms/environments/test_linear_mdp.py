import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.algorithms.environments.linear_mdp import (
    LinearMDP,
    appendix_f_behaviour,
    appendix_f_features,
    appendix_f_mdp,
    one_hot_features,
)
from dpaudit.errors import InvalidParameter


def test_the_features_are_those_of_the_page() -> None:
    raw = appendix_f_features(normalised=False)
    assert raw.shape == (2, 100, 10)
    for s, a in itertools.product(range(2), range(100)):
        delta = int((s == 0) == (a == 0))
        assert raw[s, a].tolist() == [int(bit) for bit in f"{a:08b}"] + [delta, 1 - delta]
    assert (raw**2).sum(axis=2).max() == 7


def test_normalised_features_have_exact_norms_of_at_most_one() -> None:
    features = appendix_f_features()
    norms = [sum(Fraction(x) ** 2 for x in phi) for phi in features.reshape(-1, 10).tolist()]
    assert max(norms) <= 1
    assert max(norms) > 1 - Fraction(1, 10**15)


@pytest.mark.parametrize("normalised", [True, False])
def test_kernel_and_rewards_are_those_of_the_page(normalised: bool) -> None:
    mdp = appendix_f_mdp(3, horizon=4, normalised=normalised)
    alpha_1, alpha_2, r = np.random.default_rng(3).random((3, 4))
    for h, s, a in itertools.product(range(4), range(2), range(100)):
        bits = [int(bit) for bit in f"{a:08b}"]
        delta = int((s == 0) == (a == 0))
        to_0 = alpha_1[h] if delta else alpha_2[h]
        reward = r[h] / 8 * (bits[0] + bits[2] + bits[4] + bits[6]) + (0.5 - r[h] / 2) * bits[3]
        reward += r[h] / 2 if delta else 0.5 - r[h] / 2
        np.testing.assert_allclose(mdp.transitions[h, s, a], [to_0, 1 - to_0], atol=1e-14)
        np.testing.assert_allclose(mdp.rewards[h, s, a], reward, atol=1e-14)


def test_the_optimum_by_trying_every_policy() -> None:
    features = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 2))  # [S, A, d]
    measures = np.random.default_rng(1).dirichlet(np.ones(2), size=(3, 3))  # [H, d, S]
    weights = np.random.default_rng(2).random((3, 3))  # [H, d]
    mdp = LinearMDP(features, measures, weights, np.array([0.3, 0.7]))

    def value(policy: np.ndarray, h: int, s: int) -> float:
        if h == 3:
            return 0.0
        phi = features[s, policy[h, s]]
        onwards = sum(float(phi @ measures[h, :, t]) * value(policy, h + 1, t) for t in range(2))
        return float(phi @ weights[h]) + onwards

    best = -1.0
    for choice in itertools.product(range(2), repeat=6):
        policy = np.array(choice).reshape(3, 2)
        by_hand = 0.3 * value(policy, 0, 0) + 0.7 * value(policy, 0, 1)
        assert mdp.initial @ mdp.evaluate(policy)[0] == pytest.approx(by_hand, abs=1e-12)
        best = max(best, by_hand)
    assert mdp.initial @ mdp.optimal_values()[0] == pytest.approx(best, abs=1e-12)


def test_trajectories_follow_behaviour_and_kernel() -> None:
    mdp = appendix_f_mdp(0, horizon=3)
    n = 40_000
    data = mdp.sample_trajectories(n, appendix_f_behaviour(3), np.random.default_rng(5))
    # False alarms: five standard deviations each, 2 + 3 + 6 comparisons, below 1e-5; the seed is fixed.
    assert abs((data.states[:, 0] == 0).mean() - 0.5) < 5 * 0.5 / n**0.5
    assert np.abs((data.actions == 0).mean(axis=0) - 0.6).max() < 5 * 0.5 / n**0.5
    for h, s in itertools.product(range(3), range(2)):
        there = (data.states[:, h] == s) & (data.actions[:, h] == 0)
        p = mdp.transitions[h, s, 0, 0]
        assert abs((data.states[there, h + 1] == 0).mean() - p) < 5 * 0.5 / there.sum() ** 0.5
    steps = np.arange(3)
    expected = mdp.rewards[steps, data.states[:, :-1], data.actions]
    assert np.array_equal(data.rewards, expected)


def test_what_spans_no_process_is_refused() -> None:
    features = one_hot_features(2, 1)
    measures = np.array([[[0.5, 0.6], [1.0, 0.0]]])
    with pytest.raises(InvalidParameter):
        LinearMDP(features, measures, np.zeros((1, 2)), np.array([1.0, 0.0]))
    with pytest.raises(InvalidParameter, match="shapes"):
        LinearMDP(features, measures, np.zeros((1, 3)), np.array([1.0, 0.0]))
    with pytest.raises(InvalidParameter, match="feature map"):
        LinearMDP(np.full((2, 1, 2), np.nan), measures, np.zeros((1, 2)), np.array([1.0, 0.0]))
