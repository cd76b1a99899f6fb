"""How many runs a replay makes where no number is asked for: as many as what is undecided needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, ApproxDP, Claim, Curator, Gaussian, Pair, audit
from dpaudit.auditors.replay.exact_loss import Losses
from dpaudit.auditors.replay.forced_outputs import SETTINGS, extremes
from dpaudit.auditors.replay.recording import Runs
from dpaudit.auditors.replay.replay import FIRST, MOST, ReplayPlan
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.curator.noise import LiveNoise
from dpaudit.progress import Work, shown_by

PAIR = Pair(np.array([0.0]), np.array([1.0]))
RUNS = [0]


def releasing(number: int, sigma: float, more: float = 0.0) -> Callable[[Any, Curator], Any]:
    """Several releases, together sqrt(number)/sigma-GDP; the last one moves by `more` than it declares."""
    noise = Gaussian(sigma=sigma, sensitivity=L2(1.0))

    def algorithm(data: Any, curator: Curator) -> Any:
        RUNS[0] += 1
        for place in range(number - 1):
            if place % 2:
                curator.release(data[0], noise, label=f"odd {place}")
            else:
                curator.release(data[0], noise, label=f"even {place}")
        return curator.release(data[0] * (1.0 + more), noise, label="last")

    return algorithm


def audited(algorithm: Any, epsilon: float | None, seed: int = 0, **options: Any) -> tuple[int, Audit]:
    RUNS[0] = 0
    options = {"search_pairs": False, **options}  # which makes more runs, up to 64 on whatever data
    claim = None if epsilon is None else Claim(ApproxDP(epsilon=epsilon, delta=1e-5))
    found = audit(algorithm, PAIR, claim=claim, in_process=True, seed=seed, **options)
    return RUNS[0], found


@pytest.mark.parametrize(("number", "sigma", "runs"), [(1, 1.0, 63), (20, 5.0, 83)])
def test_what_is_decided_soon_takes_few_runs(number: int, sigma: float, runs: int) -> None:
    true = 4.378 if number == 1 else 3.88  # of mu = 1, and of mu = 0.895
    made, found = audited(releasing(number, sigma), true)
    assert (made, found.verdict, found.trials) == (runs, Experiment.NOT_REFUTED, FIRST)
    # A fault, and a claim that is far off, take no longer.
    made, found = audited(releasing(number, sigma, more=0.5), true)
    assert found.verdict is Experiment.REFUTED
    assert made <= 90


def test_a_claim_that_is_a_little_off_is_refuted_with_more_runs() -> None:
    found = [audited(releasing(20, 4.0), 4.6, seed) for seed in range(3)]  # 4.99 is true
    assert {one.verdict for _, one in found} == {Experiment.REFUTED}
    assert all(83 <= made <= 2 * 2 * MOST for made, _ in found)
    assert max(one.trials for _, one in found) > FIRST


@pytest.mark.nightly
def test_ending_when_it_suffices_errs_as_rarely_as_stated() -> None:
    """A claim that is true by a hair, many times: refuted at most as often as the confidence allows."""
    wrong = sum(
        audited(releasing(4, 2.0), 4.3773, seed, confidence=0.8)[1].verdict is Experiment.REFUTED
        for seed in range(300)
    )
    assert wrong <= 96  # of 300 at 20%: more has a probability below 1e-6


def test_a_number_that_is_asked_for_is_made() -> None:
    made, found = audited(releasing(1, 1.0), 4.378, trials=3)
    assert (made, found.trials) == (1 + 2 * (3 + 2 * 10 + 2 * 3), 3)


def test_recordings_go_on_while_they_may_decide() -> None:
    def plan(evidence: float, guarantee: ApproxDP | None) -> tuple[ReplayPlan, Any]:
        losses = np.zeros(FIRST)
        made = Losses(losses, np.zeros(FIRST))
        object.__setattr__(made, "evidence", lambda _: evidence)
        return ReplayPlan(None, False, guarantee, 4.0, 1, Work("replays")), lambda: made

    claimed = ApproxDP(epsilon=1.0, delta=1e-5)
    for evidence, goes_on in ((0.0, False), (-1.0, False), (0.2, False), (0.3, True), (4.1, False)):
        one, losses = plan(evidence, claimed)
        assert one.goes_on(FIRST - 1, losses, decided=True)
        assert one.goes_on(FIRST, losses, decided=False) is goes_on
        assert not one.goes_on(FIRST, losses, decided=True)
        assert one.goes_on(FIRST + 1, losses, decided=True)
        assert not one.goes_on(MOST, losses, decided=False)
    one, losses = plan(3.0, None)
    assert not one.goes_on(FIRST, losses, decided=False)


def test_progress_says_how_many_runs_there_are_to_be() -> None:
    seen: list[tuple[int, int]] = []
    with shown_by(lambda works: seen.extend((work.done, work.total or 0) for work in works)):
        made, _ = audited(releasing(20, 5.0), 3.88)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (made, made)
    assert all(done <= total for done, total in seen)


def test_every_place_has_every_setting_in_either_direction() -> None:
    runs = Runs(releasing(8, 5.0), {})
    recorded = runs.record(PAIR.data, LiveNoise(0))
    seed = np.random.SeedSequence(0)
    both = []
    for turned in (False, True):
        made = extremes(seed, recorded.entries, recorded.entries, turned=turned, singly=False)
        both.append([noise.settings for noise in made])
    few = set(list(SETTINGS)[:4])
    for settings in both:
        placed = [one for one in settings if not isinstance(one, str)]
        for output in (("even 0", 0), ("odd 1", 0), ("last", 0)):
            assert {one[output] for one in placed if output in one} == few
    assert {one for settings in both for one in settings if isinstance(one, str)} == set(SETTINGS)
    assert list(map(len, both)) == [15, 11]
