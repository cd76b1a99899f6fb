"""DP-PG: private policy gradient for contextual bandits, each user in one batch only.

Algorithm 1 of He and Zhou (2025) with the update of Algorithm 2, with their line numbers. The policy is
log-linear, pi(y | x) proportional to exp(<theta, phi(x, y)>); one-hot features make it a table's softmax.
In iteration t each of m new users is asked for the rewards of two actions y and y' of the current policy; the
estimate of the gradient is the mean of grad log pi(y | x) A, A = r(x, y) - r(x, y').

**The noise and its sensitivity.** Users answer in [0, 1], which is read as rewards in [-R, R], R = 1. Then A
lies in [-2 R, 2 R]. A gradient phi(x, y) - E phi(x, y') is no longer than G, the largest distance between two
features of one state. So a user adds a vector of norm 2 R G at most to the sum, and a replaced user moves it
by 4 R G: ``exact`` noise on the sum is the least that meets (epsilon, delta) at this sensitivity.
``as-published`` noise has the standard deviation 4 R G sqrt(log(1.25/delta))/epsilon of Theorem 1, which is
the classical formula for a sensitivity of 2 sqrt(2) R G: two users in one state whose rewards are exchanged
are further apart. A user takes part in one batch only, so that all batches together cost what one costs.

Actions are drawn from public randomness, which a user's answer does not touch. What comes out is the policy,
a function of the releases.

He, Y. and Zhou, X. (2025). On the Sample Complexity of Differentially Private Policy Optimization. NeurIPS.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from scipy.special import softmax

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.environments.online_users import TERMS, OnlineUsers, User, online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, cumulative, uniform_mdp
from dpaudit.algorithms.noise_calibration import sufficient_sigma
from dpaudit.algorithms.optimism import require_users
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import Array, Gaussian

GradientCalibrationName: TypeAlias = Literal["exact", "as-published"]
#: R: what users answer in [0, 1] is read as rewards in [-R, R].
LARGEST = 1.0


class Learned(NamedTuple):
    """What leaves the algorithm."""

    theta: Array  # [d], after the last update
    policy: Array  # [1, S, A], the probability of each action


@dataclass(frozen=True, eq=False)
class DPPolicyGradient:
    """Algorithms 1 and 2, frozen with their public parameters: ``(OnlineUsers, curator) -> Learned``."""

    features: Array  # phi, [S, A, d]
    batch: int  # m
    updates: int  # T
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=1.0, delta=1e-5))
    calibration: GradientCalibrationName = "exact"
    step_size: float = 1.0  # eta
    mdp: TabularMDP | None = None  # the exact process of one step, where it is known, to measure the loss

    name = "dp-policy-gradient"

    def __post_init__(self) -> None:
        public.set_read_only(self, features=public.feature_table(self.features, "[S, A, d]"))
        for name in ("batch", "updates"):
            public.public_size(getattr(self, name), name)
        public.require_word(self.calibration, "calibration", get_args(GradientCalibrationName))
        public.require_positive(self.guarantee.epsilon, "epsilon")
        public.require_positive(self.step_size, "step_size")
        if self.largest_gradient == 0.0:
            what, why = "actions whose features are all alike", "every policy is uniform"
            remedy = "give features that tell the actions of a state apart"
            raise InvalidParameter(what, where="features", why=why, remedy=remedy)

    @cached_property
    def largest_gradient(self) -> float:
        """G: the largest distance between the features of two actions in one state."""
        apart = self.features[:, :, None] - self.features[:, None]
        return float(np.linalg.norm(apart, axis=3).max()) * (1.0 + 1e-12)  # never rounded down

    @property
    def bound(self) -> float:
        """2 R G, of one user's vector."""
        return 2.0 * LARGEST * self.largest_gradient

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise on the sum over a batch, m times that on the mean."""
        if self.calibration == "exact":
            sigma = sufficient_sigma(self.guarantee, 2.0 * self.bound)
            return Gaussian(sigma=sigma, sensitivity=L2(2.0 * self.bound))
        root = math.sqrt(math.log(1.25 / self.guarantee.delta))
        sigma = 2.0 * self.bound * root / self.guarantee.epsilon
        return Gaussian(sigma=sigma, sensitivity=L2(math.sqrt(2.0) * self.bound))

    @property
    def claim(self) -> Claim:
        """Theorem 1 with Proposition 1."""
        return Claim(self.guarantee, **TERMS, trust_model="central")

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {
            **dict(zip(("states", "actions", "dimension"), self.features.shape, strict=True)),
            "batch": self.batch,
            "updates": self.updates,
            "step_size": self.step_size,
            "calibration": self.calibration,
            "features_sha256": public.digest(self.features),
        }

    def __call__(self, data: OnlineUsers, curator: Curator) -> Learned:
        """Learn from m T users.

        Raises `DataError` (for the data's holder) for users of another process, or another number of them.
        """
        n_states, n_actions, dimension = self.features.shape
        require_users(data, (1, n_states, n_actions))
        if len(data) != self.batch * self.updates:
            what, remedy = f"{len(data)} users", f"give m T = {self.batch * self.updates}"
            raise DataError(what, where="users", why="each is in one batch", remedy=remedy)
        actions = curator.public("actions")
        theta = np.zeros(dimension)  # line 2
        for t in range(self.updates):
            policy = self.policy(theta)
            chosen = cumulative(policy)  # [S, A]
            centred = self.features - np.einsum("sa,sad->sd", policy, self.features)[:, None]
            rows = np.empty((self.batch, dimension))
            for i in range(self.batch):
                # Lines 4 and 5, and line 3 of Algorithm 2.
                user = data[t * self.batch + i]
                x = user.first_state
                y, other = (actions.random(2)[:, None] >= chosen[x]).sum(axis=1).tolist()
                advantage = 2.0 * LARGEST * (user.rewards[0, x, y] - user.rewards[0, x, other])
                rows[i] = advantage * centred[x, y]
            theta = theta + self.step_size * self._released(curator, t, rows) / self.batch  # lines 4 and 5
        return Learned(theta, self.policy(theta)[None])

    def policy(self, theta: Array) -> Array:
        """pi, [S, A], for any theta that noise of whatever size has left, [d]."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.clip(np.nan_to_num(self.features @ theta), -1e300, 1e300)
        return np.asarray(softmax(scores, axis=1))

    def stand_in(self, users: int | None) -> Any:
        """As many users as the batches have, all made up; their number is public."""
        del users
        return online_users(self._process(), self.batch * self.updates, seed=0, random_rewards=True)

    def worst_pairs(self) -> Sequence[Pair]:
        """One of the first 16 users, where features are furthest apart, with opposed rewards.

        The action that is furthest from the others earns 1 and all others 0, or the other way round. Public
        randomness decides which users are asked for this action and another one; only these move anything.
        """
        mean = self.features.mean(axis=1, keepdims=True)
        lengths = np.linalg.norm(self.features - mean, axis=2)  # [S, A]
        state, action = (int(i) for i in np.unravel_index(lengths.argmax(), lengths.shape))
        earned = np.zeros((1, *lengths.shape))
        earned[:, :, action] = 1.0
        here = np.full(earned.shape, state)
        users = self.stand_in(None)
        return tuple(
            Pair(
                users.replace(i, User(state, here, earned)),
                users.replace(i, User(state, here, 1.0 - earned)),
                f"user {i + 1} of {len(users)}, with opposed rewards",
                unit=i,
            )
            for i in range(min(16, self.batch))
        )

    def utility(self, output: Learned) -> dict[str, float]:
        """How much a step of the last policy loses, in rewards of [0, 1], where the process is known."""
        return {} if self.mdp is None else self.mdp.utility(output.policy)

    def _released(self, curator: Curator, t: int, rows: Array) -> Array:
        """The sum over a batch, with noise."""
        stated: dict[str, Any] = {
            "label": f"gradient {t + 1}",
            "partition": Partition(part=f"batch {t + 1}", split="batches"),
            "claimed": self.guarantee,
        }
        if self.calibration == "exact":
            return curator.release_sum(rows, bound=self.bound, mechanism=self.mechanism, **stated)
        return curator.release(rows.sum(axis=0), self.mechanism, **stated)

    def _process(self) -> TabularMDP:
        return self.mdp or uniform_mdp(np.full((1, *self.features.shape[:2]), 0.5))
