"""Replay forces samples: what it then finds, where, at which cost, and what it says where it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L2, ApproxDP, Claim, Curator, Experiment, FixedSizeSampled, Gaussian, Pair, PoissonSampled
from dpaudit.app.text.audits import _figures
from dpaudit.auditors.replay.forced_samples import OTHER_DRAW, SAME
from dpaudit.auditors.replay.recording import Runs
from dpaudit.certificate.conditions import Code

CLAIM = Claim(ApproxDP(epsilon=30.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")
REPLACED = Claim(CLAIM.guarantee, unit="record", neighbouring="replace-one")
POISSON = PoissonSampled(rate=0.2, mechanism=Gaussian(sigma=1.0, sensitivity=L2(2.0)))
FIXED = FixedSizeSampled(size=4, units=10, mechanism=Gaussian(sigma=1.0, sensitivity=L2(2.0)))
ROWS = np.random.default_rng(0).uniform(0.1, 1.0, size=(10, 1))
PAIR = Pair(ROWS, ROWS[1:], "the first")
MOVED = Pair(ROWS, np.vstack([-ROWS[:1], ROWS[1:]]), "the first, with another sign")


def sums(rows: Any, curator: Curator, mechanism: Any = POISSON, steps: int = 2) -> Any:
    batches = curator.batches(mechanism, "gradient", (1,), bound=1.0)
    made = []
    for _ in range(steps):
        batches.add(rows[batches.draw(len(rows))])
        made.append(batches.noisy())
    return np.array(made)


def of_the_first(rows: Any, curator: Curator, mechanism: Any = POISSON, steps: int = 2) -> Any:
    batches = curator.batches(mechanism, "gradient", (1,), bound=1.0)
    made = []
    for _ in range(steps):
        batches.add(rows[: len(batches.draw(len(rows)))])
        made.append(batches.noisy())
    return np.array(made)


def one_size(rows: Any, curator: Curator) -> Any:
    return sums(rows, curator, FIXED)


def first_of_one_size(rows: Any, curator: Curator) -> Any:
    return of_the_first(rows, curator, FIXED)


def briefly(target: Any, pair: Pair = PAIR, claim: Claim = CLAIM, **options: Any) -> Any:
    return dpaudit.replay(target, [pair], claim=claim, replays=1, extreme_outputs=False, **options)


def codes(audit: Any) -> set[Code]:
    return {condition.code for condition in audit.not_checked}


@pytest.mark.usefixtures("own_processes")
def test_in_processes_of_their_own_too() -> None:
    found = briefly(of_the_first)
    [finding] = found.findings
    assert (finding.kind, finding.label) == ("sampling", "gradient")
    assert "test_forced_samples.py:" in finding.where
    assert briefly(sums).findings == ()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("target", [sums, one_size])
def test_right_sums_are_never_refuted(target: Any, seed: int) -> None:
    rows = np.random.default_rng(seed).choice([0.0, 0.0, 0.1, 1.0], size=(10, 1))
    moved = Pair(rows, np.vstack([1.0 - rows[:1], rows[1:]]), "of few values")
    assert briefly(target, moved, REPLACED, seed=seed).findings == ()


def test_sums_of_one_size_that_never_change_are_found_where_chance_would_change_them() -> None:
    [finding] = briefly(first_of_one_size, MOVED, REPLACED).findings
    assert (finding.label, finding.detail) == ("gradient", SAME)
    # Of rows that are all alike every sum is the same: that says nothing.
    alike = Pair(np.ones((10, 1)), np.ones((10, 1)), "alike")
    for target in (one_size, first_of_one_size):
        found = briefly(target, alike, REPLACED)
        assert found.findings == ()
        assert Code.SAMPLES_UNTESTED in codes(found)


def test_the_release_whose_sample_is_summed_is_named() -> None:
    def twice(rows: Any, curator: Curator) -> Any:
        first, second = (curator.batches(FIXED, name, (1,), bound=1.0) for name in ("first", "second"))
        drawn = first.draw(len(rows))
        second.draw(len(rows))
        first.add(rows[drawn])
        second.add(rows[drawn] ** 2)
        return first.noisy(), second.noisy()

    [finding] = briefly(twice, MOVED, REPLACED).findings
    assert (finding.label, finding.detail) == ("second", f"{OTHER_DRAW} 'first'")


def test_batches_that_are_drawn_ahead_have_their_own_samples() -> None:
    def ahead(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(POISSON, "gradient", (1,), bound=1.0)
        made = []
        for drawn in [batches.draw(len(rows)) for _ in range(3)]:
            batches.add(rows[drawn])
            made.append(batches.noisy())
        return made

    assert briefly(ahead).findings == ()


def test_a_run_that_fails_for_a_part_of_the_units_is_found() -> None:
    def fails(rows: Any, curator: Curator) -> Any:
        batches = curator.batches(POISSON, "gradient", (1,), bound=1.0)
        for _ in range(2):
            drawn = batches.draw(len(rows))
            if len(drawn) < len(rows):
                raise ValueError("too few")
            batches.add(rows[drawn])
            batches.noisy()

    [finding] = briefly(fails).findings
    assert (finding.kind, finding.label) == ("sampling", "gradient")
    assert "raises ValueError where not everybody is drawn" in finding.detail


def test_a_run_that_fails_by_its_noise_is_not() -> None:
    """With everybody drawn it fails as well: the samples are then not tested, which is said."""

    def fails(rows: Any, curator: Curator) -> Any:
        if curator.release(0.0, Gaussian(sigma=1.0, sensitivity=L2(1.0)), label="coin") > 0.0:
            raise ValueError("too much noise")
        return sums(rows, curator, steps=1)

    untested = 0
    for seed in range(40):
        try:
            found = briefly(fails, seed=seed)
        except ValueError:  # the first recording has failed on both sides: there is nothing to audit
            continue
        assert found.findings == ()
        untested += Code.SAMPLES_UNTESTED in codes(found)
    assert untested > 0


def test_what_could_not_be_tested_is_said_and_limits_what_is_concluded() -> None:
    alone = Pair(ROWS[:1], ROWS[:0], "the only one")
    found = briefly(sums, alone)
    assert found.verdict is Experiment.NOT_REFUTED
    assert Code.SAMPLES_UNTESTED in codes(found)
    assert found.largest_refutable_epsilon is None
    assert "any epsilon" not in "".join(map(str, _figures(found)))
    tested = briefly(sums)
    assert Code.SAMPLES_UNTESTED not in codes(tested)
    assert tested.largest_refutable_epsilon is not None
    # One pair of two is enough.
    both = dpaudit.replay(sums, [alone, PAIR], claim=CLAIM, replays=1, extreme_outputs=False)
    assert Code.SAMPLES_UNTESTED not in codes(both)


@pytest.mark.parametrize(("pair", "tested"), [(PAIR, True), (Pair(ROWS[:1], ROWS[:0], "alone"), False)])
def test_a_certificate_says_whether_the_sample_was_used(pair: Pair, tested: bool) -> None:
    made = dpaudit.certify(sums, pair.data, claim=CLAIM, pairs=pair, curves=False)
    [condition] = [each for each in made.not_checked if each.code is Code.SAMPLE_SUMMED]
    assert condition.replayed is tested
    assert condition.releases is not None
    assert condition.releases.labels == ("gradient",)


def test_rows_that_the_curator_draws_and_maps_rest_on_no_such_condition() -> None:
    def mapped(rows: Any, curator: Curator) -> Any:
        return curator.release_sum(rows, map=abs, bound=1.0, mechanism=POISSON, label="sum")

    numbers = [0.1 * number for number in range(10)]
    pair = Pair(numbers, numbers[1:], "the first")
    made = dpaudit.certify(mapped, numbers, claim=CLAIM, pairs=pair, curves=False)
    assert Code.SAMPLE_SUMMED not in {each.code for each in made.not_checked}


def test_runs_are_added_where_the_algorithm_is_told_who_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [0]
    record = Runs.record

    def counted(*args: Any, **options: Any) -> Any:
        made[0] += 1
        return record(*args, **options)

    def by_the_curator(rows: Any, curator: Curator) -> Any:
        return [curator.release_sum(rows, bound=1.0, mechanism=POISSON, label="sum") for _ in range(2)]

    monkeypatch.setattr(Runs, "record", counted)
    numbers = []
    for target in (by_the_curator, sums):
        made[0] = 0
        dpaudit.replay(target, [PAIR], claim=CLAIM)
        numbers.append(made[0])
    without, with_draws = numbers
    assert with_draws == without + 10
    assert with_draws <= 1.25 * without
