"""Control by private policy evaluation: what Wang and Hegde (2019) compare with as Balle and others.

Episodes of random actions on [0, 1], cut into bins; DP-LSW of Balle, Gomrokchi and Precup (2016) evaluates
them, and the policy looks one step ahead with the public moves. The claim is theirs, about one trajectory
replaced by another. A reward function has a part in every trajectory; no claim is made about it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.algorithms.data.episodes import Episodes
from dpaudit.algorithms.environments.line_world import HORIZON, N_ACTIONS, REACH, RewardFunction, Walk
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import DPLSW
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import LearnedQ, NodeValues
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import Array

#: Moves, evenly spread, over which the next step's value is averaged; nodes that store the values.
_MOVES, _NODES = 20, 41


@dataclass(frozen=True, eq=False)
class EvaluatedPolicy:
    """Frozen with its public parameters: ``(RewardFunction, curator) -> LearnedQ``."""

    # (epsilon, delta), per trajectory
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.9, delta=1e-4))
    episodes: int = 100  # of random actions
    bins: int = 10  # of [0, 1]
    discount: float = 0.5  # gamma
    largest_reward: float = 0.5  # public bound on a reward; it also bounds the returns

    name = "policy-evaluation-and-one-step"

    def __post_init__(self) -> None:
        public_size(self.episodes, "episodes")
        _ = self.evaluation  # refuses what it cannot use

    @cached_property
    def evaluation(self) -> DPLSW:
        """DP-LSW with one parameter a bin, with as much noise as it needs."""
        one_hot = np.eye(public_size(self.bins, "bins"))
        most = self.largest_reward / (1.0 - self.discount)
        return DPLSW(one_hot, self.discount, most, guarantee=self.guarantee, calibration="exact")

    @property
    def claim(self) -> Claim:
        """The claim of the evaluation, per trajectory."""
        return self.evaluation.claim

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {**self.evaluation.parameters, "episodes": self.episodes}

    def __call__(self, data: RewardFunction, curator: Curator) -> LearnedQ:
        """Walk at random, evaluate, and look one step ahead: values at evenly spaced nodes [41, actions]."""
        walk = Walk(curator.public("walk"))
        no_values = NodeValues(np.zeros((2, N_ACTIONS)))
        states, _, reached = walk.explore(no_values, self.episodes * HORIZON, 1.0)
        lengths = np.full(self.episodes, HORIZON)
        walks = Episodes(self._bin(states), data(reached), lengths, self.bins)
        values = self.evaluation(walks, curator).values
        steps = REACH * (np.arange(_MOVES) + 0.5) / _MOVES
        nodes = np.linspace(0.0, 1.0, _NODES)
        ahead = np.clip(nodes[:, None, None] + np.stack([-steps, steps]), 0.0, 1.0)  # [41, actions, 20]
        return LearnedQ(reached, values[self._bin(ahead)].mean(axis=2))

    def _bin(self, states: Array) -> Any:
        return np.minimum((states * self.bins).astype(np.int64), self.bins - 1)
