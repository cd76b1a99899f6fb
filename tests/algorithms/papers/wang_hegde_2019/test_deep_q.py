"""What the authors of Q-learning with functional noise ran: learner, paths, verdicts."""

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.accountants.accounting import account
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.algorithms.environments.line_world import HORIZON, RewardFunction, Walk, middle_rewards
from dpaudit.algorithms.papers.wang_hegde_2019.coded_path import CodedNoise, CodedPath, squared_cost
from dpaudit.algorithms.papers.wang_hegde_2019.deep_q import Carried
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import CodedCalibration, CodedQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.perturbed_q import PerturbedQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import ReLUNetwork
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.claims.sensitivity import RKHS
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import NoNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.mechanisms import ExponentialKernel, GaussianProcess
from dpaudit.noise.paths import FloatPath
from tests import make

REWARDS = middle_rewards()


def small(samples: int = 20, batch: int = 5, **options: Any) -> CodedQLearning:
    return CodedQLearning(CodedCalibration(samples=samples, batch=batch), **options)


def learnt(algorithm: Any, noise: Any, data: RewardFunction = REWARDS) -> list[Any]:
    def learning(data: RewardFunction, curator: Curator) -> list[Any]:
        return list(algorithm.learning(data, curator))

    return list(run(learning, data, noise=noise).output)


def test_without_noise_it_is_the_authors_loop() -> None:
    """Their `dpql.py`, step by step and one transition at a time, the gradient by central differences.

    T is 560, so that the second network is copied after the first and the eleventh episode, and used.
    """
    steps, batch, hidden = 560, 3, (2,)
    algorithm = small(steps, batch, hidden=hidden)
    found = learnt(algorithm, NoNoise())
    public = make.curator("replace-one")
    network = target = ReLUNetwork.random(hidden, 2, public.public("network"))
    generator, choices = public.public("walk"), public.public("memory")
    walk, memory, average = Walk(generator), [], np.zeros(network.parameters.size)
    for t in range(steps):
        state = walk.state
        threshold, (chance, other) = 0.05 + 0.85 * math.exp(-t / 200), generator.random(2)
        values = network(np.array([state]))[0]
        action = int(2 * other) if chance < threshold else int(np.argmax(values))
        reached = walk.step(action)
        last = (t + 1) % 50 == 0
        memory.append((state, action, None if last else reached, 0.5 - abs(reached - 0.5)))
        assert found[t].reached.tolist() == [reached]
        if len(memory) >= batch:
            chosen = [memory[i] for i in choices.choice(len(memory), batch, replace=False)]

            def loss(
                parameters: Any, chosen: Any = chosen, network: Any = network, target: Any = target
            ) -> float:
                one, total = network.with_parameters(parameters), 0.0
                for s, a, following, reward in chosen:
                    ahead = 0.0 if following is None else float(target(np.array([following]))[0].max())
                    off = abs(float(one(np.array([s]))[0][a]) - (reward + 0.999 * ahead))
                    total += off * off / 2 if off < 1 else off - 0.5
                return total / batch

            at, h = network.parameters, 1e-6
            slope = np.array([(loss(at + h * e) - loss(at - h * e)) / (2 * h) for e in np.eye(at.size)])
            slope = np.clip(slope, -1, 1)
            # From the implementation's own parameters on, so that differences of the slopes do not grow.
            average = 0.99 * average + 0.01 * slope**2
            expected = at - 0.01 * slope / (np.sqrt(average) + 1e-8)
            large = np.abs(slope) > 1e-4
            np.testing.assert_allclose(found[t].learnt.parameters[large], expected[large], atol=1e-5)
            network = found[t].learnt
        if last and (t // 50) % 10 == 0:
            target = network


def test_each_network_takes_a_path_every_episode() -> None:
    for resets, episodes in ((None, [1, 2, 3]), (1, [1]), (2, [1, 3])):
        ledger = run(small(120, 5, resets=resets), REWARDS, seed=0).ledger
        labels = [release.label for release in ledger.releases]
        assert labels == [f"{name}, episode {e}" for e in episodes for name in ("Q", "Q ahead")]


def test_a_network_that_changes_under_its_path_shows_the_difference_without_noise() -> None:
    generator = np.random.default_rng(0)
    first, second = (ReLUNetwork.random((4,), 2, generator) for _ in range(2))
    points = np.linspace(0.0, 1.0, 5)

    def both(data: Any, curator: Curator) -> Any:
        noisy = Carried(first)
        process = GaussianProcess(
            sigma=3.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0, "declared")
        )
        noisy.released = curator.function(process, noisy.first_value, "Q", (2,))
        before = noisy(points)
        noisy.network = second
        return before, noisy(points)

    before, after = run(both, REWARDS, seed=0).output
    np.testing.assert_allclose(after - before, second(points) - first(points), atol=1e-12)
    assert np.abs(before - first(points)).max() > 0.5


def test_accounting_says_what_the_proofs_sensitivity_gives() -> None:
    """Two paths an episode, each of sensitivity L sqrt((1 + 1/2) v^2 + 1/2) at sigma = 0.32."""
    algorithm = small(120, 5)
    found = account(run(algorithm, REWARDS, seed=0).ledger)
    v = 4 * 0.01 * 3.3 / 5
    rho = 6 * 16 * (1.5 * v * v + 0.5) / (2 * 0.32**2)
    assert found.verdict is Proof.NOT_PROVED
    assert found.bounds[0].guarantee.epsilon == pytest.approx(  # type: ignore[union-attr]
        gaussian_epsilon(1e-4, math.sqrt(2 * rho)), rel=1e-9
    )
    # The path's tail: as printed, and with three paths.
    tail = algorithm.claim.premises[2]
    assert tail.left == pytest.approx(3 * math.exp(-((4.6 - 8.68 * 0.32) ** 2) / 2), rel=1e-12)
    assert [premise.holds for premise in algorithm.claim.premises] == [True, False, False]


@pytest.mark.parametrize("view", ["raw", "fresh", "iterates"])
def test_replay_finds_the_leak_in_every_view(view: Any) -> None:
    """A path is kept while the network changes after each step: no view is without noise-free differences."""
    algorithm = small(view=view)
    audit = replay(algorithm, algorithm.worst_pairs(), replays=2, extreme_outputs=False)
    assert audit.verdict is Experiment.REFUTED
    assert {finding.kind for finding in audit.findings} & {"leak", "control-flow"}


@pytest.mark.parametrize("perturbed", ["rewards", "gradients"])
def test_the_same_learner_with_sound_noise_is_not_refuted(perturbed: Any) -> None:
    algorithm = PerturbedQLearning(perturbed, samples=12, batch=5)
    assert account(run(algorithm, REWARDS, seed=0).ledger).verdict is Proof.PROVED
    audit = replay(algorithm, algorithm.worst_pairs(), replays=3)
    assert audit.verdict is Experiment.NOT_REFUTED
    assert not audit.findings


@pytest.mark.parametrize(("perturbed", "one", "times"), [("rewards", 1.0, 5000), ("gradients", 1.0, 4873)])
def test_the_noise_of_the_baselines(perturbed: Any, one: float, times: int) -> None:
    """T rewards that move by 1 each, or N gradients that move by 2c = 1: mu = sqrt(times) / sigma."""
    sigma = PerturbedQLearning(perturbed).mechanism.sigma
    assert gaussian_epsilon(1e-4, one * math.sqrt(times) / sigma) == pytest.approx(0.9, rel=1e-6)


def test_without_noise_every_form_is_the_same_learner() -> None:
    one = learnt(small(60, 5), NoNoise())
    other = learnt(PerturbedQLearning("rewards", samples=60, batch=5), NoNoise())
    np.testing.assert_allclose(one[-1].learnt.parameters, other[-1].learnt.parameters, rtol=1e-9)


def linear(path: FloatPath, points: Any) -> Any:
    """The matrix A by which a path of one component is A times its independent normal numbers, [n, n]."""
    rows: list[Any] = []
    for number, point in enumerate(points):
        row = np.zeros(len(points))
        mean, variance = path._conditional(point)
        row += mean
        row[number] = math.sqrt(variance)
        path._drawn[point] = row
        rows.append(row)
    return np.array(rows)


def unseeded(kind: type[FloatPath], shape: tuple[int, ...]) -> FloatPath:
    return kind(np.random.default_rng(0), 1.0, 1.0, shape)


@pytest.mark.parametrize("kind", [FloatPath, CodedPath])
def test_the_cost_of_a_movement_is_that_of_the_joint_normal_distribution(kind: type[FloatPath]) -> None:
    generator = np.random.default_rng(3)
    points, moved = generator.random(9), generator.normal(size=(9, 2))
    by_normals = linear(unseeded(kind, (9,)), points.tolist())
    covariance = by_normals @ by_normals.T
    assert np.allclose(np.diag(covariance), 1.0) == (kind is FloatPath)
    kernel = ExponentialKernel(beta=1.0)
    assert np.allclose(covariance, kernel.covariance(points)) == (kind is FloatPath)
    expected = float(np.trace(moved.T @ np.linalg.solve(covariance, moved)))
    assert squared_cost(unseeded(kind, (2,)), points, moved) == pytest.approx(expected, rel=1e-9)
    if kind is FloatPath:
        assert expected == pytest.approx(kernel.squared_norm(points, moved), rel=1e-9)


def test_at_the_right_end_the_authors_path_hides_nothing() -> None:
    """Values at 0, 1/2 and a little to the right, of functions that differ by (0, 1, 1): a straight step up.

    The kernel's cost of it is bounded as the gap closes; theirs is (1 - e^-gap * 0)^2 / (1 - e^(-2 gap)).
    """
    moved = np.array([[0.0], [1.0], [1.0]])
    for gap in (1e-1, 1e-3, 1e-6):
        points = np.array([0.0, 0.5, 0.5 + gap])
        second = 1.0 / -math.expm1(-2 * 0.5)
        right = squared_cost(unseeded(FloatPath, (1,)), points, moved)
        wrong = squared_cost(unseeded(CodedPath, (1,)), points, moved)
        assert right < second + gap
        assert wrong == pytest.approx(second + 1.0 / -math.expm1(-2 * gap), rel=1e-6)


def test_their_noise_is_drawn_so_and_other_noise_as_ever() -> None:
    process = GaussianProcess(
        sigma=2.0, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0, "declared")
    )
    points = np.array([0.0, 0.5, 0.5 + 1e-12])

    def ask(data: Any, curator: Curator) -> Any:
        number = curator.release(np.zeros(3), make.gaussian(1.0), label="numbers")
        return number, curator.function(process, lambda _: np.zeros(1), "f", (1,))(points)

    transcript = Transcript()
    number, values = run(ask, REWARDS, noise=CodedNoise(7), transcript=transcript).output
    np.testing.assert_array_equal(number, run(ask, REWARDS, seed=7).output[0])
    # The last is the first's, and not that of its neighbour, which is 1e-12 away.
    assert values[2] == pytest.approx(values[0], abs=1e-4)
    assert abs(float((values[1] - values[0])[0])) > 0.1
    right = run(ask, REWARDS, seed=7).output[1]
    assert right[2] == pytest.approx(right[1], abs=1e-4)


def test_an_episode_is_that_of_the_walk() -> None:
    assert HORIZON == 50
    assert CodedQLearning().rounds == CodedQLearning().path_count == 100
