"""Shuffled answers: how often each is given, its probability, the curator's call and its replay."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit import ApproxDP, Claim, Curator, NoNoise, Pair, RandomizedResponse, Shuffled, replay, run
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Answer, Asked, OpaquePureDP
from dpaudit.noise.bits import SeededBits
from dpaudit.noise.randomness import ExactRandomness, SeededRandomness

ALARM = 1e-6
ANSWERS = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
BINARY = Shuffled(local=RandomizedResponse(epsilon=1.0), users=5)
THREE = Shuffled(local=RandomizedResponse(epsilon=1.0, categories=3), users=5)


def by_enumeration(answers: Any) -> np.ndarray:
    """The probability of each number of ones: over everything that the users can say."""
    keep = math.e / (1.0 + math.e)
    found = np.zeros(len(answers) + 1)
    for said in itertools.product((0, 1), repeat=len(answers)):
        found[sum(said)] += math.prod(
            keep if a == b else 1.0 - keep for a, b in zip(answers, said, strict=True)
        )
    return found


def likelihood(mechanism: Shuffled, ones: float, answers: Any) -> float | None:
    counts = np.array([len(answers) - ones, ones])
    return mechanism.log_likelihood([Answer(query=answers, output=counts)], [Asked(answers)])


def test_the_probability_of_the_counts() -> None:
    expected = by_enumeration(ANSWERS)
    found = [likelihood(BINARY, ones, ANSWERS) for ones in range(6)]
    assert np.exp(np.array(found, dtype=np.float64)) == pytest.approx(expected, rel=1e-12)
    assert likelihood(BINARY, 6.0, ANSWERS) == -math.inf
    assert likelihood(BINARY, 0.5, ANSWERS) == -math.inf
    assert likelihood(THREE, 2.0, ANSWERS) is None


@pytest.mark.parametrize("exact", [False, True])
def test_counts_are_drawn_as_stated(exact: bool, nightly: bool) -> None:
    trials = 8000 if nightly else 3000
    generator = np.random.default_rng(3)
    draws = ExactRandomness(SeededBits(generator)) if exact else SeededRandomness(generator)
    found = np.bincount([int(BINARY.sample(ANSWERS, draws)[1]) for _ in range(trials)], minlength=6)
    assert stats.chisquare(found, trials * by_enumeration(ANSWERS)).pvalue > ALARM
    assert stats.chisquare(found, trials * by_enumeration(1.0 - ANSWERS)).pvalue < ALARM


def shuffle(mechanism: Shuffled = BINARY) -> Any:
    return lambda data, curator: curator.release_shuffled(data, mechanism, label="answers")


def test_the_curator_counts_and_charges_once() -> None:
    exact = run(shuffle(THREE), [0, 2, 2, 1, 2], noise=NoNoise())
    assert exact.output.tolist() == [1.0, 1.0, 3.0]
    live = run(shuffle(THREE), [0, 2, 2, 1, 2])
    assert live.output.sum() == 5.0
    assert [release.mechanism for release in live.ledger.releases] == [THREE]


@pytest.mark.parametrize(
    "answers", [[0, 1, 1], [0, 1, 2, 0, 1], [[0, 1, 1, 0, 1]], [0.5] * 5, [math.nan] * 5]
)
def test_answers_that_do_not_fit_are_refused(answers: Any) -> None:
    with pytest.raises(InvalidParameter):
        run(shuffle(), answers)


def test_a_guarantee_alone_cannot_be_drawn() -> None:
    opaque = Shuffled(local=OpaquePureDP(epsilon=1.0, justification="x"), users=5)
    with pytest.raises(InvalidParameter, match="pure-dp"):
        run(shuffle(opaque), ANSWERS)


MANY = Shuffled(local=RandomizedResponse(epsilon=1.0), users=400)
ONE = Pair([0.0] * 400, [1.0] + [0.0] * 399)


def claim(epsilon: float) -> Claim:
    return Claim(ApproxDP(epsilon=epsilon, delta=1e-3), unit="user", neighbouring="replace-one")


def test_replay_supports_a_true_claim_and_refutes_a_false_one() -> None:
    audit = replay(shuffle(MANY), [ONE], claim=claim(0.25), replays=60)
    assert (audit.verdict, audit.findings) == (Experiment.NOT_REFUTED, ())
    few = Shuffled(local=RandomizedResponse(epsilon=4.0), users=3)
    false = replay(shuffle(few), [Pair([0.0] * 3, [1.0, 0.0, 0.0])], claim=claim(0.25), replays=60)
    assert false.verdict is Experiment.REFUTED


def test_two_answers_of_one_unit_are_found_and_so_is_their_order() -> None:
    pair = Pair([0.0] * 400, [1.0, 1.0] + [0.0] * 398)
    (finding,) = replay(shuffle(MANY), [pair], claim=claim(0.25), replays=2).findings
    assert (finding.kind, finding.measured) == ("sensitivity", 2.0)

    def with_first(data: Any, curator: Curator) -> Any:
        return shuffle(MANY)(data, curator).tolist(), data[0]

    assert "leak" in {f.kind for f in replay(with_first, [ONE], claim=claim(0.25), replays=2).findings}


def test_a_sampler_that_keeps_too_many_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = RandomizedResponse.sample
    monkeypatch.setattr(
        RandomizedResponse,
        "sample",
        lambda self, *a: true(self.model_copy(update={"epsilon": 1.2 * self.epsilon}), *a),
    )
    found = replay(shuffle(MANY), [ONE], claim=claim(0.25), replays=2).findings
    assert "sampler" in {finding.kind for finding in found}
