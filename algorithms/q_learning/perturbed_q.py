"""Q-learning with noise on what it reads: on every reward, or on every gradient.

The two private baselines of Wang and Hegde (2019), appendix E.2, with the least noise that meets the claim.
Rewards (Venkitasubramaniam 2013): every one of T rewards moves by at most 1, all of them at once; together
they are one query of L2 sensitivity sqrt(T). Gradients (Abadi and others 2016): the mean gradient of each of
N batches is scaled down to norm c, and a neighbour may turn it round: 2c. A reward function has a part in
every record, so that nothing is gained by sampling.

Wang, B. and Hegde, N. (2019). Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces.
NeurIPS.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.environments.line_world import (
    N_ACTIONS,
    NEIGHBOURS,
    UNIT,
    RewardFunction,
    Walk,
    explored,
    late_return,
    middle_rewards,
    require_learning,
)
from dpaudit.algorithms.online.mixture_calibration import sufficient_sigma
from dpaudit.algorithms.online.value_targeted import require_positive
from dpaudit.algorithms.q_learning.functional_q import LearnedQ, Update
from dpaudit.algorithms.q_learning.relu_network import ReLUNetwork
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, Gaussian

Perturbed: TypeAlias = Literal["rewards", "gradients"]

#: A gradient is scaled down to this share of c, so that rounding does not carry its norm past c.
_BELOW = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class PerturbedQLearning:
    """A baseline, frozen with its public parameters: ``(RewardFunction, curator) -> LearnedQ``.

    Args:
        perturbed: what is noised.
        guarantee: (epsilon, delta), of everything that is ever shown.
        samples: T.
        batch: B.
        step_size: alpha.
        clip: c, of gradients.
        discount: gamma.
        exploration: the share of random actions at the beginning, which falls to 0 at the end.
        hidden: sizes of the network's hidden layers.

    Raises:
        InvalidParameter: numbers out of range, or an unknown kind.
    """

    perturbed: Perturbed = "rewards"
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.9, delta=1e-4))
    samples: int = 5000
    batch: int = 64
    step_size: float = 0.5
    clip: float = 0.5
    discount: float = 0.5
    exploration: float = 1.0
    hidden: tuple[int, ...] = (16, 16)

    def __post_init__(self) -> None:
        if self.perturbed not in get_args(Perturbed):
            raise InvalidParameter(
                f"noise on {self.perturbed!r}",
                where="perturbed",
                remedy=f"give one of {', '.join(get_args(Perturbed))}",
            )
        for name in ("step_size", "clip"):
            require_positive(getattr(self, name), name)
        require_positive(self.guarantee.epsilon, "epsilon")
        if public_size(self.batch, "batch") > public_size(self.samples, "samples"):
            raise InvalidParameter(
                f"batch {self.batch} of {self.samples} samples",
                where="batch",
                remedy="give no more than samples",
            )
        require_learning(self.discount, self.exploration, 2)

    @property
    def name(self) -> str:
        """In ledgers."""
        return f"q-learning-with-noisy-{self.perturbed}"

    @property
    def updates(self) -> int:
        """N, whole batches."""
        return self.samples // self.batch

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise of one batch: the least that meets the guarantee over all of them."""
        one = math.sqrt(self.batch) if self.perturbed == "rewards" else 2.0 * self.clip
        sigma = sufficient_sigma(self.guarantee, one * math.sqrt(self.updates))
        return Gaussian(sigma=sigma, sensitivity=L2(one * (1.0 + 1e-12), "proved"))

    @property
    def claim(self) -> Claim:
        """The whole transcript."""
        return Claim(
            self.guarantee, unit=UNIT, neighbouring=Neighbouring.REPLACE_ONE, assumptions=(NEIGHBOURS,)
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        names = ("perturbed", "samples", "batch", "step_size", "clip", "discount", "exploration")
        return {**{name: getattr(self, name) for name in names}, "hidden": list(self.hidden)}

    def __call__(self, data: RewardFunction, curator: Curator) -> LearnedQ:
        """Learn: the states reached, and the last network's parameters."""
        updates = list(self.learning(data, curator))
        reached = np.concatenate([update.reached for update in updates])
        return LearnedQ(reached, updates[-1].learnt.parameters)

    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Update by update."""
        network = ReLUNetwork.random(self.hidden, N_ACTIONS, curator.public("network"))
        walk = Walk(curator.public("walk"))
        rows = np.arange(self.batch)
        for j in range(self.updates):
            acting = network
            share = self.exploration * (1.0 - j / self.updates)
            states, actions, reached = explored(walk, acting, self.batch, share)
            rewards = data(reached)
            if self.perturbed == "rewards":
                rewards = curator.release(rewards, self.mechanism, label=f"rewards {j + 1}")
            errors = np.zeros((self.batch, N_ACTIONS))
            targets = rewards + self.discount * network(reached).max(axis=1)
            errors[rows, actions] = network(states)[rows, actions] - targets
            gradient = network.gradient(states, errors)
            if self.perturbed == "gradients":
                gradient = curator.release(self._clipped(gradient), self.mechanism, label=f"gradient {j + 1}")
            network = network.with_parameters(network.parameters - self.step_size * gradient)
            yield Update(acting, reached, network)

    def worst_pairs(self) -> Sequence[Pair]:
        """The rewards of the built-in walk 1/2 lower and 1/2 higher."""
        rewards = middle_rewards()
        return (Pair(rewards.plus(-0.5), rewards.plus(0.5), "every reward higher by 1", unit=0),)

    def utility(self, output: LearnedQ) -> dict[str, float]:
        """The mean return of the last tenth of the episodes, under the rewards of the built-in walk."""
        return late_return(output.reached)

    def _clipped(self, gradient: Array) -> Array:
        norm = float(np.linalg.norm(gradient))
        limit = self.clip * _BELOW
        return gradient if norm <= limit else gradient * (limit / norm)
