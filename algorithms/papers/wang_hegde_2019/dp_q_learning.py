"""Q-learning with functional noise and a true claim: the noise is kept in the state.

    z_(j+1) = z_j + f_j + g_j

z_j is the whole state, a function of one value for each action. f_j is computed from the private rewards and
from z_j, and its RKHS norm, over all actions together, is scaled down to c. g_j is a fresh path for each
action. Each f_j + g_j is a release whose sensitivity is 2c, whatever the rewards are; z_j is a sum of
releases, and so is everything that is done with it. N updates cost rho = 2 N c^2 / sigma^2.

f_j is the step of functional gradient descent, sum_b w_b K(s_b, .) on the actions taken, with w_b = (step
size / B) (y_b - z_j(s_b, a_b)): its norm is the root of w' K w, exactly. It differs in this from Wang and
Hegde (2019), whose networks have no noisy state, and whose argument fails (`functional_q`). Paths are drawn
at evenly spaced nodes; between them z is a straight line.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms.environments.line_world import N_ACTIONS, RewardFunction, Walk, middle_rewards
from dpaudit.algorithms.noise_calibration import sufficient_sigma
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import NodeValues, QLearning, Update
from dpaudit.algorithms.public_parameters import public_size, require_positive
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import RKHS
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import Array, ExponentialKernel, GaussianProcess

#: A step is scaled down to this share of c, so that rounding keeps it below c.
_BELOW = 1.0 - 1e-6


@dataclass(frozen=True, eq=False)
class DPQLearning(QLearning):
    """The recursion above, frozen with its public parameters: ``(RewardFunction, curator) -> LearnedQ``."""

    # (epsilon, delta), of everything that is ever shown
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.9, delta=1e-4))
    clip: float = 0.05  # c
    updates: int = 20  # N
    batch: int = 250  # B, steps of the walk between two updates
    step_size: float = 5.0  # of an update
    beta: float = 5.0  # of the kernel; small for functions that change slowly
    nodes: int = 17  # at how many evenly spaced states values are kept
    discount: float = 0.5  # gamma
    exploration: float = 1.0  # the share of random actions at the beginning; it falls to 0 at the end

    name = "dp-q-learning"

    def __post_init__(self) -> None:
        for name in ("clip", "step_size", "beta"):
            require_positive(getattr(self, name), name)
        require_positive(self.guarantee.epsilon, "epsilon")
        public_size(self.updates, "updates")
        public_size(self.batch, "batch")
        self._require_learning(self.nodes)

    @cached_property
    def mechanism(self) -> GaussianProcess:
        """The noise of one update: the least that meets the guarantee over all of them."""
        sigma = sufficient_sigma(self.guarantee, 2.0 * self.clip * math.sqrt(self.updates))
        kernel, sensitivity = ExponentialKernel(beta=self.beta), RKHS(2.0 * self.clip, "proved")
        return GaussianProcess(sigma=sigma, kernel=kernel, sensitivity=sensitivity)

    @property
    def claim(self) -> Claim:
        """The whole transcript; it is true for any two reward functions, however far apart."""
        return self._claim(self.guarantee)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        names = ("clip", "updates", "batch", "step_size", "nodes", "discount", "exploration")
        return {name: getattr(self, name) for name in names}

    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Learn, and yield after every update."""
        nodes = np.linspace(0.0, 1.0, self.nodes)
        z = NodeValues(np.zeros((self.nodes, N_ACTIONS)))
        walk = Walk(curator.public("walk"))
        for j in range(self.updates):
            share = self.exploration * (1.0 - j / self.updates)
            states, actions, reached = walk.explore(z, self.batch, share)
            targets = data(reached) + self.discount * z(reached).max(axis=1)
            errors = targets - z(states)[np.arange(self.batch), actions]
            step = self.step(states, actions, errors)
            noisy = curator.function(self.mechanism, step, f"update {j + 1}", (N_ACTIONS,))
            acting, z = z, NodeValues(z.values + noisy(nodes))
            yield Update(acting, reached, z)

    def step(self, states: Array, actions: NDArray[np.int64], errors: Array) -> Callable[[float], Array]:
        """f_j as a function of one point: its RKHS norm, over all actions together, is at most c.

        States, actions and errors, target less value, are [B].
        """
        weights = np.zeros((len(states), N_ACTIONS))
        weights[np.arange(len(states)), actions] = self.step_size / len(states) * errors
        kernel = self.mechanism.kernel.covariance(states)
        square = float((weights * (kernel @ weights)).sum())
        # Large weights of either sign may cancel, and their rounding not: it is added, at its largest.
        rounding = (len(states) + 4) * 2.0**-51 * float(np.abs(weights).sum()) ** 2
        norm = math.sqrt(max(0.0, square) + rounding)
        if norm > self.clip * _BELOW:
            weights *= self.clip * _BELOW / norm

        return lambda point: np.asarray(np.exp(-self.beta * np.abs(states - point)) @ weights)

    def worst_pairs(self) -> Sequence[Pair]:
        """The rewards of the built-in walk 1/2 lower and 1/2 higher, and two far beyond any bound."""
        rewards = middle_rewards()
        far = Pair(rewards.plus(-1e6), rewards.plus(1e6), "every reward higher by 2 million", unit=0)
        return (*super().worst_pairs(), far)
