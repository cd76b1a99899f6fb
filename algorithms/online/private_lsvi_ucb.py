"""Private LSVI-UCB: jointly private reinforcement learning for linear processes, with rare updates.

Algorithm 1 of Ngo, Vietri and Wu (2022); `lsvi.learn` is the algorithm, and this what leaves it: a stream of
Gram matrices and, at each update, H targets. What users see is made of these and of their own data, so that
central privacy of the releases is joint privacy of the views (the billboard lemma: Hsu, Huang, Roth,
Roughgarden and Wu 2016). Times of updates are functions of released matrices.

The number of updates is capped in advance. Held to a budget the run releases what it needs, and its ledger
proves the budget. Without one its ledger must be the same whatever the noise: updates that never came are
made up for at the end by releases of zero, the constant function of the paper's own analysis.

Ngo, D., Vietri, G. and Wu, Z. S. (2022). Improved Regret for Differentially Private Exploration in Linear
MDP. ICML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dpaudit.algorithms.environments.tabular import TabularMDP, uniform_mdp
from dpaudit.algorithms.online.lsvi import Doubling, FixedTimes, LinearModel, UpdateTimes, learn
from dpaudit.algorithms.online.lsvi_calibration import (
    Counted,
    LSVICalibration,
    LSVICalibrationName,
    published_bonus,
    published_ridge,
)
from dpaudit.algorithms.online.online import UNIT, OnlineUsers, constant_user, online_users
from dpaudit.algorithms.online.optimism import least_value, regret_utility
from dpaudit.algorithms.public_parameters import (
    Array,
    digest,
    public_size,
    require_failure_probability,
    require_nonnegative,
    require_positive,
)
from dpaudit.claims.claims import Claim, Premise
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.curator import Curator
from dpaudit.curator.views import UserViews
from dpaudit.errors import DataError, InvalidParameter

#: Of the users in a worst pair: enough for an update to follow the changed one.
_FEW = 4


@dataclass(frozen=True)
class LSVIConstants:
    """Public constants that no guarantee depends on.

    Attributes:
        bonus: multiplies beta of Theorem 16. With 1 every value is at its upper bound for any number of users
            that is run here, and nothing is learnt.
        ridge: multiplies lambda of line 2.
        growth: C > 1.
        failure_probability: p.
    """

    bonus: float = 1.0
    ridge: float = 1.0
    growth: float = 2.0
    failure_probability: float = 0.05

    def __post_init__(self) -> None:
        require_positive(self.ridge, "ridge")
        require_nonnegative(self.bonus, "bonus")
        if not (math.isfinite(self.growth) and self.growth > 1.0):
            raise InvalidParameter(
                f"growth {self.growth!r}",
                where="growth",
                why="a determinant that has not grown calls for no update",
                remedy="give a number above 1",
            )
        require_failure_probability(self.failure_probability)


@dataclass(frozen=True, eq=False)
class PrivateLSVIUCB:
    """Algorithm 1, frozen with its public parameters: ``(OnlineUsers, curator) -> UserViews`` of `lsvi.Seen`.

    Args:
        model: what is public about the process; with values that nothing bounds below, nothing holds.
        users: K, the most users that a run may serve, at least 2.
        guarantee: rho.
        calibration: of the noise; see `lsvi_calibration`.
        counted: what the counter of updates counts; see there.
        constants: beta, lambda, C and p.
        fixed_updates: so many updates at times that are fixed beforehand, as Luyo, Garcelon, Lazaric and
            Pirotta (2021) have them; left out, updates where a determinant has grown.
        mdp: the exact process, where it is known, to measure regret.
    """

    model: LinearModel
    users: int
    guarantee: ZCDP = field(default_factory=lambda: ZCDP(rho=1.0))
    calibration: LSVICalibrationName = "sound"
    counted: Counted = "episodes"
    constants: LSVIConstants = field(default_factory=LSVIConstants)
    fixed_updates: int | None = None
    mdp: TabularMDP | None = None

    name = "private-lsvi-ucb"

    def __post_init__(self) -> None:
        if public_size(self.users, "users") < 2:
            raise InvalidParameter(
                "1 user", where="users", why="nobody is left to learn for", remedy="serve at least 2"
            )
        require_positive(self.guarantee.rho, "rho")
        _ = self.noise, self.update_times  # refuse what cannot be calibrated

    @cached_property
    def ridge(self) -> float:
        """lambda."""
        constants = self.constants
        return constants.ridge * published_ridge(*self._sizes, constants.failure_probability)

    @cached_property
    def bonus(self) -> float:
        """beta."""
        constants = self.constants
        if not constants.bonus:
            return 0.0
        return constants.bonus * published_bonus(*self._sizes, constants.failure_probability)

    @cached_property
    def noise(self) -> LSVICalibration:
        """The noise of one run, and its number of updates."""
        return LSVICalibration(
            name=self.calibration,
            counted=self.counted,
            values=self.model.values,
            rho=self.guarantee.rho,
            users=self.users,
            horizon=self.model.horizon,
            dimension=self.model.dimension,
            ridge=self.ridge,
            fixed_updates=self.fixed_updates,
        )

    @property
    def update_times(self) -> UpdateTimes:
        """When the policy is updated."""
        if self.fixed_updates is not None:
            return FixedTimes(self.users, self.fixed_updates)
        return Doubling(self.constants.growth, self.noise.updates)

    @property
    def claim(self) -> Claim:
        """What Theorem 12 rests on: rho-zCDP of all releases, whoever sees them; and what its proof needs."""
        bounded = least_value(
            clipped=self.model.values != "unclipped",
            source="Ngo, Vietri and Wu (2022), Lemma 14; line 14 clips above alone",
        )
        norm = Premise(
            name="norm(phi(x, a)) for every (x, a)",
            left=self.model.norm,
            relation="<=",
            right=1.0,
            source="Ngo, Vietri and Wu (2022), Assumption 1",
        )
        return Claim(
            self.guarantee,
            unit=UNIT,
            neighbouring=Neighbouring.REPLACE_ONE,
            trust_model=TrustModel.JOINT,
            premises=(bounded, norm),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        n_states, n_actions, dimension = self.model.features.shape
        times = {} if self.fixed_updates is None else {"fixed_updates": self.fixed_updates}
        return {
            "users": self.users,
            "horizon": self.model.horizon,
            "states": n_states,
            "actions": n_actions,
            "dimension": dimension,
            "calibration": self.calibration,
            "counted": self.counted,
            "values": self.model.values,
            "beta": self.bonus,
            "lambda": self.ridge,
            "growth": self.constants.growth,
            "most_updates": self.noise.updates,
            **times,
            "features_sha256": digest(self.model.features),
        }

    def __call__(self, data: OnlineUsers, curator: Curator) -> UserViews:
        """Serve the users one after the other; what each sees.

        Raises `DataError` (for the data's holder) for users of a process of other sizes, or more than K.
        """
        if len(data) > self.users:
            raise DataError(
                f"{len(data)} users where K = {self.users}",
                where="users",
                why="a longer tree has more levels, so that each user would cost more",
                remedy="state as many users as may come",
            )
        noise = self.noise
        size = self.model.dimension
        grams = curator.stream(
            noise.gram,
            "Lambda",
            (self.model.horizon, size, size),
            claimed=ZCDP(rho=self.guarantee.rho / 2.0),
        )

        def released(step: int, target: Array) -> Array:
            return curator.release(
                target, noise.targets[step], label=f"y_{step + 1}", claimed=noise.target_share(step)
            )

        views = learn(
            data,
            self.model,
            ridge=self.ridge,
            bonus=self.bonus,
            updates=self.update_times,
            summed=grams.add,
            released=released,
        )
        if curator.ledger.header.schedule == "fixed":
            made = views.views[-1].updates if views.views else 0
            for _ in range(noise.updates - made):
                for step in reversed(range(self.model.horizon)):
                    released(step, np.zeros(size))
        return views

    def worst_pairs(self) -> Sequence[Pair]:
        """One of a few users, replaced by one who is in another state at every step, both at full rewards.

        The first one is followed by others, whom only a release may reach.
        """
        n_states, n_actions, _ = self.model.features.shape
        sizes = (self.model.horizon, n_states, n_actions)
        mdp = self.mdp or uniform_mdp(np.full(sizes, 0.5))
        users = online_users(mdp, min(_FEW, self.users), seed=0)
        first = self.model.features[:, 0]  # [S, d]
        apart = np.linalg.norm(first[:, None] - first[None], axis=2)
        low, high = (int(state) for state in np.unravel_index(apart.argmax(), apart.shape))
        one, other = (users.replace(0, constant_user(mdp, state, reward=1.0)) for state in (low, high))
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
