"""The pair of trajectories that moves DP-VAPVI's releases most, found by search over the public features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.linear_calibration import GramNoise, LinearCalibration, VectorNoise
from dpaudit.algorithms.trajectories import Trajectory, TrajectoryData
from dpaudit.pairs import Pair

#: The data sets hold each of the two trajectories this often, but for the one that is replaced.
_COPIES = 4

_Matrix = NDArray[np.float64]


def worst_linear_pairs(features: _Matrix, noise: LinearCalibration) -> tuple[Pair, ...]:
    """One pair; two where the data are split, with the replaced trajectory in either half.

    Which state and action each of two trajectories shows at step h is chosen to make the releases of that
    step cost most, all taken together, if both earn all that can be earned from there on. The records need
    not be likely, or possible, under any process: the claim protects them all the same.

    Args:
        features: phi, [S, A, d].
        noise: what the releases are calibrated to.
    """
    if not noise.split:
        one, other = _trajectories(features, noise, (True, True))
        return (_pair(features, one, other, 0, "one trajectory, replaced by the one furthest from it"),)
    main = _trajectories(features, noise, (False, True))
    auxiliary = _trajectories(features, noise, (True, False))
    return (
        _pair(features, *main, 0, "a trajectory of the first half, replaced by the one furthest from it"),
        _pair(
            features,
            *auxiliary,
            2 * _COPIES - 1,
            "a trajectory of the second half, replaced by the one furthest from it",
        ),
    )


def step_costs(
    features: _Matrix, noise: LinearCalibration, h: int, halves: tuple[bool, bool] = (True, True)
) -> _Matrix:
    """What step h costs together, in rho, where one of two trajectories' cells replaces the other.

    Each release costs its squared movement over 2 sigma^2 (Bun and Steinke 2016, Proposition 1.6); the
    rewards and values behind the two cells are the largest possible, the variances 1.

    Args:
        features: phi, [S, A, d].
        noise: what the releases are calibrated to.
        h: the step, counted from 0.
        halves: whether the trajectory counts for the variances, and for the values.

    Returns:
        [S A, S A], for each two cells.
    """
    flat = features.reshape(-1, features.shape[-1])
    inner = flat @ flat.T  # [S A, S A]
    length = np.diag(inner)
    vectors = np.maximum(length[:, None] + length - 2.0 * inner, 0.0)  # |x - y|^2
    matrices = np.maximum(length[:, None] ** 2 + length**2 - 2.0 * inner**2, 0.0)  # |xx' - yy'|^2

    def gram(of: GramNoise) -> _Matrix:
        return matrices / (2.0 * of.mechanism.sigma**2)

    def vector(of: VectorNoise) -> _Matrix:
        # A contribution's bound is R times the largest weight that a feature gets.
        return vectors * (of.bound / noise.norm) ** 2 / (2.0 * of.mechanism.sigma**2)

    step = noise.step(h)
    costs = np.zeros_like(inner)
    if halves[0] and step.variance is not None:
        costs += gram(step.variance.gram)
        costs += vector(step.variance.second_moment) + vector(step.variance.first_moment)
    if halves[1]:
        costs += gram(step.gram) + vector(step.target)
    return costs


def _trajectories(
    features: _Matrix, noise: LinearCalibration, halves: tuple[bool, bool]
) -> tuple[Trajectory, Trajectory]:
    n_actions = features.shape[1]
    cells = np.empty((2, noise.horizon), dtype=np.int64)
    for h in range(noise.horizon):
        costs = step_costs(features, noise, h, halves)
        cells[:, h] = np.unravel_index(int(costs.argmax()), costs.shape)
    states, actions = cells // n_actions, cells % n_actions  # [2, H]
    states = np.concatenate([states, np.zeros((2, 1), dtype=np.int64)], axis=1)  # [2, H+1]
    rewards = np.ones(noise.horizon)
    one, other = (Trajectory(states[i], actions[i], rewards) for i in range(2))
    return one, other


def _pair(features: _Matrix, one: Trajectory, other: Trajectory, unit: int, description: str) -> Pair:
    n_states, n_actions, _ = features.shape
    rows = [one, other] * _COPIES
    states, actions, rewards = (np.stack(column) for column in zip(*rows, strict=True))
    data = TrajectoryData(states, actions, rewards, n_states, n_actions).replace(unit, one)
    return Pair(data, data.replace(unit, other), description, unit=unit)
