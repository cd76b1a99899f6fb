"""Q-learning with functional noise: Algorithm 1 of Wang and Hegde (2019) as printed, and as they coded it.

What is added to the network is released through the curator, as the paper's proof counts it: one function for
each fresh path. What the proof leaves out is not released either: the network is carried on without noise
(lines 20 and 22), so that the functions of two rewards drift apart from update to update; a path that is kept
over several updates shows their differences without noise; line 24 returns the network without noise.

**Theorem 5**, its formulas as printed, and the premises that they need:

    v = 4 alpha (k + 1) / B,  1/beta = v,  C = (v^2 + v) L^2,
    sigma >= sqrt(2 (T/B) log(e + epsilon/delta) C) / epsilon,  2 k > 8.68 sqrt(beta) sigma

make the algorithm (epsilon, delta + J exp(-(2 k - 8.68 sqrt(beta) sigma)^2 / 2))-DP. Appendix E.3 gives half
of the delta to each summand. Its own parameters, the defaults here, meet neither inequality, nor the half of
the delta; k = 23, which it calls sufficient before it uses 2.3, meets none either.

What the authors ran (`deep_q`) has beta = 1, which no v of theirs gives; the proof's bound on the distance of
two functions holds for any beta and is then (1 + beta/2) v^2 L^2 + L^2/(2 beta). It has two networks, of
which each takes a new path every episode, and changes the first one after every step.

The exponent wants a sigma^2 (Borell and Tsirelson): P(max g >= 8.68 sqrt(beta) sigma + u) is at most
exp(-u^2 / (2 sigma^2)), and for sigma > 1 not at most exp(-u^2 / 2), as Lemma 8 prints it.

Wang, B. and Hegde, N. (2019). Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces.
NeurIPS.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms.environments.line_world import (
    HORIZON,
    N_ACTIONS,
    RewardFunction,
    Walk,
    middle_rewards,
)
from dpaudit.algorithms.papers.wang_hegde_2019 import q_learning
from dpaudit.algorithms.papers.wang_hegde_2019.deep_q import Carried, DeepQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import LearnedQ, ReLUNetwork, Update
from dpaudit.algorithms.public_parameters import require_positive, require_word
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import View
from dpaudit.claims.sensitivity import RKHS
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import ExponentialKernel, GaussianProcess

#: The output at the end: the network itself (line 24), its values with a path of their own, or the noisy
#: values after each update.
ReleasedView: TypeAlias = Literal["raw", "fresh", "iterates"]


SOURCE = "Wang and Hegde (2019)"

#: Lemma 8's constant: times sqrt(beta) sigma, it bounds the expected maximum of a path.
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
        """Return the number of whole batches; each makes one update."""
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
        """Return C, for any beta: the paper's square of the RKHS distance that one update makes."""
        v, beta = self.bound, self.beta
        return ((1.0 + beta / 2.0) * v * v + 1.0 / (2.0 * beta)) * self.lipschitz_squared

    @property
    def composed(self) -> float:
        """T/B, how many updates the theorem composes; not rounded."""
        return self.samples / self.batch

    @property
    def stated_sigma(self) -> float:
        """What the theorem asks for, at half of the delta."""
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta / 2.0
        times = 2.0 * self.composed * math.log(math.e + epsilon / delta)
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
    def stated_tail(self) -> float:
        """The chance that a path passes 2k, by Lemma 8 as it is printed; 1 where it says nothing."""
        excess = 2.0 * self.k - MAXIMUM * math.sqrt(self.beta) * self.sigma
        return math.exp(-excess * excess / 2.0) if excess > 0.0 else 1.0

    @property
    def mechanism(self) -> GaussianProcess:
        """The noise of one update, with the sensitivity that the paper's proof arrives at."""
        kernel, moved = ExponentialKernel(beta=self.beta), RKHS(math.sqrt(self.squared_sensitivity))
        return GaussianProcess(sigma=self.sigma, kernel=kernel, sensitivity=moved)


@dataclass(frozen=True)
class CodedCalibration(FunctionalCalibration):
    """What the authors' code has: an update after every step, on batches of 128, under another kernel."""

    step_size: float = 0.01  # of RMSprop, in the place of alpha
    batch: int = 128  # B, drawn from the memory

    @property
    def updates(self) -> int:
        """One for each step from the B-th on."""
        return self.samples - self.batch + 1

    @property
    def composed(self) -> float:
        """The number of updates that are made."""
        return self.updates

    @property
    def beta(self) -> float:
        """The parameter of the kernel exp(-|x - y|)."""
        return 1.0


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
    discount: float = 0.999  # gamma; the text does not state it, the authors' code has this
    # the share of random actions at the beginning, which falls to 0 at the end; the printed algorithm has
    # none, and stays at one end of [0, 1]
    exploration: float = 0.0
    hidden: tuple[int, ...] = (16, 16)  # sizes of the network's hidden layers
    nodes: int = 17  # at how many evenly spaced states noisy values are released

    name = "q-learning-with-functional-noise"
    round_name: ClassVar[str] = "update"

    def __post_init__(self) -> None:
        require_word(self.view, "view", get_args(ReleasedView))
        if not 1 <= self.path_count <= self.rounds:
            what = f"{self.resets!r} paths for {self.rounds} {self.round_name}s"
            remedy = f"give a whole number from 1 to the number of {self.round_name}s"
            raise InvalidParameter(what, where="resets", remedy=remedy)
        self._require_learning(self.nodes)

    @property
    def rounds(self) -> int:
        """After how many of `round_name` a path may be taken anew."""
        return self.calibration.updates

    @property
    def path_count(self) -> int:
        """The number J of noise paths."""
        return self.rounds if self.resets is None else self.resets

    @property
    def claim(self) -> Claim:
        """The claim of the paper's Theorem 5."""
        view = View.ALL_RELEASES if self.view == "iterates" else View.FINAL_OUTPUT
        guarantee, tail = self.calibration.guarantee, self.path_count * self.calibration.stated_tail
        words = "J exp(-(2k - 8.68 sqrt(beta) sigma)^2 / 2), at most half of the delta"
        source = f"{SOURCE}, Theorem 5 and appendix E.3"
        half = Premise(name=words, left=tail, relation="<=", right=guarantee.delta / 2.0, source=source)
        return self._claim(guarantee, view, (*self.calibration.premises, half))

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
        fresh = self._with_path(updates[-1].learnt, "Q at the end", curator)
        return LearnedQ(np.concatenate([update.reached for update in updates]), fresh(places))

    def learning(self, data: RewardFunction, curator: Curator) -> Iterator[Update]:
        """Update by update; the rewards enter in line 19 alone."""
        updates, batch = self.calibration.updates, self.calibration.batch
        # Line 4.
        network = ReLUNetwork.random(self.hidden, N_ACTIONS, curator.public("network"))
        walk = Walk(curator.public("walk"))
        noisy = Carried(network)
        for j in range(updates):  # line 6
            # Lines 7 to 9: a new path every T/(JB) updates.
            if self._begins(j):
                noisy = self._with_path(network, f"Q after update {j}", curator)
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

    def _begins(self, number: int) -> bool:
        """Whether a path is taken anew before the round of that number, from 0 on."""
        return number * self.path_count // self.rounds > (number - 1) * self.path_count // self.rounds

    def _with_path(self, network: ReLUNetwork, label: str, curator: Curator) -> Carried:
        noisy = Carried(network)
        mechanism = self.calibration.mechanism
        noisy.released = curator.function(mechanism, noisy.first_value, label, (N_ACTIONS,))
        return noisy


@dataclass(frozen=True, eq=False)
class CodedQLearning(DeepQLearning, FunctionalQLearning):
    """What the authors' code runs, with the same claim: both networks' values have a path each.

    The code's own path is none of its kernel: at the right end its mean is taken from the wrong point. Here
    it is one.
    """

    calibration: FunctionalCalibration = field(default_factory=CodedCalibration)
    resets: int | None = None  # J; left out, a new path every episode
    exploration: float = 0.9  # at the beginning; it falls to 0.05

    name = "deep-q-learning-with-functional-noise"
    round_name: ClassVar[str] = "episode"

    @property
    def rounds(self) -> int:
        """Episodes, the last one cut off or not."""
        return -(-self.calibration.samples // HORIZON)

    @property
    def settings(self) -> tuple[int, int, float]:
        """Those of the calibration."""
        return self.calibration.samples, self.calibration.batch, self.calibration.step_size

    def acts_on(self, network: ReLUNetwork, label: str, episode: int, curator: Curator) -> Carried | None:
        """Return the run with its own path from its first episode on."""
        if not self._begins(episode):
            return None
        return self._with_path(network, f"{label}, episode {episode + 1}", curator)
