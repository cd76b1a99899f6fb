"""LDP-UCRL-VTR: locally private reinforcement learning for linear mixture processes.

Algorithm 1 of Liao, He and Gu (2023), with its line numbers. Every user has a curator of their own, adds
noise to the message that they send, and the server sees only these messages. Without noise it is UCRL-VTR.

**The noise and its sensitivity.** At step h a user sends the upper triangle of x x' + W, and x y + xi, where
x = phi_V(s, a), y = V(s') and V = V_{h+1}. Let rewards be at most R, so that V lies in [0, v], v = R (H - h),
and let B be the largest norm of phi_V for values in [0, 1]: then |x| <= B v and y <= v. Two trajectories with
(x, y) and (z, w) at a step, of norms p and q and with the cosine t between x and z, are apart by

    |x x' - z z'|_F^2 = p^4 + q^4 - 2 p^2 q^2 t^2             in the matrix,
    |x y - z w|^2     = p^2 y^2 + q^2 w^2 - 2 p q y w t       in the vector.

Alone, the matrix's square is 2 B^4 v^4 at most, and the vector's 2 B^2 v^4 if t >= 0, else 4 B^2 v^4.
Together their last terms add at most 2 v^2 s - 2 s^2 for s = -p q t <= B^2 v^2: v^4 / 2 at s = v^2 / 2, less
where B^2 < 1/2, and nothing where no two features are opposed. So the largest sum is

    (2 B^4 + 2 B^2 + 1/2) v^4, which is 4.5 v^4 for B = 1;   4 B^2 v^4 if B^2 < 1/2;
    (2 B^4 + 2 B^2) v^4 if t >= 0.

A triangle's norm is at most the Frobenius norm of the whole matrix. A trajectory has H steps, all of which
may differ: the squares add up over h.

``exact``: the whole message as one Gaussian release, with the least noise that meets (epsilon, delta) at this
sensitivity. ``published-noise``: the same release, accounted for in the same way, with the paper's noise
sigma = 4 H (R H)^2 sqrt(2 log(2.5 H / delta)) / epsilon. ``as-published``: the paper's noise and its
argument, 2 H releases with a share (epsilon / 2H, delta / 2H) each, triangles of sensitivity sqrt(2) (R H)^2
and vectors of 2 (R H)^2, for B = 1. ``experiment``: the same noise, with the sensitivity 1 of section 6.

Liao, C., He, J. and Gu, Q. (2023). Locally Differentially Private Reinforcement Learning for Linear Mixture
Markov Decision Processes. ACML.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.environments.linear_mixture import largest_value_norm, opposed
from dpaudit.algorithms.environments.online_users import TERMS, OnlineUsers, constant_user, online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, uniform_mdp
from dpaudit.algorithms.noise_calibration import sufficient_sigma
from dpaudit.algorithms.optimism import least_value, regret_utility, require_users, solve_noisy
from dpaudit.algorithms.papers.liao_he_gu_2023.value_targeted import MixtureModel, OnlinePolicies
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, Gaussian

MixtureCalibrationName: TypeAlias = Literal["exact", "published-noise", "as-published", "experiment"]


@dataclass(frozen=True)
class MixtureCalibration:
    """The noise of one user's message."""

    name: MixtureCalibrationName  # which calibration
    guarantee: ApproxDP  # (epsilon, delta), of the whole message; epsilon positive
    horizon: int  # H
    reward_bound: float  # R, the largest reward
    norm: float  # B, the largest norm of phi_V for values in [0, 1]
    opposed: bool  # whether two features may have a negative inner product

    def __post_init__(self) -> None:
        public.require_word(self.name, "calibration", get_args(MixtureCalibrationName))
        if self.guarantee.epsilon == 0.0:
            why, remedy = "no finite noise gives it", "give a positive epsilon"
            raise InvalidParameter("epsilon = 0", where="guarantee", why=why, remedy=remedy)

    @cached_property
    def sigma(self) -> float:
        """The standard deviation of every number of the message."""
        if self.name == "exact":
            return sufficient_sigma(self.guarantee, self.sensitivity)
        return published_sigma(self.guarantee, self.horizon, self.reward_bound)

    @property
    def sensitivity(self) -> float:
        """The largest L2 distance between two whole messages."""
        ranges = [self.reward_bound * left for left in range(self.horizon)]
        return message_sensitivity(self.norm, ranges, opposed=self.opposed)

    @property
    def vector_sensitivity(self) -> float:
        """The largest L2 distance between two x y of one step, V in [0, R H] as the paper bounds it."""
        span = self.reward_bound * self.horizon
        return (2.0 if self.opposed else math.sqrt(2.0)) * self.norm * span * span

    @cached_property
    def mechanisms(self) -> tuple[Gaussian, ...]:
        """The mechanism of the whole message, or those of its triangles and of its vectors."""
        if self.name in {"exact", "published-noise"}:
            return (Gaussian(sigma=self.sigma, sensitivity=L2(self.sensitivity, "proved")),)
        span = self.reward_bound * self.horizon
        stated = (1.0, 1.0) if self.name == "experiment" else (math.sqrt(2.0) * span**2, 2.0 * span**2)
        return tuple(Gaussian(sigma=self.sigma, sensitivity=L2(value)) for value in stated)

    @property
    def premises(self) -> tuple[Premise, ...]:
        """What the calibration assumes about the features.

        That epsilon / (2 H) is below 1 is a condition of the paper's analysis of the noise alone (Lemma 3.8):
        here the noise is accounted for as it is.
        """
        if self.name in {"exact", "published-noise"}:
            return ()
        name, left, place = "norm(phi_V(s, a)) for values in [0, 1]", self.norm, "(3.1)"
        if self.name == "experiment":
            name, left, place = "L2 sensitivity of u", self.vector_sensitivity, "section 6.2"
        source = f"Liao, He and Gu (2023), {place}"
        return (Premise(name=name, left=left, relation="<=", right=1.0, source=source),)

    def release(self, local: Curator, triangles: Array, vectors: Array) -> tuple[Array, Array]:
        """Lines 12 to 15: one user's message, with noise, through the user's own curator.

        It holds the upper triangles of x x', [H, d (d + 1) / 2], and the vectors x y, [H, d].
        """
        width = triangles.shape[1]
        if len(self.mechanisms) == 1:
            whole = np.concatenate([triangles, vectors], axis=1)
            noisy = local.release(whole, self.mechanisms[0], label="message", claimed=self.guarantee)
            return noisy[:, :width], noisy[:, width:]
        half = ApproxDP(epsilon=self.guarantee.epsilon / 2, delta=self.guarantee.delta / 2)
        of_triangle, of_vector = self.mechanisms
        return (
            local.release(triangles, of_triangle, label="Lambda", count=self.horizon, claimed=half),
            local.release(vectors, of_vector, label="u", count=self.horizon, claimed=half),
        )


def message_sensitivity(norm: float, ranges: Sequence[float], *, opposed: bool) -> float:
    """The largest L2 distance between two users' messages, from B and each step's largest value V_{h+1}."""
    square = norm * norm
    factor = 2.0 * square * square + 2.0 * square
    if opposed:
        factor = 4.0 * square if square < 0.5 else factor + 0.5
    # What is computed from features in floating point may lie a few roundings beside the truth.
    return math.sqrt(factor * math.fsum(value**4 for value in ranges)) * (1.0 + 1e-12)


def published_sigma(guarantee: ApproxDP, horizon: int, reward_bound: float = 1.0) -> float:
    """4 H (R H)^2 sqrt(2 log(2.5 H / delta)) / epsilon: line 1, and section 6.2 for R = 1/H."""
    span, logarithm = reward_bound * horizon, math.log(2.5 * horizon / guarantee.delta)
    return 4.0 * horizon * span * span * math.sqrt(2.0 * logarithm) / guarantee.epsilon


@dataclass(frozen=True)
class MixtureConstants:
    """What the paper leaves open."""

    # c of beta_h = c d^(3/4) (H - h + 1)^(3/2) k^(1/4), the form of section 6.2, into which what does not
    # depend on h and k is absorbed
    bonus: float = 0.05
    ridge: float = 1.0  # lambda
    # r is this many times sigma sqrt(k) (2 sqrt(d) + 2 sqrt(log(2 H k^2 / alpha))), which is above the
    # noise's largest eigenvalue for every user and step at once with probability 1 - alpha
    shift: float = 1.0
    failure_probability: float = 0.01  # alpha

    def __post_init__(self) -> None:
        public.require_positive(self.ridge, "ridge")
        public.require_nonnegative(self.bonus, "bonus")
        public.require_nonnegative(self.shift, "shift")
        public.require_failure_probability(self.failure_probability)


@dataclass(frozen=True, eq=False)
class LDPUCRLVTR:
    """Algorithm 1, frozen with its public parameters: ``(OnlineUsers, curator) -> OnlinePolicies``."""

    model: MixtureModel  # unless it clips values below, they are not bounded
    # what each user sends costs at most (epsilon, delta)
    guarantee: ApproxDP = field(default_factory=lambda: ApproxDP(epsilon=1.0, delta=1e-5))
    calibration: MixtureCalibrationName = "exact"  # of the noise; see above
    constants: MixtureConstants = field(default_factory=MixtureConstants)  # c, lambda, r and alpha
    mdp: TabularMDP | None = None  # the exact process, where it is known, to measure regret

    name = "ldp-ucrl-vtr"

    def __post_init__(self) -> None:
        _ = self.noise  # refuses what cannot be calibrated

    @cached_property
    def noise(self) -> MixtureCalibration:
        """The noise of one user's message."""
        features = self.model.features
        sizes = self.model.horizon, self.model.reward_bound, largest_value_norm(features), opposed(features)
        return MixtureCalibration(self.calibration, self.guarantee, *sizes)

    @property
    def claim(self) -> Claim:
        """Theorem 5.1, with what its proof assumes."""
        source = "Liao, He and Gu (2023), (3.1): V in [0, H]; line 6 clips above alone"
        premises = (least_value(clipped=self.model.clip_below, source=source), *self.noise.premises)
        return Claim(self.guarantee, **TERMS, trust_model="local", premises=premises)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {
            **dict(zip(("horizon", "states", "actions"), self.model.rewards.shape, strict=True)),
            "dimension": self.model.dimension,
            "calibration": self.calibration,
            "clip_below": self.model.clip_below,
            "c": self.constants.bonus,
            "lambda": self.constants.ridge,
            "shift": self.constants.shift,
            "failure_probability": self.constants.failure_probability,
            "rewards_sha256": public.digest(self.model.rewards),
            "features_sha256": public.digest(self.model.features),
        }

    def __call__(self, data: OnlineUsers, curator: Curator) -> OnlinePolicies:
        """Serve the users one after the other; all that is kept of each is what their curator released.

        Raises `DataError` (for the data's holder) for users of a process of other sizes.
        """
        require_users(data, self.model.rewards.shape)
        horizon, dimension = self.model.horizon, self.model.dimension
        rows, columns = np.triu_indices(dimension)
        triangle, target = np.zeros((horizon, rows.size)), np.zeros((horizon, dimension))
        gram = np.tile(self.constants.ridge * np.eye(dimension), (horizon, 1, 1))  # Sigma_{k,h}
        policies = np.empty((len(data), *self.model.rewards.shape[:2]), dtype=np.int64)
        for k, user in enumerate(data, start=1):
            # Lines 3 to 8.
            plan = self.model.plan(partial(_regress, gram, target), self.widths(k))
            policies[k - 1] = plan.actions
            # Lines 9 to 15.
            with curator.user(k - 1) as local:
                contexts, targets = self.model.walk(user, plan)
                noisy_triangle, noisy_target = self.noise.release(
                    local, contexts[:, rows] * contexts[:, columns], contexts * targets[:, None]
                )
            # Lines 16 to 21. Lambda begins at lambda I; r is added to a copy of the stored sum.
            triangle += noisy_triangle
            target += noisy_target
            gram[:, rows, columns] = gram[:, columns, rows] = triangle
            gram[:, range(dimension), range(dimension)] += self.constants.ridge + self._shift(k)
        estimates = [solve_noisy(g, t[:, None])[:, 0] for g, t in zip(gram, target, strict=True)]  # theta_h
        return OnlinePolicies(policies, np.stack(estimates))

    def widths(self, k: int) -> Array:
        """beta_h for user k, from 1: [H]."""
        left = np.arange(self.model.horizon, 0, -1.0)
        return np.asarray(self.constants.bonus * self.model.dimension**0.75 * left**1.5 * k**0.25)

    def stand_in(self, users: int | None) -> Any:
        """As many users of the process as there are, all made up; their number is public."""
        return online_users(self.mdp or uniform_mdp(self.model.rewards), users or 1, seed=0)

    def worst_pairs(self) -> Sequence[Pair]:
        """One of three users, replaced by one who is in another state at every step.

        The last one meets values that are at their bounds after earlier outputs; the first one is followed
        by others, whom only a noisy message may reach.
        """
        mdp = self.mdp or uniform_mdp(self.model.rewards)
        users = online_users(mdp, 3, seed=0)
        low, high = constant_user(mdp, 0), constant_user(mdp, mdp.n_states - 1)
        place = "user {} of 3, elsewhere at every step"
        return tuple(
            Pair(users.replace(i, low), users.replace(i, high), place.format(i + 1), unit=i) for i in (0, 2)
        )

    def utility(self, output: OnlinePolicies) -> dict[str, float]:
        """Regret against the exact optimum, where the process is known."""
        return {} if self.mdp is None else regret_utility(self.mdp, output.policies)

    def _shift(self, users: int) -> float:
        """Return the shift r after a number of users."""
        union = 2.0 * self.model.horizon * users**2 / self.constants.failure_probability
        size = 2.0 * math.sqrt(self.model.dimension) + 2.0 * math.sqrt(math.log(union))
        return self.constants.shift * self.noise.sigma * math.sqrt(users) * size


def _regress(gram: Array, target: Array, step: int, contexts: Array) -> tuple[Array, Array]:
    """The server's `Regress` on released sums: one factorisation a step answers all contexts.

    Every user's noise has full rank, so that no earlier factorisation can be updated. Where the noise left no
    positive matrix, a negative variance counts as none.
    """
    solved = solve_noisy(gram[step], contexts.T)  # [d, n]
    return target[step] @ solved, np.sqrt(np.maximum((contexts.T * solved).sum(axis=0), 0.0))
