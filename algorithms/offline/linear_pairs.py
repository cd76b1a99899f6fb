"""The pair of trajectories that moves DP-VAPVI's releases most, found by search over the public features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.algorithms.offline.linear_calibration import LinearCalibration
from dpaudit.algorithms.offline.linear_sensitivity import Cost, Furthest, furthest
from dpaudit.algorithms.public_parameters import Array
from dpaudit.claims.pairs import Pair

#: The data sets hold each of the two trajectories this often, but for the one that is replaced. The more
#: there are, the closer live runs come to the values with which the two are furthest apart; the published
#: noise is too large for any learning from as many as a replay has time for.
_COPIES = {"sound": 500, "as-published": 4}

#: How many of the states that share a feature are looked at.
_STATES_TRIED = 20


def worst_linear_pairs(features: Array, noise: LinearCalibration) -> tuple[Pair, ...]:
    """One pair; two where the data are split, with the replaced trajectory in either half.

    Which state and action each of two trajectories shows at step h is chosen to make the releases of that
    step cost most, all taken together, if both earn all that can be earned from there on, or one of them
    nothing. The records need not be likely, or possible, under any process: the claim protects them all the
    same.
    """
    last = 2 * _COPIES[noise.name] - 1
    if not noise.split:
        return (_pair(features, noise, (True, True), 0, "a trajectory"),)
    return (
        _pair(features, noise, (False, True), 0, "a trajectory of the first half"),
        _pair(features, noise, (True, False), last, "a trajectory of the second half"),
    )


def costliest(noise: LinearCalibration, h: int, halves: tuple[bool, bool] = (True, True)) -> Furthest:
    """The two features whose exchange costs most at step h, all its releases together, and that cost in rho.

    Each release costs its squared movement over 2 sigma^2 (Bun and Steinke 2016, Proposition 1.6); the
    rewards and values behind the two are the largest possible, the variances 1. With sound noise the other
    one earns nothing, or its variance is the largest, where that is more. Features are counted among
    `noise.kinds`; `halves` says whether the trajectory counts for the variances, and for the values.
    """
    step = noise.step(h)
    costs = [
        Cost(
            0.5 / of.gram_sigma**2,
            sum(0.5 * (w / sigma) ** 2 for w, sigma in zip(of.largest, of.vector_sigmas, strict=True)),
        )
        if counts and of is not None
        else Cost(0.0, 0.0)
        for counts, of in zip(halves, (step.variance, step.value), strict=True)
    ]
    sound = noise.name == "sound"
    return furthest(noise.kinds[0], *costs, least=noise.least_weight(h) if sound else 1.0, alone=sound)


def _cells(features: Array, noise: LinearCalibration, found: Furthest) -> tuple[int, int] | None:
    """A cell for either feature, in states that can have the values it takes; None if there are none.

    Where the other earns nothing, one state can have a value while the other has none; of two features of
    one length either may be the other.
    """
    distinct, kind = noise.kinds
    one, other = (np.flatnonzero(kind == which) for which in (found.one, found.other))
    if not found.alone:
        return _first_cells(noise, found)
    orders = [(one, other)]
    lengths = np.linalg.norm(distinct[[found.one, found.other]], axis=1)
    if lengths[1] >= lengths[0] * (1 - 1e-12):
        orders.append((other, one))
    n_actions = features.shape[1]
    for first, second in orders:
        for i in _one_per_state(first, n_actions):
            for j in _one_per_state(second, n_actions):
                if _worth_more(features[i // n_actions], features[j // n_actions]):
                    return i, j
    return None


def _first_cells(noise: LinearCalibration, found: Furthest) -> tuple[int, int]:
    one, other = (int(np.argmax(noise.kinds[1] == which)) for which in (found.one, found.other))
    return one, other


def _one_per_state(cells: NDArray[np.intp], n_actions: int) -> list[int]:
    _, first = np.unique(cells // n_actions, return_index=True)
    return [int(cell) for cell in cells[first][:_STATES_TRIED]]


def _worth_more(one: Array, other: Array) -> bool:
    """Whether some weights give a feature of one state, [A, d], a value, and none of the other's.

    By Farkas' lemma, unless all features of the one are sums of the other's, times numbers not negative.
    """
    return any(nnls(other.T, x)[1] > 1e-9 * np.linalg.norm(x) for x in one)


def _trajectories(
    features: Array, noise: LinearCalibration, halves: tuple[bool, bool]
) -> tuple[Trajectory, Trajectory]:
    # Sound noise weighs matrices and vectors alike at every step; least weights matter to close features.
    same = noise.name == "sound" and noise.moved[0] >= 1.0
    found = [costliest(noise, h, halves) for h in range(1 if same else noise.horizon)]
    shown = {pair: _cells(features, noise, pair) for pair in set(found) if pair.square > 0.0}
    possible = [cells for pair in reversed(found) if (cells := shown.get(pair)) is not None]
    # Where none is, the values cannot be what the ledger allows for.
    last = possible[0] if possible else _first_cells(noise, found[0])
    ends = []
    for pair in reversed(found):
        last = shown.get(pair) or last  # a step whose own pair cannot be shown takes the next step's
        ends.append(last)
    shown_cells = np.array(ends[::-1] * (noise.horizon // len(found))).T  # [2, H]
    states, actions = np.divmod(shown_cells, features.shape[1])  # [2, H]
    states = np.concatenate([states, np.zeros((2, 1), dtype=np.int64)], axis=1)  # [2, H+1]
    earned = 1.0, 0.0 if any(pair.alone for pair in found) else 1.0
    one, other = (Trajectory(states[i], actions[i], np.full(noise.horizon, earned[i])) for i in range(2))
    return one, other


def _pair(
    features: Array, noise: LinearCalibration, halves: tuple[bool, bool], unit: int, replaced: str
) -> Pair:
    one, other = _trajectories(features, noise, halves)
    n_states, n_actions, _ = features.shape
    rows = [one, other] * _COPIES[noise.name]
    data = TrajectoryData.of(rows, n_states, n_actions).replace(unit, one)
    return Pair(
        data, data.replace(unit, other), f"{replaced}, replaced by the one furthest from it", unit=unit
    )
