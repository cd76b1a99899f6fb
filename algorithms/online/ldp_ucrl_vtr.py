"""LDP-UCRL-VTR: locally private reinforcement learning for linear mixture processes.

Algorithm 1 of Liao, He and Gu (2023), with its line numbers. Every user has a curator of their own, adds
noise to what they send, and the server sees nothing else. The noise is `mixture_calibration`'s; with none it
is UCRL-VTR.

Liao, C., He, J. and Gu, Q. (2023). Locally Differentially Private Reinforcement Learning for Linear Mixture
Markov Decision Processes. ACML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.algorithms.environments.linear_mixture import largest_value_norm, opposed
from dpaudit.algorithms.environments.tabular import TabularMDP, uniform_mdp
from dpaudit.algorithms.online.mixture_calibration import MixtureCalibration, MixtureCalibrationName
from dpaudit.algorithms.online.online import UNIT, OnlineUsers, constant_user, online_users
from dpaudit.algorithms.online.optimism import least_value, regret_utility, require_users, solve_noisy
from dpaudit.algorithms.online.value_targeted import MixtureModel, OnlinePolicies
from dpaudit.algorithms.public_parameters import (
    Array,
    digest,
    require_failure_probability,
    require_nonnegative,
    require_positive,
)
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.curator import Curator


@dataclass(frozen=True)
class MixtureConstants:
    """What the paper leaves open.

    Attributes:
        bonus: c of beta_h = c d^(3/4) (H - h + 1)^(3/2) k^(1/4), the form of section 6.2, into which what
            does not depend on h and k is absorbed.
        ridge: lambda.
        shift: r is this many times sigma sqrt(k) (2 sqrt(d) + 2 sqrt(log(2 H k^2 / alpha))), which is above
            the noise's largest eigenvalue for every user and step at once with probability 1 - alpha.
        failure_probability: alpha.

    Raises:
        InvalidParameter: numbers out of range.
    """

    bonus: float = 0.05
    ridge: float = 1.0
    shift: float = 1.0
    failure_probability: float = 0.01

    def __post_init__(self) -> None:
        require_positive(self.ridge, "ridge")
        require_nonnegative(self.bonus, "bonus")
        require_nonnegative(self.shift, "shift")
        require_failure_probability(self.failure_probability)


@dataclass(frozen=True, eq=False)
class LDPUCRLVTR:
    """Algorithm 1, frozen with its public parameters: ``(OnlineUsers, curator) -> OnlinePolicies``.

    Args:
        model: what is public about the process; unless it clips values below, nothing bounds them.
        guarantee: (epsilon, delta) of what each user sends.
        calibration: of the noise; see `mixture_calibration`.
        constants: c, lambda, r and alpha.
        mdp: the exact process, where it is known, to measure regret.
    """

    model: MixtureModel
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=1.0, delta=1e-5))
    calibration: MixtureCalibrationName = "exact"
    constants: MixtureConstants = field(default_factory=MixtureConstants)
    mdp: TabularMDP | None = None

    name = "ldp-ucrl-vtr"

    def __post_init__(self) -> None:
        _ = self.noise  # refuses what cannot be calibrated

    @cached_property
    def noise(self) -> MixtureCalibration:
        """The noise of one user's message."""
        features = self.model.features
        return MixtureCalibration(
            name=self.calibration,
            guarantee=self.guarantee,
            horizon=self.model.horizon,
            reward_bound=self.model.reward_bound,
            norm=largest_value_norm(features),
            opposed=opposed(features),
        )

    @property
    def claim(self) -> Claim:
        """Theorem 5.1, with what its proof assumes."""
        clipped = least_value(
            clipped=self.model.clip_below,
            source="Liao, He and Gu (2023), (3.1): V in [0, H]; line 6 clips above alone",
        )
        return Claim(
            self.guarantee,
            unit=UNIT,
            neighbouring=Neighbouring.REPLACE_ONE,
            trust_model=TrustModel.LOCAL,
            premises=(clipped, *self.noise.premises),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        horizon, n_states, n_actions = self.model.rewards.shape
        return {
            "horizon": horizon,
            "states": n_states,
            "actions": n_actions,
            "dimension": self.model.dimension,
            "calibration": self.calibration,
            "clip_below": self.model.clip_below,
            "c": self.constants.bonus,
            "lambda": self.constants.ridge,
            "shift": self.constants.shift,
            "failure_probability": self.constants.failure_probability,
            "rewards_sha256": digest(self.model.rewards),
            "features_sha256": digest(self.model.features),
        }

    def __call__(self, data: OnlineUsers, curator: Curator) -> OnlinePolicies:
        """Serve the users one after the other; all that is kept of each is what their curator released.

        Raises:
            DataError: users of a process of other sizes (for the data's holder).
        """
        require_users(data, self.model.rewards.shape)
        horizon, dimension = self.model.horizon, self.model.dimension
        rows, columns = np.triu_indices(dimension)
        triangle, target = np.zeros((horizon, rows.size)), np.zeros((horizon, dimension))
        gram = np.tile(self.constants.ridge * np.eye(dimension), (horizon, 1, 1))  # Sigma_{k,h}
        policies = np.empty((len(data), *self.model.rewards.shape[:2]), dtype=np.int64)
        regression = _Regression(gram, target)
        for k, user in enumerate(data, start=1):
            # Lines 3 to 8.
            plan = self.model.plan(regression, self.widths(k))
            policies[k - 1] = plan.actions
            # Lines 9 to 15.
            with curator.user(k - 1) as local:
                contexts, targets = self.model.walk(user, plan)
                noisy_triangle, noisy_target = self.noise.release(
                    local, contexts[:, rows] * contexts[:, columns], contexts * targets[:, None]
                )
            # Lines 16 to 21. Lambda begins at lambda I; r is added to the sum, not to what is kept.
            triangle += noisy_triangle
            target += noisy_target
            gram[:, rows, columns] = gram[:, columns, rows] = triangle
            gram[:, range(dimension), range(dimension)] += self.constants.ridge + self._shift(k)
        return OnlinePolicies(policies, regression.estimates())

    def widths(self, k: int) -> Array:
        """beta_h for user k, from 1: [H]."""
        left = np.arange(self.model.horizon, 0, -1.0)
        widths: Array = self.constants.bonus * self.model.dimension**0.75 * left**1.5 * k**0.25
        return widths

    def worst_pairs(self) -> Sequence[Pair]:
        """One of three users, replaced by one who is somewhere else at every step.

        The last one meets values that earlier outputs have driven to their bounds; the first one is followed
        by others, whom nothing but a noisy message may reach.
        """
        mdp = self.mdp or uniform_mdp(self.model.rewards)
        users = online_users(mdp, 3, seed=0)
        low, high = constant_user(mdp, 0), constant_user(mdp, mdp.n_states - 1)
        place = "user {} of 3, elsewhere at every step"
        return tuple(
            Pair(users.replace(i, low), users.replace(i, high), place.format(i + 1), unit=i) for i in (0, 2)
        )

    def utility(self, output: OnlinePolicies) -> dict[str, float]:
        """Regret against the exact optimum, where the process is known."""
        return {} if self.mdp is None else regret_utility(self.mdp, output.policies)

    def _shift(self, users: int) -> float:
        """r after that many users."""
        union = 2.0 * self.model.horizon * users**2 / self.constants.failure_probability
        size = 2.0 * math.sqrt(self.model.dimension) + 2.0 * math.sqrt(math.log(union))
        return self.constants.shift * self.noise.sigma * math.sqrt(users) * size


class _Regression:
    """The server's regressions on released sums: one factorisation a step answers all contexts.

    Every user's noise has full rank, so that nothing of the one before can be updated.
    """

    def __init__(self, gram: Array, target: Array) -> None:
        self._gram, self._target = gram, target

    def __call__(self, step: int, contexts: Array, /) -> tuple[Array, Array]:
        """As `Regress`; where the noise left no positive matrix, a negative variance counts as none."""
        solved = solve_noisy(self._gram[step], contexts.T)  # [d, n]
        variances = (contexts.T * solved).sum(axis=0)
        return self._target[step] @ solved, np.sqrt(np.maximum(variances, 0.0))

    def estimates(self) -> Array:
        """theta_h, [H, d]."""
        solved = [solve_noisy(g, t[:, None])[:, 0] for g, t in zip(self._gram, self._target, strict=True)]
        return np.stack(solved)
