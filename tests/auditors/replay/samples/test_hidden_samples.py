"""Replay of sums over secret samples: how close the loss comes, and the mistakes of private training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from dpaudit import (
    L2,
    ApproxDP,
    Claim,
    Curator,
    FixedSizeSampled,
    Gaussian,
    Pair,
    PoissonSampled,
    RandomAllocation,
    account,
    run,
)
from dpaudit.algorithms.training.dp_sgd import DPSGD
from dpaudit.algorithms.training.models import Softmax
from dpaudit.auditors.replay.hidden_samples import Shape, Steps, Unit, best_excess
from dpaudit.auditors.replay.likelihood import log_ratio, queries_of
from dpaudit.auditors.replay.recording import Runs
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.curator.noise import LiveNoise
from dpaudit.mechanisms import Array

RATE, SIGMA, DELTA = 0.1, 1.0, 1e-5
ADDED = Claim(ApproxDP(epsilon=9.0, delta=DELTA), neighbouring="add-or-remove-one")
ROWS = np.vstack([np.tile([1.0, 0.0, 0.0], (8, 1)), [[0.0, 1.0, 0.0]]])
AMONG, ALONE = Pair(ROWS, ROWS[:-1]), Pair(ROWS[-1:], ROWS[:0])


def summed(rate: float = RATE, steps: int = 1, sigma: float = SIGMA) -> Callable[[Any, Curator], Any]:
    mechanism = PoissonSampled(rate=rate, mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0)))

    def algorithm(data: Array, curator: Curator) -> list[Array]:
        return [curator.release_sum(data, bound=1.0, mechanism=mechanism, label="sum") for _ in range(steps)]

    return algorithm


def true_epsilon(rate: float, sigma: float, delta: float) -> float:
    """Of one sampled Gaussian, the unit taken out: the loss exceeds epsilon beyond one point."""

    def excess(epsilon: float) -> float:
        at = sigma**2 * np.log1p((np.exp(epsilon) - 1.0) / rate) + 0.5
        out, inside = stats.norm.sf(at / sigma), stats.norm.sf((at - 1.0) / sigma)
        return float((1 - rate) * out + rate * inside - np.exp(epsilon) * out - delta)

    return float(optimize.brentq(excess, 1e-6, 20.0))


@pytest.mark.parametrize("pair", [AMONG, ALONE])
def test_the_bound_comes_close_and_is_not_passed(pair: Pair, nightly: bool) -> None:
    truth = true_epsilon(RATE, SIGMA, DELTA)
    assert truth == pytest.approx(1.6845, abs=1e-3)
    found = [
        replay(summed(), [pair], claim=ADDED, replays=60, seed=seed, extreme_outputs=False)
        for seed in range(2 if nightly else 1)
    ]
    assert all(one.verdict is Experiment.NOT_REFUTED and not one.inconclusive for one in found)
    bounds = [one.epsilon_lower or 0.0 for one in found]
    assert 0.7 * truth < max(bounds) <= truth


@pytest.mark.nightly
def test_the_bound_errs_as_rarely_as_it_says() -> None:
    truth = true_epsilon(RATE, SIGMA, DELTA)
    wrong = 0
    for seed in range(200):
        found = replay(summed(), [ALONE], claim=ADDED, replays=50, seed=seed, extreme_outputs=False)
        wrong += (found.epsilon_lower or 0.0) > truth
    assert wrong <= 28  # of 200 at 5%: more has a probability below 1e-6


def test_many_steps_are_bounded_by_the_proof_and_by_what_one_step_has() -> None:
    found = replay(summed(0.5, 10, 2.0), [AMONG], claim=ADDED, replays=30, extreme_outputs=False)
    # The proof's figure, by pld; one step has 1.41.
    assert 3.0 < (found.epsilon_lower or 0.0) <= 3.959


def test_recordings_are_weighted_by_their_likelihood(nightly: bool) -> None:
    """The mean weight of recordings drawn otherwise is 1."""
    runs = Runs(summed(steps=2), {"claim": ADDED})
    pilot = runs.record(AMONG.data, LiveNoise(0))
    other = runs.replay(AMONG.neighbour, pilot)
    units = [Unit.of(*pair) for pair in zip(pilot.entries, other.entries, strict=True)]
    assert [unit and unit.place for unit in units] == [8, 8]
    generator = np.random.default_rng(5)
    ratios = []
    for seed in range(300 if nightly else 100):
        entry = runs.record(AMONG.data, LiveNoise(seed + 1)).entries[0]
        steps = Steps.of(entry, units[0], 3.0)
        assert steps is not None
        entry.output[...] += steps.draw(generator)
        ratios.append(np.exp(-steps.log_ratio(entry)))
    # Weights lie between 0 and 1 over the least share of no step; five standard errors.
    assert abs(np.mean(ratios) - 1.0) < 5.5 * np.std(ratios) / np.sqrt(len(ratios))
    same = queries_of(pilot.entries)
    assert log_ratio(pilot.entries, same, same) == 0.0


def test_the_order_grows_as_epsilon_falls() -> None:
    few, many = (best_excess([Shape(0.1, 1.0, 0.0)] * n, 0.0, DELTA) for n in (1, 100))
    assert few > many


def test_fixed_samples_and_turns_are_judged() -> None:
    inner = Gaussian(sigma=2.0, sensitivity=L2(2.0))
    fixed = FixedSizeSampled(size=3, units=9, mechanism=inner)

    def of_one_size(data: Array, curator: Curator) -> Array:
        return curator.release_sum(data, bound=1.0, mechanism=fixed, label="sum")

    replaced = ROWS.copy()
    replaced[-1] = [-1.0, 0.0, 0.0]
    claim = Claim(ADDED.guarantee, neighbouring="replace-one")
    found = replay(of_one_size, [Pair(ROWS, replaced)], claim=claim, replays=20)
    assert found.verdict is Experiment.NOT_REFUTED
    assert (found.epsilon_lower or 0.0) > 0.1

    def in_turns(data: Array, curator: Curator) -> list[Array]:
        allocated = RandomAllocation(steps=4, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
        stream = curator.sampled_stream(allocated, "sum", bound=1.0, shape=(3,))
        return [stream.add(data) for _ in range(4)]

    found = replay(in_turns, [ALONE], claim=ADDED, replays=20)
    assert found.verdict is Experiment.NOT_REFUTED
    assert 0.0 < (found.epsilon_lower or 0.0) < 4.38


def test_too_many_different_records_are_inconclusive_with_what_to_do() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3))
    found = replay(summed(), [Pair(rows, rows[:-1])], claim=ADDED, replays=2)
    assert found.verdict is Experiment.INCONCLUSIVE
    assert "give a pair of few records" in str(found.inconclusive)


# The mistakes of private training, and the same without a mistake.


@dataclass(frozen=True, eq=False)
class NormalisedByTheBatch(DPSGD):
    """Each gradient is divided by the batch's private size: one record moves what all others add."""

    def gradients(self, theta: Array, records: Array) -> Array:
        return super().gradients(theta, records) * 9.0 / max(1, len(records))


@dataclass(frozen=True, eq=False)
class Doubled(DPSGD):
    """Each record is taken twice, so that it is hardly ever left out, in a sum that counts no rows."""

    def __call__(self, data: Array, curator: Curator) -> Array:
        theta = self.model.initial()
        for _ in range(self.steps):
            rows = self.gradients(theta, data).repeat(2, axis=0)
            noisy = curator.release_sum(rows, bound=self.bound, mechanism=self._mechanism(), label="gradient")
            theta = self.stepped(theta, noisy / (self.rate * self.records))
        return theta


@dataclass(frozen=True, eq=False)
class TheLargestOnly(DPSGD):
    """Gradients that are smaller than the largest are left out: who is in depends on others' data."""

    def gradients(self, theta: Array, records: Array) -> Array:
        found = super().gradients(theta, records)
        sizes = np.linalg.norm(found, axis=1)
        return np.asarray(found * (sizes >= sizes.max(initial=0.0) - 1e-9)[:, None])


@dataclass(frozen=True, eq=False)
class InOrder(DPSGD):
    """Batches in order, by plain noise: the claim is that of Poisson samples."""

    def __call__(self, data: Array, curator: Curator) -> Array:
        theta, every = self.model.initial(), round(1 / self.rate)
        noise = Gaussian(sigma=self.sigma * self.bound, sensitivity=L2(self.bound))
        for t in range(self.steps):
            rows = self.gradients(theta, data[t % every :: every])
            noisy = curator.release_sum(rows, bound=self.bound, mechanism=noise, label="gradient")
            theta = self.stepped(theta, noisy / 3.0)
        return theta


@dataclass(frozen=True, eq=False)
class NoiseOfTheMean(DPSGD):
    """The noise of a mean over the expected batch is added to the sum."""

    def _mechanism(self) -> PoissonSampled:
        noise = Gaussian(
            sigma=self.sigma * self.bound / (self.rate * self.records), sensitivity=L2(self.bound)
        )
        return PoissonSampled(rate=self.rate, mechanism=noise)


@dataclass(frozen=True, eq=False)
class NotClipped(DPSGD):
    """Gradients of any size, in a sum whose noise is that of clipped ones."""

    def __call__(self, data: Array, curator: Curator) -> Array:
        theta = self.model.initial()
        noise = Gaussian(sigma=self.sigma * self.bound, sensitivity=L2(self.bound))
        for _ in range(self.steps):
            noisy = curator.release(self.gradients(theta, data).sum(axis=0), noise, label="gradient")
            theta = self.stepped(theta, noisy)
        return theta


MADE: tuple[Any, ...] = (Softmax(3, 2), ApproxDP(epsilon=2.3, delta=DELTA), 1.5, 4)
MORE: dict[str, Any] = {"bound": 0.5, "rate": 0.25, "records": 12}


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        (NormalisedByTheBatch, "sensitivity"),
        (Doubled, "sensitivity"),
        (TheLargestOnly, "sensitivity"),
        (NotClipped, "sensitivity"),
        (InOrder, None),
        (NoiseOfTheMean, None),
        (DPSGD, None),
    ],
)
def test_the_mistakes_of_training_are_refuted_and_the_same_without_is_not(mistake: Any, kind: Any) -> None:
    algorithm = mistake(*MADE, **MORE)
    pair = algorithm.worst_pairs()[1]
    given: Any = {"replays": 2 if kind else 20, "extreme_outputs": False}
    found = replay(algorithm, [pair], **given, search_pairs=False)
    assert found.verdict is (Experiment.NOT_REFUTED if mistake is DPSGD else Experiment.REFUTED)
    kinds = {finding.kind for finding in found.findings}
    assert kinds - {"sampling"} == ({kind} if kind else set())
    assert ("sampling" in kinds) is (mistake in {NormalisedByTheBatch, TheLargestOnly})


def test_the_claim_is_proved_of_the_one_without_a_mistake() -> None:
    algorithm = DPSGD(*MADE, **MORE)
    assert account(run(algorithm, algorithm.worst_pairs()[1].data, seed=0).ledger).verdict is Proof.PROVED
