import hashlib
import math
import resource
from typing import Any

import numpy as np
import pytest

from dpaudit import ZCDP, ApproxDP, Claim, NoNoise, PureDP, Transcript, run
from dpaudit.accountants.accounting import account
from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.algorithms.environments.tabular import random_mdp, uniform_policy
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI, apvi, pessimistic_value_iteration
from dpaudit.algorithms.papers.qiao_wang_2023.private_counts import private_counts
from dpaudit.certificate.verdicts import Proof
from dpaudit.errors import DataError, InvalidParameter

MDP = random_mdp(2, 2, 3, seed=0)  # S = A = 2, H = 3
HALF = DPAPVI(MDP.rewards, ZCDP(rho=0.5))
PURE = DPAPVI(MDP.rewards, PureDP(epsilon=0.5))


def sampled(n: int, mdp: Any = MDP, seed: int = 1) -> TrajectoryData:
    return mdp.sample_trajectories(n, uniform_policy(mdp), np.random.default_rng(seed))  # type: ignore[no-any-return]


def test_the_papers_numbers_for_three_steps_two_states_two_actions_and_half_a_rho() -> None:
    mechanism, share, error_bound = HALF._noise()
    assert mechanism.sigma**2 == pytest.approx(12.0, rel=1e-15)
    assert share == ZCDP(rho=0.25)
    assert error_bound == pytest.approx(25.67539, abs=5e-6)
    assert error_bound == pytest.approx(4 * math.sqrt(3 * math.log(4 * 3 * 2**2 * 2 / 0.1) / 0.5), rel=1e-14)
    made = run(HALF, sampled(20)).ledger
    claim = Claim(ApproxDP(epsilon=4.3772, delta=1e-5))
    accounting = account(made, claim)
    assert accounting.bounds[0].guarantee.epsilon == pytest.approx(4.37718, abs=5e-6)
    assert accounting.verdict is Proof.PROVED
    assert account(made).all_proved


def test_the_ledger_holds_both_tables_the_claim_and_public_parameters_alone() -> None:
    for algorithm, figure, norm, value in ((HALF, 12.0**0.5, "l2", 6.0**0.5), (PURE, 24.0, "l1", 6.0)):
        made = run(algorithm, sampled(20), seed=0).ledger
        assert [release.label for release in made.releases] == ["n_sa", "n_sas"]
        for release in made.releases:
            noise = release.mechanism.to_json()
            assert noise.get("sigma", noise.get("scale")) == pytest.approx(figure, rel=1e-15)
            assert (noise["sensitivity"]["norm"], noise["sensitivity"]["basis"]) == (norm, "clipped")
            assert noise["sensitivity"]["value"] == pytest.approx(value, rel=1e-15)
            assert release.count == 1
            assert release.partition is None
        header = made.header
        assert (header.algorithm, header.unit, header.neighbouring, header.trust_model) == (
            "dp-apvi",
            "trajectory",
            "replace-one",
            "central",
        )
        assert header.schedule == "fixed"
        assert header.claim == algorithm.claim
        digest = hashlib.sha256(np.asarray(MDP.rewards, dtype="<f8").tobytes()).hexdigest()
        assert header.parameters["rewards_sha256"] == digest
        assert [header.parameters[name] for name in ("horizon", "states", "actions")] == [3, 2, 2]
        # Nothing in it depends on the data.
        other = run(algorithm, sampled(20, seed=2), seed=0).ledger
        assert list(other.lines()) == list(made.lines())
        accounting = account(made)
        assert accounting.all_proved
        assert (
            account(
                made,
                Claim(
                    type(algorithm.guarantee)(
                        **{
                            name: 0.999 * number
                            for name, number in algorithm.guarantee.to_json().items()
                            if name != "kind"
                        }
                    )
                ),
            ).verdict
            is Proof.NOT_PROVED
        )


def test_with_no_noise_the_counts_are_the_raw_ones_and_with_no_error_bound_it_is_apvi() -> None:
    data = sampled(300)
    transcript = Transcript()
    output = run(HALF, data, noise=NoNoise(), transcript=transcript).output
    n_sa, n_sas = data.visit_counts()
    assert np.array_equal(transcript.entries[0].output, n_sa)
    assert np.array_equal(transcript.entries[1].output, n_sas)
    error_bound = HALF._noise()[2]
    assert np.array_equal(private_counts(n_sa, n_sas, error_bound), n_sas)
    options = {"failure_probability": 0.1, "constants": HALF.constants}
    same = pessimistic_value_iteration(n_sas.astype(float), MDP.rewards, error_bound=error_bound, **options)
    assert np.array_equal(output.actions, same.actions)
    assert np.array_equal(output.values, same.values)


def test_a_noiseless_run_with_a_boundless_budget_is_apvi() -> None:
    # E is 10^-9 and the noise none: nothing but E tells the two apart.
    data = sampled(300)
    sharp = DPAPVI(MDP.rewards, ZCDP(rho=1e24))
    output = run(sharp, data, noise=NoNoise()).output
    exact = apvi(data, MDP.rewards)
    assert np.array_equal(output.actions, exact.actions)
    np.testing.assert_allclose(output.values, exact.values, atol=1e-9)


def pair_distances(data: TrajectoryData, other: TrajectoryData) -> tuple[float, float, float]:
    """Joint L2 of both tables, and each one's L1, counted visit by visit."""
    tables: list[dict[Any, int]] = [{}, {}]
    for side, sign in ((data, 1), (other, -1)):
        for row in side:
            for h, action in enumerate(row.actions):
                keys = ((h, row.states[h], action), (h, row.states[h], action, row.states[h + 1]))
                for table, key in zip(tables, keys, strict=True):
                    table[key] = table.get(key, 0) + sign
    squares = [sum(change**2 for change in table.values()) for table in tables]
    sizes = [sum(abs(change) for change in table.values()) for table in tables]
    return math.sqrt(sum(squares)), float(sizes[0]), float(sizes[1])


def test_no_replaced_trajectory_moves_both_tables_by_more_than_the_ledger_says_and_the_worst_does() -> None:
    made = run(HALF, sampled(5)).ledger
    laplace = run(PURE, sampled(5)).ledger
    joint = math.sqrt(sum(release.mechanism.sensitivity.value**2 for release in made.releases))
    single = laplace.releases[0].mechanism.sensitivity.value
    rng = np.random.default_rng(3)
    base = sampled(5)
    seen = 0.0
    for _ in range(500):
        row = Trajectory(rng.integers(0, 2, 4), rng.integers(0, 2, 3), rng.random(3))
        distances = pair_distances(base, base.replace(int(rng.integers(5)), row))
        assert distances[0] <= joint * (1 + 1e-12)
        assert max(distances[1:]) <= single
        seen = max(seen, distances[0])
    assert seen == pytest.approx(joint)
    for pair in HALF.worst_pairs():
        distances = pair_distances(pair.data, pair.neighbour)
        assert distances == pytest.approx((joint, single, single))
        assert distances[0] == pytest.approx(2 * math.sqrt(3))
        changed = [
            i
            for i in range(len(pair.data))
            if not np.array_equal(pair.data.states[i], pair.neighbour.states[i])
        ]
        assert changed == [pair.unit]


@pytest.mark.parametrize("sizes", [(3, 2, 3), (2, 3, 3), (2, 2, 4)])
def test_data_of_other_sizes_than_the_public_rewards_are_refused_before_anything_is_released(
    sizes: Any,
) -> None:
    transcript = Transcript()
    data = sampled(5, random_mdp(*sizes, seed=0))
    with pytest.raises(DataError) as caught:
        run(HALF, data, transcript=transcript)
    assert caught.value.code == "DPA301"
    assert transcript.entries == []


@pytest.mark.parametrize(
    "rewards",
    [
        np.full((3, 2, 2), np.nan),
        np.full((3, 2, 2), 1.1),
        np.full((3, 2, 2), -0.1),
        np.ones((3, 2)),
        np.ones((0, 2, 2)),
    ],
)
def test_rewards_are_numbers_in_the_unit_interval_by_step_state_and_action(rewards: Any) -> None:
    with pytest.raises(InvalidParameter):
        DPAPVI(rewards)
    for nothing in (ZCDP(rho=0.0), PureDP(epsilon=0.0)):
        with pytest.raises(InvalidParameter):
            DPAPVI(MDP.rewards, nothing)


def test_the_output_is_a_policy_and_its_suboptimality_shrinks_with_the_noise() -> None:
    algorithm = DPAPVI(MDP.rewards, ZCDP(rho=1e6), mdp=MDP)
    output = run(algorithm, sampled(20_000), seed=0).output
    assert output.actions.shape == (3, 2)
    assert output.values.shape == (4, 2)
    assert 0.0 <= algorithm.utility(output)["suboptimality"] < 0.1
    assert DPAPVI(MDP.rewards).utility(output) == {}


def test_a_hundred_thousand_trajectories_take_arrays_and_less_than_two_gigabytes(python_calls: Any) -> None:
    mdp = random_mdp(10, 10, 20, seed=5)
    data = sampled(100_000, mdp)
    assert python_calls(lambda: run(DPAPVI(mdp.rewards), data)) < 30_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 * 2**20  # kilobytes
