"""The best of secret trials: what leaves, what is charged, and trials that make other releases."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from dpaudit import (
    L2,
    ApproxDP,
    Claim,
    Curator,
    Gaussian,
    Header,
    Ledger,
    LiveNoise,
    NoNoise,
    Pair,
    replay,
    run,
)
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.mechanisms import (
    NegativeBinomial,
    Poisson,
    PrivateSelection,
    RandomAllocation,
    TrialRelease,
)

NOISE = Gaussian(sigma=0.3, sensitivity=L2(1.0))
TUNED = PrivateSelection(
    releases=(TrialRelease(mechanism=NOISE),), repetitions=NegativeBinomial(eta=1.0, gamma=0.1)
)
FEW = TUNED.model_copy(update={"repetitions": Poisson(mean=1.0)})


def scored(curator: Curator, candidate: int) -> tuple[float, list[float]]:
    score = float(curator.release(float(candidate), NOISE, label="score"))
    return score, [candidate, score]


def choose(trial: Any = scored, mechanism: Any = TUNED, **options: Any) -> Any:
    stated = {"candidates": 4, "default": [0.0, 0.0], **options}
    return lambda data, curator: curator.select_best(trial, mechanism, label="best", **stated)


@pytest.mark.parametrize("seeded", [False, True])
def test_better_candidates_win_and_one_release_is_charged(seeded: bool) -> None:
    runs = [run(choose(), None, seed=seed if seeded else None) for seed in range(60)]
    won = Counter(int(one.output[0]) for one in runs)
    assert won[3] > 30
    assert all([release.mechanism for release in one.ledger.releases] == [TUNED] for one in runs)


def test_no_trial_leaves_the_default() -> None:
    outputs = [run(choose(mechanism=FEW, default=[-7.0, 0.0]), None, seed=seed).output for seed in range(40)]
    assert 3 < sum(output[0] == -7.0 for output in outputs) < 30  # a share of 1/e
    assert run(choose(default=[5.0, 1.0]), None, noise=NoNoise()).output.tolist() == [5.0, 1.0]


def twice(curator: Curator, candidate: int) -> tuple[float, list[float]]:
    scored(curator, candidate)
    return scored(curator, candidate)


def louder(curator: Curator, candidate: int) -> tuple[float, list[float]]:
    score = float(curator.release(0.0, Gaussian(sigma=0.2, sensitivity=L2(1.0)), label="score"))
    return score, [candidate, score]


def silent(curator: Curator, candidate: int) -> tuple[float, list[float]]:
    del curator
    return float(candidate), [0.0, 0.0]


@pytest.mark.parametrize("trial", [twice, louder, silent])
def test_a_trial_with_other_releases_than_listed_is_refused(trial: Any) -> None:
    with pytest.raises(ScheduleBroken, match="a trial that"):
        run(choose(trial), None, seed=1)


def answering(score: Any, output: Any) -> Any:
    return lambda curator, candidate: (scored(curator, candidate) and score, output)


@pytest.mark.parametrize(
    ("score", "output"),
    [(math.nan, [0.0, 0.0]), ([1.0, 2.0], [0.0, 0.0]), (1.0, 0.0), (1.0, [math.inf, 0.0])],
)
def test_scores_and_outputs_without_meaning_are_refused(score: Any, output: Any) -> None:
    with pytest.raises(InvalidParameter):
        run(choose(answering(score, output)), None, seed=1)


def test_nothing_is_written_for_a_call_without_meaning() -> None:
    curator = Curator(Ledger(Header(algorithm="a", unit="row", neighbouring="replace-one")), LiveNoise())
    for options in ({"candidates": 0}, {"default": math.nan}):
        with pytest.raises(InvalidParameter):
            curator.select_best(scored, TUNED, label="best", **options)
    assert curator.ledger.releases == ()


def test_the_first_of_equal_scores_wins_and_candidates_are_drawn_anew() -> None:
    seen: list[int] = []

    def level(curator: Curator, candidate: int) -> tuple[float, float]:
        curator.release(0.0, NOISE, label="score")
        seen.append(candidate)
        return 1.0, float(candidate)

    firsts = []
    for seed in range(30):
        seen.clear()
        firsts.append(run(choose(level, default=0.0), None, seed=seed).output == seen[0])
    assert all(firsts)


def test_replay_says_that_it_cannot_judge_the_best_and_judges_a_trial_by_itself() -> None:
    claim = Claim(ApproxDP(epsilon=1.0, delta=1e-6), unit="row", neighbouring="replace-one")
    pair = Pair(0.0, 1.0)
    audit = replay(choose(), [pair], claim=claim, replays=3)
    assert audit.verdict is Experiment.INCONCLUSIVE
    assert "replay a trial by itself" in " ".join(audit.inconclusive)

    def trial(data: float, curator: Curator) -> tuple[float, float]:
        return data, float(curator.release(data, NOISE, label="score"))

    found = replay(trial, [pair], replays=3).findings  # planted: the score is not made of the releases
    assert [finding.kind for finding in found] == ["leak"]
    assert replay(lambda data, curator: trial(data, curator)[1], [pair], replays=3).findings == ()


def test_a_trial_may_train_over_turns() -> None:
    """Its stream is one release of the trial, charged with it, and not one step more is answered after it."""
    inner = RandomAllocation(steps=3, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
    tuned = PrivateSelection(releases=(TrialRelease(mechanism=inner),), repetitions=Poisson(mean=3.0))
    left: list[Any] = []

    def training(curator: Curator, candidate: int) -> tuple[float, float]:
        stream = curator.sampled_stream(inner, "steps", bound=1.0)
        score = sum(float(stream.add([0.5, 0.25])) for _ in range(3))
        left.append(stream)
        return score, float(candidate)

    made = run(
        lambda data, curator: curator.select_best(training, tuned, label="best", candidates=2),
        None,
        seed=3,
        neighbouring="add-or-remove-one",
    )
    assert [release.mechanism for release in made.ledger.releases] == [tuned]
    assert left
    with pytest.raises(ScheduleBroken):
        left[0].add([0.5, 0.25])
