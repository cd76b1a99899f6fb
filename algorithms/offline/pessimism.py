"""Pessimistic value iteration on (private) counts: lines 2 to 10 of Algorithm 1 of Qiao and Wang (2023).

It reads counts only, so on released counts it is post-processing and costs no privacy, whatever its
constants. With E = 0 and raw counts it is the non-private APVI (Yin and Wang, 2021) as the paper states it.

Qiao, D. and Wang, Y.-X. (2023). Offline Reinforcement Learning with Differential Privacy. NeurIPS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms.public_parameters import require_failure_probability
from dpaudit.errors import InvalidParameter


@dataclass(frozen=True)
class PenaltyConstants:
    """C1, C2 and C of line 5; the defaults are the published ones.

    Attributes:
        variance: C1, of the Bernstein term.
        privacy: C2, of the term that pays for the noise. The published 16 makes the theorem hold; learning
            from fewer than some 10^5 visits a cell takes a smaller one, which gives up the theorem's promise
            on suboptimality and nothing of its privacy.
        unvisited: C > 1, so that a pair with too few visits is worth nothing.

    Raises:
        InvalidParameter: if one is negative or not finite, or C is not above 1.
    """

    variance: float = math.sqrt(2.0)
    privacy: float = 16.0
    unvisited: float = 2.0

    def __post_init__(self) -> None:
        for name, least in (("variance", 0.0), ("privacy", 0.0), ("unvisited", 1.0)):
            value = getattr(self, name)
            if not (least <= value < math.inf) or (name == "unvisited" and value == 1.0):
                raise InvalidParameter(
                    f"{name} = {value!r}",
                    where="PenaltyConstants",
                    why="a negative penalty is optimism; C H has to exceed any value that can be earned",
                    remedy="give C1 >= 0, C2 >= 0, C > 1",
                )


class PessimisticSolution(NamedTuple):
    """What value iteration found.

    Attributes:
        policy: [H, S] int, the action of each state at each step.
        values: [H+1, S], pessimistic values; the last row is zero.
        action_values: [H, S, A], their penalised, clipped action values.
    """

    policy: NDArray[np.int64]
    values: NDArray[np.float64]
    action_values: NDArray[np.float64]


def transition_estimate(counts_sas: NDArray[np.float64], error_bound: float) -> NDArray[np.float64]:
    """Equation (5): n_sas / n_sa where n_sa > E, the uniform distribution elsewhere.

    Args:
        counts_sas: [..., S], non-negative; n_sa is their sum, so that each row is a distribution.
        error_bound: E >= 0.

    Returns:
        [..., S].
    """
    counts_sa = counts_sas.sum(axis=-1, keepdims=True)  # [..., 1]
    trusted = counts_sa > error_bound
    estimate: NDArray[np.float64] = np.where(
        trusted, counts_sas / np.where(trusted, counts_sa, 1.0), 1.0 / counts_sas.shape[-1]
    )
    return estimate


def bernstein_penalty(
    estimate: NDArray[np.float64],
    counts_sa: NDArray[np.float64],
    next_values: NDArray[np.float64],
    *,
    horizon: int,
    error_bound: float,
    failure_probability: float,
    constants: PenaltyConstants,
) -> NDArray[np.float64]:
    """Line 5 for one step h.

    C1 sqrt(Var_P(V) iota / (n - E)) + C2 S H E iota / n  where n > E, C H elsewhere;
    iota = log(H S A / delta).

    Args:
        estimate: P_h, [S, A, S].
        counts_sa: n_h, [S, A].
        next_values: V_{h+1}, [S].
        horizon: H.
        error_bound: E >= 0.
        failure_probability: delta.
        constants: C1, C2, C.

    Returns:
        [S, A], non-negative; may be infinite where n is barely above E.
    """
    n_states, n_actions = counts_sa.shape
    iota = math.log(horizon * n_states * n_actions / failure_probability)
    mean = estimate @ next_values  # [S, A]
    variance = (estimate * (next_values - mean[..., None]) ** 2).sum(axis=-1)  # [S, A]
    trusted = counts_sa > error_bound
    visits = np.where(trusted, counts_sa, error_bound + 1.0)  # a stand-in, unused, that divides safely
    with np.errstate(over="ignore"):
        spread = constants.variance * np.sqrt(variance * iota / (visits - error_bound))
    noise = constants.privacy * n_states * horizon * error_bound * iota / visits
    return np.where(trusted, spread + noise, constants.unvisited * horizon)


def pessimistic_value_iteration(
    counts_sas: ArrayLike,
    rewards: ArrayLike,
    *,
    error_bound: float,
    failure_probability: float = 0.1,
    constants: PenaltyConstants | None = None,
) -> PessimisticSolution:
    """Lines 2 to 10 of Algorithm 1.

    Args:
        counts_sas: [H, S, A, S], non-negative counts, private or raw; those of (h, s, a) are their sums.
        rewards: [H, S, A] in [0, 1], public.
        error_bound: E >= 0, finite; 0 for raw counts.
        failure_probability: delta in (0, 1), of the utility theorem (not of the privacy claim).
        constants: C1, C2, C; the published ones by default.

    Returns:
        The policy, among equally good actions the lowest, with its pessimistic values.

    Raises:
        InvalidParameter: for shapes that do not fit or numbers out of range.
    """
    counts = np.asarray(counts_sas, dtype=np.float64)
    reward = np.asarray(rewards, dtype=np.float64)
    constants = PenaltyConstants() if constants is None else constants
    _check(counts, reward, error_bound, failure_probability)
    horizon, n_states, n_actions = reward.shape

    # Line 2. V_{H+1} = 0.
    counts_sa = counts.sum(axis=3)  # [H, S, A]
    estimate = transition_estimate(counts, error_bound)  # [H, S, A, S]
    values = np.zeros((horizon + 1, n_states))
    action_values = np.zeros((horizon, n_states, n_actions))
    policy = np.zeros((horizon, n_states), dtype=np.int64)
    for h in reversed(range(horizon)):  # Line 3. h counts from 0 here, from 1 in the paper.
        expected = reward[h] + estimate[h] @ values[h + 1]  # Line 4. [S, A]
        penalty = bernstein_penalty(  # Line 5. [S, A]
            estimate[h],
            counts_sa[h],
            values[h + 1],
            horizon=horizon,
            error_bound=error_bound,
            failure_probability=failure_probability,
            constants=constants,
        )
        penalised = expected - penalty  # Line 6.
        action_values[h] = np.clip(penalised, 0.0, horizon - h)  # Line 7.
        policy[h] = action_values[h].argmax(axis=1)  # Line 8; argmax takes the first of equals.
        values[h] = action_values[h].max(axis=1)
    return PessimisticSolution(policy, values, action_values)  # Line 10.


def _check(
    counts: NDArray[np.float64], reward: NDArray[np.float64], error_bound: float, failure_probability: float
) -> None:
    if reward.ndim != 3 or reward.size == 0 or counts.shape != (*reward.shape, reward.shape[1]):
        raise InvalidParameter(
            f"counts {counts.shape}, rewards {reward.shape}",
            where="pessimistic_value_iteration",
            remedy="give [H, S, A, S] and [H, S, A]",
        )
    if not (np.isfinite(counts).all() and (counts >= 0.0).all()):
        raise InvalidParameter(
            "a count that is negative or not finite",
            where="counts_sas",
            why="the estimate would be no distribution",
            remedy="make noisy counts consistent with private_counts first",
        )
    if not ((reward >= 0.0) & (reward <= 1.0)).all():
        raise InvalidParameter("a reward outside [0, 1]", where="rewards", remedy="rescale by public bounds")
    if not 0.0 <= error_bound < math.inf:
        raise InvalidParameter(
            f"error_bound = {error_bound!r}", where="error_bound", remedy="give 0 <= E < inf"
        )
    require_failure_probability(failure_probability)
