"""DP-APVI: differentially private adaptive pessimistic value iteration.

Algorithm 1 of Qiao and Wang (2023), with Gaussian noise for rho-zCDP or Laplace noise for epsilon-DP,
and the non-private APVI (Yin and Wang 2021) that it becomes with no noise at all.

Qiao, D. and Wang, Y.-X. (2023). Offline Reinforcement Learning with Differential Privacy. NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.offline.offline import Policy
from dpaudit.algorithms.offline.pessimism import PenaltyConstants, pessimistic_value_iteration
from dpaudit.algorithms.offline.private_counts import (
    gaussian_error_bound,
    laplace_error_bound,
    private_counts,
)
from dpaudit.algorithms.public_parameters import digest, require_failure_probability
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Gaussian, Laplace


@dataclass(frozen=True)
class DPAPVI:
    """Algorithm 1, frozen with its public parameters: a callable ``(data, curator) -> Policy``.

    Args:
        rewards: [H, S, A] in [0, 1], the public reward function; its shape gives H, S and A.
        guarantee: ``ZCDP(rho)`` for Gaussian noise, ``PureDP(epsilon)`` for Laplace noise.
        failure_probability: delta of the utility theorem; no part of the privacy claim.
        constants: C1, C2 and C of line 5.
        mdp: the exact process, where it is known, to measure the policy's suboptimality.

    Raises:
        InvalidParameter: rewards that are not [H, S, A] in [0, 1], a guarantee of 0, or a failure probability
            outside (0, 1).
    """

    rewards: NDArray[np.float64]
    guarantee: ZCDP | PureDP = field(default_factory=lambda: ZCDP(rho=1.0))
    failure_probability: float = 0.1
    constants: PenaltyConstants = field(default_factory=PenaltyConstants)
    mdp: TabularMDP | None = None

    name = "dp-apvi"

    def __post_init__(self) -> None:
        rewards = np.array(self.rewards, dtype=np.float64)
        if rewards.ndim != 3 or not rewards.size or not ((rewards >= 0) & (rewards <= 1)).all():
            raise InvalidParameter(
                f"a reward function of shape {rewards.shape}",
                where="rewards",
                why="the algorithm's sizes and values rest on it",
                remedy="give numbers in [0, 1], [H, S, A]",
            )
        if self._budget == 0:
            raise InvalidParameter(
                f"a budget of {self.guarantee}", where="guarantee", remedy="give a positive rho or epsilon"
            )
        require_failure_probability(self.failure_probability)
        rewards.setflags(write=False)
        object.__setattr__(self, "rewards", rewards)

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 3.4; the pure one at the end of its section 3)."""
        return Claim(
            self.guarantee,
            unit="trajectory",
            neighbouring=Neighbouring.REPLACE_ONE,
            trust_model=TrustModel.CENTRAL,
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        horizon, n_states, n_actions = self.rewards.shape
        return {
            "horizon": horizon,
            "states": n_states,
            "actions": n_actions,
            "failure_probability": self.failure_probability,
            "C1": self.constants.variance,
            "C2": self.constants.privacy,
            "C": self.constants.unvisited,
            "rewards_sha256": digest(self.rewards),
        }

    def __call__(self, data: TrajectoryData, curator: Curator) -> Policy:
        """Release the counts, and plan on them; everything after the releases is post-processing.

        Raises:
            DataError: the data are of other sizes than the reward function (for the data's holder).
        """
        horizon, n_states, n_actions = self.rewards.shape
        self._require_sizes(data)
        mechanism, share, error_bound = self._noise()

        # Line 2. n'_sa and n'_sas: each trajectory adds one to one cell per step, in either table.
        steps = np.broadcast_to(np.arange(horizon), data.actions.shape)  # [n, H]
        visits = (steps * n_states + data.states[:, :-1]) * n_actions + data.actions  # [n, H]
        transitions = visits * n_states + data.states[:, 1:]  # [n, H]
        bound = float(horizon) if isinstance(mechanism, Laplace) else math.sqrt(horizon)
        noisy_sa = curator.release_counts(
            visits,
            shape=(horizon, n_states, n_actions),
            bound=bound,
            mechanism=mechanism,
            label="n_sa",
            claimed=share,
        )
        noisy_sas = curator.release_counts(
            transitions,
            shape=(horizon, n_states, n_actions, n_states),
            bound=bound,
            mechanism=mechanism,
            label="n_sas",
            claimed=share,
        )
        counts = private_counts(noisy_sa, noisy_sas, error_bound)  # [H, S, A, S], equation (3)

        # Lines 3 to 10.
        solution = pessimistic_value_iteration(
            counts,
            self.rewards,
            error_bound=error_bound,
            failure_probability=self.failure_probability,
            constants=self.constants,
        )
        return Policy(solution.policy, solution.values)

    def worst_pairs(self) -> Sequence[Pair]:
        """Two trajectories that share no cell at any step: both tables change by all that they can.

        A single trajectory against another, and the same among a few others.
        """
        horizon, n_states, n_actions = self.rewards.shape
        ones, zeros = np.ones(horizon), np.zeros(horizon)
        low = Trajectory(np.zeros(horizon + 1, int), np.zeros(horizon, int), zeros)
        # With one state and one action there is nothing to differ in; then the pair is trivially equal.
        high = Trajectory(np.full(horizon + 1, n_states - 1), np.full(horizon, n_actions - 1), ones)

        def data(*rows: Trajectory) -> TrajectoryData:
            states, actions, earned = (np.stack(column) for column in zip(*rows, strict=True))
            return TrajectoryData(states, actions, earned, n_states, n_actions)

        return (
            Pair(data(low), data(high), "one trajectory, replaced by one that differs at every step", unit=0),
            Pair(
                data(*[low] * 50, high),
                data(*[low] * 50, low),
                "the last of 51 trajectories, replaced by one that differs at every step",
                unit=50,
            ),
        )

    def utility(self, output: Policy) -> dict[str, float]:
        """The policy's suboptimality against the exact optimum, where the process is known."""
        if self.mdp is None:
            return {}
        return {
            "suboptimality": self.mdp.suboptimality(output.actions),
            "optimal value": float(self.mdp.initial @ self.mdp.optimal_values()[0]),
        }

    @property
    def _budget(self) -> float:
        return self.guarantee.rho if isinstance(self.guarantee, ZCDP) else self.guarantee.epsilon

    def _noise(self) -> tuple[Gaussian | Laplace, ZCDP | PureDP, float]:
        """The mechanism of each table, its share of the budget, and E, twice the likely largest noise."""
        horizon, n_states, n_actions = self.rewards.shape
        sizes = {"horizon": horizon, "n_states": n_states, "n_actions": n_actions}
        delta = self.failure_probability
        match self.guarantee:
            case ZCDP(rho=rho):
                sigma = math.sqrt(2 * horizon / rho)
                gaussian = Gaussian(sigma=sigma, sensitivity=L2(math.sqrt(2 * horizon)))
                return (
                    gaussian,
                    ZCDP(rho=rho / 2),
                    gaussian_error_bound(sigma, failure_probability=delta, **sizes),
                )
            case PureDP(epsilon=epsilon):
                scale = 4 * horizon / epsilon
                laplace = Laplace(scale=scale, sensitivity=L1(2.0 * horizon))
                return (
                    laplace,
                    PureDP(epsilon=epsilon / 2),
                    laplace_error_bound(scale, failure_probability=delta, **sizes),
                )
            case _:
                assert_never(self.guarantee)

    def _require_sizes(self, data: TrajectoryData) -> None:
        sizes = (data.horizon, data.n_states, data.n_actions)
        if sizes != self.rewards.shape:
            raise DataError(
                f"H, S, A = {sizes}, the public reward function has {self.rewards.shape}",
                where="trajectories",
                remedy="declare the sizes that the reward function has",
            )


def apvi(
    data: TrajectoryData,
    rewards: NDArray[np.float64],
    *,
    failure_probability: float = 0.1,
    constants: PenaltyConstants | None = None,
) -> Policy:
    """APVI (Yin and Wang 2021), not private: what DP-APVI becomes with raw counts and E = 0.

    Args:
        data: n trajectories.
        rewards: [H, S, A] in [0, 1].
        failure_probability: delta of the utility theorem.
        constants: C1, C2 and C of line 5.
    """
    _, counts = data.visit_counts()
    solution = pessimistic_value_iteration(
        counts, rewards, error_bound=0.0, failure_probability=failure_probability, constants=constants
    )
    return Policy(solution.policy, solution.values)
