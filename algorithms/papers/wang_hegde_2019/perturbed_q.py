"""Deep Q-learning with noise on what it reads: on every reward, or on every gradient.

The two private baselines of Wang and Hegde (2019), appendix E.2, with the learner of the authors' code
(`deep_q`) and the least noise that meets the claim. Rewards (Venkitasubramaniam 2013): each of T is noised
when it is earned, and moves by at most 1; whatever is drawn from the memory later is free. Gradients (Abadi
and others 2016): the mean gradient of each of N batches is scaled down to norm c, and a neighbour may turn it
round: 2c. A reward function has a part in every record, so that sampling amplifies nothing.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms.noise_calibration import sufficient_sigma
from dpaudit.algorithms.papers.wang_hegde_2019.deep_q import DeepQLearning
from dpaudit.algorithms.public_parameters import public_size, require_positive, require_word
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, Gaussian

Perturbed: TypeAlias = Literal["rewards", "gradients"]


@dataclass(frozen=True, eq=False)
class PerturbedQLearning(DeepQLearning):
    """A baseline, frozen with its public parameters: ``(RewardFunction, curator) -> LearnedQ``."""

    perturbed: Perturbed = "rewards"  # the values that get noise
    # (epsilon, delta), of everything that is ever shown
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.9, delta=1e-4))
    samples: int = 5000  # T
    batch: int = 128  # B, at most T
    step_size: float = 0.01  # of RMSprop
    clip: float = 0.5  # c, of gradients
    discount: float = 0.999  # gamma
    exploration: float = 0.9  # the share of random actions at the beginning; it falls to 0.05
    hidden: tuple[int, ...] = (16, 16)  # sizes of the network's hidden layers

    def __post_init__(self) -> None:
        require_word(self.perturbed, "perturbed", get_args(Perturbed))
        for name in ("step_size", "clip"):
            require_positive(getattr(self, name), name)
        require_positive(self.guarantee.epsilon, "epsilon")
        if public_size(self.batch, "batch") > public_size(self.samples, "samples"):
            what = f"batch {self.batch} of {self.samples} samples"
            raise InvalidParameter(what, where="batch", remedy="give no more than samples")
        self._require_learning()

    @property
    def name(self) -> str:
        """The name of the algorithm in ledgers."""
        return f"q-learning-with-noisy-{self.perturbed}"

    @property
    def settings(self) -> tuple[int, int, float]:
        """The samples T, the batch size B and the step size."""
        return self.samples, self.batch, self.step_size

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise of one reward or one gradient: the least that meets the guarantee over all of them."""
        one, times = (
            (1.0, self.samples)
            if self.perturbed == "rewards"
            else (2.0 * self.clip, self.samples - self.batch + 1)
        )
        sigma = sufficient_sigma(self.guarantee, one * math.sqrt(times))
        return Gaussian(sigma=sigma, sensitivity=L2(one * (1.0 + 1e-12), "proved"))

    @property
    def claim(self) -> Claim:
        """The claim about the whole transcript."""
        return self._claim(self.guarantee)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        names = ("perturbed", "samples", "batch", "step_size", "clip", "discount", "exploration")
        return {**{name: getattr(self, name) for name in names}, "hidden": list(self.hidden)}

    def observed(self, reward: Array, number: int, curator: Curator) -> Array:
        """The reward of a step as it is remembered."""
        if self.perturbed == "gradients":
            return reward
        return np.asarray(curator.release(reward, self.mechanism, label=f"reward {number}"))

    def descended(self, gradient: Array, number: int, curator: Curator) -> Array:
        """What an update goes down by."""
        if self.perturbed == "rewards":
            return super().descended(gradient, number, curator)
        # Scaled down to a little below c, so that rounding does not carry its norm past c.
        limit, norm = self.clip * (1.0 - 1e-9), float(np.linalg.norm(gradient))
        clipped = gradient if norm <= limit else gradient * (limit / norm)
        return np.asarray(curator.release(clipped, self.mechanism, label=f"gradient {number}"))
