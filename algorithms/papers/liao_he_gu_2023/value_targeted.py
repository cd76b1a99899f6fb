"""Upper confidence reinforcement learning with value-targeted regression, for linear mixture processes.

What UCRL-VTR and LDP-UCRL-VTR share: optimistic planning on a regression (lines 5 to 8 of Algorithm 1), and
UCRL-VTR itself (Jia, Yang, Szepesvari and Wang 2020, L4DC), which is not private.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.linear_mixture import triple_features
from dpaudit.algorithms.environments.online_users import OnlineUsers, User
from dpaudit.algorithms.optimism import best_actions, require_users
from dpaudit.algorithms.public_parameters import Array, require_positive, set_read_only, unit_rewards
from dpaudit.errors import InvalidParameter


class UserPlan(NamedTuple):
    """The policy for one user, and its values."""

    actions: NDArray[np.int64]  # [H, S] int, the action of each state
    values: Array  # V_{k,h}, [H+1, S]; the last row is zero
    contexts: Array  # phi_{V_{k,h+1}}(s, a), [H, S, A, d]


class OnlinePolicies(NamedTuple):
    """What the server knows at the end."""

    policies: NDArray[np.int64]  # [K, H, S] int, the policy for each user; not the users' own paths
    estimates: Array  # theta_h, [H, d], after the last user


#: From a step, from 0, and contexts x [n, d] to <theta_h, x> and |Sigma_h^{-1/2} x|, both [n].
Regress: TypeAlias = Callable[[int, Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """What is public about a linear mixture process: everything but its parameters theta_h."""

    features: Array  # phi, [S, A, S, d]
    rewards: Array  # [H, S, A] in [0, 1]
    # whether values are clipped at 0 from below, as they are from above at what can still be earned. The
    # published line 6 does not: then no value is bounded.
    clip_below: bool = True

    def __post_init__(self) -> None:
        features, rewards = triple_features(self.features), unit_rewards(self.rewards)
        if rewards.shape[1:] != features.shape[:2]:
            what = f"features of shape {features.shape}, rewards of shape {rewards.shape}"
            raise InvalidParameter(what, where="MixtureModel", remedy="give [S, A, S, d] and [H, S, A]")
        set_read_only(self, features=features, rewards=rewards)

    @property
    def horizon(self) -> int:
        """The number of steps H."""
        return int(self.rewards.shape[0])

    @property
    def dimension(self) -> int:
        """The number of features d."""
        return int(self.features.shape[3])

    @property
    def reward_bound(self) -> float:
        """The largest reward R."""
        return float(self.rewards.max())

    def plan(self, regress: Regress, widths: Array) -> UserPlan:
        """Lines 5 to 8: optimistic values from the last step to the first, with widths beta_h, [H]."""
        horizon, n_states, n_actions = self.rewards.shape
        by_pair = self.features.reshape(n_states * n_actions, n_states, self.dimension)  # [S A, S, d]
        actions = np.empty((horizon, n_states), dtype=np.int64)
        values = np.zeros((horizon + 1, n_states))
        contexts = np.empty((horizon, n_states, n_actions, self.dimension))
        for h in reversed(range(horizon)):
            context = values[h + 1] @ by_pair  # [S A, d]
            means, deviations = regress(h, context)
            optimistic = self.rewards[h] + (means + widths[h] * deviations).reshape(n_states, n_actions)
            most = (horizon - h) * self.reward_bound
            actions[h], values[h] = best_actions(optimistic, most, clip_below=self.clip_below)
            contexts[h] = context.reshape(n_states, n_actions, -1)
        return UserPlan(actions, values, contexts)

    def walk(self, user: User, plan: UserPlan) -> tuple[Array, Array]:
        """Lines 9 to 13, on the user's side and before any noise: contexts x [H, d] and targets y [H]."""
        advice = plan.actions.tolist()
        states, actions, _ = user.episode(lambda step, state: advice[step][state])
        steps = np.arange(self.horizon)
        return plan.contexts[steps, states[:-1], actions], plan.values[steps + 1, states[1:]]


class RankOneRidge:
    """Ridge regressions of all H steps at once; each observation is a rank-one update of their inverses."""

    def __init__(self, horizon: int, dimension: int, ridge: float) -> None:
        self._inverse = np.tile(np.eye(dimension) / ridge, (horizon, 1, 1))  # [H, d, d]
        self._target = np.zeros((horizon, dimension))
        self.estimates = np.zeros((horizon, dimension))
        #: log det Sigma_h - d log lambda, [H].
        self.log_growth = np.zeros(horizon)

    def __call__(self, step: int, contexts: Array, /) -> tuple[Array, Array]:
        """The estimates and norms that `Regress` describes."""
        variances = ((contexts @ self._inverse[step]) * contexts).sum(axis=1)
        return contexts @ self.estimates[step], np.sqrt(np.maximum(variances, 0.0))

    def add(self, contexts: Array, targets: Array) -> None:
        """One observation at each step (Sherman and Morrison 1950): contexts [H, d], targets [H]."""
        moved = (self._inverse @ contexts[:, :, None])[:, :, 0]  # [H, d]
        growth = 1.0 + (moved * contexts).sum(axis=1)  # [H]
        self._inverse -= moved[:, :, None] * (moved / growth[:, None])[:, None, :]
        self.log_growth += np.log(growth)
        self._target += contexts * targets[:, None]
        self.estimates = (self._inverse @ self._target[:, :, None])[:, :, 0]


def ucrl_vtr(
    users: OnlineUsers, model: MixtureModel, *, ridge: float = 1.0, widths: Callable[[int, Array], Array]
) -> OnlinePolicies:
    """UCRL-VTR on a sequence of users; not private.

    The widths beta_h, [H], follow from the user's number k, from 1, and log det Sigma_h - d log lambda, [H].
    """
    require_users(users, model.rewards.shape)
    regressions = RankOneRidge(model.horizon, model.dimension, require_positive(ridge, "ridge"))
    policies = np.empty((len(users), *model.rewards.shape[:2]), dtype=np.int64)
    for k, user in enumerate(users):
        plan = model.plan(regressions, widths(k + 1, regressions.log_growth))
        policies[k] = plan.actions
        regressions.add(*model.walk(user, plan))
    return OnlinePolicies(policies, regressions.estimates)


def jia_widths(model: MixtureModel, n_users: int, scale: float) -> Callable[[int, Array], Array]:
    """sqrt(beta) = c (sqrt(S A) + v_h sqrt(2 log K + log det M)), after section 6.2, v_h = R (H - h + 1).

    The text has c before the first term alone: then even c = 0 is far too wide to learn anything in its 10000
    episodes. It has v_h = H - h + 1, for rewards up to 1, and log(1/K), which is negative.
    """
    horizon, n_states, n_actions = model.rewards.shape
    spans = model.reward_bound * np.arange(horizon, 0, -1.0)
    constant = math.sqrt(n_states * n_actions)

    def widths(k: int, log_growth: Array) -> Array:
        del k
        return np.asarray(scale * (constant + spans * np.sqrt(2.0 * math.log(n_users) + log_growth)))

    return widths
