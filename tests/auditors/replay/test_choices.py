"""Replay of choices: an honest one is silent, and a planted fault is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import Claim, Curator, Pair, PureDP, ReportNoisyMax, replay
from dpaudit.certificate.verdicts import Experiment

FLIP = ReportNoisyMax(epsilon=1.0)
#: Two candidates whose scores one unit moves by 1 in opposite directions.
APART = Pair([0.0, 0.0], [1.0, -1.0])


def claim(epsilon: float) -> Claim:
    return Claim(PureDP(epsilon=epsilon), unit="row", neighbouring="replace-one")


def select(law: Any = "exponential", **stated: Any) -> Callable[[Any, Curator], int]:
    mechanism = ReportNoisyMax(epsilon=1.0, noise_law=law)
    stated = {"score_sensitivity": 1.0, **stated}
    return lambda data, curator: curator.select(data, mechanism, label="best", **stated)


@pytest.mark.parametrize("law", ["exponential", "laplace"])
def test_the_exact_loss_supports_a_true_claim_and_refutes_a_false_one(law: str) -> None:
    audit = replay(select(law), [APART], claim=claim(1.0), replays=20)
    assert (audit.verdict, audit.findings) == (Experiment.NOT_REFUTED, ())
    truth = 1.0 if law == "exponential" else None
    if truth is not None:
        assert audit.epsilon_lower == pytest.approx(truth, rel=1e-6)
    assert 0.5 < (audit.epsilon_lower or 0.0) <= 1.0
    assert replay(select(law), [APART], claim=claim(0.5), replays=20).verdict is Experiment.REFUTED


def test_scores_that_move_further_than_declared_are_found() -> None:
    audit = replay(select(score_sensitivity=0.5), [APART], claim=claim(1.0), replays=5)
    assert audit.verdict is Experiment.REFUTED
    (finding,) = audit.findings
    assert (finding.kind, finding.declared) == ("sensitivity", 1.0)
    assert finding.measured == pytest.approx(2.0)


def test_scores_that_are_not_monotone_are_found_and_those_that_are_pass() -> None:
    one_way = Pair([0.0, 0.0], [1.0, 0.0])
    honest = replay(select(monotone=True), [one_way], claim=claim(1.0), replays=20)
    assert (honest.verdict, honest.findings) == (Experiment.NOT_REFUTED, ())
    audit = replay(select(monotone=True), [APART], claim=claim(1.0), replays=5)
    assert [finding.kind for finding in audit.findings] == ["sensitivity"]


def test_the_winning_score_itself_is_a_leak() -> None:
    """Report noisy max with the winner's score: only the index is private."""

    def with_score(data: Any, curator: Curator) -> tuple[int, float]:
        best = select()(data, curator)
        return best, float(np.asarray(data)[best])

    audit = replay(with_score, [APART], claim=claim(1.0), replays=5)
    assert {finding.kind for finding in audit.findings} == {"leak"}


def test_too_many_candidates_for_a_probability_are_said_to_be_so() -> None:
    scores = np.arange(200.0)
    audit = replay(select("laplace"), [Pair(scores, scores + (scores == 0.0))], claim=claim(1.0), replays=1)
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert "density" in " ".join(audit.inconclusive)
    assert math.isfinite(audit.epsilon_lower or 0.0)
