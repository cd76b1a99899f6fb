"""Replay of streams with correlated noise: each planted fault is found, its innocent twin is not accused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dpaudit import GDP, L2, Claim, Curator, Pair
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Finding
from dpaudit.mechanisms import LowerTriangular, MatrixMechanism, Toeplitz
from dpaudit.mechanisms.correlated.matrix import CorrelatedSums
from dpaudit.noise.randomness import Randomness

Work = Callable[[float, Curator], Any]
PAIR = Pair(0.0, 1.0)
BANDED = Toeplitz(coefficients=(1.0, 0.5, 0.375))
NOISE = MatrixMechanism(
    sigma=2.0, steps=9, strategy=BANDED, participations=2, separation=3, sensitivity=L2(1.0)
)


def moving(steps: Sequence[int], far: float = 1.0, noise: MatrixMechanism = NOISE) -> Work:
    """Items that move at these steps; the sum of all so far is looked at in between."""

    def work(x: float, curator: Curator) -> Any:
        stream = curator.stream(noise, "it", (2,))
        seen = []
        for step in range(noise.steps):
            mean = float(np.tanh(seen[-1][1])) if seen else 0.0
            seen.append(stream.add([x * far if step in steps else 0.0, mean]))
        return seen

    return work


def findings(work: Work) -> tuple[Finding, ...]:
    return replay(work, [PAIR], replays=3).findings


@pytest.mark.parametrize(
    ("innocent", "fault", "measure"),
    [
        (moving([0, 3]), moving([0, 3, 8]), "items; the ledger declares 2"),  # a participation more
        (moving([2, 8]), moving([2, 4]), "items in 3 steps; the ledger declares 1"),  # too close
        (moving([4], 1.0), moving([4], 1.01), "in l2, in one item"),  # too far
    ],
)
def test_participations_other_than_stated_are_found(innocent: Work, fault: Work, measure: str) -> None:
    assert findings(innocent) == ()
    (finding,) = findings(fault)
    assert (finding.kind, finding.label) == ("sensitivity", "it")
    assert measure in finding.detail


def test_rounding_of_large_items_is_no_participation() -> None:
    """Sums of the same rows in another order, which differ in their last places at every step."""
    rows = np.random.default_rng(0).normal(size=50) * 1e9

    def work(x: float, curator: Curator) -> Any:
        stream = curator.stream(NOISE.model_copy(update={"sigma": 1e6}), "it")
        ordered = rows if x == 0.0 else rows[::-1]
        return [stream.add(float(np.add.reduce(ordered.tolist())) if x else sum(rows)) for _ in range(9)]

    assert findings(work) == ()


def test_a_step_past_the_end_is_refused_on_either_side() -> None:
    def work(x: float, curator: Curator) -> None:
        stream = curator.stream(NOISE, "it")
        for _ in range(9 + int(x)):
            stream.add(0.0)

    (finding,) = findings(work)
    assert finding.kind == "control-flow"


def uncorrelated(self: CorrelatedSums, randomness: Randomness) -> Any:
    """Fresh noise on every item, as large as on an answer: what the ledger says is not what was drawn."""
    item = self._items[-1]
    self._noisy = self._noisy + randomness.gaussian(item, self._mechanism.sigma)
    return self._noisy.copy()


def scaled(self: CorrelatedSums, randomness: Randomness) -> Any:
    wrong = self._mechanism.model_copy(update={"sigma": 0.95 * self._mechanism.sigma})
    honest = self._mechanism
    self._mechanism = wrong
    try:
        return HONEST(self, randomness)
    finally:
        self._mechanism = honest


HONEST = CorrelatedSums.noisy


@pytest.mark.usefixtures("full_sampler_check")
@pytest.mark.parametrize("plant", [uncorrelated, scaled])
@pytest.mark.parametrize(
    "strategy", [BANDED, LowerTriangular(rows=((1.0,), (0.5, 1.0), (0.5, 1.0), (0.5, 1.0)))]
)
def test_noise_that_is_not_correlated_as_stated_is_found(
    plant: Any, strategy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarms below 1e-6; seeds fixed."""
    noise = MatrixMechanism(sigma=2.0, steps=4, strategy=strategy, sensitivity=L2(1.0))
    work = moving([1], noise=noise)
    assert findings(work) == ()
    monkeypatch.setattr(CorrelatedSums, "noisy", plant)
    assert "sampler" in {finding.kind for finding in findings(work)}


def test_the_exact_loss_of_a_stream_is_that_of_its_reach() -> None:
    """Two participations of norm 1, three steps apart: mu = sqrt(2 (1 + .25 + .140625)) / 2."""
    mu = (2 * 1.390625) ** 0.5 / 2.0
    audit = replay(moving([0, 3]), [PAIR], replays=5, fixed_queries=True)
    assert mu * (1 - 1e-9) <= (audit.mu_lower or 0.0) <= mu * (1 + 1e-9)
    for claimed, refuted in ((1.001 * mu, False), (0.99 * mu, True)):
        claim = Claim(GDP(mu=claimed), unit="record", neighbouring="replace-one")
        found = replay(moving([0, 3]), [PAIR], replays=5, claim=claim, fixed_queries=True)
        assert ((found.p_value or 0.0) == 0.0) == refuted
