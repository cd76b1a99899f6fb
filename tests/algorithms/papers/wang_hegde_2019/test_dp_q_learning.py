"""The corrected algorithm: proved, not refuted, and what its proof rests on."""

import inspect
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.accountants.accounting import account
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.line_world import RewardFunction, greedy_return, middle_rewards
from dpaudit.algorithms.papers.wang_hegde_2019.dp_q_learning import DPQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import FunctionalCalibration
from dpaudit.algorithms.papers.wang_hegde_2019.perturbed_q import PerturbedQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import NodeValues
from dpaudit.auditors.replay.recording import movements
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.noise import NoNoise, ReplayedNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.errors import InvalidParameter, UsageError
from dpaudit.mechanisms import ExponentialKernel
from tests.sweeps import sweep

REWARDS = middle_rewards()
ALARM = 1e-6
CLAIMS = [ApproxDP(epsilon=epsilon, delta=1e-4) for epsilon in (0.9, 0.45)]


@sweep("claimed", [*CLAIMS, ApproxDP(epsilon=64.0, delta=1e-4)], ids=str, everyday=(0,))
@pytest.mark.parametrize("form", ["corrected", "noisy-rewards", "noisy-gradients"])
def test_proved_and_not_refuted(form: str, claimed: ApproxDP) -> None:
    algorithm, data = CATALOGUE["dp-q-learning"].example(
        form=form, epsilon=claimed.epsilon, delta=claimed.delta, updates=3, batch=6
    )
    assert algorithm.claim.guarantee == claimed
    found = account(run(algorithm, data, seed=0).ledger)
    assert found.verdict is Proof.PROVED
    # No more noise than needed.
    assert found.bounds[0].guarantee.epsilon == pytest.approx(claimed.epsilon, rel=1e-6)  # type: ignore[union-attr]
    audit = replay(algorithm, algorithm.worst_pairs()[:1], replays=5)
    assert audit.verdict is Experiment.NOT_REFUTED
    assert not audit.findings


def test_the_cost_is_2_n_c_squared_over_sigma_squared() -> None:
    algorithm = DPQLearning(clip=0.07, updates=11, batch=4)
    rho = 2 * 11 * 0.07**2 / algorithm.mechanism.sigma**2
    assert gaussian_epsilon(1e-4, math.sqrt(2 * rho)) == pytest.approx(0.9, rel=1e-6)


def test_however_far_apart_rewards_are_a_step_moves_by_2c_at_most() -> None:
    """Rewards 2 million apart come up to the bound, and on no side of any node pass it."""
    algorithm = DPQLearning(updates=4, batch=30, nodes=65)
    far = algorithm.worst_pairs()[1]
    ratios = [_moved(algorithm, far.data, far.neighbour, seed) for seed in range(5)]
    assert max(map(max, ratios)) <= 1.0
    assert min(map(min, ratios)) > 0.8


def _moved(algorithm: Any, data: RewardFunction, neighbour: RewardFunction, seed: int) -> list[float]:
    recorded, twin = Transcript(), Transcript()
    run(algorithm, data, seed=seed, transcript=recorded)
    run(algorithm, neighbour, noise=ReplayedNoise(recorded), transcript=twin)
    return [moved.measured / moved.declared for moved in movements(recorded.entries, twin.entries)]


@given(
    seed=st.integers(0, 2**32 - 1),
    batch=st.integers(1, 40),
    size=st.floats(1e-6, 1e6),
    clip=st.floats(1e-3, 10.0),
    beta=st.floats(0.01, 1e4),
)
def test_a_step_is_never_longer_than_c(seed: int, batch: int, size: float, clip: float, beta: float) -> None:
    rng = np.random.default_rng(seed)
    states, actions = rng.random(batch), rng.integers(0, 2, batch)
    errors = size * rng.normal(size=batch)
    algorithm = DPQLearning(clip=clip, beta=beta)
    step = algorithm.step(states, actions, errors)
    # The norm of the smallest function with the step's values at its own states is the step's own norm.
    points = np.unique(np.concatenate([states, np.linspace(0.0, 1.0, 33)]))
    values = np.array([step(float(point)) for point in points])
    kernel = ExponentialKernel(beta=beta)
    norm = math.sqrt(kernel.squared_norm(points, values))
    assert norm <= clip * (1 + 1e-9)
    weights = np.zeros((batch, 2))
    weights[np.arange(batch), actions] = algorithm.step_size / batch * errors
    whole = math.sqrt(float(np.trace(weights.T @ kernel.covariance(states) @ weights)))
    assert norm == pytest.approx(min(whole, clip), rel=3e-6)


@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-9, 1e-3])
@pytest.mark.parametrize("size", [1.0, 1e6, 1e150])
def test_nor_where_large_errors_cancel(gap: float, size: float) -> None:
    """Errors of either sign at states that are hardly apart: the step's own norm, in 60 digits."""
    algorithm = DPQLearning()
    states = np.array([0.3, 0.3 + gap, 0.6, 0.6 + gap])
    errors = size * np.array([1.0, -1.0, 0.7, -0.7000001])
    step = algorithm.step(states, np.zeros(4, dtype=np.int64), errors)
    weights = inspect.getclosurevars(step).nonlocals["weights"][:, 0]
    with mpmath.workdps(400):
        w, s = [mpmath.mpf(float(x)) for x in weights], [mpmath.mpf(float(x)) for x in states]
        terms = (
            a * b * mpmath.exp(-5 * abs(x - y))
            for a, x in zip(w, s, strict=True)
            for b, y in zip(w, s, strict=True)
        )
        assert mpmath.sqrt(abs(mpmath.fsum(terms))) <= algorithm.clip


def test_without_noise_it_is_the_recursion() -> None:
    """Two updates by hand."""
    algorithm = DPQLearning(updates=2, batch=3, clip=0.05, step_size=5.0, nodes=9)
    transcript = Transcript()
    states = run(
        lambda data, curator: list(algorithm.learning(data, curator)),
        REWARDS,
        noise=NoNoise(),
        transcript=transcript,
    ).output
    queries = [entry.query for entry in transcript.entries if entry.query.size]
    np.testing.assert_allclose(states[0].learnt.values, queries[0])
    np.testing.assert_allclose(states[1].learnt.values, queries[0] + queries[1])


def test_noise_is_kept_in_the_state() -> None:
    """Each state is the sum of what was released, noise and all."""
    algorithm = DPQLearning(updates=4, batch=3)
    transcript = Transcript()
    output = run(algorithm, REWARDS, seed=3, transcript=transcript).output
    np.testing.assert_allclose(output.released, sum(e.output for e in transcript.entries if e.output.size))


def test_values_between_nodes_are_straight() -> None:
    values, points = np.random.default_rng(0).normal(size=(9, 2)), np.linspace(0.0, 1.0, 101)
    for action in range(2):
        expected = np.interp(points, np.linspace(0.0, 1.0, 9), values[:, action])
        np.testing.assert_allclose(NodeValues(values)(points)[:, action], expected, atol=1e-12)


def test_the_attack_that_separates_the_published_one_says_nothing(nightly: bool) -> None:
    algorithm = DPQLearning(updates=4, batch=10)
    runs = 120 if nightly else 70
    trials = run_trials(
        algorithm, algorithm.worst_pairs()[1], runs, score=lambda out: float(out.released.mean())
    )
    audit = threshold(
        Samples(trials.data, trials.neighbour, trials.seed), claim=algorithm.claim, confidence=1 - ALARM
    )
    assert audit.verdict is Experiment.NOT_REFUTED


def test_it_learns_where_there_is_little_noise_and_not_under_much() -> None:
    def learnt(epsilon: float) -> float:
        algorithm = DPQLearning(ApproxDP(epsilon=epsilon, delta=1e-4))
        values = [
            NodeValues(run(algorithm, REWARDS, seed=s, public_seed=s).output.released) for s in range(4)
        ]
        return float(np.mean([greedy_return(value, REWARDS, 100, 0) for value in values]))

    assert learnt(1e4) > 19.0
    assert learnt(0.9) < 16.0


@pytest.mark.parametrize(
    "options",
    [
        {"clip": 0.0},
        {"clip": math.inf},
        {"updates": 0},
        {"batch": 2.5},
        {"step_size": math.nan},
        {"beta": -1.0},
        {"nodes": 1},
        {"discount": -0.1},
        {"exploration": 2.0},
        {"guarantee": ApproxDP(epsilon=0.0, delta=1e-4)},
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        DPQLearning(**options)


@pytest.mark.parametrize(
    "options",
    [{"perturbed": "states"}, {"batch": 9, "samples": 8}, {"clip": 0.0}, {"discount": 1.0}, {"samples": 0}],
)
def test_bad_parameters_of_the_baselines_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        PerturbedQLearning(**options)


def test_a_baseline_with_half_the_noise_is_refuted() -> None:
    """A planted fault: the same claims with noise for a sensitivity that is four times too small."""
    honest = PerturbedQLearning("rewards", samples=24, batch=6)
    short = PerturbedQLearning("rewards", samples=24, batch=6)
    object.__setattr__(
        short,
        "mechanism",
        short.mechanism.model_copy(
            update={"sensitivity": short.mechanism.sensitivity.model_copy(update={"value": 0.6})}
        ),
    )
    found = {
        a: replay(a, a.worst_pairs(), replays=3, extreme_outputs=False).findings for a in (honest, short)
    }
    assert not found[honest]
    assert {finding.kind for finding in found[short]} == {"sensitivity"}


@pytest.mark.parametrize(
    "parameters",
    [
        {"form": "other"},
        {"sigma": 1.0},
        {"form": "published"},
        {"form": "as-printed", "beta": 1.0},
        {"form": "as-coded", "clip": 1.0},
        {"form": "noisy-rewards", "clip": 1.0},
    ],
)
def test_what_the_command_line_does_not_take(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CATALOGUE["dp-q-learning"].example(**parameters)


@pytest.mark.parametrize(
    ("form", "beta", "samples"),
    [("as-printed", FunctionalCalibration(k=3.0, batch=10).beta, 40), ("as-coded", 1.0, 13)],
)
def test_the_published_forms_by_name(form: str, beta: float, samples: int) -> None:
    algorithm, _ = CATALOGUE["dp-q-learning"].example(form=form, view="fresh", resets=1, sigma=0.74, k=3.0)
    noise = algorithm.calibration
    assert (algorithm.view, algorithm.path_count, noise.sigma, noise.k) == ("fresh", 1, 0.74, 3.0)
    assert (noise.updates, noise.samples) == (4, samples)
    assert noise.beta == pytest.approx(beta, rel=1e-12)
    with pytest.raises(UsageError):
        CATALOGUE["dp-q-learning"].fit(__file__)  # type: ignore[arg-type]
