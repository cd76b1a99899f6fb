"""What the forms of Q-learning on [0, 1] have in common: claim, output, utility and a small network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments import line_world
from dpaudit.algorithms.environments.line_world import RewardFunction
from dpaudit.algorithms.public_parameters import public_size
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
        return np.asarray((1.0 - share) * self.values[left] + share * self.values[left + 1])

    @property
    def released(self) -> Array:
        """What an output shows of it."""
        return self.values


@dataclass(frozen=True, eq=False)
class LearnedQ:
    """The output of a run."""

    reached: Array  # [T], the states that the agent's steps reached
    # parameters of the last network, [p]; or values at nodes, [nodes, actions]; or those after each update,
    # [updates, nodes, actions]
    released: Array


class Update(NamedTuple):
    """One update: the values that it acted on, the states reached [B], and what was learnt."""

    acting: line_world.Values
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

    def __call__(self, data: RewardFunction, curator: Curator) -> LearnedQ:
        """Learn, and show the states reached and what was learnt at the end."""
        updates = list(self.learning(data, curator))
        return LearnedQ(np.concatenate([update.reached for update in updates]), updates[-1].learnt.released)

    @abstractmethod
    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Learn, and yield after every update."""

    def worst_pairs(self) -> Sequence[Pair]:
        """The rewards of the built-in walk 1/2 lower and 1/2 higher."""
        rewards = line_world.middle_rewards()
        return (Pair(rewards.plus(-0.5), rewards.plus(0.5), "every reward higher by 1", unit=0),)

    def utility(self, output: LearnedQ) -> dict[str, float]:
        """The mean return of the last tenth of a walk's whole episodes, under the built-in rewards."""
        returns = line_world.episode_returns(output.reached, line_world.middle_rewards())
        last = returns[-max(1, len(returns) // 10) :]
        return {"return, last tenth": float(last.mean())} if len(returns) else {}

    def _claim(
        self, guarantee: ApproxDP, view: View = View.ALL_RELEASES, premises: tuple[Premise, ...] = ()
    ) -> Claim:
        about = {"unit": line_world.UNIT, "neighbouring": Neighbouring.REPLACE_ONE, "view": view}
        return Claim(guarantee, **about, premises=premises, assumptions=(line_world.NEIGHBOURS,))

    def _require_learning(self, nodes: int = 2) -> None:
        for name, share in (("exploration", self.exploration), ("discount", self.discount)):
            if not 0.0 <= share <= 1.0 or (name == "discount" and share == 1.0):
                remedy = f"give a number in [0, 1{')' if name == 'discount' else ']'}"
                raise InvalidParameter(f"{name} {share!r}", where=name, remedy=remedy)
        if public_size(nodes, "nodes") < 2:
            raise InvalidParameter(f"nodes {nodes!r}", where="nodes", remedy="give a whole number, 2 or more")


@dataclass(frozen=True, eq=False)
class ReLUNetwork:
    """Layers of weights and biases, ReLU between them: a function from numbers to vectors."""

    weights: tuple[Array, ...]  # [inputs, outputs] each; the first has one input
    biases: tuple[Array, ...]  # [outputs] each

    @classmethod
    def random(cls, hidden: tuple[int, ...], n_outputs: int, generator: np.random.Generator) -> ReLUNetwork:
        """Uniform within the root of one over the number of inputs, weights and biases alike."""
        weights, biases = [], []
        for inputs, outputs in pairwise((1, *hidden, n_outputs)):
            limit = inputs**-0.5
            weights.append(generator.uniform(-limit, limit, (inputs, outputs)))
            biases.append(generator.uniform(-limit, limit, outputs))
        return cls(tuple(weights), tuple(biases))

    def __call__(self, points: Array) -> Array:
        """Values at points [n]: [n, outputs]."""
        return self._activations(points)[-1]

    def with_parameters(self, parameters: Array) -> ReLUNetwork:
        """A network of the same sizes with other `parameters`."""
        weights, biases, first = [], [], 0
        for old in self.weights:
            inputs, outputs = old.shape
            middle, last = first + inputs * outputs, first + (inputs + 1) * outputs
            weights.append(parameters[first:middle].reshape(inputs, outputs))
            biases.append(parameters[middle:last])
            first = last
        return ReLUNetwork(tuple(weights), tuple(biases))

    def gradient(self, points: Array, errors: Array) -> Array:
        """The gradient by `parameters` of the mean over points of half the squared error: [parameters].

        Errors [n, outputs] are value less target; zero where there is no target.
        """
        activations = self._activations(points)
        back = errors / len(points)
        parts: list[Array] = []
        for layer in range(len(self.weights) - 1, -1, -1):
            parts += [back.sum(axis=0), (activations[layer].T @ back).ravel()]
            if layer:
                back = (back @ self.weights[layer].T) * (activations[layer] > 0.0)
        return np.concatenate(parts[::-1])

    @property
    def released(self) -> Array:
        """What an output shows of it."""
        return self.parameters

    @property
    def lipschitz(self) -> float:
        """A bound on how steep the values are anywhere: the product of the largest singular values."""
        return float(np.prod([np.linalg.norm(weights, 2) for weights in self.weights]))

    @property
    def parameters(self) -> Array:
        """Everything in one vector: each layer's weights, row by row, and then its biases."""
        layers = zip(self.weights, self.biases, strict=True)
        return np.concatenate([part.ravel() for layer in layers for part in layer])

    def _activations(self, points: Array) -> list[Array]:
        """The input of each layer, [n, inputs], and at last the values."""
        found = [points[:, None]]
        last = len(self.weights) - 1
        for layer, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = found[-1] @ weights + biases
            found.append(values if layer == last else np.maximum(values, 0.0))
        return found


def network_gradient(
    network: ReLUNetwork, values: Array, targets: Array, states: Array, actions: NDArray[np.int64]
) -> Array:
    """The gradient of half the mean squared error of the taken actions' values against targets [B]."""
    rows = np.arange(len(states))
    errors = np.zeros((len(states), line_world.N_ACTIONS))
    errors[rows, actions] = values[rows, actions] - targets
    return network.gradient(states, errors)
