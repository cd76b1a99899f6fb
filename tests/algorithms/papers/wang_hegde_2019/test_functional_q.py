"""What the tool finds in Q-learning with functional noise as published."""

import math
from typing import Any

import numpy as np
import pytest

from dpaudit import Experiment, NoNoise, Proof, replay, run
from dpaudit.accountants.accounting import account
from dpaudit.algorithms.environments.line_world import episode_returns, greedy_return, middle_rewards
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import (
    FunctionalCalibration,
    FunctionalQLearning,
    ReleasedView,
)
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.errors import InvalidParameter
from tests import make
from tests.sweeps import sweep

REWARDS = middle_rewards()
#: A false alarm of a sampling audit has a chance of this at most.
ALARM = 1e-6


def small(updates: int = 4, batch: int = 10, **options: Any) -> FunctionalQLearning:
    return FunctionalQLearning(FunctionalCalibration(samples=updates * batch, batch=batch), **options)


def kinds(algorithm: FunctionalQLearning) -> set[str]:
    audit = replay(algorithm, algorithm.worst_pairs(), replays=2, extreme_outputs=False)
    return {finding.kind for finding in audit.findings}


def test_the_papers_parameters_are_not_proved() -> None:
    algorithm = FunctionalQLearning()
    found = account(run(algorithm, REWARDS, seed=0).ledger)
    assert found.verdict is Proof.NOT_PROVED
    assert [premise.holds for premise in algorithm.claim.premises] == [False, False, False]
    assert len(found.releases) == 78
    assert found.bounds[0].guarantee.epsilon == pytest.approx(3.22, abs=5e-3)  # type: ignore[union-attr]


@pytest.mark.parametrize("view", ["raw", "fresh", "iterates"])
def test_a_path_of_its_own_for_every_update_leaks_in_the_raw_view_alone(view: ReleasedView) -> None:
    assert ("leak" in kinds(small(view=view))) == (view == "raw")


@sweep("resets", [1, 2, 3], everyday=(2,))
def test_a_path_that_is_kept_shows_differences_without_noise(resets: int) -> None:
    """The same noise on both sides, and yet the noisy values differ: an infinite loss."""
    assert kinds(small(view="iterates", resets=resets)) & {"leak", "control-flow"}
    assert not kinds(small(view="iterates")) & {"leak", "control-flow"}


def test_differences_grow_from_update_to_update() -> None:
    """The un-noised network carries on: after 20 updates far past what is declared, at the paper's batch."""
    algorithm = small(20, 64, view="iterates", nodes=129)
    (pair,) = algorithm.worst_pairs()
    audit = replay(algorithm, [pair], replays=1, extreme_outputs=False)
    moved = {
        int(f.label.split()[-1]): f.measured / f.declared for f in audit.findings if f.kind == "sensitivity"
    }  # type: ignore[union-attr, operator]
    assert audit.verdict is Experiment.REFUTED
    assert set(range(8, 20)) <= set(moved)
    # They add up: in proportion to the number of updates so far.
    assert moved[19] > 2.0 * moved[8]


def test_the_path_is_that_of_the_blocks_first_network() -> None:
    """Noisy values less the network's own are one path over a block, and another one in the next."""
    algorithm = small(4, 10, view="iterates", resets=2)
    released = run(algorithm, REWARDS, seed=7).output.released
    changed = released[1] - released[0], released[3] - released[2]
    plain = run(algorithm, REWARDS, noise=NoNoise()).output.released
    scale = algorithm.calibration.sigma
    assert max(np.abs(part).max() for part in changed) < 0.05 * scale
    assert np.abs(released[2] - released[1]).max() > 0.5 * scale
    assert np.abs(plain[2] - plain[1]).max() < 0.05 * scale
    assert released.shape == (4, 17, 2)


def test_without_noise_it_is_q_learning_by_the_book() -> None:
    """Line 19 to 22 by hand, for one batch, from the network that the public stream gives."""
    algorithm = small(1, 6, view="raw")
    output = run(algorithm, REWARDS, noise=NoNoise()).output
    first = small(1, 6, view="iterates")
    (before,) = _learn(first)
    start = before.acting.network  # type: ignore[attr-defined]
    states = _states(before.reached)
    actions = start(np.array(states)).argmax(axis=1)
    targets = REWARDS(before.reached) + 0.999 * start(before.reached).max(axis=1)

    def loss(parameters: np.ndarray) -> float:
        values = start.with_parameters(parameters)(np.array(states))
        return float(0.5 * ((values[range(6), actions] - targets) ** 2).mean())

    at, step = start.parameters, 1e-6
    slope = np.array([(loss(at + step * e) - loss(at - step * e)) / (2 * step) for e in np.eye(at.size)])
    np.testing.assert_allclose(output.released, at - 3e-4 * slope, atol=1e-11)


def _learn(algorithm: FunctionalQLearning) -> list[Any]:
    return list(
        run(lambda data, curator: list(algorithm.learning(data, curator)), REWARDS, noise=NoNoise()).output
    )


def _states(reached: np.ndarray) -> list[float]:
    from dpaudit.algorithms.environments.line_world import Walk

    curator = make.curator("replace-one")
    return [Walk(curator.public("walk")).state, *reached[:-1].tolist()]


@sweep("view, updates, nodes", [("raw", 5, 17), ("fresh", 40, 150)], everyday=(0,))
def test_one_more_for_every_reward_separates_it(
    view: ReleasedView, updates: int, nodes: int, nightly: bool
) -> None:
    """The mean of the released values tells r + 1 from r, at (0.9, 1e-4).

    A path of its own does not help: it is far from constant, and its mean over [0, 1] hardly moves.
    """
    noise = FunctionalCalibration(samples=updates * 8, batch=8, step_size=3e-3)
    algorithm = FunctionalQLearning(noise, view=view, nodes=nodes)
    (pair,) = algorithm.worst_pairs()

    def score(output: Any) -> float:
        # The last two parameters are the biases of the values: they move as the mean does.
        return float(output.released[-2:].sum() if view == "raw" else output.released.mean())

    trials = run_trials(algorithm, pair, 120 if nightly else 70, score=score)
    audit = threshold(
        Samples(trials.data, trials.neighbour, trials.seed), claim=algorithm.claim, confidence=1 - ALARM
    )
    assert audit.verdict is Experiment.REFUTED
    if view == "raw":
        assert trials.data.max() < trials.neighbour.min()


def test_it_learns_without_noise_and_exploring() -> None:
    algorithm = FunctionalQLearning(FunctionalCalibration(step_size=0.5), discount=0.5, exploration=1.0)
    output = run(algorithm, REWARDS, noise=NoNoise(), public_seed=1).output
    returns = episode_returns(output.reached, REWARDS)
    assert len(returns) == 99
    assert returns[-10:].mean() > 18.0
    assert returns[:10].mean() < 14.0
    last = _last(algorithm)
    assert greedy_return(last, REWARDS, 100, 0) > 18.0


def _last(algorithm: FunctionalQLearning) -> Any:
    def learnt(data: Any, curator: Any) -> Any:
        return [update.learnt for update in algorithm.learning(data, curator)][-1]

    return run(learnt, REWARDS, noise=NoNoise(), public_seed=1).output


@pytest.mark.parametrize(
    "options",
    [
        {"view": "all"},
        {"resets": 0},
        {"resets": 5},
        {"discount": 1.0},
        {"exploration": math.nan},
        {"nodes": 1},
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        small(**options)
