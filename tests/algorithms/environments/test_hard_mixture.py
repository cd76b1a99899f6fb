import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpaudit import Experiment, Proof, replay, run
from dpaudit.accountants.accounting import account
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.hard_mixture import experiment_gap, hard_mixture
from dpaudit.algorithms.environments.linear_mixture import largest_value_norm, opposed
from dpaudit.errors import InvalidParameter, UsageError
from tests.sweeps import sweep

SIZES = [(5, 6, 0.005), (5, 6, 1 / 24), (2, 3, 0.2), (4, 2, 1e-9)]  # d, H and the gap


def signs(mdp_parameters: np.ndarray) -> np.ndarray:
    return np.sign(mdp_parameters[:, 1:])


@pytest.mark.parametrize(("dimension", "horizon", "gap"), SIZES)
def test_the_kernel_is_the_papers_and_a_mixture_of_its_features(
    dimension: int, horizon: int, gap: float
) -> None:
    mdp = hard_mixture(dimension, horizon, gap, seed=3)
    found = np.einsum("satd,hd->hsat", mdp.features, mdp.parameters)
    np.testing.assert_allclose(mdp.transitions, found, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mdp.transitions.sum(axis=-1), 1.0, rtol=0, atol=1e-14)
    assert (mdp.transitions >= 0.0).all()
    assert mdp.n_actions == 2 ** (dimension - 1)
    corners = list(itertools.product((-1, 1), repeat=dimension - 1))
    for h, i, (a, corner) in itertools.product(range(horizon), range(horizon), enumerate(corners)):
        chance = 1 / horizon + gap * float(signs(mdp.parameters)[h] @ corner)
        expected = np.zeros(horizon + 2)
        expected[[i + 1, horizon + 1]] = 1 - chance, chance
        np.testing.assert_allclose(mdp.transitions[h, i, a], expected, rtol=0, atol=1e-14)
    stays = np.eye(horizon + 2)[horizon:, None, :]
    np.testing.assert_allclose(mdp.transitions[:, horizon:] - stays, 0.0, atol=1e-14)
    assert (mdp.rewards == np.eye(horizon + 2)[horizon + 1][None, :, None]).all()
    assert mdp.initial.tolist() == [1.0] + [0.0] * (horizon + 1)


@pytest.mark.parametrize(("dimension", "horizon", "gap"), SIZES)
def test_the_norms_are_those_of_the_definition(dimension: int, horizon: int, gap: float) -> None:
    mdp = hard_mixture(dimension, horizon, gap, seed=1)
    spread, delta = (dimension - 1) * gap, 1 / horizon
    np.testing.assert_allclose(np.linalg.norm(mdp.parameters, axis=1), 1 + spread, rtol=1e-12)
    np.testing.assert_allclose(np.abs(mdp.parameters[:, 1:]).std(), 0.0, atol=1e-14)
    # The norm is convex in V: some corner has the largest, and only x_{i+1} and x_{H+2} count at x_i.
    largest = math.sqrt(max(1.0, (1 - delta) ** 2 + spread) / (1 + spread))
    assert largest <= 1.0
    assert largest_value_norm(mdp.features) == pytest.approx(largest, rel=1e-12)
    corners = (np.arange(2 ** (horizon + 2))[:, None] >> np.arange(horizon + 2)) & 1
    contexts = np.einsum("satd,nt->nsad", mdp.features, corners[:: max(1, horizon - 3)])
    assert np.linalg.norm(contexts, axis=-1).max() <= largest * (1 + 1e-14)


@pytest.mark.parametrize(("horizon", "users"), [(13, 200), (14, 20), (14, 200)])
def test_no_rounding_breaks_the_premise(horizon: int, users: int) -> None:
    """Beyond 14 states the norm is bounded from above, here by 1; rounded, by 1 + 2^-52 without a margin."""
    mdp = hard_mixture(5, horizon, experiment_gap(horizon, users), seed=0)
    assert opposed(mdp.features)
    assert 1 - 1e-11 <= largest_value_norm(mdp.features) <= 1.0


def test_features_are_opposed_from_a_gap_on() -> None:
    """Those to x_{H+2} by opposite actions come first, from D = delta^2 on."""
    for dimension, horizon in ((5, 6), (3, 4)):
        threshold = horizon**-2 / (dimension - 1)
        for factor in (0.5, 0.99, 1.01, 1.1):
            features = hard_mixture(dimension, horizon, factor * threshold, seed=0).features
            rows = features.reshape(-1, dimension)
            assert opposed(features) == (factor > 1) == bool((rows @ rows.T < 0.0).any())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("dimension", "horizon", "gap"), SIZES)
def test_the_optimum_is_the_closed_form_and_has_the_signs(
    dimension: int, horizon: int, gap: float, seed: int
) -> None:
    """The time of the one success is geometric: n steps earn n - E[min(tau, n)] = n - (1 - (1 - q)^n)/q."""
    mdp = hard_mixture(dimension, horizon, gap, seed)
    values, policy = mdp.optimal_values(), mdp.optimal_policy()
    q = Fraction(1, horizon) + (dimension - 1) * Fraction(gap)
    corners = list(itertools.product((-1.0, 1.0), repeat=dimension - 1))
    for h in range(horizon):
        n = horizon - h
        assert values[h, h] == pytest.approx(float(n - (1 - (1 - q) ** n) / q), rel=1e-12, abs=1e-12)
        if n > 1 and gap > 1e-6:  # the last action earns nothing
            assert corners[policy[h, h]] == tuple(signs(mdp.parameters)[h])


def test_the_signs_are_the_seeds_and_every_step_has_its_own() -> None:
    first, again, other = (hard_mixture(5, 6, 0.01, seed=seed).parameters for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len({tuple(row) for row in signs(first)}) > 1


def test_the_experiments_gap() -> None:
    assert 32 * 6 * 10_000 * experiment_gap(6, 10_000) ** 2 == pytest.approx(1.0, rel=1e-14)
    for users in (0, -1, 2.5, True, None):
        with pytest.raises(InvalidParameter):
            experiment_gap(6, users)  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", [0.0, -0.01, 0.0417, math.nan, math.inf])
def test_a_gap_that_leaves_no_probabilities_is_refused(gap: float) -> None:
    with pytest.raises(InvalidParameter, match="gap"):
        hard_mixture(5, 6, gap, seed=0)


@pytest.mark.parametrize("sizes", [(1, 6), (5, 1), (0, 6), (5, 0), (5, 2.5), (True, 6), ("5", 6), (5, None)])
def test_sizes_that_make_no_instance_are_refused(sizes: tuple[object, object]) -> None:
    with pytest.raises(InvalidParameter):
        hard_mixture(*sizes, 0.01, seed=0)  # type: ignore[arg-type]


def test_the_catalogue_makes_the_experiments_instance() -> None:
    algorithm, users = CATALOGUE["ldp-ucrl-vtr"].example(features="hard", K=10)
    assert (algorithm.model.dimension, algorithm.model.horizon, algorithm.model.reward_bound) == (5, 6, 1.0)
    assert algorithm.mdp.rewards.shape == (6, 8, 16)
    assert len(users) == 10
    gap = np.linalg.norm(algorithm.mdp.parameters, axis=1) - 1
    np.testing.assert_allclose(gap, 4 * experiment_gap(6, 10), rtol=1e-9)
    larger, _ = CATALOGUE["ldp-ucrl-vtr"].example(features="hard", states=15, K=20)
    assert larger.mdp.rewards.shape == (30, 32, 16)
    assert larger.noise.norm <= 1.0
    with pytest.raises(UsageError):
        CATALOGUE["ldp-ucrl-vtr"].example(features="harder")
    with pytest.raises(InvalidParameter, match="more users"):
        CATALOGUE["ldp-ucrl-vtr"].example(features="hard", K=1)


@sweep("calibration", ["exact", "as-published", "experiment"], everyday=(0, 2))
def test_certified_and_audited(calibration: str, nightly: bool) -> None:
    """The premise (3.1) holds here; the sensitivity 1 of the experiments does not, and replay shows it."""
    algorithm, users = CATALOGUE["ldp-ucrl-vtr"].example(features="hard", K=4, calibration=calibration)
    proof = account(run(algorithm, users, seed=0).ledger, algorithm.claim).verdict
    found = replay(algorithm, algorithm.worst_pairs(), claim=algorithm.claim, replays=2 if nightly else 1)
    false = calibration == "experiment"
    assert proof is (Proof.NOT_PROVED if false else Proof.PROVED)
    assert found.verdict is (Experiment.REFUTED if false else Experiment.NOT_REFUTED)
    assert {finding.label for finding in found.findings} == ({"Lambda", "u"} if false else set())
