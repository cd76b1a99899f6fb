"""Q-learning with functional noise as published: Algorithm 1 of Wang and Hegde (2019), with its line numbers.

What is added to the network is released through the curator, as the paper's proof counts it: one function
for each fresh path. What the proof leaves out stays outside: the network carries on without noise (lines 20
and 22), so that the functions of two rewards drift apart from update to update; a path that is kept over
several updates shows their differences without noise; line 24 returns the network without noise.

Wang, B. and Hegde, N. (2019). Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces.
NeurIPS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.line_world import (
    N_ACTIONS,
    NEIGHBOURS,
    UNIT,
    RewardFunction,
    Values,
    Walk,
    explored,
    late_return,
    middle_rewards,
    require_learning,
)
from dpaudit.algorithms.q_learning.functional_calibration import FunctionalCalibration
from dpaudit.algorithms.q_learning.relu_network import ReLUNetwork
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, View
from dpaudit.curator.curator import Curator
from dpaudit.curator.streams import NoisyFunction
from dpaudit.errors import InvalidParameter

Array = NDArray[np.float64]

#: What comes out at the end: the network itself (line 24), its values with a path of their own, or the noisy
#: values after each update.
ReleasedView: TypeAlias = Literal["raw", "fresh", "iterates"]


@dataclass(frozen=True, eq=False)
class LearnedQ:
    """What a run shows.

    Attributes:
        reached: [T], the states that the agent's steps reached.
        released: parameters of the last network, [p]; or noisy values, [nodes, actions]; or those after each
            update, [updates, nodes, actions].
    """

    reached: Array
    released: Array


class Update(NamedTuple):
    """One update: the values that it acted on, the states reached [B], and the network after it."""

    noisy: Values
    reached: Array
    learnt: ReLUNetwork


@dataclass(frozen=True, eq=False)
class FunctionalQLearning:
    """Algorithm 1, frozen with its public parameters: ``(RewardFunction, curator) -> LearnedQ``.

    Args:
        calibration: of the noise, with alpha, T and B.
        resets: J, how often a new path is taken; left out, T/B, for every update.
        view: what comes out at the end.
        discount: gamma; the paper does not state it.
        exploration: the share of random actions at the beginning, which falls to 0 at the end; the printed
            algorithm has none, and stays at one end of [0, 1].
        hidden: sizes of the network's hidden layers.
        nodes: at how many evenly spaced states noisy values come out.

    Raises:
        InvalidParameter: numbers out of range, or an unknown view.
    """

    calibration: FunctionalCalibration = field(default_factory=FunctionalCalibration)
    resets: int | None = None
    view: ReleasedView = "raw"
    discount: float = 0.5
    exploration: float = 0.0
    hidden: tuple[int, ...] = (16, 16)
    nodes: int = 17

    name = "q-learning-with-functional-noise"

    def __post_init__(self) -> None:
        if self.view not in get_args(ReleasedView):
            raise InvalidParameter(
                f"view {self.view!r}", where="view", remedy=f"give one of {', '.join(get_args(ReleasedView))}"
            )
        if not 1 <= self.path_count <= self.calibration.updates:
            raise InvalidParameter(
                f"{self.resets!r} paths for {self.calibration.updates} updates",
                where="resets",
                remedy="give a whole number from 1 to the number of updates",
            )
        require_learning(self.discount, self.exploration, self.nodes)

    @property
    def path_count(self) -> int:
        """J."""
        return self.calibration.updates if self.resets is None else self.resets

    @property
    def claim(self) -> Claim:
        """Theorem 5."""
        return Claim(
            self.calibration.guarantee,
            unit=UNIT,
            neighbouring=Neighbouring.REPLACE_ONE,
            view=View.ALL_RELEASES if self.view == "iterates" else View.FINAL_OUTPUT,
            premises=self.calibration.premises,
            assumptions=(NEIGHBOURS,),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        calibration = self.calibration
        return {
            "samples": calibration.samples,
            "batch": calibration.batch,
            "step_size": calibration.step_size,
            "k": calibration.k,
            "lipschitz_squared": calibration.lipschitz_squared,
            "resets": self.path_count,
            "view": self.view,
            "discount": self.discount,
            "exploration": self.exploration,
            "hidden": list(self.hidden),
            "nodes": self.nodes,
        }

    def __call__(self, data: RewardFunction, curator: Curator) -> LearnedQ:
        """Learn, and show what the view shows."""
        reached, released, network = [], [], None
        for update in self.learning(data, curator):
            reached.append(update.reached)
            if self.view == "iterates":
                released.append(update.noisy(self._places))
            network = update.learnt
        if network is None:
            raise AssertionError  # there is an update at least
        if self.view == "fresh":
            fresh = self._opened(curator, network, "Q at the end")
            return LearnedQ(np.concatenate(reached), fresh(self._places))
        # Line 24.
        out = network.parameters if self.view == "raw" else np.array(released)
        return LearnedQ(np.concatenate(reached), out)

    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Update by update; the rewards enter in line 19 alone."""
        updates, batch = self.calibration.updates, self.calibration.batch
        # Line 4.
        network = ReLUNetwork.random(self.hidden, N_ACTIONS, curator.public("network"))
        walk = Walk(curator.public("walk"))
        noisy: _Noisy | None = None
        for j in range(updates):  # line 6
            # Lines 7 to 9: a new path every T/(JB) updates.
            if noisy is None or j * self.path_count // updates > (j - 1) * self.path_count // updates:
                noisy = _Noisy(network, self._opened(curator, network, f"Q after update {j}"))
            noisy.network = network
            # Lines 10 to 18.
            share = self.exploration * (1.0 - j / updates)
            states, actions, reached = explored(walk, noisy, batch, share)
            # Line 19, and line 20 for the whole batch at once.
            targets = data(reached) + self.discount * noisy(reached).max(axis=1)
            rows = np.arange(batch)
            errors = np.zeros((batch, N_ACTIONS))
            errors[rows, actions] = noisy(states)[rows, actions] - targets
            # Line 22, down the gradient.
            gradient = network.gradient(states, errors)
            network = network.with_parameters(network.parameters - self.calibration.step_size * gradient)
            yield Update(noisy, reached, network)

    def worst_pairs(self) -> Sequence[Pair]:
        """The rewards of the built-in walk, and 1 more everywhere."""
        rewards = middle_rewards()
        return (Pair(rewards, rewards.plus(1.0), "every reward higher by 1", unit=0),)

    def utility(self, output: LearnedQ) -> dict[str, float]:
        """The mean return of the last tenth of the episodes, under the rewards of the built-in walk."""
        return late_return(output.reached)

    def _opened(self, curator: Curator, network: ReLUNetwork, label: str) -> NoisyFunction:
        def mean(point: float) -> Array:
            values: Array = network(np.array([point]))[0]
            return values

        return curator.function(self.calibration.mechanism, mean, label, (N_ACTIONS,))

    @property
    def _places(self) -> Array:
        return np.linspace(0.0, 1.0, self.nodes)


class _Noisy:
    """The network with a path that was taken at an earlier one: the path's noise is what that one shows."""

    def __init__(self, network: ReLUNetwork, opened: NoisyFunction) -> None:
        self.network = self._first = network
        self._opened = opened

    def __call__(self, points: Array) -> Array:
        values = self._opened(points)
        if self.network is self._first:
            return values
        return values + (self.network(points) - self._first(points))
