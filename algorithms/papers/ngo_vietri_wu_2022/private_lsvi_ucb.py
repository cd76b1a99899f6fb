"""Private LSVI-UCB: jointly private reinforcement learning for linear processes, with rare updates.

Algorithm 1 of Ngo, Vietri and Wu (2022); `lsvi.learn` is the algorithm. Its releases are a stream of Gram
matrices and, at each update, H targets. What users see is made of these and of their own data, so that
central privacy of the releases is joint privacy of the views (the billboard lemma: Hsu, Huang, Roth,
Roughgarden and Wu 2016). Times of updates are functions of released matrices.

The number of updates is capped in advance. Under a budget filter the run releases what it needs, and its
ledger proves the budget. Without one its ledger must not depend on the noise: the updates that were not used
are followed up at the end by releases of zero, the constant function of the paper's own analysis.

**The noise and its sensitivities.** Let features have norm at most 1 and rewards lie in [0, 1].

**Gram matrices.** One user adds phi phi' at each of H steps; two of these are never opposed, so that
replacing the user moves all H of them by sqrt(2 H) at most in the Frobenius norm. The user sits in
L = floor(log2 K) + 1 nodes of the tree. Noise of variance 2 H L / rho on a node (half of it off the diagonal)
costs rho / 2.

**Targets.** One user adds phi (r + V) to y_h, V = V_{h+1} in [0, v_{h+1}]: replaced, it moves y_h by
2 (1 + v_{h+1}) at most. With values in [0, H] that is 2 H + 2, and 2 at the last step, which nothing
follows; with values in [0, H - h + 1] it is 2 (H - h + 1). An update releases all H targets. U updates with
noise of variance sigma^2 cost U sum_h Delta_h^2 / (2 sigma^2): ``sound`` noise makes this rho / 2,

    sigma^2 = U [(H - 1)(2 H + 2)^2 + 4] / rho,    or    (2/3) U H (H + 1)(2 H + 1) / rho,

and ``as-published`` noise has sigma^2 = 6 H^2 N_max / rho, by a lemma that adds sensitivities up where their
squares add (Lemma 15): its share of one target is rho / (2 N), N the number of targets that it thinks are
released.

**Updates.** N_max = d H / log 2 log(1 + K / (lambda d)) bounds what the counter counts, which begins at 1 and
must be below N_max for another update. In the analysis (Theorem 11) it counts ``episodes`` in which there is
an update, so that there are ceil(N_max) - 1 of them. As printed it is incremented inside the loop over h, in
line 15, and counts ``steps``: there are ceil((N_max - 1) / H).

Ngo, D., Vietri, G. and Wu, Z. S. (2022). Improved Regret for Differentially Private Exploration in Linear
MDP. ICML.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.environments.online_users import TERMS, OnlineUsers, constant_user, online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, uniform_mdp
from dpaudit.algorithms.optimism import least_value, regret_utility
from dpaudit.algorithms.papers.ngo_vietri_wu_2022 import lsvi
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L2, Frobenius
from dpaudit.curator.curator import Curator
from dpaudit.curator.views import UserViews
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array, Gaussian, TreeAggregation

LSVICalibrationName: TypeAlias = Literal["sound", "as-published"]
Counted: TypeAlias = Literal["episodes", "steps"]


def published_ridge(users: int, horizon: int, dimension: int, rho: float, p: float) -> float:
    """Line 2: lambda = log(K) (6 sqrt(d + 1) + 2 log(3 K H / p)) / sqrt(2 rho)."""
    size = 6.0 * math.sqrt(dimension + 1.0) + 2.0 * math.log(3.0 * users * horizon / p)
    return math.log(users) * size / math.sqrt(2.0 * rho)


def published_count(users: int, horizon: int, dimension: int, ridge: float) -> float:
    """Line 3: N_max = d H / log 2 log(1 + K / (lambda d))."""
    return dimension * horizon / math.log(2.0) * math.log1p(users / (ridge * dimension))


def published_bonus(users: int, horizon: int, dimension: int, rho: float, p: float) -> float:
    """Theorem 16 and appendix B.1: beta = 5 H^2 sqrt(d lambda log chi) + 6 d H sqrt(log chi)."""
    ridge = published_ridge(users, horizon, dimension, rho, p)
    count = published_count(users, horizon, dimension, ridge)
    noise = horizon * count * math.sqrt(math.log(3.0 * users * horizon / p) / rho)  # lambda_y
    weights = max(1.0, 2.0 * horizon * math.sqrt(dimension * users / ridge) + noise / ridge)  # U_K
    log_chi = math.log(25.0**4 * 162.0 * dimension * horizon / p) + 4.0 * math.log(users) + math.log(weights)
    first = 5.0 * horizon**2 * math.sqrt(dimension * ridge * log_chi)
    return first + 6.0 * dimension * horizon * math.sqrt(log_chi)


@dataclass(frozen=True)
class LSVICalibration:
    """The noise of one run, and how many updates it is for."""

    name: LSVICalibrationName  # which calibration
    counted: Counted  # what the counter counts
    values: lsvi.ValueRange  # where values lie
    rho: float  # the whole budget
    users: int  # K, enough that an update is ever made
    horizon: int  # H
    dimension: int  # d
    ridge: float  # lambda, the paper's or another
    # their number where it is fixed beforehand; left out, it follows from N_max
    fixed_updates: int | None = None

    def __post_init__(self) -> None:
        public.require_word(self.name, "calibration", get_args(LSVICalibrationName))
        public.require_word(self.counted, "counted", get_args(Counted))
        public.require_word(self.values, "values", get_args(lsvi.ValueRange))
        for where in ("users", "horizon", "dimension"):
            public.public_size(getattr(self, where), where)
        public.require_positive(self.rho, "rho")
        public.require_positive(self.ridge, "ridge")
        if self.fixed_updates is not None:
            public.public_size(self.fixed_updates, "fixed_updates")
        if self.updates < 1:
            what = f"N_max = {self.most_counted:.6g}: no update would ever be made"
            raise InvalidParameter(what, where="users", remedy="serve more users, or take a smaller lambda")

    @property
    def most_counted(self) -> float:
        """N_max, or the number of updates where it is fixed beforehand."""
        if self.fixed_updates is not None:
            return float(self.fixed_updates)
        return published_count(self.users, self.horizon, self.dimension, self.ridge)

    @cached_property
    def updates(self) -> int:
        """U, the most updates there can be."""
        if self.fixed_updates is not None:
            return self.fixed_updates
        counted_each = self.horizon if self.counted == "steps" else 1
        return math.ceil((self.most_counted - 1.0) / counted_each)

    def target_sensitivity(self, step: int) -> float:
        """Delta_h: how far one user moves y_h, step from 0."""
        return 2.0 * (1.0 + lsvi.largest_value(self.values, self.horizon, step + 1))

    @cached_property
    def target_variance(self) -> float:
        """The variance sigma_y^2 of the targets' noise."""
        if self.name == "as-published":
            return 6.0 * self.horizon**2 * self.most_counted / self.rho
        squares = math.fsum(self.target_sensitivity(step) ** 2 for step in range(self.horizon))
        return self.updates * squares / self.rho

    def target_share(self, step: int) -> ZCDP:
        """Return the rho stated for y_h (step from 0): as published a share of rho / 2, else the cost."""
        if self.name == "sound":
            return ZCDP(rho=self.target_sensitivity(step) ** 2 / (2.0 * self.target_variance))
        counts_targets = self.counted == "steps" and self.fixed_updates is None
        return ZCDP(rho=self.rho / (2.0 * self.most_counted * (1 if counts_targets else self.horizon)))

    @cached_property
    def targets(self) -> tuple[Gaussian, ...]:
        """The mechanism of y_h for each step."""
        sigma, moved = math.sqrt(self.target_variance), map(self.target_sensitivity, range(self.horizon))
        return tuple(Gaussian(sigma=sigma, sensitivity=L2(most, "proved")) for most in moved)

    @cached_property
    def gram(self) -> TreeAggregation:
        """The mechanism of all H streams of Gram matrices together."""
        sensitivity = math.nextafter(math.sqrt(2.0 * self.horizon), math.inf)  # never rounded down
        sigma = sensitivity * math.sqrt(self.users.bit_length() / self.rho)
        return TreeAggregation(sigma=sigma, steps=self.users, sensitivity=Frobenius(sensitivity, "proved"))


@dataclass(frozen=True)
class LSVIConstants:
    """Public constants that no guarantee depends on."""

    # multiplies beta of Theorem 16. With 1 every value is at its upper bound for any number of users that is
    # run here, and nothing is learnt.
    bonus: float = 1.0
    ridge: float = 1.0  # multiplies lambda of line 2
    growth: float = 2.0  # C > 1
    failure_probability: float = 0.05  # p

    def __post_init__(self) -> None:
        public.require_positive(self.ridge, "ridge")
        public.require_nonnegative(self.bonus, "bonus")
        if not (math.isfinite(self.growth) and self.growth > 1.0):
            what, why = f"growth {self.growth!r}", "a determinant that has not grown calls for no update"
            raise InvalidParameter(what, where="growth", why=why, remedy="give a number above 1")
        public.require_failure_probability(self.failure_probability)


@dataclass(frozen=True, eq=False)
class PrivateLSVIUCB:
    """Algorithm 1, frozen with its public parameters: ``(OnlineUsers, curator) -> UserViews`` of `Seen`."""

    model: lsvi.LinearModel  # without a lower bound on values no guarantee holds
    users: int  # K, the most users that a run may serve, at least 2
    guarantee: ZCDP = field(default_factory=lambda: ZCDP(rho=1.0))
    calibration: LSVICalibrationName = "sound"  # of the noise; see above
    counted: Counted = "episodes"  # what the counter of updates counts
    constants: LSVIConstants = field(default_factory=LSVIConstants)  # beta, lambda, C and p
    # so many updates at times that are fixed beforehand, as Luyo, Garcelon, Lazaric and Pirotta (2021) have
    # them; left out, updates where a determinant has grown
    fixed_updates: int | None = None
    mdp: TabularMDP | None = None  # the exact process, where it is known, to measure regret

    name = "private-lsvi-ucb"

    def __post_init__(self) -> None:
        if public.public_size(self.users, "users") < 2:
            why = "there is no later user to learn for"
            raise InvalidParameter("1 user", where="users", why=why, remedy="serve at least 2")
        public.require_positive(self.guarantee.rho, "rho")
        _ = self.noise, self.update_times  # refuse what cannot be calibrated

    @cached_property
    def ridge(self) -> float:
        """The ridge parameter lambda."""
        return self.constants.ridge * published_ridge(*self._sizes, self.constants.failure_probability)

    @cached_property
    def bonus(self) -> float:
        """The factor beta of the bonus."""
        factor = self.constants.bonus
        return factor * published_bonus(*self._sizes, self.constants.failure_probability) if factor else 0.0

    @cached_property
    def noise(self) -> LSVICalibration:
        """The noise of one run, and its number of updates."""
        names = self.calibration, self.counted, self.model.values
        sizes = self.users, self.model.horizon, self.model.dimension
        return LSVICalibration(*names, self.guarantee.rho, *sizes, self.ridge, self.fixed_updates)

    @property
    def update_times(self) -> lsvi.UpdateTimes:
        """When the policy is updated."""
        if self.fixed_updates is not None:
            return lsvi.fixed_times(self.users, self.fixed_updates)
        return lsvi.doubling(self.constants.growth, self.noise.updates)

    @property
    def claim(self) -> Claim:
        """The basis of Theorem 12: rho-zCDP of all releases, with the premises of its proof."""
        clipped, paper = self.model.values != "unclipped", "Ngo, Vietri and Wu (2022)"
        bounded = least_value(clipped=clipped, source=f"{paper}, Lemma 14; line 14 clips above alone")
        name, source = "norm(phi(x, a)) for every (x, a)", f"{paper}, Assumption 1"
        premises = bounded, Premise(name=name, left=self.model.norm, relation="<=", right=1.0, source=source)
        return Claim(self.guarantee, **TERMS, trust_model="joint", premises=premises)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        times = {} if self.fixed_updates is None else {"fixed_updates": self.fixed_updates}
        return {
            "users": self.users,
            "horizon": self.model.horizon,
            **dict(zip(("states", "actions", "dimension"), self.model.features.shape, strict=True)),
            "calibration": self.calibration,
            "counted": self.counted,
            "values": self.model.values,
            "beta": self.bonus,
            "lambda": self.ridge,
            "growth": self.constants.growth,
            "most_updates": self.noise.updates,
            **times,
            "features_sha256": public.digest(self.model.features),
        }

    def __call__(self, data: OnlineUsers, curator: Curator) -> UserViews:
        """Serve the users one after the other; what each sees.

        Raises `DataError` (for the data's holder) for users of a process of other sizes, or more than K.
        """
        if len(data) > self.users:
            what, remedy = f"{len(data)} users where K = {self.users}", "state as many users as may come"
            why = "a longer tree has more levels, so that each user would cost more"
            raise DataError(what, where="users", why=why, remedy=remedy)
        noise, size, half = self.noise, self.model.dimension, ZCDP(rho=self.guarantee.rho / 2.0)
        grams = curator.stream(noise.gram, "Lambda", (self.model.horizon, size, size), claimed=half)

        def released(step: int, target: Array) -> Array:
            share = noise.target_share(step)
            return curator.release(target, noise.targets[step], label=f"y_{step + 1}", claimed=share)

        stated: dict[str, Any] = {"ridge": self.ridge, "bonus": self.bonus, "updates": self.update_times}
        views = lsvi.learn(data, self.model, **stated, summed=grams.add, released=released)
        if curator.ledger.header.schedule == "fixed":
            made = views.views[-1].updates if views.views else 0
            for _ in range(noise.updates - made):
                for step in reversed(range(self.model.horizon)):
                    released(step, np.zeros(size))
        return views

    def worst_pairs(self) -> Sequence[Pair]:
        """The first user, replaced by one who is in another state at every step, both at full rewards.

        All other users stay where the first policy's features are longest. There are enough of them that a
        determinant grows by the factor C, or a fixed time comes: targets are released only at updates.
        """
        model = self.model
        mdp = self.mdp or uniform_mdp(np.full((model.horizon, *model.features.shape[:2]), 0.5))
        start = np.tile(2.0 * self.ridge * np.eye(model.dimension), (model.horizon, 1, 1))
        policy = model.plan(start, self.bonus, lambda *_: np.zeros(model.dimension))  # before any update
        lengths = np.linalg.norm(model.features[np.arange(len(model.features)), policy], axis=2).max(axis=0)
        growth = 2.0 * self.ridge * (self.constants.growth - 1.0) / max(float(lengths.max()), 1e-9) ** 2
        wait = 1.2 * growth if self.fixed_updates is None else self.users / (self.fixed_updates + 1)
        number = min(self.users, 4 + math.ceil(min(wait, 1e9)))
        rest = constant_user(mdp, int(lengths.argmax()))
        users = replace(online_users(mdp, number, seed=0), replaced=dict.fromkeys(range(number), rest))
        first = model.features[:, 0]  # [S, d]
        apart = np.linalg.norm(first[:, None] - first[None], axis=2)
        one, other = (
            users.replace(0, constant_user(mdp, int(state), reward=1.0))
            for state in np.unravel_index(apart.argmax(), apart.shape)
        )
        return (Pair(one, other, f"user 1 of {len(users)}, elsewhere at every step", unit=0),)

    def utility(self, output: UserViews) -> dict[str, float]:
        """Updates, and regret against the exact optimum where the process is known."""
        if not output.views:
            return {}
        updates = {"updates": float(output.views[-1].updates)}
        if self.mdp is None:
            return updates
        policies = np.stack([view.policy for view in output.views])
        return {**regret_utility(self.mdp, policies), **updates}

    @property
    def _sizes(self) -> tuple[int, int, int, float]:
        return self.users, self.model.horizon, self.model.dimension, self.guarantee.rho
