"""The pair of trajectories that moves DP-VAPVI's releases most, found by search over the public features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.linear_calibration import LinearCalibration
from dpaudit.algorithms.linear_sensitivity import Furthest, furthest
from dpaudit.algorithms.trajectories import Trajectory, TrajectoryData
from dpaudit.pairs import Pair

#: The data sets hold each of the two trajectories this often, but for the one that is replaced. The more
#: there are, the closer live runs come to the values with which the two are furthest apart; the published
#: noise lets nothing be learnt from as many as a replay has time for.
_COPIES = {"sound": 500, "as-published": 4}

_Matrix = NDArray[np.float64]


def worst_linear_pairs(features: _Matrix, noise: LinearCalibration) -> tuple[Pair, ...]:
    """One pair; two where the data are split, with the replaced trajectory in either half.

    Which state and action each of two trajectories shows at step h is chosen to make the releases of that
    step cost most, all taken together, if both earn all that can be earned from there on, or one of them
    nothing. The records need not be likely, or possible, under any process: the claim protects them all the
    same.

    Args:
        features: phi, [S, A, d].
        noise: what the releases are calibrated to.
    """
    last = 2 * _COPIES[noise.name] - 1
    if not noise.split:
        return (_pair(features, noise, (True, True), 0, "a trajectory"),)
    return (
        _pair(features, noise, (False, True), 0, "a trajectory of the first half"),
        _pair(features, noise, (True, False), last, "a trajectory of the second half"),
    )


def costliest(
    features: _Matrix, noise: LinearCalibration, h: int, halves: tuple[bool, bool] = (True, True)
) -> Furthest:
    """The two cells whose exchange costs most at step h, all its releases together, and that cost in rho.

    Each release costs its squared movement over 2 sigma^2 (Bun and Steinke 2016, Proposition 1.6); the
    rewards and values behind the two cells are the largest possible, the variances 1. With sound noise the
    other one earns nothing where that is more.

    Args:
        features: phi, [S, A, d].
        noise: what the releases are calibrated to.
        h: the step, counted from 0.
        halves: whether the trajectory counts for the variances, and for the values.
    """
    step = noise.step(h)
    gram = vectors = 0.0
    for counts, of in zip(halves, (step.variance, step.value), strict=True):
        if counts and of is not None:
            gram += 0.5 / of.gram_sigma**2
            vectors += sum(
                0.5 * (w / sigma) ** 2 for w, sigma in zip(of.largest, of.vector_sigmas, strict=True)
            )
    flat = features.reshape(-1, features.shape[-1])
    return furthest(flat, gram, vectors, alone=noise.name == "sound")


def _trajectories(
    features: _Matrix, noise: LinearCalibration, halves: tuple[bool, bool]
) -> tuple[Trajectory, Trajectory]:
    # With sound noise matrices and vectors are weighed alike at every step.
    searched = range(noise.horizon) if noise.name == "as-published" else range(1)
    found = [costliest(features, noise, h, halves) for h in searched]
    ends = [(pair.one, pair.other) for pair in found]
    cells = np.array(ends * (noise.horizon // len(ends))).T  # [2, H]
    states, actions = np.divmod(cells, features.shape[1])  # [2, H]
    states = np.concatenate([states, np.zeros((2, 1), dtype=np.int64)], axis=1)  # [2, H+1]
    earned = 1.0, 0.0 if any(pair.alone for pair in found) else 1.0
    one, other = (Trajectory(states[i], actions[i], np.full(noise.horizon, earned[i])) for i in range(2))
    return one, other


def _pair(
    features: _Matrix, noise: LinearCalibration, halves: tuple[bool, bool], unit: int, replaced: str
) -> Pair:
    one, other = _trajectories(features, noise, halves)
    n_states, n_actions, _ = features.shape
    rows = [one, other] * _COPIES[noise.name]
    states, actions, rewards = (np.stack(column) for column in zip(*rows, strict=True))
    data = TrajectoryData(states, actions, rewards, n_states, n_actions).replace(unit, one)
    return Pair(
        data, data.replace(unit, other), f"{replaced}, replaced by the one furthest from it", unit=unit
    )
