"""LSW, LSL and their private forms: closed forms, the worked example, proofs, audits and planted faults."""

import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.accountants.accounting import account
from dpaudit.accountants.pairs.smooth import smooth_delta
from dpaudit.algorithms.data.episodes import Episodes, FirstVisits, first_visits
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.chain import Chain
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import (
    DPLSL,
    DPLSW,
    lsl,
    lsl_excess,
    lsw,
    lsw_excess,
)
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.policy_evaluation import PolicyEvaluation
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.smooth import (
    SmoothCalibration,
    least_alpha,
    worst_delta,
)
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.noise import NoNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import SmoothGaussian
from dpaudit.mechanisms.smooth import lemma_parameters
from tests.sweeps import sweep

CHAIN = Chain(6, 0.5, 0.9)
ONE = ApproxDP(epsilon=1.0, delta=0.1)


def chain_data(m: int = 30, seed: int = 0) -> Episodes:
    return CHAIN.episodes(CHAIN.stays(m, np.random.default_rng(seed)))


def algorithms(**options: Any) -> list[PolicyEvaluation]:
    mixed = np.random.default_rng(5).normal(size=(6, 2))
    weights = np.array([1.0, 0.5, 2.0, 1.0, 0.0, 1.0])
    return [
        DPLSW(CHAIN.features(), 0.9, 1.0, **options),
        DPLSW(CHAIN.features(2), 0.9, 1.0, **options),
        DPLSW(mixed, 0.9, 1.0, weights, **options),
        DPLSL(CHAIN.features(), 0.9, 1.0, ridge=5.0, **options),
        DPLSL(CHAIN.features(2), 0.9, 1.0, ridge=9.0, **options),
        DPLSL(mixed, 0.9, 1.0, weights, **options),
    ]


def moment(algorithm: Any, data: Episodes) -> tuple[NDArray[np.float64], float]:
    """The parameters without noise, and the noise's scale; private both."""
    transcript = Transcript()
    run(algorithm, data, noise=NoNoise(), transcript=transcript)
    (entry,) = transcript.entries
    assert entry.scale is not None
    return entry.query, entry.scale


# ---- Without noise.


def test_both_minimise_the_papers_sums_of_squares() -> None:
    data, rng = chain_data(), np.random.default_rng(0)
    features, weights, ridge = rng.normal(size=(6, 3)), rng.random(6), 4.0
    visits = first_visits(data, 0.9, 1.0)
    # Equation (3) with (10), one row for each first visit, and the ridge as d more rows.
    rows, targets = [], []
    for states, rewards in data:
        for s in sorted(set(states.tolist())):
            t = states.tolist().index(s)
            value = sum(r * 0.9**i for i, r in enumerate(rewards[t:].tolist()))
            rows.append(math.sqrt(weights[s]) * features[s])
            targets.append(math.sqrt(weights[s]) * value)
    augmented = np.vstack([rows, math.sqrt(ridge / 2) * np.eye(3)])
    expected = np.linalg.lstsq(augmented, np.append(targets, np.zeros(3)))[0]
    found = lsl(visits, features, weights, ridge)
    assert found == pytest.approx(expected, rel=1e-9)

    def risk(theta: NDArray[np.float64]) -> float:
        residuals = np.array(rows) @ theta - np.array(targets)
        return float(residuals @ residuals + ridge / 2 * theta @ theta) / len(data)

    other = found + rng.normal(size=3)
    assert lsl_excess(other, found, visits, features, weights, ridge) == pytest.approx(
        risk(other) - risk(found), rel=1e-9
    )
    # Equation (6).
    best = lsw(visits, features, weights)
    normal = features.T @ (weights[:, None] * features)
    assert normal @ best == pytest.approx(features.T @ (weights * visits.means), rel=1e-9)
    other = best + rng.normal(size=3)
    risks = [float(weights @ (visits.means - features @ theta) ** 2) for theta in (other, best)]
    assert lsw_excess(other, best, features, weights) == pytest.approx(risks[0] - risks[1], rel=1e-9)


def test_the_exact_values_satisfy_their_equations_and_are_what_monte_carlo_finds() -> None:
    chain = Chain(5, 0.4, 0.95)
    kernel = 0.4 * np.eye(5) + 0.6 * np.eye(5, k=1)
    rewards = np.append(np.zeros(4), 0.6)
    assert chain.values() == pytest.approx(np.linalg.solve(np.eye(5) - 0.95 * kernel, rewards), rel=1e-12)
    visits = chain.sampled_visits(120_000, np.random.default_rng(0))
    assert np.abs(visits.means - chain.values()).max() < 0.01
    pairs = chain.features(2)
    assert (pairs > 0).sum(axis=0).tolist() == [2, 2, 1]
    assert pairs.T @ pairs == pytest.approx(np.eye(3))
    for bad in ({"n_states": 0}, {"stay": 1.0}, {"discount": 1.0}, {"stay": math.nan}):
        with pytest.raises(InvalidParameter):
            Chain(**bad)  # type: ignore[arg-type]


# ---- The noise.


class Counted(DPLSW):
    """DP-LSW whose visits are given."""

    def visits(self, data: Any) -> FirstVisits:
        return FirstVisits(np.array([5.0, 3.0]), np.zeros(2), 5)


class CountedRidge(DPLSL):
    """DP-LSL whose visits are given."""

    visits = Counted.visits


def test_the_worked_example() -> None:
    one = Counted(np.eye(2), 0.99, 1.0, guarantee=ONE)
    two = CountedRidge(np.eye(2), 0.99, 1.0, guarantee=ONE, ridge=10.0)
    for algorithm, sigma in ((one, 15.65975), (two, 5.566364)):
        assert algorithm.noise.alpha == pytest.approx(12.238734, abs=5e-7)
        assert algorithm.noise.beta == pytest.approx(0.0500427, abs=5e-8)
        assert moment(algorithm, chain_data())[1] == pytest.approx(sigma, rel=1e-6)
        # F_max = 1 may be written as R_max/(1 - gamma) with R_max = 1 and gamma = 0.
        rewards_alone = type(algorithm)(
            np.eye(2), 0.0, guarantee=ONE, **({"ridge": 10.0} if algorithm is two else {})
        )
        assert moment(rewards_alone, chain_data())[1] == pytest.approx(sigma, rel=1e-6)


@sweep("calibration", ["lemma", "exact"], everyday=(1,))
def test_no_neighbour_moves_them_by_more_than_the_noise_is_calibrated_to(
    calibration: Any, nightly: bool
) -> None:
    rng = np.random.default_rng(2)
    for algorithm in algorithms(calibration=calibration):
        closest = 0.0
        for trial in range(60 if nightly else 20):
            m = int(rng.integers(1, 8))
            data = chain_data(m, seed=trial)
            order = rng.permutation(6)[: rng.integers(1, 7)]
            other = data.replace(int(rng.integers(m)), (order, rng.integers(0, 2, len(order)) * 2.0))
            pairs = [(data, other)] + (
                [(p.data, p.neighbour) for p in algorithm.worst_pairs()] if not trial else []
            )
            for one, two in pairs:
                (theta, scale), (theta_2, scale_2) = moment(algorithm, one), moment(algorithm, two)
                moved = algorithm.noise.alpha * float(np.linalg.norm(theta - theta_2))
                assert moved <= min(scale, scale_2)
                assert 2.0 * abs(math.log(scale / scale_2)) <= algorithm.noise.beta * (1 + 1e-9)
                closest = max(closest, moved / min(scale, scale_2))
        assert closest > 0.1


def test_the_worst_pairs_reach_either_condition() -> None:
    algorithm = DPLSW(CHAIN.features(), 0.9, 1.0)
    returns, visits = (
        [moment(algorithm, data) for data in (pair.data, pair.neighbour)] for pair in algorithm.worst_pairs()
    )
    moved = algorithm.noise.alpha * float(np.linalg.norm(returns[0][0] - returns[1][0]))
    assert moved / returns[0][1] == pytest.approx(1.0, rel=1e-9)
    drift = 2.0 * math.log(visits[1][1] / visits[0][1])
    assert drift / algorithm.noise.beta == pytest.approx(1.0, abs=1e-3)


# ---- Calibration.


@sweep(
    "epsilon, delta, dimension, times",
    [(0.1, 0.1, 40, 42.98), (1.0, 0.1, 2, 11.06), (1.0, 1e-6, 40, 6.1), (5.0, 1e-9, 3, 4.43)],
    everyday=(1, 2, 3),
)
def test_the_exact_calibration_is_the_accountants_own(
    epsilon: float, delta: float, dimension: int, times: float
) -> None:
    alpha, beta = lemma_parameters(epsilon, delta, dimension)
    found = least_alpha(epsilon, delta, dimension, beta)
    assert smooth_delta(epsilon, found, beta, dimension) <= delta
    assert smooth_delta(epsilon, found * (1.0 - 1e-4), beta, dimension) > delta
    assert alpha / found == pytest.approx(times, rel=5e-3)
    assert worst_delta(epsilon, found, dimension, beta) <= delta


def test_a_target_out_of_reach_or_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        SmoothCalibration("lemma", ApproxDP(epsilon=0.0, delta=0.1), 2)
    with pytest.raises(InvalidParameter, match="beta"):
        _ = SmoothCalibration("exact", ApproxDP(epsilon=700.0, delta=0.1), 1).mechanism
    with pytest.raises(InvalidParameter, match="calibration"):
        SmoothCalibration("rough", ONE, 1)  # type: ignore[arg-type]


# ---- What accounting and audits say.


@sweep("calibration", ["lemma", "exact"], everyday=(1,))
def test_the_claim_is_proved_and_not_refuted(calibration: Any, nightly: bool) -> None:
    for algorithm in algorithms(calibration=calibration, guarantee=ONE):
        found = account(run(algorithm, chain_data(), seed=0).ledger)
        assert found.verdict is Proof.PROVED
        assert found.all_proved
        assert found.claim is not None
        assert all(premise.holds for premise in found.claim.premises)
        audit = replay(
            algorithm,
            algorithm.worst_pairs(),
            claim=algorithm.claim,
            replays=10 if nightly else 1,
            extreme_outputs=False,
        )
        assert audit.verdict is Experiment.NOT_REFUTED


def test_the_lemma_fails_at_a_large_epsilon_and_so_does_the_proof() -> None:
    guarantee = ApproxDP(epsilon=52.0, delta=0.1)
    for algorithm in (
        DPLSW(np.ones((6, 1)), 0.9, 1.0, guarantee=guarantee),
        DPLSL(np.ones((6, 1)), 0.9, 1.0, guarantee=guarantee, ridge=9.0),
    ):
        found = account(run(algorithm, chain_data(), seed=0).ledger)
        assert found.verdict is Proof.NOT_PROVED
        assert not algorithm.claim.premises[-1].holds
    exact = DPLSW(np.ones((6, 1)), 0.9, 1.0, guarantee=guarantee, calibration="exact")
    assert account(run(exact, chain_data(), seed=0).ledger).verdict is Proof.PROVED


def test_the_scale_that_data_choose_never_enters_the_ledger() -> None:
    for algorithm in algorithms():
        pair = algorithm.worst_pairs()[1]
        ledgers = [run(algorithm, data, seed=0).ledger for data in (pair.data, pair.neighbour)]
        lines = [[json.dumps(release.to_json(), sort_keys=True) for release in ledger] for ledger in ledgers]
        assert lines[0] == lines[1]
        assert ledgers[0].header == ledgers[1].header
        (release,) = ledgers[0]
        assert isinstance(release.mechanism, SmoothGaussian)
        assert moment(algorithm, pair.data)[1] != moment(algorithm, pair.neighbour)[1]


# ---- Planted faults.


class NotSmoothed(DPLSW):
    """DP-LSW with noise that follows the local sensitivity itself."""

    def psi(self, visits: FirstVisits) -> float:
        return float((self.state_weights / np.maximum(visits.counts, 1.0) ** 2).sum())


class PrintedMax(DPLSL):
    """DP-LSL with the max of Lemma 9 in place of equation (12)'s min."""

    def psi(self, visits: FirstVisits) -> float:
        rho, m, beta = self.state_weights, visits.episodes, self.noise.beta
        rest = float(np.linalg.norm(rho))
        return max(
            math.exp(-k * beta)
            * (self.factor * math.sqrt(float(rho @ np.maximum(visits.counts + k, m))) + rest) ** 2
            for k in range(m + 1)
        )


def few(n_states: int, copies: int = 5) -> Pair:
    """Few episodes, one of which visits every state, or one state alone."""
    everything, single = (np.arange(n_states), np.zeros(n_states)), (np.array([0]), np.zeros(1))
    data = Episodes.of([everything] * 2 + [single] * copies, n_states)
    return Pair(data, data.replace(0, single), "visits", unit=0)


def log_ratio(algorithm: Any, pair: Pair) -> Any:
    """The log likelihood ratio of an output on either side, from the two true scales."""
    (theta, scale), (theta_2, scale_2) = moment(algorithm, pair.data), moment(algorithm, pair.neighbour)

    def score(output: Any) -> float:
        near, far = ((np.asarray(output.theta) - t) / s for t, s in ((theta, scale), (theta_2, scale_2)))
        return float(0.5 * (far @ far - near @ near) + len(theta) * math.log(scale_2 / scale))

    return score


def sampled(algorithm: Any, pair: Pair, runs: int) -> Experiment:
    """A threshold audit of so many outputs a side; a true claim is refuted with probability 1e-6 at most."""
    trials = run_trials(algorithm, pair, runs, seed=3, score=log_ratio(algorithm, pair))
    samples = Samples(trials.data, trials.neighbour, trials.seed)
    return threshold(samples, claim=algorithm.claim, confidence=1 - 1e-6).verdict


def test_noise_that_follows_the_local_sensitivity_is_refuted_by_replay_and_by_sampling(nightly: bool) -> None:
    wide = Chain(30, 0.5, 0.9).features()
    for calibration in ("lemma", "exact") if nightly else ("exact",):
        options: Any = {"guarantee": ONE, "calibration": calibration}
        faulty, sound = NotSmoothed(wide, 0.9, 1.0, **options), DPLSW(wide, 0.9, 1.0, **options)
        for algorithm, verdict in ((faulty, Experiment.REFUTED), (sound, Experiment.NOT_REFUTED)):
            pairs = algorithm.worst_pairs()
            replays = 20 if nightly else 1
            audit = replay(algorithm, pairs, claim=algorithm.claim, replays=replays, extreme_outputs=False)
            assert audit.verdict is verdict
            assert sampled(algorithm, pairs[1], 400 if nightly else 150) is verdict
            if algorithm is faulty:
                drifts = [f for f in audit.findings if "logarithm" in (f.detail or "")]
                assert max(f.measured or 0.0 for f in drifts) > 5 * algorithm.noise.beta


def test_the_printed_max_is_refuted_by_replay() -> None:
    # What drifts is the noise's scale; the published noise is so large that no sampling would show it.
    for kind, verdict in ((PrintedMax, Experiment.REFUTED), (DPLSL, Experiment.NOT_REFUTED)):
        algorithm = kind(Chain(30, 0.5, 0.9).features(), 0.9, 1.0, ridge=5.0)
        audit = replay(algorithm, [few(30)], claim=algorithm.claim, replays=5, extreme_outputs=False)
        assert audit.verdict is verdict
        assert [finding.kind for finding in audit.findings] == ["sensitivity"] * (
            verdict is Experiment.REFUTED
        )


@sweep("calibration", ["lemma", "exact"], everyday=(1,))
def test_sampling_does_not_refute_either_algorithm_on_its_worst_pairs(
    calibration: Any, nightly: bool
) -> None:
    for algorithm in (
        DPLSW(CHAIN.features(), 0.9, 1.0, guarantee=ONE, calibration=calibration),
        DPLSL(CHAIN.features(), 0.9, 1.0, guarantee=ONE, calibration=calibration, ridge=100.0),
    ):
        for pair in algorithm.worst_pairs()[: None if nightly else 1]:
            assert sampled(algorithm, pair, 400 if nightly else 150) is Experiment.NOT_REFUTED


class Tenth(DPLSW):
    """DP-LSW with a tenth of the noise of its exact calibration, and a ledger that says so."""

    @property
    def noise(self) -> SmoothGaussian:
        least = super().noise
        return least.model_copy(update={"alpha": least.alpha / 10.0})


def test_less_noise_than_the_exact_calibration_is_not_proved_and_refuted_by_sampling(nightly: bool) -> None:
    # On one episode DP-LSW moves by all that the noise is calibrated to.
    algorithm = Tenth(CHAIN.features(), 0.9, 1.0, calibration="exact")
    pair = algorithm.worst_pairs()[0]
    assert account(run(algorithm, pair.data, seed=0).ledger).verdict is Proof.NOT_PROVED
    assert sampled(algorithm, pair, 400 if nightly else 150) is Experiment.REFUTED


# ---- Bad input, and speed.


@pytest.mark.parametrize(
    "options",
    [
        {"features": np.zeros((6, 2))},
        {"features": np.ones(6)},
        {"features": np.full((6, 2), np.nan)},
        {"features": np.ones((6, 0))},
        {"discount": 1.5},
        {"discount": math.nan},
        {"discount": 1.0},
        {"largest_return": 0.0},
        {"largest_return": math.inf},
        {"weights": -np.ones(6)},
        {"weights": np.ones(5)},
        {"weights": np.zeros(6)},
        {"weights": np.full(6, np.inf)},
        {"values": np.ones(5)},
        {"calibration": "rough"},
        {"guarantee": ApproxDP(epsilon=0.0, delta=0.1)},
    ],
)
@pytest.mark.parametrize("kind", [DPLSW, DPLSL])
def test_public_parameters_out_of_range_are_refused(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        kind(**{"features": np.eye(6), "discount": 0.9, **options})


def test_what_bounds_no_movement_is_refused() -> None:
    dependent = np.column_stack([np.ones(6), np.arange(6.0), 2 * np.arange(6.0) + 1])
    with pytest.raises(InvalidParameter, match="rank"):
        DPLSW(dependent, 0.9)
    with pytest.raises(InvalidParameter, match="rank"):
        DPLSW(np.ones((1, 2)), 0.9)
    for ridge in (1.0, 0.5, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="lambda"):
            DPLSL(np.eye(6), 0.9, ridge=ridge)
    assert DPLSL(dependent, 0.9).ridge_used > 0


def test_data_of_other_sizes_are_refused_and_whole_trajectories_taken() -> None:
    algorithm = DPLSW(np.eye(3), 0.9)
    with pytest.raises(DataError):
        run(algorithm, chain_data())
    rng = np.random.default_rng(0)
    whole = TrajectoryData(rng.integers(0, 3, (4, 6)), rng.integers(0, 2, (4, 5)), rng.random((4, 5)), 3, 2)
    outputs = [run(algorithm, data, seed=1).output.theta for data in (whole, Episodes.of_trajectories(whole))]
    assert outputs[0].tolist() == outputs[1].tolist()


def test_many_trajectories_are_evaluated_in_arrays(python_calls: Any, nightly: bool) -> None:
    chain = Chain()
    data = chain.episodes(chain.stays(100_000 if nightly else 30_000, np.random.default_rng(0)))
    for algorithm in (DPLSW(chain.features(), 0.99, 1.0), DPLSL(chain.features(), 0.99, 1.0, ridge=300.0)):
        assert python_calls(lambda algorithm=algorithm: run(algorithm, data, seed=0)) < 20_000
