"""What docs/papers/theory.md measures: each algorithm beside the bounds that its paper proves.

A study runs one algorithm over a size (records n, episodes or users K) at a few budgets, and has the bound of
the theorem at the same places. Where a theorem leaves its constant and its logarithms open the bound is an
order: measured over order should then neither grow nor, for a tight theorem, fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from dpaudit.algorithms.data.episodes import FirstVisits
from dpaudit.algorithms.environments.chain import LARGEST_RETURN, Chain
from dpaudit.algorithms.environments.hard_mixture import hard_mixture
from dpaudit.algorithms.environments.linear_mdp import LinearMDP, one_hot_features, random_linear_mdp
from dpaudit.algorithms.environments.linear_mixture import LinearMixtureMDP, random_linear_mixture
from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.environments.riverswim import figure_river
from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp, uniform_policy
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.optimism import cumulative_regret
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import (
    DPLSL,
    DPLSW,
    lsl,
    lsl_excess,
    lsw,
    lsw_excess,
)
from dpaudit.algorithms.papers.he_zhou_2025.dp_policy_gradient import DPPolicyGradient
from dpaudit.algorithms.papers.liao_he_gu_2023.ldp_ucrl_vtr import LDPUCRLVTR, MixtureConstants
from dpaudit.algorithms.papers.liao_he_gu_2023.value_targeted import MixtureModel
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.lsvi import LinearModel
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.private_lsvi_ucb import LSVIConstants, PrivateLSVIUCB
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI, PenaltyConstants
from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI
from dpaudit.algorithms.papers.qiao_wang_2023.private_counts import gaussian_error_bound
from dpaudit.algorithms.papers.qiao_wang_2023.vapvi import LinearConstants
from dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi import DPUCBVI, UCBVIConstants
from dpaudit.algorithms.public_parameters import Array
from dpaudit.claims.guarantees import ZCDP, ApproxDP, PureDP
from dpaudit.curator.running import run


@dataclass(frozen=True)
class Point:
    """One run at one size; its number is NaN before the run."""

    study: str
    budget: float
    size: int
    seed: int
    measured: float = math.nan

    @property
    def curve(self) -> float:
        """What its line in tables of figures is called: the budget."""
        return self.budget


@dataclass(frozen=True)
class Study:
    """One algorithm beside one theorem."""

    name: str  # short, without spaces
    title: str  # of the section
    theorem: str  # what it says, and what is left out of it here
    setting: str  # process, constants and what is measured
    quantity: str  # what is measured
    axis: str  # the name of the size
    of_budget: str  # the name of the budget
    budgets: tuple[float, ...]
    sizes: tuple[int, ...]
    runs: int
    measure: Callable[[float, int, int], float]  # from budget, size and seed
    bound: Callable[[float, int], float]  # from budget and size
    exact: bool  # whether the bound has its constants; else it is an order
    exponents: tuple[float, float]  # of the theorem in the size: the flattest and the steepest of its terms
    lower: Callable[[float, int], float] | None = None  # the order of a published lower bound
    lower_source: str = ""
    # From a budget and a seed to what is measured at each of the sizes, where one run has them all.
    along: Callable[[float, int], Mapping[int, float]] | None = None

    def points(self) -> list[Point]:
        """Every run, not computed yet."""
        seeds = range(self.runs)
        return [Point(self.name, b, n, seed) for b in self.budgets for n in self.sizes for seed in seeds]


def measured(points: Sequence[Point]) -> list[Point]:
    """The points of one run, or of one size, with their numbers."""
    first = points[0]
    study = STUDIES[first.study]
    if study.along is not None:
        found = study.along(first.budget, first.seed)
        return [replace(point, measured=found[point.size]) for point in points]
    return [replace(p, measured=study.measure(p.budget, p.size, p.seed)) for p in points]


def cache_of(study: Study) -> RunCache[Point]:
    """How a study's runs are kept."""
    along = frozenset({"size"}) if study.along is not None else frozenset()
    return RunCache(frozenset({"measured"}), measured, along)


# Offline


def occupancy(mdp: TabularMDP, policy: Array) -> Array:
    """The chance of each state and action at each step, [H, S, A], from the initial distribution."""
    chances = mdp.action_probabilities(policy)
    found, states = np.empty(chances.shape), mdp.initial
    for h in range(mdp.horizon):
        found[h] = states[:, None] * chances[h]
        states = np.einsum("sa,sat->t", found[h], mdp.transitions[h])
    return found


_DELTA = 0.1
APVI_PROCESS = random_mdp(3, 2, 3, seed=4)


def apvi_suboptimality(budget: float, size: int, seed: int, *, privacy: float = 0.1) -> float:
    """Of DP-APVI on trajectories of the uniform policy."""
    mdp = APVI_PROCESS
    data = mdp.sample_trajectories(size, uniform_policy(mdp), np.random.default_rng([1, size, seed]))
    constants = PenaltyConstants(privacy=privacy)
    algorithm = DPAPVI(mdp.rewards, ZCDP(rho=budget), _DELTA, constants, mdp=mdp)
    policy = run(algorithm, data, seed=noise_seed(1, seed, size, *bits(budget))).output
    return mdp.suboptimality(policy.actions)


def apvi_bound(budget: float, size: int) -> float:
    """Theorem 3.4's main term, with its constant, and the privacy term of its proof before it is simplified.

    Sum over h and (s, a) of d* (4 sqrt(2 Var(V*) iota/(n d_mu)) + (256/3) S H E iota/(n d_mu)).
    """
    mdp = APVI_PROCESS
    horizon, n_states, n_actions = mdp.rewards.shape
    values = mdp.optimal_values()
    mean = np.einsum("hsat,ht->hsa", mdp.transitions, values[1:])
    variance = np.einsum("hsat,ht->hsa", mdp.transitions, values[1:] ** 2) - mean**2
    best, behaviour = occupancy(mdp, mdp.optimal_policy()), occupancy(mdp, uniform_policy(mdp))
    iota = math.log(horizon * n_states * n_actions / _DELTA)
    noise = gaussian_error_bound(
        math.sqrt(2 * horizon / budget), 2 * horizon * n_states**2 * n_actions, _DELTA
    )
    visits = size * behaviour
    main = 4.0 * np.sqrt(2.0 * np.maximum(variance, 0.0) * iota / visits)
    private = 256.0 / 3.0 * n_states * horizon * noise * iota / visits
    return float((best * (main + private)).sum())


VAPVI_PROCESS = random_linear_mdp(4, 3, 3, 3, seed=2)


def vapvi_suboptimality(budget: float, size: int, seed: int) -> float:
    """Of DP-VAPVI on trajectories of the uniform policy, data not split."""
    mdp = VAPVI_PROCESS
    data = mdp.sample_trajectories(size, uniform_policy(mdp), np.random.default_rng([2, size, seed]))
    algorithm = DPVAPVI(mdp.features, mdp.horizon, ZCDP(rho=budget), mdp=mdp)
    policy = run(algorithm, data, seed=noise_seed(2, seed, size, *bits(budget))).output
    return mdp.suboptimality(policy.actions)


def vapvi_order(budget: float, size: int) -> float:
    """Theorem 4.1: sqrt(d) sum_h E*[|phi|] in the inverse of the weighted Gram matrix, and D H/K."""
    mdp = VAPVI_PROCESS
    size_d, horizon = mdp.dimension, mdp.horizon
    values = mdp.optimal_values()
    best, behaviour = occupancy(mdp, mdp.optimal_policy()), occupancy(mdp, uniform_policy(mdp))
    main, kappa = 0.0, math.inf
    for h in range(horizon):
        mean = mdp.transitions[h] @ values[h + 1]
        variance = np.maximum(1.0, mdp.transitions[h] @ values[h + 1] ** 2 - mean**2)
        outer = np.einsum("sa,sai,saj->saij", behaviour[h], mdp.features, mdp.features)
        kappa = min(kappa, float(np.linalg.eigvalsh(outer.sum(axis=(0, 1)))[0]))
        gram = size * (outer / variance[..., None, None]).sum(axis=(0, 1)) + np.eye(size_d)
        lengths = np.einsum("sai,ij,saj->sa", mdp.features, np.linalg.inv(gram), mdp.features)
        main += float((best[h] * np.sqrt(lengths)).sum())
    # L and E of appendix A without their logarithms.
    target, shift = 2.0 * horizon * math.sqrt(5.0 * horizon / (2.0 * budget)), math.sqrt(5.0 * horizon)
    constants = LinearConstants(lower_order=1.0, coverage=kappa)
    offset = constants.offset(horizon, size_d, target, shift * math.sqrt(size_d / budget))
    return math.sqrt(size_d) * main + offset * horizon / size


# Policy evaluation


CHAIN = Chain(10, 0.5, 0.9)


def lsw_risk(budget: float, size: int, seed: int) -> float:
    """The excess empirical risk of DP-LSW on the chain."""
    visits = CHAIN.sampled_visits(size, np.random.default_rng([3, size, seed]))
    features, weights = CHAIN.features(), np.ones(CHAIN.n_states)
    guarantee = ApproxDP(epsilon=budget, delta=0.1)
    algorithm = _LSW(features, CHAIN.discount, LARGEST_RETURN, guarantee=guarantee)
    theta = run(algorithm, visits, seed=noise_seed(3, seed, size, *bits(budget))).output.theta
    return lsw_excess(theta, lsw(visits, features, weights), features, weights)


def lsl_risk(budget: float, size: int, seed: int) -> float:
    """The excess empirical risk of DP-LSL on the chain, lambda = m."""
    visits = CHAIN.sampled_visits(size, np.random.default_rng([4, size, seed]))
    features, weights, ridge = CHAIN.features(), np.ones(CHAIN.n_states), float(size)
    guarantee = ApproxDP(epsilon=budget, delta=0.1)
    algorithm = _LSL(features, CHAIN.discount, LARGEST_RETURN, guarantee=guarantee, ridge=ridge)
    theta = run(algorithm, visits, seed=noise_seed(4, seed, size, *bits(budget))).output.theta
    return lsl_excess(theta, lsl(visits, features, weights, ridge), visits, features, weights, ridge)


class _OnVisits:
    """First visits that were sampled as such: the steps of many episodes need not be held."""

    def visits(self, data: Any) -> FirstVisits:
        """What was given; means of returns on the chain are at most 1 but for rounding."""
        visits: FirstVisits = data
        return visits._replace(means=np.clip(visits.means, 0.0, LARGEST_RETURN))


class _LSW(_OnVisits, DPLSW):
    pass


class _LSL(_OnVisits, DPLSL):
    pass


def risk_order(budget: float, size: int) -> float:
    """Corollaries 12 and 13 with lambda = m: 1/m^2; the noise is of order 1/epsilon."""
    return 1.0 / (budget * size) ** 2


# Q-learning


Q_DISCOUNT = 0.5
#: The kernel of the paper's own experiment.
_KERNEL = 1.0


def noisy_value_loss(sigma: float, n: int, seed: int) -> float:
    """The mean over states of v* - v', v' the value of the policy that is best for rewards with noise.

    Both actions lead to every state alike, so that the better reward is the better action: a mean reward
    that is lost is lost 1/(1 - gamma) times. The noise is one path on [0, 1] for each action, looked at in
    the n states (J = 1).
    """
    places = np.linspace(0.0, 1.0, n)
    rewards = np.stack([0.5 - np.abs(places - 0.5), 0.4 - np.abs(places - 0.5) / 2.0], axis=1)  # [n, 2]
    rng = np.random.default_rng([5, seed, n, *bits(sigma)])
    noise, kept = sigma * rng.standard_normal((n, 2)), math.exp(-_KERNEL / (n - 1))
    for i in range(1, n):  # covariance sigma^2 exp(-beta |x - y|)
        noise[i] = kept * noise[i - 1] + math.sqrt(1.0 - kept * kept) * noise[i]
    chosen = rewards[np.arange(n), (rewards + noise).argmax(axis=1)]
    return float((rewards.max(axis=1) - chosen).mean()) / (1.0 - Q_DISCOUNT)


def proposition_10(sigma: float, n: int) -> float:
    """2 sqrt(2) sigma/(sqrt(n pi) (1 - gamma))."""
    return 2.0 * math.sqrt(2.0) * sigma / (math.sqrt(n * math.pi) * (1.0 - Q_DISCOUNT))


# Online


@cache
def mixture() -> LinearMixtureMDP:
    """Three states, two actions, six steps, d = 4."""
    return random_linear_mixture(3, 2, 6, 4, seed=20211019)


VTR_DELTA, VTR_USERS = 0.1, (500, 1000, 2000, 4000)


def _vtr_regret(mdp: LinearMixtureMDP, budget: float, users: int, seed: int) -> Array:
    model = MixtureModel(mdp.features, mdp.rewards)
    constants = MixtureConstants(bonus=0.003)
    algorithm = LDPUCRLVTR(model, ApproxDP(epsilon=budget, delta=VTR_DELTA), constants=constants, mdp=mdp)
    output = run(algorithm, online_users(mdp, users, seed), seed=noise_seed(6, seed, users, *bits(budget)))
    return cumulative_regret(mdp, output.output.policies)


def vtr_along(budget: float, seed: int) -> dict[int, float]:
    """Regret of LDP-UCRL-VTR up to each number of users."""
    regret = _vtr_regret(mixture(), budget, max(VTR_USERS), seed)
    return {k: float(regret[k - 1]) for k in VTR_USERS}


def vtr_order(budget: float, size: int, *, dimension: int = 4, horizon: int = 6) -> float:
    """Theorem 5.2: d^(5/4) H^(7/4) T^(3/4) log(H/delta)^(1/4) sqrt(1/epsilon), T = K H."""
    steps, logarithm = size * horizon, math.log(horizon / VTR_DELTA)
    return dimension**1.25 * horizon**1.75 * steps**0.75 * logarithm**0.25 / math.sqrt(budget)


HARD_D, HARD_H = 5, 6


def hard_gap(budget: float, users: int) -> float:
    """The gap between actions of Theorem 5.6, at most what leaves probabilities."""
    factor = min(2.0, math.exp(budget)) * math.expm1(budget)
    gap = math.sqrt(1.0 / HARD_H) / (factor * math.sqrt(users * HARD_H))
    return min(gap, 1.0 / (HARD_H * (HARD_D - 1)))


def hard_regret(budget: float, size: int, seed: int) -> float:
    """Regret of LDP-UCRL-VTR on the instance that Theorem 5.6 has for that many users."""
    mdp = hard_mixture(HARD_D, HARD_H, hard_gap(budget, size), seed=seed)
    return float(_vtr_regret(mdp, budget, size, seed)[-1])


def local_lower(budget: float, size: int, *, dimension: int = HARD_D, horizon: int = HARD_H) -> float:
    """Theorem 5.6: d H sqrt(T)/(min(2, e^epsilon) (e^epsilon - 1))."""
    factor = min(2.0, math.exp(budget)) * math.expm1(budget)
    return dimension * horizon * math.sqrt(size * horizon) / factor


@cache
def lsvi_process() -> LinearMDP:
    """The process of `dpaudit reproduce ngo-vietri-wu-2022-regret`."""
    return random_linear_mdp(6, 4, 5, 5, seed=0)


def lsvi_regret(budget: float, size: int, seed: int) -> float:
    """Regret of Private LSVI-UCB after that many users."""
    mdp = lsvi_process()
    constants = LSVIConstants(bonus=1e-4)
    algorithm = PrivateLSVIUCB(
        LinearModel(mdp.features, mdp.horizon), size, ZCDP(rho=budget), constants=constants, mdp=mdp
    )
    users = online_users(mdp, size, seed, random_rewards=True)
    output = run(algorithm, users, seed=noise_seed(7, seed, size, *bits(budget))).output
    return algorithm.utility(output)["regret"]


def lsvi_order(budget: float, size: int) -> float:
    """Theorem 16 before conversion: d^(3/2) H^2 sqrt(K) + H^3 d^(5/4) sqrt(K)/rho^(1/4)."""
    d, horizon = 5, 5
    return (d**1.5 * horizon**2 + horizon**3 * d**1.25 / budget**0.25) * math.sqrt(size)


RIVER = figure_river("homogeneous", 3)


def ucbvi_regret(budget: float, size: int, seed: int, *, local: bool) -> float:
    """Regret of DP-UCBVI on the river after that many users."""
    guarantee: Any = PureDP(epsilon=budget) if local else ZCDP(rho=budget)
    algorithm = DPUCBVI(RIVER.rewards, size, guarantee, constants=UCBVIConstants(bonus=1e-4), mdp=RIVER)
    users = online_users(RIVER, size, seed)
    output = run(algorithm, users, seed=noise_seed(8, seed, size, *bits(budget), local)).output
    return algorithm.utility(output)["regret"]


def ucbvi_order(budget: float, size: int, *, local: bool) -> float:
    """Theorems 4.1, 5.2 and 5.5 for B = 1: sqrt(H^2 S A T) + H^2 S^2 A E, E = H/epsilon or H sqrt(K)/epsilon.

    Under joint trust the noise is Gaussian, and E = sqrt(H/rho).
    """
    horizon, n_states, n_actions = RIVER.rewards.shape
    error = horizon * math.sqrt(size) / budget if local else math.sqrt(horizon / budget)
    main = math.sqrt(horizon**2 * n_states * n_actions * size * horizon)
    return main + horizon**2 * n_states**2 * n_actions * error


def ucbvi_lower(budget: float, size: int) -> float:
    """Theorem 5.6 for B = 1, where A + B becomes A: sqrt(H^2 S A T) + sqrt(H S A T)/epsilon."""
    horizon, n_states, n_actions = RIVER.rewards.shape
    steps = size * horizon
    main = math.sqrt(horizon**2 * n_states * n_actions * steps)
    return main + math.sqrt(horizon * n_states * n_actions * steps) / budget


BANDIT, UPDATES = random_mdp(3, 4, 1, seed=20240612), 20


def gradient_loss(budget: float, size: int, seed: int) -> float:
    """What the last policy of DP-PG loses on a bandit."""
    guarantee = ApproxDP(epsilon=budget, delta=1e-5)
    algorithm = DPPolicyGradient(one_hot_features(3, 4), size // UPDATES, UPDATES, guarantee, step_size=4.0)
    users = online_users(BANDIT, size, seed, random_rewards=True)
    output = run(algorithm, users, seed=noise_seed(9, seed, size, *bits(budget)), public_seed=seed).output
    return BANDIT.suboptimality(output.policy)


def gradient_order(budget: float, size: int) -> float:
    """Theorem 3, solved for alpha: N = 1/alpha^4 + sqrt(d)/(alpha^3 epsilon), the larger of its two terms."""
    return max(size**-0.25, (math.sqrt(12.0) / (budget * size)) ** (1.0 / 3.0))


STUDIES: Mapping[str, Study] = {
    study.name: study
    for study in (
        Study(
            name="dp-apvi",
            title="DP-APVI (Qiao and Wang 2023, Theorem 3.4)",
            theorem="The main term with its printed constant 4 sqrt 2, and the privacy term as its proof has "
            "it before logarithms are hidden, 256/3 S H E iota/(n d). The remaining term of order H^3/(n d_m) "
            "has no constant and is left out, so that the theorem's bound is larger than what is shown.",
            setting="A random process with S=3, A=2, H=3; data of the uniform policy; C2 = 0.1, with the "
            "published C2 = 16 below.",
            quantity="suboptimality",
            axis="n",
            of_budget="rho",
            budgets=(0.1, 1.0, 10.0),
            sizes=(100, 1000, 10_000, 100_000),
            runs=20,
            measure=apvi_suboptimality,
            bound=apvi_bound,
            exact=True,
            exponents=(-0.5, -1.0),
        ),
        Study(
            name="dp-apvi-published",
            title="DP-APVI with the published constants",
            theorem="The same bound, for the algorithm to which the theorem applies: C2 = 16.",
            setting="The same process.",
            quantity="suboptimality",
            axis="n",
            of_budget="rho",
            budgets=(1.0, 10.0),
            sizes=(1000, 10_000, 100_000, 1_000_000),
            runs=10,
            measure=partial(apvi_suboptimality, privacy=16.0),
            bound=apvi_bound,
            exact=True,
            exponents=(-0.5, -1.0),
        ),
        Study(
            name="dp-vapvi",
            title="DP-VAPVI (Qiao and Wang 2023, Theorem 4.1)",
            theorem="Up to constants and logarithms: sqrt(d) times the expected elliptical norms under the "
            "optimal policy, and D H/K with L and E without their logarithms.",
            setting="A random linear process with S=4, A=3, H=3, d=3; data of the uniform policy, not split; "
            "C = 0.1, D left out of the penalty.",
            quantity="suboptimality",
            axis="K",
            of_budget="rho",
            budgets=(0.1, 1.0, 10.0),
            sizes=(100, 1000, 10_000, 100_000),
            runs=20,
            measure=vapvi_suboptimality,
            bound=vapvi_order,
            exact=False,
            exponents=(-0.5, -1.0),
        ),
        Study(
            name="dp-lsw",
            title="DP-LSW (Balle, Gomrokchi and Precup 2016, Corollary 12)",
            theorem="The expected excess empirical risk is O(1/m^2) once every state is visited; the noise "
            "adds 1/epsilon^2.",
            setting="The chain with N=10 and gamma=0.9, tabular, delta = 0.1, noise by the paper's lemma.",
            quantity="excess empirical risk",
            axis="m",
            of_budget="epsilon",
            budgets=(1.0, 10.0),
            sizes=(3000, 10_000, 30_000, 100_000, 300_000),
            runs=20,
            measure=lsw_risk,
            bound=risk_order,
            exact=False,
            exponents=(-2.0, -2.0),
        ),
        Study(
            name="dp-lsl",
            title="DP-LSL (Balle, Gomrokchi and Precup 2016, Corollary 13)",
            theorem="With lambda of order m the expected excess empirical risk is O(1/m^2).",
            setting="The same chain, lambda = m.",
            quantity="excess empirical risk",
            axis="m",
            of_budget="epsilon",
            budgets=(1.0, 10.0),
            sizes=(3000, 10_000, 30_000, 100_000, 300_000),
            runs=20,
            measure=lsl_risk,
            bound=risk_order,
            exact=False,
            exponents=(-2.0, -2.0),
        ),
        Study(
            name="functional-noise",
            title="Functional noise on finitely many states (Wang and Hegde 2019, Proposition 10)",
            theorem="E[|v' - v*|_1/n] is at most 2 sqrt(2) sigma/(sqrt(n pi) (1 - gamma)). As in its proof, "
            "v' is the value of the policy that is optimal for rewards with noise, and J = 1: one path an "
            "action.",
            setting="n states on [0, 1] and two actions whose rewards cross; beta = 1, gamma = 0.5.",
            quantity="mean loss of value",
            axis="n",
            of_budget="sigma",
            budgets=(0.1, 0.4),
            sizes=(10, 30, 100, 300, 1000),
            runs=400,
            measure=noisy_value_loss,
            bound=proposition_10,
            exact=True,
            exponents=(-0.5, -0.5),
        ),
        Study(
            name="ldp-ucrl-vtr",
            title="LDP-UCRL-VTR (Liao, He and Gu 2023, Theorem 5.2)",
            theorem="Up to constants and log(dT/alpha): d^(5/4) H^(7/4) T^(3/4) log(H/delta)^(1/4) "
            "sqrt(1/epsilon), T = K H.",
            setting="A random mixture of 4 kernels, S=3, A=2, H=6, rewards up to 1; exact noise, delta = 0.1, "
            "c = 0.003.",
            quantity="regret",
            axis="K",
            of_budget="epsilon",
            budgets=(1.0, 10.0, 100.0),
            sizes=VTR_USERS,
            runs=6,
            measure=lambda *_: math.nan,
            bound=vtr_order,
            exact=False,
            exponents=(0.75, 0.75),
            along=vtr_along,
        ),
        Study(
            name="ldp-ucrl-vtr-hard",
            title="LDP-UCRL-VTR on the hard instance (Theorem 5.6)",
            theorem="The same upper bound; the process is that of the lower bound, another one for each K and "
            "epsilon, whose gap between actions falls as 1/sqrt(K): no algorithm has regret beyond that order "
            "there, so that the slope says little, and the ratio to the lower bound is what is to be read.",
            setting="d=5, H=6, the gap of Theorem 5.6, cut off where probabilities would be negative.",
            quantity="regret",
            axis="K",
            of_budget="epsilon",
            budgets=(0.1, 1.0, 2.0),
            sizes=(500, 1000, 2000),
            runs=4,
            measure=hard_regret,
            bound=partial(vtr_order, dimension=HARD_D, horizon=HARD_H),
            exact=False,
            exponents=(0.75, 0.75),
            lower=local_lower,
            lower_source="Theorem 5.6, for epsilon-LDP with delta = 0",
        ),
        Study(
            name="private-lsvi-ucb",
            title="Private LSVI-UCB (Ngo, Vietri and Wu 2022, Theorem 16)",
            theorem="Up to logarithms, in rho: d^(3/2) H^2 sqrt(K) + H^3 d^(5/4) sqrt(K)/rho^(1/4).",
            setting="The linear process of the figure, S=6, A=4, H=d=5; sound noise, 10^-4 times the "
            "published beta, lambda as published.",
            quantity="regret",
            axis="K",
            of_budget="rho",
            budgets=(1.0, 10.0),
            sizes=(500, 1000, 2000),
            runs=4,
            measure=lsvi_regret,
            bound=lsvi_order,
            exact=False,
            exponents=(0.5, 0.5),
        ),
        Study(
            name="dp-ucbvi",
            title="DP-UCBVI under joint trust (Qiao and Wang 2023 and 2024, Theorem 4.1)",
            theorem="Up to constants and logarithms: sqrt(H^2 S A T) + H^2 S^2 A E, with E = sqrt(H/rho) for "
            "Gaussian noise, T = K H.",
            setting="RiverSwim, S=3, A=2, H=6, rewards divided by H; C2 = 10^-4, a tenth of E.",
            quantity="regret",
            axis="K",
            of_budget="rho",
            budgets=(0.1, 1.0, 10.0),
            sizes=(250, 500, 1000),
            runs=4,
            measure=partial(ucbvi_regret, local=False),
            bound=partial(ucbvi_order, local=False),
            exact=False,
            exponents=(0.0, 0.5),
        ),
        Study(
            name="dp-ucbvi-local",
            title="DP-UCBVI under local trust (Theorem 5.5)",
            theorem="Up to constants and logarithms: sqrt(H^2 S A T) + S^2 A sqrt(H^5 T)/epsilon.",
            setting="The same river and constants, sound noise.",
            quantity="regret",
            axis="K",
            of_budget="epsilon",
            budgets=(1.0, 10.0, 100.0),
            sizes=(250, 500, 1000),
            runs=4,
            measure=partial(ucbvi_regret, local=True),
            bound=partial(ucbvi_order, local=True),
            exact=False,
            exponents=(0.5, 0.5),
            lower=ucbvi_lower,
            lower_source="Theorem 5.6, the worst process, rewards up to 1",
        ),
        Study(
            name="dp-policy-gradient",
            title="DP-PG (He and Zhou 2025, Theorem 3)",
            theorem="Up to constants, for policies that fit its assumptions: the average over iterations loses "
            "N^(-1/4), and where privacy costs more (sqrt(d)/(epsilon N))^(1/3). Here the last policy.",
            setting="A random bandit with S=3, A=4, softmax policies, T=20, eta=4, delta = 10^-5.",
            quantity="suboptimality",
            axis="N",
            of_budget="epsilon",
            budgets=(0.1, 1.0),
            sizes=(200, 600, 2000, 6000),
            runs=5,
            measure=gradient_loss,
            bound=gradient_order,
            exact=False,
            exponents=(-0.25, -1.0 / 3.0),
        ),
    )
}
