"""PEVI and VAPVI: pessimistic value iteration with linear features. Not private.

PEVI is Algorithm 2 of Jin, Yang and Wang (2021, ICML). VAPVI, the variance-aware one (Yin, Duan, Wang and
Wang 2022, ICLR), is what DP-VAPVI (Algorithm 2 of Qiao and Wang 2023) becomes with no noise at all. It is
computed here from the records themselves, without a curator, so that the two can be compared.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.papers.qiao_wang_2023.planner import Policy, require_sizes
from dpaudit.algorithms.public_parameters import Array, require_nonnegative, require_positive
from dpaudit.errors import DataError


@dataclass(frozen=True)
class LinearConstants:
    """What the paper leaves open: "a universal constant C", D "up to constants". Privacy needs none of it."""

    bonus: float = 0.1  # C, of C sqrt(d) times the elliptical uncertainty; published without a value
    # multiplies D of the term D/K. With 1 the penalty exceeds all that can be earned, and nothing is learnt,
    # until K is far beyond the paper's own experiment (see docs/papers/vapvi.md); 0 loses the theorem's bound
    # on suboptimality but not its privacy.
    lower_order: float = 0.0
    # kappa, the least eigenvalue of the expected feature covariance, as far as publicly known; in D only
    coverage: float = 0.1
    ridge: float = 1.0  # lambda
    # multiplies L and E, what is added to the Gram matrices' diagonals and to D on account of the noise. The
    # paper leaves c1 and c2 of E open: 1 stands for c1 = c2 = 1, more for a larger c1 or a smaller c2; 0 is
    # right without noise
    noise_shift: float = 1.0

    def __post_init__(self) -> None:
        for name in ("bonus", "lower_order", "noise_shift"):
            require_nonnegative(getattr(self, name), name)
        for name in ("coverage", "ridge"):
            require_positive(getattr(self, name), name)

    def offset(self, horizon: int, dimension: int, noise: float = 0.0, shift: float = 0.0) -> float:
        """D: H^2 L/kappa + H^4 E sqrt(d)/kappa^(3/2) + H^3 sqrt(d), times `lower_order` (appendix A).

        The noise L is the likely largest norm of a regression target's noise over H, the shift E twice the
        likely largest eigenvalue of a Gram matrix's noise; both are 0 without noise.
        """
        kappa, root = self.coverage, math.sqrt(dimension)
        first = horizon**2 * noise / kappa + horizon**4 * shift * root / math.pow(kappa, 1.5)
        return self.lower_order * (first + horizon**3 * root)


def vapvi(
    data: TrajectoryData, features: Array, *, split: bool = False, constants: LinearConstants | None = None
) -> Policy:
    """VAPVI on the records themselves: K trajectories, or 2 K where they are split.

    A split estimates variances on the second half and values on the first, as the analysis does; else both
    use all records, as in the experiments. Raises `DataError` for data of other sizes than the feature map
    [S, A, d], or too few to split.
    """
    require_sizes(data, (data.horizon, *features.shape[:2]))
    constants = constants or LinearConstants()
    main, auxiliary = halves(data) if split else (data, data)
    ridge = constants.ridge * np.eye(features.shape[-1])

    def variance(h: int, next_values: Array) -> Array:
        phi = features[auxiliary.states[:, h], auxiliary.actions[:, h]]  # [K, d]
        reached = next_values[auxiliary.states[:, h + 1]]  # [K]
        gram = phi.T @ phi + ridge
        beta, theta = solved(gram, phi.T @ reached**2), solved(gram, phi.T @ reached)
        return conditional_variance(features, beta, theta, data.horizon - h)

    constant = constants.offset(data.horizon, features.shape[-1]) / len(main)
    bonus = constants.bonus * math.sqrt(features.shape[-1])
    return _weighted_value_iteration(main, features, variance, bonus, constant, constants.ridge)


def pevi(data: TrajectoryData, features: Array, *, bonus: float, ridge: float = 1.0) -> Policy:
    """Ridge regression of r + V on the features [S, A, d], less ``bonus`` times the elliptical uncertainty.

    The analysis has a bonus of c d H sqrt(log), the experiments of the literature far less. Raises
    `DataError` (for the data's holder) for data of other sizes than the feature map.
    """
    require_sizes(data, (data.horizon, *features.shape[:2]))
    variance = np.ones(features.shape[:2])
    return _weighted_value_iteration(data, features, lambda *_: variance, bonus, 0.0, ridge)


def solved(gram: Array, right: Array) -> Array:
    """gram^-1 right, of the shape of ``right``: [d] or [d, n]."""
    return np.asarray(np.linalg.solve(gram, right), dtype=np.float64)


def theoretical_bonus(dimension: int, horizon: int, scale: float) -> float:
    """Beta = scale d H, the analysis' order without its logarithm (Jin, Yang and Wang 2021, Theorem 4.4)."""
    return scale * dimension * horizon


def _weighted_value_iteration(
    data: TrajectoryData,
    features: Array,
    variance: Callable[[int, Array], Array],
    bonus: float,
    offset: float,
    ridge: float,
) -> Policy:
    """Value iteration by ridge regression, weighted by one over sigma_h^2 [S, A], from h and V_{h+1}."""
    n_states, _, dimension = features.shape
    horizon = data.horizon
    actions = np.zeros((horizon, n_states), dtype=np.int64)
    values = np.zeros((horizon + 1, n_states))
    for h in reversed(range(horizon)):
        cells = data.states[:, h], data.actions[:, h]
        phi = features[cells]  # [K, d]
        weighted = phi / variance(h, values[h + 1])[cells][:, None]  # [K, d]
        gram = weighted.T @ phi + ridge * np.eye(dimension)
        target = data.rewards[:, h] + values[h + 1, data.states[:, h + 1]]  # [K]
        weights = solved(gram, weighted.T @ target)  # [d]
        action_values = pessimistic_action_values(features, weights, gram, bonus, offset, horizon - h)
        actions[h], values[h] = action_values.argmax(axis=1), action_values.max(axis=1)
    return Policy(actions, values)


def conditional_variance(features: Array, beta: Array, theta: Array, cap: float) -> Array:
    """Lines 7 and 8: max(1, <phi, beta> in [0, cap^2] - (<phi, theta> in [0, cap])^2), [...].

    Features phi are [..., d], beta [d] is of the second moment, theta [d] of the first, and cap the most that
    the remaining steps can earn. Where overflow makes an inner product NaN the variance is 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        second = np.clip(features @ beta, 0.0, cap**2)
        first = np.clip(features @ theta, 0.0, cap)
        return np.fmax(1.0, second - first**2)  # the other one, for a NaN


def halves(data: TrajectoryData) -> tuple[TrajectoryData, TrajectoryData]:
    """D and D': the first half of the records and the second, by position alone; an odd last one is in D'."""
    middle = len(data) // 2
    if middle == 0:
        raise DataError("one trajectory", where="trajectories", remedy="give two or more, or do not split")

    def part(rows: slice) -> TrajectoryData:
        sizes = data.n_states, data.n_actions
        return TrajectoryData(data.states[rows], data.actions[rows], data.rewards[rows], *sizes)

    return part(slice(None, middle)), part(slice(middle, None))


def pessimistic_action_values(
    features: Array, weights: Array, gram: Array, bonus: float, offset: float, cap: float
) -> Array:
    """<phi, w> - bonus sqrt(phi' gram^-1 phi) - offset, clipped to [0, cap], at every (s, a): [S, A].

    Features phi are [S, A, d], weights w [d], the Gram matrix [d, d] is positive definite, and cap the most
    that the remaining steps can earn. Where overflow makes the estimate NaN the value is 0.
    """
    flat = features.reshape(-1, features.shape[-1])  # [S A, d]
    with np.errstate(over="ignore", invalid="ignore"):
        squared = (flat * solved(gram, flat.T).T).sum(axis=1)  # [S A]
        estimate = flat @ weights - bonus * np.sqrt(np.maximum(squared, 0.0)) - offset
    return np.asarray(np.fmax(np.minimum(estimate, cap), 0.0).reshape(features.shape[:2]))
