import math
from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.linear_mdp import (
    appendix_f_behaviour,
    appendix_f_features,
    appendix_f_mdp,
    one_hot_features,
)
from dpaudit.algorithms.environments.tabular import random_mdp, uniform_policy
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI
from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI, floored
from dpaudit.algorithms.papers.qiao_wang_2023.vapvi import LinearConstants, conditional_variance, pevi, vapvi
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.noise import NoNoise
from dpaudit.curator.running import run
from dpaudit.errors import DataError, InvalidParameter
from tests.sweeps import sweep


def episodes(n: int, horizon: int = 4, seed: int = 0) -> TrajectoryData:
    mdp = appendix_f_mdp(1, horizon=horizon)
    return mdp.sample_trajectories(n, appendix_f_behaviour(horizon), np.random.default_rng(seed))


def by_hand(
    main: TrajectoryData, auxiliary: TrajectoryData, phi: np.ndarray, constants: LinearConstants
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2 without noise in plain loops with one-based h, inverses and all, written from the page."""
    (n_states, n_actions, d), H = phi.shape, main.horizon
    V = {H + 1: [0.0] * n_states}
    pi = np.zeros((H, n_states), dtype=int)
    for h in range(H, 0, -1):
        Sigma, second, first = constants.ridge * np.eye(d), np.zeros(d), np.zeros(d)
        for states, actions, _ in auxiliary:
            x, v = phi[states[h - 1], actions[h - 1]], V[h + 1][states[h]]
            Sigma, second, first = Sigma + np.outer(x, x), second + x * v * v, first + x * v
        beta, theta = np.linalg.inv(Sigma) @ second, np.linalg.inv(Sigma) @ first

        def sigma_squared(s: int, a: int) -> float:
            square = min(max(phi[s, a] @ beta, 0.0), (H - h + 1.0) ** 2)  # noqa: B023  (called at once)
            mean = min(max(phi[s, a] @ theta, 0.0), H - h + 1.0)  # noqa: B023
            return max(1.0, square - mean**2)

        Lambda, target = constants.ridge * np.eye(d), np.zeros(d)
        for states, actions, rewards in main:
            s, a = states[h - 1], actions[h - 1]
            x, weight = phi[s, a], 1.0 / sigma_squared(s, a)
            Lambda = Lambda + weight * np.outer(x, x)
            target = target + weight * x * (rewards[h - 1] + V[h + 1][states[h]])
        w = np.linalg.inv(Lambda) @ target
        V[h] = []
        for s in range(n_states):
            Q = []
            for a in range(n_actions):
                x = phi[s, a]
                bonus = constants.bonus * math.sqrt(d) * math.sqrt(x @ np.linalg.inv(Lambda) @ x)
                D = constants.lower_order * H**3 * math.sqrt(d)
                Q.append(max(0.0, min(x @ w - bonus - D / len(main), H - h + 1.0)))
            pi[h - 1, s] = Q.index(max(Q))
            V[h].append(max(Q))
    return pi, np.array([V[h] for h in range(1, H + 2)])


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("lower_order", [0.0, 0.01])
def test_vapvi_line_by_line_against_plain_loops(split: bool, lower_order: float) -> None:
    data, phi = episodes(61), appendix_f_features(normalised=False)
    constants = LinearConstants(bonus=0.3, lower_order=lower_order, ridge=0.5)
    main, auxiliary = data, data
    if split:
        parts = [
            TrajectoryData(data.states[p], data.actions[p], data.rewards[p], 2, 100)
            for p in (slice(0, 30), slice(30, 61))
        ]
        main, auxiliary = parts
    actions, values = by_hand(main, auxiliary, phi, constants)
    found = vapvi(data, phi, split=split, constants=constants)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-9)
    assert np.array_equal(found.actions, actions)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("calibration", ["sound", "as-published"])
@pytest.mark.parametrize("normalised", [False, True])
@sweep("lower_order", [0.0, 1e-4], everyday=(-1,))
def test_without_noise_dp_vapvi_is_vapvi(
    split: bool, calibration: str, normalised: bool, lower_order: float
) -> None:
    data, phi = episodes(301, horizon=20), appendix_f_features(normalised=normalised)
    constants = LinearConstants(noise_shift=0.0, lower_order=lower_order)
    algorithm = DPVAPVI(phi, 20, calibration=calibration, split=split, constants=constants)
    private, plain = (
        run(algorithm, data, noise=NoNoise()).output,
        vapvi(data, phi, split=split, constants=constants),
    )
    # The curator rounds each trajectory's entries towards zero, by less than 2^-39 of their bound.
    np.testing.assert_allclose(private.values, plain.values, rtol=0, atol=2e-9)
    assert np.array_equal(private.actions, plain.actions)


def test_pevi_is_ridge_regression_less_the_uncertainty_at_each_state_and_action() -> None:
    data, phi = episodes(200, horizon=6), appendix_f_features()
    found = pevi(data, phi, bonus=0.2 * math.sqrt(10), ridge=0.7)
    values = np.zeros((7, 2))
    for h in reversed(range(6)):
        rows = np.stack([phi[s, a] for s, a in zip(data.states[:, h], data.actions[:, h], strict=True)])
        targets = data.rewards[:, h] + values[h + 1][data.states[:, h + 1]]
        inverse = np.linalg.inv(rows.T @ rows + 0.7 * np.eye(10))
        weights = inverse @ rows.T @ targets
        below = [[x @ weights - 0.2 * math.sqrt(10 * (x @ inverse @ x)) for x in actions] for actions in phi]
        values[h] = np.clip(below, 0.0, 6 - h).max(axis=1)
        assert np.array_equal(found.actions[h], np.clip(below, 0.0, 6 - h).argmax(axis=1))
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_with_much_data_the_optimum_of_a_tiny_process_is_found(seed: int) -> None:
    mdp = random_mdp(3, 2, 3, seed=seed)
    data = mdp.sample_trajectories(60_000, uniform_policy(mdp), np.random.default_rng(seed))
    phi = one_hot_features(3, 2)
    none = LinearConstants(bonus=0.0)
    for policy in (
        vapvi(data, phi, constants=none),
        pevi(data, phi, bonus=0.0),
        run(DPVAPVI(phi, 3, ZCDP(rho=50.0), constants=none), data, seed=seed).output,
    ):
        assert mdp.suboptimality(policy.actions) < 0.02
        np.testing.assert_allclose(policy.values, mdp.optimal_values(), atol=0.06)


def test_the_floor_is_the_nearest_matrix_that_has_none_below_it() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(5, 5))
    matrix = matrix + matrix.T
    raised = floored(matrix, 1.0)
    assert np.linalg.eigvalsh(raised)[0] >= 1.0 - 1e-12
    distance = np.linalg.norm(raised - matrix)
    for _ in range(200):  # no other candidate is nearer
        root = rng.normal(size=(5, 5))
        candidate = raised + rng.uniform(0, 0.2) * (root @ root.T + np.eye(5) - raised)
        assert np.linalg.norm(candidate - matrix) >= distance - 1e-12
    assert floored(raised + np.eye(5), 1.0) is not None
    assert np.array_equal(floored(3.0 * np.eye(2), 1.0), 3.0 * np.eye(2))


def test_however_large_the_noise_the_output_is_finite_and_within_its_range() -> None:
    phi = appendix_f_features()
    for split in (False, True):
        algorithm = DPVAPVI(phi, 4, ZCDP(rho=1e-6), split=split, constants=LinearConstants(noise_shift=0.0))
        output = run(algorithm, episodes(10), seed=1).output
        assert np.isfinite(output.values).all()
        assert (output.values >= 0).all()
        assert (output.values <= np.arange(4, -1, -1)[:, None]).all()


def test_a_run_of_the_papers_size_is_computed_in_arrays(python_calls: Any) -> None:
    algorithm = DPVAPVI(appendix_f_features(), 20)
    data = {n: episodes(n, horizon=20) for n in (10, 1000)}
    few, many = (python_calls(lambda n=n: run(algorithm, data[n], seed=0)) for n in data)
    assert many < 1.5 * few


def test_data_of_other_sizes_are_refused() -> None:
    algorithm = DPVAPVI(appendix_f_features(), 5)
    with pytest.raises(DataError):
        run(algorithm, episodes(10, horizon=4), seed=0)
    with pytest.raises(DataError):
        run(DPVAPVI(appendix_f_features(), 4, split=True), episodes(1), seed=0)


@pytest.mark.parametrize(
    "fields", [{"bonus": -1.0}, {"ridge": 0.0}, {"coverage": math.nan}, {"lower_order": math.inf}]
)
def test_constants_out_of_range_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        LinearConstants(**fields)


@sweep("length", [1e8, 1e9, 1e12], everyday=(0, -1))
@pytest.mark.parametrize("calibration", ["sound", "as-published"])
def test_no_noise_makes_a_matrix_that_has_no_inverse(length: float, calibration: str) -> None:
    # Features of which the noise is 10^16 times the ridge and more.
    phi = length * np.random.default_rng(3).random((2, 3, 3))
    algorithm = DPVAPVI(phi, 5, calibration=calibration, constants=LinearConstants(noise_shift=0.0))  # type: ignore[arg-type]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        states, actions = rng.integers(0, 2, (20, 6)), rng.integers(0, 3, (20, 5))
        data = TrajectoryData(states, actions, rng.random((20, 5)), 2, 3)
        assert np.isfinite(run(algorithm, data, seed=seed).output.values).all()


def test_what_overflows_is_refused_for_no_data() -> None:
    # Regression weights of 10^300 and more: infinity times a feature of 0 is no number.
    phi = np.array([[[0.0]], [[1e10]]])
    constants = LinearConstants(ridge=1e-300, noise_shift=0.0)
    algorithm = DPVAPVI(phi, 2, constants=constants)
    actions, rewards = np.zeros((4, 2), int), np.zeros((4, 2))
    for states in (np.ones((4, 3), int), np.eye(4, 3, dtype=int)):
        data = TrajectoryData(states, actions, rewards, 2, 1)
        for seed in range(200):
            output = run(algorithm, data, seed=seed).output
            assert (output.values >= 0.0).all()
    assert conditional_variance(phi, np.array([np.inf]), np.zeros(1), 2.0).tolist() == [[1.0], [4.0]]


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, 1000.0, math.nan])
def test_a_failure_probability_outside_0_to_1_is_refused(probability: float) -> None:
    with pytest.raises(InvalidParameter, match="failure_probability"):
        DPVAPVI(appendix_f_features(), 4, failure_probability=probability)
    with pytest.raises(InvalidParameter, match="failure_probability"):
        DPAPVI(np.zeros((2, 2, 2)), failure_probability=probability)


def test_a_split_is_true_or_false() -> None:
    with pytest.raises(InvalidParameter, match="split"):
        DPVAPVI(appendix_f_features(), 4, split="yes")  # type: ignore[arg-type]


def test_parameters_out_of_range_are_refused() -> None:
    phi = appendix_f_features()
    with pytest.raises(InvalidParameter):
        DPVAPVI(phi, 4, ZCDP(rho=0.0))
    with pytest.raises(InvalidParameter):
        DPVAPVI(phi, 0)
    with pytest.raises(InvalidParameter):
        DPVAPVI(phi, 4, calibration="other")  # type: ignore[arg-type]
