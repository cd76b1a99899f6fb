"""Deep Q-learning as the code that Wang and Hegde (2019) published sets it, implemented anew.

Their text states none of it (github.com/wangbx66/differentially-private-q-learning, `dpql.py`): an update
after every step, on transitions drawn at random from all that were met; values ahead from a second network,
a copy of the first every 10 episodes; nothing ahead of an episode's last step; Huber's loss, the gradient cut
to [-1, 1], RMSprop; random actions with a chance that falls from 0.9 to 0.05.

What is noised, functions, rewards or gradients, is for the forms to say.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpaudit.algorithms.environments.line_world import HORIZON, N_ACTIONS, RewardFunction, Walk
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import QLearning, ReLUNetwork, Update
from dpaudit.curator.curator import Curator
from dpaudit.curator.streams import NoisyFunction
from dpaudit.mechanisms import Array

#: Episodes from one copy of the network to the next, transitions that are remembered, the share of random
#: actions at the end and the number of steps in which what is above it falls by e.
COPIED, REMEMBERED, LAST_SHARE, DECAY = 10, 10_000, 0.05, 200.0
#: Labels of the two networks' values in ledgers.
NETWORKS = ("Q", "Q ahead")
#: RMSprop's decay of the mean of squares, and the constant that prevents a division by 0.
KEPT, LEAST = 0.99, 1e-8


class Carried:
    """A network that may change, with the path of a function that was released with its first values.

    Without a path its values are the network's own.
    """

    def __init__(self, network: ReLUNetwork) -> None:
        self.network = self._first = network
        self.released: NoisyFunction | None = None
        self._ahead: dict[float, Array] = {}

    def first_value(self, point: float) -> Array:
        """What is released at a point: the value of the network as it was then, of one of those called."""
        return self._ahead[point]

    def __call__(self, points: Array) -> Array:
        """Values at points [n]: [n, actions]."""
        if self.released is None:
            return self.network(points)
        first = self._first(points)
        self._ahead = dict(zip(points.tolist(), first, strict=True))
        noisy = self.released(points)
        return noisy if self.network is self._first else noisy + (self.network(points) - first)


@dataclass
class RMSprop:
    """Steps of about the same length in every parameter, whatever its gradients."""

    squares: float | Array = 0.0

    def step(self, gradient: Array, step_size: float) -> Array:
        """What to subtract from the parameters."""
        self.squares = KEPT * self.squares + (1.0 - KEPT) * gradient * gradient
        return np.asarray(step_size * gradient / (np.sqrt(self.squares) + LEAST))


class DeepQLearning(QLearning):
    """The loop; its forms are frozen with their public parameters."""

    hidden: tuple[int, ...]

    @property
    @abstractmethod
    def settings(self) -> tuple[int, int, float]:
        """Steps T, transitions B of one update, and RMSprop's step size."""

    def acts_on(self, network: ReLUNetwork, label: str, episode: int, curator: Curator) -> Carried | None:
        """What an episode, counted from 0, has in the place of the network; None: what it was before."""
        del label, curator
        return None if episode else Carried(network)

    def observed(self, reward: Array, number: int, curator: Curator) -> Array:
        """What is remembered of the reward [1] of a step, counted from 1."""
        del number, curator
        return reward

    def descended(self, gradient: Array, number: int, curator: Curator) -> Array:
        """What an update, counted from 1, goes down by."""
        del number, curator
        return np.clip(gradient, -1.0, 1.0)

    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Step by step; an update is made after each from the B-th on."""
        steps, batch, step_size = self.settings
        network = copy = ReLUNetwork.random(self.hidden, N_ACTIONS, curator.public("network"))
        acting = ahead = Carried(network)
        walk, memory = Walk(curator.public("walk")), curator.public("memory")
        states, rewards, following = np.empty(steps), np.empty(steps), np.empty(steps)
        actions, optimiser = np.empty(steps, dtype=np.int64), RMSprop()
        for t in range(steps):
            episode, step = divmod(t, HORIZON)
            if step == 0:
                acting = self.acts_on(network, NETWORKS[0], episode, curator) or acting
                ahead = self.acts_on(copy, NETWORKS[1], episode, curator) or ahead
                acting.network, ahead.network = network, copy
            share = LAST_SHARE + (self.exploration - LAST_SHARE) * math.exp(-t / DECAY)
            now = slice(t, t + 1)
            states[now], actions[now], following[now] = walk.explore(acting, 1, share)
            rewards[now] = self.observed(data(following[now]), t + 1, curator)
            learnt = network
            if t + 1 >= batch:
                oldest = max(0, t + 1 - REMEMBERED)
                drawn = oldest + memory.choice(t + 1 - oldest, batch, replace=False)
                targets = rewards[drawn].copy()
                goes_on = drawn % HORIZON != HORIZON - 1
                targets[goes_on] += self.discount * ahead(following[drawn[goes_on]]).max(axis=1)
                errors, rows = np.zeros((batch, N_ACTIONS)), np.arange(batch)
                off = acting(states[drawn])[rows, actions[drawn]] - targets
                errors[rows, actions[drawn]] = np.clip(off, -1.0, 1.0)
                gradient = self.descended(network.gradient(states[drawn], errors), t + 2 - batch, curator)
                learnt = network.with_parameters(network.parameters - optimiser.step(gradient, step_size))
            yield Update(acting, following[now].copy(), learnt)
            network = acting.network = learnt
            if step == HORIZON - 1 and episode % COPIED == 0:
                copy = network
