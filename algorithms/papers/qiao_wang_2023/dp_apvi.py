"""DP-APVI: differentially private adaptive pessimistic value iteration.

Algorithm 1 of Qiao and Wang (2023), with Gaussian noise for rho-zCDP or Laplace noise for epsilon-DP,
and the non-private APVI (Yin and Wang 2021) that it becomes with E = 0 and raw counts. Lines 2 to 10 read
released counts only: they are post-processing and cost no privacy, whatever their constants.

Qiao, D. and Wang, Y.-X. (2023). Offline Reinforcement Learning with Differential Privacy. NeurIPS.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.data.trajectories import TERMS, Trajectory, TrajectoryData
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.papers.qiao_wang_2023 import private_counts
from dpaudit.algorithms.papers.qiao_wang_2023.planner import Planner, Policy, require_sizes
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, Gaussian, Laplace


@dataclass(frozen=True)
class PenaltyConstants:
    """C1, C2 and C of line 5; the defaults are the published ones."""

    variance: float = math.sqrt(2.0)  # C1 >= 0, of the Bernstein term
    # C2 >= 0, of the term that pays for the noise. The published 16 makes the theorem hold; learning from
    # fewer than some 10^5 visits a cell takes a smaller one, which loses the theorem's bound on
    # suboptimality but not its privacy.
    privacy: float = 16.0
    unvisited: float = 2.0  # C > 1, so that a pair with too few visits is worth nothing
    # Hoeffding's form, of the end of section 3, has H^2 in place of the variance
    form: Literal["bernstein", "hoeffding"] = "bernstein"

    def __post_init__(self) -> None:
        public.require_nonnegative(self.variance, "variance")
        public.require_nonnegative(self.privacy, "privacy")
        public.require_word(self.form, "form", ("bernstein", "hoeffding"))
        if not 1.0 < self.unvisited < math.inf:
            what, why = f"unvisited = {self.unvisited!r}", "C H has to exceed any value that can be earned"
            raise InvalidParameter(what, where="unvisited", why=why, remedy="give C > 1")


def transition_estimate(counts_sas: Array, error_bound: float) -> Array:
    """Equation (5): n_sas / n_sa where n_sa > E, the uniform distribution elsewhere; [..., S].

    The visits n_sa are the sums of the counts [..., S], so that each row is a distribution.
    """
    counts_sa = counts_sas.sum(axis=-1, keepdims=True)  # [..., 1]
    trusted = counts_sa > error_bound
    return np.where(trusted, counts_sas / np.where(trusted, counts_sa, 1.0), 1.0 / counts_sas.shape[-1])


def bernstein_penalty(
    estimate: Array,
    counts_sa: Array,
    next_values: Array,
    *,
    horizon: int,
    error_bound: float,
    failure_probability: float,
    constants: PenaltyConstants,
) -> Array:
    """Line 5 for one step h, [S, A], non-negative; may be infinite where n is barely above E.

    C1 sqrt(Var_P(V) iota / (n - E)) + C2 S H E iota / n  where n > E, C H elsewhere;
    iota = log(H S A / delta). In Hoeffding's form Var_P(V) is H^2, which bounds it.

    The estimate P_h is [S, A, S], the visits n_h are [S, A] and the next values V_{h+1} [S].
    """
    n_states, n_actions = counts_sa.shape
    iota = math.log(horizon * n_states * n_actions / failure_probability)
    mean = estimate @ next_values  # [S, A]
    variance = (estimate * (next_values - mean[..., None]) ** 2).sum(axis=-1)  # [S, A]
    if constants.form == "hoeffding":
        variance = np.full(mean.shape, float(horizon**2))
    trusted = counts_sa > error_bound
    visits = np.where(trusted, counts_sa, error_bound + 1.0)  # a stand-in, unused, that divides safely
    with np.errstate(over="ignore"):
        spread = constants.variance * np.sqrt(variance * iota / (visits - error_bound))
    noise = constants.privacy * n_states * horizon * error_bound * iota / visits
    return np.where(trusted, spread + noise, constants.unvisited * horizon)


def pessimistic_value_iteration(
    counts_sas: ArrayLike,
    rewards: ArrayLike,
    *,
    error_bound: float,
    failure_probability: float = 0.1,
    constants: PenaltyConstants | None = None,
) -> Policy:
    """Lines 2 to 10 of Algorithm 1; among equally good actions the lowest is taken.

    Counts [H, S, A, S], private or raw, are not negative; those of (h, s, a) are their sums. Public rewards
    are [H, S, A] in [0, 1]. The error bound E is finite, and 0 for raw counts; the failure probability delta
    is the utility theorem's, not the privacy claim's.
    """
    counts = np.asarray(counts_sas, dtype=np.float64)
    reward = public.unit_rewards(rewards)
    horizon, n_states, _ = reward.shape
    if counts.shape != (*reward.shape, n_states):
        what, where = f"counts {counts.shape}, rewards {reward.shape}", "pessimistic_value_iteration"
        raise InvalidParameter(what, where=where, remedy="give [H, S, A, S] and [H, S, A]")
    if not (np.isfinite(counts).all() and (counts >= 0.0).all()):
        what, why = "a count that is negative or not finite", "the estimate would be no distribution"
        remedy = "make noisy counts consistent with private_counts first"
        raise InvalidParameter(what, where="counts_sas", why=why, remedy=remedy)
    public.require_nonnegative(error_bound, "error_bound")
    public.require_failure_probability(failure_probability)
    constants = constants or PenaltyConstants()

    # Line 2. V_{H+1} = 0.
    counts_sa = counts.sum(axis=3)  # [H, S, A]
    estimate = transition_estimate(counts, error_bound)  # [H, S, A, S]
    stated: dict[str, Any] = {"horizon": horizon, "error_bound": error_bound, "constants": constants}
    stated["failure_probability"] = failure_probability
    values = np.zeros((horizon + 1, n_states))
    actions = np.zeros((horizon, n_states), dtype=np.int64)
    for h in reversed(range(horizon)):  # Line 3. h counts from 0 here, from 1 in the paper.
        expected = reward[h] + estimate[h] @ values[h + 1]  # Line 4. [S, A]
        penalty = bernstein_penalty(estimate[h], counts_sa[h], values[h + 1], **stated)  # Line 5. [S, A]
        clipped = np.clip(expected - penalty, 0.0, horizon - h)  # Lines 6 and 7.
        actions[h] = clipped.argmax(axis=1)  # Line 8; argmax takes the first of equals.
        values[h] = clipped.max(axis=1)
    return Policy(actions, values)  # Line 10.


@dataclass(frozen=True)
class DPAPVI(Planner):
    """Algorithm 1, frozen with its public parameters: a callable ``(data, curator) -> Policy``."""

    rewards: Array  # [H, S, A] in [0, 1], the public reward function; its shape gives H, S and A
    # ``ZCDP(rho)`` for Gaussian noise, ``PureDP(epsilon)`` for Laplace noise; not 0
    guarantee: ZCDP | PureDP = field(default_factory=lambda: ZCDP(rho=1.0))
    failure_probability: float = 0.1  # delta of the utility theorem; no part of the privacy claim
    constants: PenaltyConstants = field(default_factory=PenaltyConstants)  # C1, C2 and C of line 5
    mdp: TabularMDP | None = None  # the exact process, where it is known, to measure suboptimality

    name = "dp-apvi"

    def __post_init__(self) -> None:
        public.set_read_only(self, rewards=public.unit_rewards(self.rewards))
        budget = self.guarantee.rho if isinstance(self.guarantee, ZCDP) else self.guarantee.epsilon
        if budget == 0:
            what = f"a budget of {self.guarantee}"
            raise InvalidParameter(what, where="guarantee", remedy="give a positive rho or epsilon")
        public.require_failure_probability(self.failure_probability)

    @property
    def claim(self) -> Claim:
        """The paper's claim (Theorem 3.4; the pure one at the end of its section 3)."""
        return Claim(self.guarantee, **TERMS)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {
            **dict(zip(("horizon", "states", "actions"), self.rewards.shape, strict=True)),
            "failure_probability": self.failure_probability,
            "C1": self.constants.variance,
            "C2": self.constants.privacy,
            "C": self.constants.unvisited,
            **({} if self.constants.form == "bernstein" else {"penalty": self.constants.form}),
            "rewards_sha256": public.digest(self.rewards),
        }

    def __call__(self, data: TrajectoryData, curator: Curator) -> Policy:
        """Release the counts, and plan on them; everything after the releases is post-processing.

        Raises `DataError` (for the data's holder) if the data are of other sizes than the reward function.
        """
        horizon, n_states, n_actions = self.rewards.shape
        require_sizes(data, self.rewards.shape)
        mechanism, share, error_bound = self._noise()

        # Line 2. n'_sa and n'_sas: each trajectory adds one to one cell per step, in either table.
        visits, transitions = data.visits()
        bound = float(horizon) if isinstance(mechanism, Laplace) else math.sqrt(horizon)

        def noisy(cells: NDArray[np.int64], label: str, *shape: int) -> Array:
            return curator.release_counts(
                cells, shape=shape, bound=bound, mechanism=mechanism, label=label, claimed=share
            )

        noisy_sa = noisy(visits, "n_sa", horizon, n_states, n_actions)
        noisy_sas = noisy(transitions, "n_sas", horizon, n_states, n_actions, n_states)
        # Equation (3), [H, S, A, S].
        counts = private_counts.private_counts(noisy_sa, noisy_sas, error_bound)

        delta, constants = self.failure_probability, self.constants
        return pessimistic_value_iteration(  # Lines 3 to 10.
            counts, self.rewards, error_bound=error_bound, failure_probability=delta, constants=constants
        )

    def worst_pairs(self) -> Sequence[Pair]:
        """Two trajectories that share no cell at any step, alone and among others."""
        horizon, n_states, n_actions = self.rewards.shape
        ones, zeros = np.ones(horizon), np.zeros(horizon)
        low = Trajectory(np.zeros(horizon + 1, int), np.zeros(horizon, int), zeros)
        # With one state and one action the two are equal.
        high = Trajectory(np.full(horizon + 1, n_states - 1), np.full(horizon, n_actions - 1), ones)

        def data(*rows: Trajectory) -> TrajectoryData:
            return TrajectoryData.of(rows, n_states, n_actions)

        many = [low] * 50
        how = "replaced by one that differs at every step"
        return (
            Pair(data(low), data(high), f"one trajectory, {how}", unit=0),
            Pair(data(*many, high), data(*many, low), f"the last of 51 trajectories, {how}", unit=50),
        )

    def _noise(self) -> tuple[Gaussian | Laplace, ZCDP | PureDP, float]:
        """Return each table's mechanism, its share of the budget, and E: twice a likely bound on noise."""
        horizon, n_states, n_actions = self.rewards.shape
        delta, counts = self.failure_probability, 2 * horizon * n_states**2 * n_actions
        match self.guarantee:
            case ZCDP(rho=rho):
                sigma, half = math.sqrt(2 * horizon / rho), ZCDP(rho=rho / 2)
                gaussian = Gaussian(sigma=sigma, sensitivity=L2(math.sqrt(2 * horizon)))
                return gaussian, half, private_counts.gaussian_error_bound(sigma, counts, delta)
            case PureDP(epsilon=epsilon):
                scale, share = 4 * horizon / epsilon, PureDP(epsilon=epsilon / 2)
                laplace = Laplace(scale=scale, sensitivity=L1(2.0 * horizon))
                return laplace, share, private_counts.laplace_error_bound(scale, counts, delta)
            case _:
                assert_never(self.guarantee)


def apvi(
    data: TrajectoryData,
    rewards: Array,
    *,
    failure_probability: float = 0.1,
    constants: PenaltyConstants | None = None,
) -> Policy:
    """APVI (Yin and Wang 2021), not private: what DP-APVI becomes with raw counts and E = 0."""
    _, counts = data.visit_counts()
    return pessimistic_value_iteration(
        counts, rewards, error_bound=0.0, failure_probability=failure_probability, constants=constants
    )
