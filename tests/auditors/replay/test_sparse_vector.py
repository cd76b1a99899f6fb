"""Replay of sparse vector: whole answers have their exact loss, an honest one is silent, faults are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import L1, L2, ApproxDP, Claim, Curator, GaussianSparseVector, Pair, PureDP, SparseVector, replay
from dpaudit.certificate.verdicts import Experiment
from dpaudit.curator.thresholds import Comparisons
from dpaudit.noise.levels import FloatLevel

SPARSE = SparseVector(epsilon=1.0, sensitivity=L1(1.0))
GAUSSIAN = GaussianSparseVector(sigma=4.0, sensitivity=L2(1.0), steps=5)
NEAR = Pair([0.0] * 4 + [0.0], [1.0] * 4 + [-1.0])


def claim(epsilon: float) -> Claim:
    return Claim(PureDP(epsilon=epsilon), unit="row", neighbouring="replace-one")


def compare(mechanism: Any = SPARSE, threshold: float = 0.5) -> Callable[[Any, Curator], list[bool]]:
    def algorithm(data: Any, curator: Curator) -> list[bool]:
        comparisons = curator.sparse_vector(mechanism, "large", threshold=threshold)
        said = []
        for value in data:
            if comparisons.ended:
                break
            said.append(comparisons.above(value))
        return said

    return algorithm


def test_an_honest_one_is_silent_and_its_loss_is_exact() -> None:
    audit = replay(compare(), [NEAR], claim=claim(1.0), replays=40)
    assert (audit.verdict, audit.findings) == (Experiment.NOT_REFUTED, ())
    assert 0.5 < (audit.epsilon_lower or 0.0) <= 1.0
    assert replay(compare(), [NEAR], claim=claim(0.4), replays=40).verdict is Experiment.REFUTED


def test_the_gaussian_one_is_silent_too() -> None:
    true = Claim(ApproxDP(epsilon=2.4, delta=1e-5), unit="row", neighbouring="replace-one")
    audit = replay(compare(GAUSSIAN), [NEAR], claim=true, replays=20)
    assert (audit.verdict, audit.findings) == (Experiment.NOT_REFUTED, ())


def test_a_value_that_moves_further_than_declared_is_found() -> None:
    audit = replay(compare(), [Pair([0.0, 0.0], [0.0, 1.5])], claim=claim(1.0), replays=3)
    (finding,) = audit.findings
    assert (finding.kind, finding.label, finding.declared) == ("sensitivity", "large", 1.0)
    assert finding.measured == pytest.approx(1.5)


def test_values_that_are_not_monotone_are_found_and_those_that_are_pass() -> None:
    monotone = SparseVector(epsilon=1.0, sensitivity=L1(1.0), monotone=True)
    one_way = Pair([0.0, 0.0, 0.0], [1.0, 0.0, 1.0])
    assert replay(compare(monotone), [one_way], claim=claim(1.0), replays=10).findings == ()
    audit = replay(compare(monotone), [NEAR], claim=claim(1.0), replays=3)
    assert {finding.kind for finding in audit.findings} == {"sensitivity"}


def test_a_threshold_that_follows_the_data_is_found() -> None:
    def algorithm(data: Any, curator: Curator) -> bool:
        return curator.sparse_vector(SPARSE, "large").above(data[0], threshold=float(np.mean(data)))

    audit = replay(algorithm, [NEAR], claim=claim(1.0), replays=3)
    assert {finding.kind for finding in audit.findings} == {"control-flow"}


def test_the_value_beside_its_answer_is_a_leak() -> None:
    """Lyu, Su and Li 2017, Algorithm 3, without any noise of its own."""

    def algorithm(data: Any, curator: Curator) -> Any:
        said = compare()(data, curator)
        return [value if yes else None for value, yes in zip(data, said, strict=False)]

    audit = replay(algorithm, [Pair([9.0, 9.0], [9.5, 9.0])], claim=claim(1.0), replays=10)
    assert "leak" in {finding.kind for finding in audit.findings}


def test_answers_without_end_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lyu, Su and Li 2017, Algorithm 6: more yeses than the ledger accounts for."""
    monkeypatch.setattr(Comparisons, "ended", False)
    pair = Pair([0.0] * 8 + [0.0] * 8, [1.0] * 8 + [-1.0] * 8)
    audit = replay(compare(), [pair], claim=claim(1.0), replays=40)
    assert audit.verdict is Experiment.REFUTED
    assert audit.epsilon_lower is not None
    assert audit.epsilon_lower > 1.2


@pytest.mark.parametrize("mechanism", [SPARSE, GAUSSIAN])
def test_noise_that_is_missing_from_the_values_is_found(
    mechanism: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lyu, Su and Li 2017, Algorithm 5."""
    reached = FloatLevel.reached
    monkeypatch.setattr(
        FloatLevel, "reached", lambda self, value, threshold, _: reached(self, value, threshold, 0.0)
    )
    audit = replay(compare(mechanism), [NEAR], claim=claim(3.0), replays=1)
    assert "sampler" in {finding.kind for finding in audit.findings}
