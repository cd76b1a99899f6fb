"""Q-learning with functional noise as published: Algorithm 1 of Wang and Hegde (2019), with its line numbers.

What is added to the network is released through the curator, as the paper's proof counts it: one function for
each fresh path. What the proof leaves out is not released either: the network is carried on without noise
(lines 20 and 22), so that the functions of two rewards drift apart from update to update; a path that is kept
over several updates shows their differences without noise; line 24 returns the network without noise.

**Theorem 5**, its formulas as printed, and the premises that they need:

    v = 4 alpha (k + 1) / B,  1/beta = v,  C = (v^2 + v) L^2,
    sigma >= sqrt(2 (T/B) log(e + epsilon/delta) C) / epsilon,  2 k > 8.68 sqrt(beta) sigma

make the algorithm (epsilon, delta + J exp(-(2 k - 8.68 sqrt(beta) sigma)^2 / 2))-DP. Appendix E.3 gives half
of the delta to each summand. Its own parameters, the defaults here, meet neither inequality.

The exponent wants a sigma^2 (Borell and Tsirelson): P(max g >= 8.68 sqrt(beta) sigma + u) is at most
exp(-u^2 / (2 sigma^2)), and for sigma > 1 not at most exp(-u^2 / 2), as Lemma 8 prints it.

Wang, B. and Hegde, N. (2019). Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces.
NeurIPS.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms.environments.line_world import N_ACTIONS, RewardFunction, Walk, middle_rewards
from dpaudit.algorithms.public_parameters import require_positive, require_word
from dpaudit.algorithms.q_learning import q_learning
from dpaudit.algorithms.q_learning.q_learning import LearnedQ, ReLUNetwork, Update
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import View
from dpaudit.claims.sensitivity import RKHS
from dpaudit.curator.curator import Curator
from dpaudit.curator.streams import NoisyFunction
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, ExponentialKernel, GaussianProcess

#: The output at the end: the network itself (line 24), its values with a path of their own, or the noisy
#: values after each update.
ReleasedView: TypeAlias = Literal["raw", "fresh", "iterates"]


SOURCE = "Wang and Hegde (2019)"

#: Of Lemma 8, times sqrt(beta) sigma: a bound on the expectation of a path's maximum.
MAXIMUM = 8.68


@dataclass(frozen=True)
class FunctionalCalibration:
    """The published noise and its argument; the defaults are those of appendix E.3."""

    # (epsilon, delta), delta for both summands together
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=0.9, delta=1e-4))
    sigma: float = 0.32  # the noise that is used
    step_size: float = 3e-4  # alpha
    samples: int = 5000  # T
    batch: int = 64  # B, at most T
    k: float = 2.3  # half the assumed bound on a path's values
    lipschitz_squared: float = 16.0  # L^2, of the network

    def __post_init__(self) -> None:
        for name in ("sigma", "step_size", "k", "lipschitz_squared"):
            require_positive(getattr(self, name), name)
        if not 1 <= self.batch <= self.samples:
            what = f"batch {self.batch} of {self.samples} samples"
            raise InvalidParameter(what, where="batch", remedy="give whole numbers, 1 <= batch <= samples")
        require_positive(self.guarantee.epsilon, "epsilon")

    @property
    def updates(self) -> int:
        """Whole batches, of which each makes one update."""
        return self.samples // self.batch

    @property
    def bound(self) -> float:
        """v: the most that one update changes the values, over L, as the paper has it."""
        return 4.0 * self.step_size * (self.k + 1.0) / self.batch

    @property
    def beta(self) -> float:
        """The parameter beta of the kernel."""
        return 1.0 / self.bound

    @property
    def squared_sensitivity(self) -> float:
        """C: the square of the RKHS distance that one update makes, as the paper has it."""
        return (self.bound**2 + self.bound) * self.lipschitz_squared

    @property
    def stated_sigma(self) -> float:
        """What the theorem asks for, at half of the delta."""
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta / 2.0
        times = 2.0 * (self.samples / self.batch) * math.log(math.e + epsilon / delta)
        return math.sqrt(times * self.squared_sensitivity) / epsilon

    @property
    def premises(self) -> tuple[Premise, ...]:
        """The theorem's two inequalities."""
        source, largest = f"{SOURCE}, Theorem 5", MAXIMUM * math.sqrt(self.beta) * self.sigma
        first, second = "2k above 8.68 sqrt(beta) sigma", "sigma at least what the formula gives"
        return (
            Premise(name=first, left=2.0 * self.k, relation=">", right=largest, source=source),
            Premise(name=second, left=self.sigma, relation=">=", right=self.stated_sigma, source=source),
        )

    @property
    def mechanism(self) -> GaussianProcess:
        """The noise of one update, with the sensitivity that the paper's proof arrives at."""
        kernel, moved = ExponentialKernel(beta=self.beta), RKHS(math.sqrt(self.squared_sensitivity))
        return GaussianProcess(sigma=self.sigma, kernel=kernel, sensitivity=moved)


def path_tail(level: float, sigma: float, beta: float) -> float:
    """A bound on P(max over [0, 1] of a path >= level): Lemma 8 with the sigma^2 that its exponent lacks."""
    excess = level - MAXIMUM * math.sqrt(beta) * sigma
    return math.exp(-excess * excess / (2.0 * sigma * sigma)) if excess > 0.0 else 1.0


@dataclass(frozen=True, eq=False)
class FunctionalQLearning(q_learning.QLearning):
    """Algorithm 1, frozen with its public parameters: ``(RewardFunction, curator) -> LearnedQ``."""

    # of the noise, with alpha, T and B
    calibration: FunctionalCalibration = field(default_factory=FunctionalCalibration)
    resets: int | None = None  # J, how often a new path is taken; left out, T/B, for every update
    view: ReleasedView = "raw"  # the output at the end
    discount: float = 0.5  # gamma; the paper does not state it
    # the share of random actions at the beginning, which falls to 0 at the end; the printed algorithm has
    # none, and stays at one end of [0, 1]
    exploration: float = 0.0
    hidden: tuple[int, ...] = (16, 16)  # sizes of the network's hidden layers
    nodes: int = 17  # at how many evenly spaced states noisy values are released

    name = "q-learning-with-functional-noise"

    def __post_init__(self) -> None:
        require_word(self.view, "view", get_args(ReleasedView))
        if not 1 <= self.path_count <= self.calibration.updates:
            what = f"{self.resets!r} paths for {self.calibration.updates} updates"
            remedy = "give a whole number from 1 to the number of updates"
            raise InvalidParameter(what, where="resets", remedy=remedy)
        self._require_learning(self.nodes)

    @property
    def path_count(self) -> int:
        """J."""
        return self.calibration.updates if self.resets is None else self.resets

    @property
    def claim(self) -> Claim:
        """Theorem 5."""
        view = View.ALL_RELEASES if self.view == "iterates" else View.FINAL_OUTPUT
        return self._claim(self.calibration.guarantee, view, self.calibration.premises)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        of_noise = ("samples", "batch", "step_size", "k", "lipschitz_squared")
        return {
            **{name: getattr(self.calibration, name) for name in of_noise},
            "resets": self.path_count,
            **{name: getattr(self, name) for name in ("view", "discount", "exploration")},
            "hidden": list(self.hidden),
            "nodes": self.nodes,
        }

    def __call__(self, data: RewardFunction, curator: Curator) -> LearnedQ:
        """Learn, and show what the view shows."""
        if self.view == "raw":
            return super().__call__(data, curator)  # line 24
        places = np.linspace(0.0, 1.0, self.nodes)
        if self.view == "iterates":
            shown = [(update.reached, update.acting(places)) for update in self.learning(data, curator)]
            reached, released = zip(*shown, strict=True)
            return LearnedQ(np.concatenate(reached), np.array(released))
        updates = list(self.learning(data, curator))
        fresh = self._noisy_function(curator, updates[-1].learnt, "Q at the end")
        return LearnedQ(np.concatenate([update.reached for update in updates]), fresh(places))

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
                noisy = _Noisy(network, self._noisy_function(curator, network, f"Q after update {j}"))
            noisy.network = network
            # Lines 10 to 18.
            share = self.exploration * (1.0 - j / updates)
            states, actions, reached = walk.explore(noisy, batch, share)
            # Line 19, and line 20 for the whole batch at once.
            targets = data(reached) + self.discount * noisy(reached).max(axis=1)
            # Line 22, down the gradient.
            gradient = q_learning.network_gradient(network, noisy(states), targets, states, actions)
            network = network.with_parameters(network.parameters - self.calibration.step_size * gradient)
            yield Update(noisy, reached, network)

    def worst_pairs(self) -> Sequence[Pair]:
        """The rewards of the built-in walk, and 1 more everywhere."""
        rewards = middle_rewards()
        return (Pair(rewards, rewards.plus(1.0), "every reward higher by 1", unit=0),)

    def _noisy_function(self, curator: Curator, network: ReLUNetwork, label: str) -> NoisyFunction:
        mechanism = self.calibration.mechanism
        return curator.function(mechanism, lambda point: network(np.array([point]))[0], label, (N_ACTIONS,))


class _Noisy:
    """The network with the noise of a path that was released with an earlier network."""

    def __init__(self, network: ReLUNetwork, released: NoisyFunction) -> None:
        self.network = self._first = network
        self._released = released

    def __call__(self, points: Array) -> Array:
        values = self._released(points)
        if self.network is self._first:
            return values
        return values + (self.network(points) - self._first(points))
