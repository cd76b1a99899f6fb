"""DP-UCBVI: jointly or locally private optimistic value iteration on tables, with Bernstein bonuses.

Algorithm 1 of Qiao and Wang (2024), DP-Nash-VI, for one player (B = 1), where it has the bounds of DP-UCBVI
(Qiao and Wang 2023), with its line numbers. For one player the equilibrium of line 14 is the action with the
largest upper bound. All that is learnt of the users are noisy counts of visits (s, a) and (s, a, s') at each
step, made consistent as those of DP-APVI are (`private_counts`) and raised by E/2.

**Central privatizer** (trust ``joint``): a tree of noisy partial sums for each of the two tables. The paper
has Laplace noise on its nodes, and lets Gaussian noise take its place (section 5.4), as it does here. A user
adds 1 to H cells of either table; replaced, the user moves it by at most sqrt(2 H), in each of L =
floor(log2 K) + 1 nodes: noise of variance 2 H L / rho on every cell of a node costs rho / 2 a table. What
users see is made of these counts and of their own data (the billboard lemma: Hsu, Huang, Roth, Roughgarden
and Wu 2016).

**Local privatizer** (trust ``local``): every user sends both tables with Laplace noise. Two users' tables are
apart by up to 2 H in the sum of absolute values: H cells of the one, and H of the other. ``sound`` noise has
scale 4 H / epsilon, which costs epsilon / 2 a table. ``as-published`` noise has 2 H / epsilon, for a
sensitivity of H, which is that of a user who is left out, and not of one who is replaced: both tables cost
2 epsilon.

Qiao, D. and Wang, Y.-X. (2024). Differentially Private Reinforcement Learning with Self-Play. NeurIPS.
Qiao, D. and Wang, Y.-X. (2023). Near-Optimal Differentially Private Reinforcement Learning. AISTATS.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.environments.online_users import TERMS, OnlineUsers, constant_user, online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, uniform_mdp
from dpaudit.algorithms.optimism import regret_utility, require_users
from dpaudit.algorithms.papers.qiao_wang_2023.private_counts import gaussian_error_bound, private_counts
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.curator.views import UserViews
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array, Laplace, TreeAggregation

Trust: TypeAlias = Literal["joint", "local"]
UCBVICalibrationName: TypeAlias = Literal["sound", "as-published"]
Tables: TypeAlias = tuple[Array, Array]  # counts of (h, s, a), [H, S, A], and of (h, s, a, s'), [H, S, A, S]


@dataclass(frozen=True)
class UCBVIConstants:
    """Public constants; no guarantee depends on them. The paper gives only one value, 1 for `noise`."""

    gap: float = 0.0  # C1, of line 8
    bonus: float = 3e-4  # C2, of line 9
    # multiplies E; with 1 the counts of a few thousand users are lost in what is added to them
    noise: float = 0.1
    failure_probability: float = 0.05  # beta

    def __post_init__(self) -> None:
        for name in ("gap", "bonus", "noise"):
            public.require_nonnegative(getattr(self, name), name)
        public.require_failure_probability(self.failure_probability)


class OptimisticPlan(NamedTuple):
    """What lines 4 to 17 make of the counts."""

    actions: NDArray[np.int64]  # [H, S] int, the action of each state
    # by how much the value of these actions may be below its upper bound, from the worst first state; line 20
    # has the one first state that the paper knows
    gap: float


class Told(NamedTuple):
    """What one user sees: the policy of their turn with its gap, and their own actions."""

    policy: NDArray[np.int64]  # [H, S] int
    gap: float
    actions: NDArray[np.int64]  # [H] int


class Served(NamedTuple):
    """What the server knows at the end, under local trust."""

    policies: NDArray[np.int64]  # [K, H, S] int, the policy for each user
    visits: Array  # the noisy counts of (h, s, a), [H, S, A]


@dataclass(frozen=True, eq=False)
class Optimism:
    """Lines 4 to 17, on consistent counts [H, S, A, S] and their error bound E."""

    rewards: Array  # [H, S, A] in [0, 1]
    constants: UCBVIConstants
    users: int  # K

    def plan(self, counts: Array, error_bound: float) -> OptimisticPlan:
        """The greedy policy of upper bounds; where there are no counts nothing is known."""
        horizon, n_states, n_actions = self.rewards.shape
        constants = self.constants
        iota = math.log(30.0 * horizon * n_states * n_actions * self.users / constants.failure_probability)
        visits = counts.sum(axis=-1)  # [H, S, A]
        seen = visits > 0.0
        divisor = np.where(seen, visits, 1.0)
        kernel = np.where(seen[..., None], counts / divisor[..., None], 1.0 / n_states)  # (1)
        known = constants.bonus * (horizon * n_states * error_bound + horizon**2 * n_states) * iota
        upper, lower = np.zeros(n_states), np.zeros(n_states)
        actions, rows = np.empty((horizon, n_states), dtype=np.int64), np.arange(n_states)
        for h in reversed(range(horizon)):
            middle = (upper + lower) / 2.0
            moments = kernel[h] @ np.stack([upper, lower, middle, middle * middle], axis=1)  # [S, A, 4]
            variance = np.maximum(moments[..., 3] - moments[..., 2] ** 2, 0.0)
            gamma = constants.gap / horizon * (moments[..., 0] - moments[..., 1])  # line 8
            bonus = constants.bonus * np.sqrt(variance * iota / divisor[h]) + known / divisor[h]  # line 9
            width = np.where(seen[h], gamma + bonus, horizon)
            above = np.minimum(self.rewards[h] + moments[..., 0] + width, horizon)  # line 10
            below = np.maximum(self.rewards[h] + moments[..., 1] - width, 0.0)  # line 11
            actions[h] = above.argmax(axis=1)  # line 14
            upper, lower = above[rows, actions[h]], below[rows, actions[h]]  # line 15
        actions.setflags(write=False)
        return OptimisticPlan(actions, float((upper - lower).max()))

    def serve(
        self, data: OnlineUsers, error_bound: float, privatize: Callable[[int, Tables], Tables]
    ) -> list[Told]:
        """Lines 3 to 19: `privatize` makes noisy sums so far of a user's position and own two tables."""
        require_users(data, self.rewards.shape)
        horizon, n_states, _ = self.rewards.shape
        noisy: Tables = np.zeros(self.rewards.shape), np.zeros((*self.rewards.shape, n_states))
        steps, told = np.arange(horizon), []
        for k, user in enumerate(data):
            # Section 5.3: consistent with a sum that errs by E/4 at most, and raised by E/2.
            counts = private_counts(*noisy, error_bound / 2.0) + error_bound / (2.0 * n_states)
            plan = self.plan(counts, error_bound)
            advice = plan.actions.tolist()
            episode = user.episode(lambda step, state, advice=advice: advice[step][state])  # type: ignore[misc]
            states, actions, _ = episode
            visits, moves = np.zeros(self.rewards.shape), np.zeros((*self.rewards.shape, n_states))
            visits[steps, states[:-1], actions] = 1.0
            moves[steps, states[:-1], actions, states[1:]] = 1.0
            noisy = privatize(k, (visits, moves))
            told.append(Told(plan.actions, plan.gap, actions))
        return told


def ucbvi(data: OnlineUsers, constants: UCBVIConstants) -> list[Told]:
    """The same on exact counts; not private."""
    rewards = data.mdp.rewards
    sums = np.zeros(rewards.shape), np.zeros((*rewards.shape, rewards.shape[1]))

    def exact(_: int, own: Tables) -> Tables:
        for total, table in zip(sums, own, strict=True):
            np.add(total, table, out=total)
        return sums

    return Optimism(rewards, constants, max(1, len(data))).serve(data, 0.0, exact)


@dataclass(frozen=True, eq=False)
class DPUCBVI:
    """Algorithm 1 for one player, frozen with its public parameters.

    ``(OnlineUsers, curator) -> UserViews`` of `Told` under joint trust, ``-> Served`` under local trust.
    """

    rewards: Array  # [H, S, A] in [0, 1], the public reward function; its shape gives H, S and A
    users: int  # K, the most users that a run may serve
    # ``ZCDP(rho)`` under joint trust, ``PureDP(epsilon)`` under local trust; not 0
    guarantee: ZCDP | PureDP = field(default_factory=lambda: ZCDP(rho=1.0))
    calibration: UCBVICalibrationName = "sound"  # of the noise under local trust
    constants: UCBVIConstants = field(default_factory=UCBVIConstants)
    mdp: TabularMDP | None = None  # the exact process, where it is known, to measure regret

    name = "dp-ucbvi"

    def __post_init__(self) -> None:
        public.set_read_only(self, rewards=public.unit_rewards(self.rewards))
        public.public_size(self.users, "users")
        public.require_word(self.calibration, "calibration", get_args(UCBVICalibrationName))
        budget = self.guarantee.rho if isinstance(self.guarantee, ZCDP) else self.guarantee.epsilon
        public.require_positive(budget, "guarantee")
        if self.trust == "joint" and self.calibration == "as-published":
            why = "the paper's central privatizer has Laplace noise on a tree, which there is none of here"
            remedy = "leave calibration out, or claim PureDP under local trust"
            raise InvalidParameter(
                "as-published under joint trust", where="calibration", why=why, remedy=remedy
            )

    @property
    def trust(self) -> Trust:
        """Whom users trust: with a zCDP budget the server, with a pure one nobody."""
        return "joint" if isinstance(self.guarantee, ZCDP) else "local"

    @cached_property
    def mechanism(self) -> TreeAggregation | Laplace:
        """The noise of either table."""
        horizon = len(self.rewards)
        if isinstance(self.guarantee, ZCDP):
            moved = math.nextafter(math.sqrt(2.0 * horizon), math.inf)  # never rounded down
            sigma = moved * math.sqrt(self.users.bit_length() / self.guarantee.rho)
            return TreeAggregation(sigma=sigma, steps=self.users, sensitivity=L2(moved, "proved"))
        if self.calibration == "as-published":
            return Laplace(scale=2.0 * horizon / self.guarantee.epsilon, sensitivity=L1(float(horizon)))
        sensitivity = L1(2.0 * horizon, "proved")
        return Laplace(scale=4.0 * horizon / self.guarantee.epsilon, sensitivity=sensitivity)

    @cached_property
    def error_bound(self) -> float:
        """E: four times a bound on every noisy count at every user, but with probability beta/3."""
        horizon, n_states, n_actions = self.rewards.shape
        counts = horizon * n_states * n_actions * (n_states + 1) * self.users
        failure = self.constants.failure_probability / 3.0
        if isinstance(self.mechanism, TreeAggregation):
            sigma = self.mechanism.sigma * math.sqrt(self.mechanism.levels)
            return self.constants.noise * 2.0 * gaussian_error_bound(sigma, counts, failure)
        # A sum of k Laplace noises b is above l with probability 2 exp(-l^2/(8 v^2)) at most, for
        # v >= b sqrt(k) and l <= sqrt(8) v^2/b (Chan, Shi and Song 2011, Lemma 2.8).
        logarithm = math.log(2.0 * counts / failure)
        spread = self.mechanism.scale * math.sqrt(max(float(self.users), logarithm))
        return self.constants.noise * 4.0 * spread * math.sqrt(8.0 * logarithm)

    @property
    def claim(self) -> Claim:
        """Lemma 5.1 with Gaussian noise, and Lemma 5.4."""
        return Claim(self.guarantee, **TERMS, trust_model=self.trust)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {
            "users": self.users,
            **dict(zip(("horizon", "states", "actions"), self.rewards.shape, strict=True)),
            "calibration": self.calibration,
            "C1": self.constants.gap,
            "C2": self.constants.bonus,
            "noise": self.constants.noise,
            "failure_probability": self.constants.failure_probability,
            "rewards_sha256": public.digest(self.rewards),
        }

    def __call__(self, data: OnlineUsers, curator: Curator) -> UserViews | Served:
        """Serve the users one after the other.

        Raises `DataError` (for the data's holder) for users of a process of other sizes, or more than K.
        """
        if len(data) > self.users:
            what, remedy = f"{len(data)} users where K = {self.users}", "state as many users as may come"
            raise DataError(what, where="users", why="noise and E are for K users", remedy=remedy)
        shapes = self.rewards.shape, (*self.rewards.shape, self.rewards.shape[1])
        half: Any = (
            ZCDP(rho=self.guarantee.rho / 2.0)
            if isinstance(self.guarantee, ZCDP)
            else PureDP(epsilon=self.guarantee.epsilon / 2.0)
        )
        labels, mechanism = ("n_sa", "n_sas"), self.mechanism
        optimism = Optimism(self.rewards, self.constants, self.users)
        if isinstance(mechanism, TreeAggregation):
            streams = [
                curator.stream(mechanism, label, shape, claimed=half)
                for label, shape in zip(labels, shapes, strict=True)
            ]

            def central(_: int, own: Tables) -> Tables:
                visits, moves = (of.add(table) for of, table in zip(streams, own, strict=True))
                return visits, moves

            return UserViews(tuple(optimism.serve(data, self.error_bound, central)))
        sums = tuple(np.zeros(shape) for shape in shapes)

        def local(k: int, own: Tables) -> Tables:
            with curator.user(k) as of_user:
                for total, table, label in zip(sums, own, labels, strict=True):
                    sent = of_user.release(table, mechanism, label=label, claimed=half)
                    np.add(total, sent, out=total)
            return sums[0], sums[1]

        told = optimism.serve(data, self.error_bound, local)
        policies = np.array([one.policy for one in told], dtype=np.int64)
        return Served(policies.reshape(-1, *self.rewards.shape[:2]), sums[0])

    def stand_in(self, users: int | None) -> Any:
        """As many users as there are, all made up; their number is public."""
        return online_users(self.mdp or uniform_mdp(self.rewards), users or 1, seed=0)

    def worst_pairs(self) -> Sequence[Pair]:
        """The first of at most three users, replaced by one who is in another state at every step."""
        mdp = self.mdp or uniform_mdp(self.rewards)
        users = online_users(mdp, min(3, self.users), seed=0)
        one, other = (users.replace(0, constant_user(mdp, state)) for state in (0, mdp.n_states - 1))
        return (Pair(one, other, f"user 1 of {len(users)}, elsewhere at every step", unit=0),)

    def utility(self, output: UserViews | Served) -> dict[str, float]:
        """Regret against the exact optimum, and what the policy of the least gap loses (lines 20 to 24)."""
        views = output.views if isinstance(output, UserViews) else ()
        policies = output.policies if isinstance(output, Served) else np.array([v.policy for v in views])
        if self.mdp is None or not len(policies):
            return {}
        found = regret_utility(self.mdp, policies)
        if views:
            best = min(views, key=lambda view: view.gap)
            found["suboptimality of the policy that is returned"] = self.mdp.suboptimality(best.policy)
        return found
