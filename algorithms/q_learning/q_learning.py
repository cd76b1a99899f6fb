"""What the forms of Q-learning on [0, 1] have in common: their claim, what a run shows, and its utility."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.line_world import (
    N_ACTIONS,
    NEIGHBOURS,
    UNIT,
    RewardFunction,
    Values,
    episode_returns,
    middle_rewards,
)
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.algorithms.q_learning.relu_network import ReLUNetwork
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, View
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array


@dataclass(frozen=True, eq=False)
class NodeValues:
    """A function of [0, 1], straight between evenly spaced nodes."""

    values: Array  # [nodes, actions]

    def __call__(self, points: Array) -> Array:
        """Values at points [n]: [n, actions]."""
        last = len(self.values) - 1
        position = points * last
        left = np.minimum(position.astype(np.int64), last - 1)
        share = (position - left)[:, None]
        values: Array = (1.0 - share) * self.values[left] + share * self.values[left + 1]
        return values


@dataclass(frozen=True, eq=False)
class LearnedQ:
    """What a run shows."""

    reached: Array  # [T], the states that the agent's steps reached
    # parameters of the last network, [p]; or values at nodes, [nodes, actions]; or those after each update,
    # [updates, nodes, actions]
    released: Array


class Update(NamedTuple):
    """One update: the values that it acted on, the states reached [B], and what was learnt."""

    acting: Values
    reached: Array
    learnt: Any


class QLearning(ABC):
    """A form of Q-learning: ``(RewardFunction, curator) -> LearnedQ``."""

    discount: float
    exploration: float

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """What is claimed of a run."""

    @abstractmethod
    def __call__(self, data: RewardFunction, curator: Curator) -> LearnedQ:
        """Learn, and show what this form shows."""

    @abstractmethod
    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Update by update."""

    def worst_pairs(self) -> Sequence[Pair]:
        """The rewards of the built-in walk 1/2 lower and 1/2 higher."""
        rewards = middle_rewards()
        return (Pair(rewards.plus(-0.5), rewards.plus(0.5), "every reward higher by 1", unit=0),)

    def utility(self, output: LearnedQ) -> dict[str, float]:
        """The mean return of the last tenth of a walk's whole episodes, under the built-in rewards."""
        returns = episode_returns(output.reached, middle_rewards())
        if not len(returns):
            return {}
        return {"return, last tenth": float(returns[-max(1, len(returns) // 10) :].mean())}

    def _claim(
        self, guarantee: ApproxDP, view: View = View.ALL_RELEASES, premises: tuple[Premise, ...] = ()
    ) -> Claim:
        return Claim(
            guarantee,
            unit=UNIT,
            neighbouring=Neighbouring.REPLACE_ONE,
            view=view,
            premises=premises,
            assumptions=(NEIGHBOURS,),
        )

    def _require_learning(self, nodes: int = 2) -> None:
        if not 0.0 <= self.exploration <= 1.0:
            raise InvalidParameter(
                f"exploration {self.exploration!r}", where="exploration", remedy="give a number in [0, 1]"
            )
        if not 0.0 <= self.discount < 1.0:
            raise InvalidParameter(
                f"discount {self.discount!r}", where="discount", remedy="give a number in [0, 1)"
            )
        if public_size(nodes, "nodes") < 2:
            raise InvalidParameter(f"nodes {nodes!r}", where="nodes", remedy="give a whole number, 2 or more")


def network_gradient(
    network: ReLUNetwork, values: Array, targets: Array, states: Array, actions: NDArray[np.int64]
) -> Array:
    """Of half the mean squared error of the values [B, actions] of the actions taken against targets [B]."""
    rows = np.arange(len(states))
    errors = np.zeros((len(states), N_ACTIONS))
    errors[rows, actions] = values[rows, actions] - targets
    return network.gradient(states, errors)
