"""Least-squares value iteration with optimism for linear processes, and when its policy is updated.

What LSVI-UCB and Private LSVI-UCB share: the whole of Algorithm 1 of Ngo, Vietri and Wu (2022), whose line
numbers are used here, but for the noise. Without noise it is LSVI-UCB (Jin, Yang, Wang and Jordan 2020,
COLT) with rare updates (Wang, Zhou and Gu 2021, NeurIPS).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.environments.online_users import OnlineUsers
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.optimism import best_actions, cumulative_regret, require_users, solve_noisy
from dpaudit.curator.views import UserViews
from dpaudit.errors import BudgetExceeded, InvalidParameter
from dpaudit.mechanisms import Array

#: Where V_h lies: in [0, H - h + 1], in [0, H], or at most H as line 14 prints it, unbounded below.
ValueRange: TypeAlias = Literal["to-go", "horizon", "unclipped"]


def largest_value(values: ValueRange, horizon: int, step: int) -> float:
    """The largest value of V at a step, from 0; 0 after the last."""
    left = horizon - step
    return float(left if values == "to-go" or left == 0 else horizon)


class Seen(NamedTuple):
    """What one user sees: what is on the billboard when their turn comes, and their own actions."""

    updates: int  # how many updates were made before
    policy: NDArray[np.int64]  # [H, S] int, one array for all users between two updates
    actions: NDArray[np.int64]  # [H] int, what the policy says in the user's own states


@dataclass(frozen=True, eq=False)
class LinearModel:
    """What is public about a linear process: no kernel and no rewards."""

    features: Array  # phi, [S, A, d]
    horizon: int  # H
    values: ValueRange = "to-go"  # where V_h lies

    def __post_init__(self) -> None:
        public.set_read_only(self, features=public.feature_table(self.features, "[S, A, d]"))
        public.public_size(self.horizon, "horizon")
        public.require_word(self.values, "values", get_args(ValueRange))

    @property
    def dimension(self) -> int:
        """The number of features d."""
        return int(self.features.shape[2])

    @property
    def norm(self) -> float:
        """The largest norm of a feature."""
        return float(np.linalg.norm(self.features, axis=2).max())

    def plan(self, grams: Array, bonus: float, target: Callable[[int, Array], Array]) -> NDArray[np.int64]:
        """Lines 9 to 16: the greedy policy [H, S] of optimistic regressions, the last step first.

        Gram matrices are [H, d, d], the bonus is beta; `target` gives y_h [d] from the step and V_{h+1} [S].
        """
        n_states, n_actions, dimension = self.features.shape
        rows = self.features.reshape(-1, dimension)  # [S A, d]
        policy = np.empty((self.horizon, n_states), dtype=np.int64)
        values = np.zeros(n_states)
        for h in reversed(range(self.horizon)):
            solved = solve_noisy(grams[h], np.column_stack([target(h, values), rows.T]))  # [d, 1 + S A]
            variances = (rows.T * solved[:, 1:]).sum(axis=0)
            optimistic = rows @ solved[:, 0] + bonus * np.sqrt(np.maximum(variances, 0.0))
            most, clip = largest_value(self.values, self.horizon, h), self.values != "unclipped"
            policy[h], values = best_actions(optimistic.reshape(n_states, n_actions), most, clip_below=clip)
        policy.setflags(write=False)
        return policy


#: When the policy is updated: before user k (from 1), given the number of updates and log det of every
#: step's matrix has grown so much since the last one, [H].
UpdateTimes: TypeAlias = Callable[[int, int, Array], bool]


def doubling(factor: float = 2.0, most: int | None = None) -> UpdateTimes:
    """Line 8: an update where a determinant has grown by a factor C, as long as there are updates left."""

    def due(_k: int, made: int, growth: Array) -> bool:
        return (most is None or made < most) and bool(growth.max() >= math.log(factor))

    return due


def fixed_times(users: int, most: int) -> UpdateTimes:
    """Updates after each of ``most`` + 1 batches of users but the last, whatever is seen."""
    if public.public_size(most, "updates") >= public.public_size(users, "users"):
        what = f"{most} updates for {users} users"
        why = "an update follows a batch of users and serves another"
        raise InvalidParameter(what, where="updates", why=why, remedy="give fewer updates than users")
    return lambda k, made, _: made < most and k == 1 + math.ceil((made + 1) * users / (most + 1))


def learn(
    users: OnlineUsers,
    model: LinearModel,
    *,
    ridge: float,
    bonus: float,
    updates: UpdateTimes,
    summed: Callable[[Array], Array],
    released: Callable[[int, Array], Array],
) -> UserViews:
    """Algorithm 1, a `Seen` for each user; the caller decides how sums and targets are released.

    Before the first update the policy is that of line 14 on no data: w = 0. The bonus is beta; the ridge is
    lambda, and matrices begin at 2 lambda I. `summed` makes of a user's outer products phi phi', [H, d, d],
    the sum over all so far, or a noisy one; `released` makes of a step and y_h the same y_h, or a noisy one;
    a budget that it exceeds ends all updates.
    """
    require_users(users, (model.horizon, *model.features.shape[:2]))
    # What the regressions need of all users so far, in tables: their number never enters a size.
    n_states, n_actions, dimension = model.features.shape
    rows, steps = model.features.reshape(-1, dimension), np.arange(model.horizon)
    counts = np.zeros((model.horizon, n_states, n_actions, n_states))
    earned = np.zeros((model.horizon, n_states, n_actions))

    def target(step: int, values: Array) -> Array:
        """Line 10: the sum of phi (r + V_{h+1}(x')) over all users so far, [d], or a noisy one."""
        return released(step, (earned[step] + counts[step] @ values).ravel() @ rows)

    shift = 2.0 * ridge * np.eye(model.dimension)
    grams = np.tile(shift, (model.horizon, 1, 1))  # line 4
    policy = model.plan(grams, bonus, lambda *_: np.zeros(model.dimension))
    volumes = reference = _log_volumes(grams)
    made, ended = 0, False
    seen = []
    for k, user in enumerate(users, start=1):
        if not ended and updates(k, made, volumes - reference):  # line 8
            try:
                policy = model.plan(grams, bonus, target)
            except BudgetExceeded:
                ended = True
            else:
                made += 1
                reference = np.where(np.isfinite(volumes), volumes, reference)
        # Lines 18 to 24.
        advice = policy.tolist()
        episode = user.episode(lambda step, state, advice=advice: advice[step][state])  # type: ignore[misc]
        states, actions, rewards = episode
        counts[steps, states[:-1], actions, states[1:]] += 1.0
        earned[steps, states[:-1], actions] += rewards
        vectors = model.features[states[:-1], actions]  # [H, d]
        grams = summed(vectors[:, :, None] * vectors[:, None, :]) + shift
        volumes = _log_volumes(grams)
        seen.append(Seen(made, policy, actions))
    return UserViews(tuple(seen))


def lsvi_ucb(
    users: OnlineUsers, model: LinearModel, *, ridge: float, bonus: float, updates: UpdateTimes | None = None
) -> UserViews:
    """LSVI-UCB on a sequence of users; not private.

    Lambda > 0 is the ridge; updates come where a determinant has doubled, unless other times are given.
    """
    total = np.zeros((model.horizon, model.dimension, model.dimension))

    def summed(products: Array) -> Array:
        nonlocal total
        total = total + products
        return total

    public.require_positive(ridge, "ridge")
    stated: dict[str, Any] = {"ridge": ridge, "bonus": bonus, "updates": updates or doubling()}
    return learn(users, model, **stated, summed=summed, released=lambda _, target: target)


def views_regret(mdp: TabularMDP, views: UserViews) -> Array:
    """The sum over the first k users of v* - v^policy from the initial distribution, [K], exact."""
    return cumulative_regret(mdp, np.stack([view.policy for view in views.views]))


def _log_volumes(grams: Array) -> Array:
    """log det of each matrix, [H]; of one that noise left no volume, minus infinity."""
    signs, logs = np.linalg.slogdet(grams)
    return np.where((signs > 0.0) & np.isfinite(logs), logs, -math.inf)
