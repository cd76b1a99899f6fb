"""What the online algorithms have in common: optimism about noisy regressions, and regret."""

import sys

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.online_users import OnlineUsers
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.public_parameters import Array
from dpaudit.claims.claims import Premise
from dpaudit.errors import DataError


def solve_noisy(gram: Array, columns: Array) -> Array:
    """gram^-1 columns, [d, n], for a noisy release of the matrix; NaN where it is singular."""
    try:
        return np.linalg.solve(gram, columns).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return np.full(columns.shape, np.nan)


def best_actions(
    optimistic: Array, most: float, *, clip_below: bool = True
) -> tuple[NDArray[np.int64], Array]:
    """The best actions by optimistic values [S, A] clipped to [0, most], and these values; both [S]."""
    # Where outputs are too large to compute with, nothing is known: the value is the largest possible.
    capped = np.fmin(optimistic, most)
    if clip_below:
        capped = np.maximum(capped, 0.0)
    return capped.argmax(axis=1), capped.max(axis=1)


def least_value(*, clipped: bool, source: str) -> Premise:
    """The premise that values are at least 0, which a printed algorithm may not ensure."""
    left = 0.0 if clipped else -sys.float_info.max  # any number: the largest double stands for it
    return Premise(name="least value V", left=left, relation=">=", right=0.0, source=source)


def require_users(users: OnlineUsers, sizes: tuple[int, ...]) -> None:
    """Raise `DataError` (for the data's holder) unless users answer in a process of these H, S and A."""
    if users.mdp.rewards.shape != sizes:
        remedy = f"give OnlineUsers with H, S, A = {sizes}"
        raise DataError("users of a process of other sizes", where="users", remedy=remedy)


def cumulative_regret(mdp: TabularMDP, policies: NDArray[np.int64]) -> Array:
    """The sum over the first k users of v* - v^policy from the initial distribution, [K], exact."""
    keys = [policy.tobytes() for policy in policies]
    gaps = {key: mdp.suboptimality(policy) for key, policy in dict(zip(keys, policies, strict=True)).items()}
    return np.array([gaps[key] for key in keys]).cumsum()


def regret_utility(mdp: TabularMDP, policies: NDArray[np.int64]) -> dict[str, float]:
    """Regret of policies [K, H, S], K at least 1, against the exact optimum."""
    regret = cumulative_regret(mdp, policies)
    tenth = max(1, len(regret) // 10)
    before = regret[-1 - tenth] if len(regret) > tenth else 0.0
    return {
        "regret": float(regret[-1]),
        "regret per user, last tenth": float(regret[-1] - before) / tenth,
        "optimal value": mdp.optimum,
    }
