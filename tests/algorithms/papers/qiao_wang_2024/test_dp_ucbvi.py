import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.environments.online_users import OnlineUsers, constant_user, online_users
from dpaudit.algorithms.environments.tabular import random_mdp
from dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi import DPUCBVI, Optimism, Served, UCBVIConstants, ucbvi
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Experiment, Proof, leading_figure
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.claims.relations import TrustModel
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.curator.views import UserViews
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Laplace, TreeAggregation

PROCESS = random_mdp(3, 2, 4, seed=5)
JOINT = DPUCBVI(PROCESS.rewards, 8, ZCDP(rho=0.7), mdp=PROCESS)
LOCAL = DPUCBVI(PROCESS.rewards, 8, PureDP(epsilon=0.5), mdp=PROCESS)
PUBLISHED = DPUCBVI(PROCESS.rewards, 8, PureDP(epsilon=0.5), "as-published", mdp=PROCESS)


# Planning


def by_hand(counts: Any, rewards: Any, constants: UCBVIConstants, users: int, error_bound: float) -> Any:
    """Lines 4 to 17, one state and one action after the other."""
    horizon, n_states, n_actions = rewards.shape
    iota = math.log(30 * horizon * n_states * n_actions * users / constants.failure_probability)
    upper, lower = [0.0] * n_states, [0.0] * n_states
    actions = [[0] * n_states for _ in range(horizon)]
    for h in range(horizon - 1, -1, -1):
        best = []
        for s in range(n_states):
            options = []
            for a in range(n_actions):
                n = sum(counts[h, s, a])
                p = [c / n for c in counts[h, s, a]]
                middle = [(u + v) / 2 for u, v in zip(upper, lower, strict=True)]
                mean = sum(x * y for x, y in zip(p, middle, strict=True))
                variance = sum(x * (y - mean) ** 2 for x, y in zip(p, middle, strict=True))
                up, low = (sum(x * y for x, y in zip(p, v, strict=True)) for v in (upper, lower))
                c, gap = constants.bonus, constants.gap / horizon * (up - low)
                bonus = (
                    c * math.sqrt(variance * iota / n)
                    + c * horizon * n_states * error_bound * iota / n
                    + c * horizon**2 * n_states * iota / n
                )
                r = rewards[h, s, a]
                options.append((min(r + up + gap + bonus, horizon), max(r + low - gap - bonus, 0.0)))
            actions[h][s] = max(range(n_actions), key=lambda a: options[a][0])
            best.append(options[actions[h][s]])
        upper, lower = [list(values) for values in zip(*best, strict=True)]
    return actions, max(u - v for u, v in zip(upper, lower, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_plans_are_those_of_the_printed_lines(seed: int) -> None:
    counts = np.random.default_rng(seed).uniform(0.1, 300.0, (4, 3, 2, 3))
    constants = UCBVIConstants(gap=0.7, bonus=0.003, failure_probability=0.1)
    plan = Optimism(PROCESS.rewards, constants, 50).plan(counts, 2.5)
    actions, gap = by_hand(counts, PROCESS.rewards, constants, 50, 2.5)
    assert plan.actions.tolist() == actions
    assert plan.gap == pytest.approx(gap)
    assert 0.0 < plan.gap < 4.0


def test_without_counts_nothing_is_known() -> None:
    plan = Optimism(PROCESS.rewards, UCBVIConstants(), 50).plan(np.zeros((4, 3, 2, 3)), 0.0)
    assert plan.gap == 4.0


def test_without_noise_it_is_ucbvi_and_learns() -> None:
    users = online_users(PROCESS, 1500, seed=1)
    constants = UCBVIConstants(bonus=0.003, noise=0.0)
    algorithm = DPUCBVI(PROCESS.rewards, 1500, constants=constants, mdp=PROCESS)
    told = run(algorithm, users, noise=NoNoise()).output
    plain = ucbvi(users, constants)
    assert all((one.policy == other.policy).all() for one, other in zip(told.views, plain, strict=True))
    losses = [PROCESS.suboptimality(one.policy) for one in plain]
    assert np.mean(losses[-100:]) < 0.05
    assert np.mean(losses[:20]) > 0.2
    found = algorithm.utility(told)
    assert found["regret"] == pytest.approx(sum(losses))
    assert found["suboptimality of the policy that is returned"] < 0.05


# Noise


def queries(algorithm: DPUCBVI, users: OnlineUsers) -> list[Any]:
    transcript = Transcript()
    run(algorithm, users, noise=LiveNoise(0), transcript=transcript)
    return [entry for entry in transcript.entries if entry.query.size]


@pytest.mark.parametrize("algorithm", [JOINT, LOCAL, PUBLISHED])
def test_users_who_share_no_cell_move_as_much_as_is_declared_or_twice_as_much(algorithm: DPUCBVI) -> None:
    users = online_users(PROCESS, 3, seed=0)
    ends = [queries(algorithm, users.replace(1, constant_user(PROCESS, state))) for state in (0, 2)]
    norm, power = (1, 1) if algorithm.trust == "local" else (2, 2)
    moved: dict[str, float] = {}
    for one, other in zip(*ends, strict=True):
        distance = float(np.linalg.norm((one.query - other.query).ravel(), norm))
        moved[one.release.label] = max(moved.get(one.release.label, 0.0), distance)
    declared = algorithm.mechanism.sensitivity.value
    times = 2.0 if algorithm is PUBLISHED else 1.0
    assert moved == {"n_sa": pytest.approx(times * declared), "n_sas": pytest.approx(times * declared)}
    assert declared == pytest.approx((2.0 * 4.0) ** (1 / power) / times)


def test_the_noise_costs_the_budget_and_no_more() -> None:
    joint = account(run(JOINT, online_users(PROCESS, 3, seed=0), seed=0).ledger)
    assert joint.all_proved
    assert leading_figure(joint.bounds[0].guarantee) == pytest.approx(0.7, rel=1e-9)
    assert isinstance(JOINT.mechanism, TreeAggregation)
    assert JOINT.mechanism.sigma**2 == pytest.approx(2 * 4 * 4 / 0.7)  # 2 H L / rho, L = 4 for 8 users
    assert JOINT.claim.trust_model is TrustModel.JOINT
    local = account(run(LOCAL, online_users(PROCESS, 3, seed=0), seed=0).ledger)
    assert local.all_proved
    assert isinstance(LOCAL.mechanism, Laplace)
    assert LOCAL.mechanism.scale == pytest.approx(4 * 4 / 0.5)
    assert leading_figure(local.bounds[0].guarantee) == pytest.approx(0.5, rel=1e-9)
    assert LOCAL.claim.trust_model is TrustModel.LOCAL


def test_the_error_bound_covers_every_noisy_count() -> None:
    """With a chance of 1e-7 to fail; and it is not idle: a tenth of it would be exceeded."""
    sure = UCBVIConstants(noise=1.0, failure_probability=3e-7)
    for guarantee in (ZCDP(rho=1.0), PureDP(epsilon=1.0)):
        algorithm = DPUCBVI(PROCESS.rewards, 64, guarantee, constants=sure)
        transcript = Transcript()
        run(algorithm, online_users(PROCESS, 64, seed=0), seed=3, transcript=transcript)
        exact, noisy, worst = dict[str, Any](), dict[str, Any](), 0.0
        for entry in transcript.entries:
            if entry.query.size:
                label = entry.release.label
                exact[label] = exact.get(label, 0.0) + entry.query
                sent = noisy.get(label, 0.0) if algorithm.trust == "local" else 0.0
                noisy[label] = sent + entry.output
                worst = max(worst, float(np.abs(noisy[label] - exact[label]).max()))
        assert algorithm.error_bound / 40 < worst <= algorithm.error_bound / 4


# Audits


def test_replay_finds_nothing_where_the_noise_is_right_and_refutes_the_published_local_one() -> None:
    for algorithm in (JOINT, LOCAL):
        assert replay(algorithm, algorithm.worst_pairs(), seed=0, replays=2).verdict is Experiment.NOT_REFUTED
    # Its ledger is that of its own argument.
    assert account(run(PUBLISHED, online_users(PROCESS, 3, seed=0), seed=0).ledger).verdict is Proof.PROVED
    audit = replay(PUBLISHED, PUBLISHED.worst_pairs(), seed=0, replays=2)
    assert audit.verdict is Experiment.REFUTED
    assert {(f.kind, f.label) for f in audit.findings} == {("sensitivity", "n_sa"), ("sensitivity", "n_sas")}


@dataclass(frozen=True)
class Leaking:
    """Later users' policies depend on where the first one began."""

    name = "leaking"

    @property
    def claim(self) -> Any:
        return JOINT.claim

    def __call__(self, data: OnlineUsers, curator: Curator) -> UserViews:
        told = JOINT(data, curator)
        assert isinstance(told, UserViews)
        later = (
            view._replace(policy=np.where(data[0].first_state, 0, view.policy)) for view in told.views[1:]
        )
        return UserViews((told.views[0], *later))


def test_a_leak_to_later_users_is_found() -> None:
    audit = replay(Leaking(), JOINT.worst_pairs(), seed=0, replays=2)
    assert audit.verdict is Experiment.REFUTED
    assert {finding.kind for finding in audit.findings} == {"leak"}


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        DPUCBVI(PROCESS.rewards, 8, ZCDP(rho=1.0), "as-published")
    for bad in (ZCDP(rho=0.0), PureDP(epsilon=0.0)):
        with pytest.raises(InvalidParameter):
            DPUCBVI(PROCESS.rewards, 8, bad)
    with pytest.raises(DataError):
        run(JOINT, online_users(PROCESS, 9, seed=0), seed=0)
    with pytest.raises(DataError):
        run(JOINT, online_users(random_mdp(2, 2, 4, seed=0), 3, seed=0), seed=0)


def test_under_local_trust_the_server_keeps_policies_and_noisy_counts() -> None:
    served = run(LOCAL, online_users(PROCESS, 5, seed=0), seed=0).output
    assert isinstance(served, Served)
    assert served.policies.shape == (5, 4, 3)
    assert served.visits.shape == (4, 3, 2)
    assert set(LOCAL.utility(served)) == {"regret", "regret per user, last tenth", "optimal value"}
