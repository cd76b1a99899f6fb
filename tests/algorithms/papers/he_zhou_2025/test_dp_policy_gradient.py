from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.linear_mdp import one_hot_features
from dpaudit.algorithms.environments.online_users import OnlineUsers, online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp
from dpaudit.algorithms.papers.he_zhou_2025.dp_policy_gradient import DPPolicyGradient, Learned
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import NoNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array
from tests.algorithms.changed import Changed

BANDIT = random_mdp(2, 3, 1, seed=3)
SMALL = DPPolicyGradient(one_hot_features(2, 3), 12, 2, mdp=BANDIT)
#: One of eight actions stands apart from all others: its gradient is 7/8 of the longest at the start.
APART = np.zeros((1, 8, 1))
APART[0, 0, 0] = 1.0


def users_of(mdp: TabularMDP, n: int) -> OnlineUsers:
    return online_users(mdp, n, seed=0, random_rewards=True)


def test_each_row_is_the_gradient_of_the_log_probability_times_the_advantage() -> None:
    """Against finite differences: the sum of a batch of one user, whatever was chosen, is one of these."""
    features = np.random.default_rng(0).normal(size=(2, 3, 2))
    algorithm = DPPolicyGradient(features, 1, 3, step_size=0.3)
    users, transcript = users_of(BANDIT, 3), Transcript()
    run(algorithm, users, noise=NoNoise(), transcript=transcript)
    theta = np.zeros(2)
    for i, entry in enumerate(transcript.entries):
        x, rewards = users[i].first_state, users[i].rewards[0]
        candidates = []
        for y in range(3):
            slopes = []
            for j in range(2):
                step = 1e-6 * np.eye(2)[j]
                above, below = (np.log(algorithm.policy(theta + s)[x, y]) for s in (step, -step))
                slopes.append((above - below) / 2e-6)
            candidates += [2.0 * (rewards[x, y] - rewards[x, z]) * np.array(slopes) for z in range(3)]
        assert min(float(np.abs(entry.query - c).max()) for c in candidates) < 1e-6
        theta = theta + 0.3 * entry.query


def test_without_noise_it_learns() -> None:
    algorithm = DPPolicyGradient(one_hot_features(2, 3), 40, 40, step_size=4.0, mdp=BANDIT)
    users = users_of(BANDIT, 1600)
    before = algorithm.utility(Learned(np.zeros(6), algorithm.policy(np.zeros(6))[None]))
    learned = run(algorithm, users, noise=NoNoise()).output
    assert algorithm.utility(learned)["suboptimality"] < 0.3 * before["suboptimality"]
    assert learned.policy.sum(axis=2) == pytest.approx(np.ones((1, 2)))


def test_all_batches_together_cost_what_one_costs() -> None:
    ledger = run(SMALL, users_of(BANDIT, 24), seed=0).ledger
    found = account(ledger)
    assert len(ledger.releases) == 2
    assert found.all_proved
    least = account(ledger, SMALL.claim).bounds[0].guarantee
    assert isinstance(least, ApproxDP)
    assert least.epsilon == pytest.approx(1.0, rel=1e-6)
    # One-hot features: G = sqrt 2, and a replaced user moves the sum by 4 R G.
    assert SMALL.mechanism.sensitivity.value == pytest.approx(4 * math.sqrt(2))


def test_the_published_noise_is_that_of_theorem_1() -> None:
    algorithm = replace(SMALL, calibration="as-published")
    # sigma^2 = 16 log(1.25/delta) R^2 G^2 / (m epsilon)^2 on the mean.
    on_the_mean = algorithm.mechanism.sigma / 12
    assert on_the_mean**2 == pytest.approx(16 * math.log(1.25e5) * 2 / 144)


@pytest.mark.parametrize("calibration", ["exact", "as-published"])
def test_the_published_sensitivity_is_exceeded_by_users_with_opposed_rewards(
    calibration: Any, nightly: bool
) -> None:
    algorithm = DPPolicyGradient(APART, 8, 1, calibration=calibration)
    assert account(run(algorithm, algorithm.stand_in(None), seed=0).ledger).verdict is Proof.PROVED
    audit = replay(algorithm, algorithm.worst_pairs(), seed=0, replays=2 if nightly else 1)
    if calibration == "exact":
        assert audit.verdict is Experiment.NOT_REFUTED
        return
    assert audit.verdict is Experiment.REFUTED
    (finding,) = audit.findings
    assert (finding.kind, finding.label) == ("sensitivity", "gradient 1")
    assert finding.measured == pytest.approx(4 * 7 / 8)
    assert finding.declared == pytest.approx(2 * math.sqrt(2))


def again(algorithm: DPPolicyGradient, data: OnlineUsers, curator: Curator) -> Learned:
    """A planted fault: the first batch is used in every update, as if it were a new one."""
    batch = algorithm.batch
    moved = {i + batch: user for i, user in data.replaced.items() if i < batch}
    seeds = np.tile(data.seeds[:batch], 2)
    return algorithm(replace(data, seeds=seeds, replaced={**data.replaced, **moved}), curator)


def test_users_who_are_in_two_batches_are_found(nightly: bool) -> None:
    pairs = SMALL.worst_pairs()[slice(None) if nightly else slice(7, 9)]  # which are asked for two actions
    replays = 2 if nightly else 1
    assert replay(SMALL, pairs, seed=0, replays=replays).verdict is Experiment.NOT_REFUTED
    audit = replay(Changed(SMALL, again), pairs, seed=0, replays=replays)
    assert audit.verdict is Experiment.REFUTED
    assert any("moves 2 parts of split 'batches'" in finding.detail for finding in audit.findings)


def test_the_built_in_pairs_move_something() -> None:
    """Which users are asked for two different rewards, public randomness decides; it is always the same."""
    algorithm, _ = CATALOGUE["dp-policy-gradient"].example()
    moved = []
    for pair in algorithm.worst_pairs():
        sides = []
        for data in (pair.data, pair.neighbour):
            transcript = Transcript()
            run(algorithm, data, seed=0, transcript=transcript)
            sides.append(transcript.entries[0].query)
        moved.append(float(np.linalg.norm(sides[0] - sides[1])))
    assert max(moved) > 0.5 * algorithm.bound


def test_what_cannot_be_run_is_refused() -> None:
    with pytest.raises(DataError):
        run(SMALL, users_of(BANDIT, 23), seed=0)
    with pytest.raises(DataError):
        run(SMALL, users_of(random_mdp(2, 3, 2, seed=0), 24), seed=0)
    with pytest.raises(InvalidParameter):
        DPPolicyGradient(np.ones((2, 3, 1)), 5, 2)
    for bad in ({"batch": 0}, {"updates": 0}, {"step_size": 0.0}, {"calibration": "best"}):
        with pytest.raises(InvalidParameter):
            replace(SMALL, **bad)


def test_however_large_the_noise_the_policy_is_one() -> None:
    for theta in (np.full(6, 1e308), np.array([np.inf, -np.inf, np.nan, 0.0, 0.0, 0.0])):
        policy: Array = SMALL.policy(theta)
        assert np.isfinite(policy).all()
        assert policy.sum(axis=1) == pytest.approx(np.ones(2))
