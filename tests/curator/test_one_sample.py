"""Releases on one sample: the curator draws once for all of them, whoever runs the algorithm."""

from __future__ import annotations

import copy
import datetime as dt
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L2, Claim, Gaussian, Header, Ledger, Pair, PureDP
from dpaudit.accountants.accounting import account
from dpaudit.accountants.filters.filters import PureFilter
from dpaudit.accountants.filters.renyi import RDPFilter
from dpaudit.certificate.conditions import Code
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.sensitivity import L1
from dpaudit.curator.coins import Coins, ForcedSamples
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import MOST_SAMPLES, LiveNoise, NamedSamples, ReplayedNoise, Transcript
from dpaudit.curator.records import SameRecords
from dpaudit.errors import CannotBound, InvalidParameter, ScheduleBroken
from dpaudit.mechanisms import FixedSizeSampled, Laplace, PoissonSampled, PrivateSelection, RandomAllocation
from dpaudit.mechanisms import Poisson as PoissonTrials
from dpaudit.processes.hosting import hosting

UNITS = 24
ROWS = np.eye(UNITS)
NOISE = Gaussian(sigma=0.01, sensitivity=L2(1.0))
HALF = PoissonSampled(rate=0.5, mechanism=NOISE)
WIDE = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=0.02, sensitivity=L2(1.0)))


def curator(noise: Any = None, **more: Any) -> Curator:
    header = Header(algorithm="a", unit="row", neighbouring="add-or-remove-one")
    return Curator(Ledger(header), LiveNoise(3) if noise is None else noise, **more)


def members(sums: np.ndarray) -> tuple[int, ...]:
    """Who is in the sum of the rows of the unit matrix."""
    return tuple(np.flatnonzero(np.rint(sums)).tolist())


def four(own: Curator) -> list[tuple[int, ...]]:
    said = [(HALF, "one"), (WIDE, "one"), (HALF, "two"), (HALF, None)]
    return [
        members(own.release_sum(ROWS, bound=1.0, mechanism=mechanism, label=f"sum {place}", sample=sample))
        for place, (mechanism, sample) in enumerate(said)
    ]


def test_releases_of_one_name_are_made_on_one_draw() -> None:
    own = curator()
    one, again, two, other = four(own)
    assert one == again
    assert len({one, two, other}) == 3
    assert [release.sample for release in own.ledger] == ["one", "one", "two", None]


def test_recorded_runs_draw_once_too_and_replays_say_the_same() -> None:
    kept = Transcript()
    one, again, *_ = four(curator(transcript=kept))
    assert one == again
    assert four(curator(ReplayedNoise(kept)))[0] == one
    kept_of_batches = Transcript()
    found = batched(curator(transcript=kept_of_batches))
    assert batched(curator(ReplayedNoise(kept_of_batches))) == found


def batched(own: Curator, batches: int = 3) -> list[tuple[tuple[int, ...], ...]]:
    """Two sums on the same draws, and who is in each."""
    first = own.batches(HALF, "gradient", (UNITS,), bound=1.0)
    second = own.batches(WIDE, "clipped", (UNITS,), bound=1.0, draw_with=first)
    found = []
    for _ in range(batches):
        drawn = first.draw(UNITS)
        second.add(ROWS[drawn])
        first.add(ROWS[drawn[:2]])
        first.add(ROWS[drawn[2:]])
        found.append((members(first.noisy()), members(second.noisy())))
    return found


@pytest.mark.parametrize(
    "noise", [lambda: LiveNoise(3), LiveNoise, lambda: ForcedSamples(LiveNoise(3), Coins(5, 1))]
)
def test_sums_on_the_same_draws(noise: Callable[[], Any]) -> None:
    own = curator(noise())
    found = batched(own)
    assert all(one == other for one, other in found)
    assert len(set(found)) == 3
    names = [release.sample for release in own.ledger]
    assert names == ["batch 1", "batch 1", "batch 2", "batch 2", "batch 3", "batch 3"]


def test_sums_on_the_same_draws_in_recorded_runs() -> None:
    own = curator(transcript=Transcript())
    found = batched(own)
    assert all(one == other for one, other in found)
    assert len(set(found)) == 3


def test_draws_that_are_made_ahead() -> None:
    own = curator()
    first = own.batches(HALF, "a", (UNITS,), bound=1.0)
    second = own.batches(WIDE, "b", (UNITS,), bound=1.0, draw_with=first)
    drawn = [first.draw(UNITS), second.draw(UNITS)]
    for places in drawn:
        for each in (second, first):
            each.add(ROWS[places])
            assert members(each.noisy()) == tuple(places.tolist())


def test_one_sum_a_batch_names_no_sample() -> None:
    own = curator()
    only = own.batches(HALF, "a", (UNITS,), bound=1.0)
    only.add(ROWS[only.draw(UNITS)])
    only.noisy()
    assert [release.sample for release in own.ledger] == [None]


def test_sums_without_a_sample_may_be_drawn_together() -> None:
    own = curator()
    first = own.batches(NOISE, "a", (UNITS,), bound=1.0)
    second = own.batches(NOISE, "b", (UNITS,), bound=1.0, draw_with=first)
    places = first.draw(UNITS)
    for each in (first, second):
        each.add(ROWS[places])
        assert len(members(each.noisy())) == UNITS
    assert [release.sample for release in own.ledger] == [None, None]


# A process of its own, in lockstep with a twin.

CLAIM = Claim(ApproxDP(epsilon=1e9, delta=1e-5), unit="row", neighbouring="add-or-remove-one")
PAIR = Pair(ROWS, ROWS[1:])


def both(data: Any, own: Curator) -> Any:
    """By name and by batches, which run in the target's own process."""
    sums = [
        own.release_sum(data, bound=1.0, mechanism=m, label="named", sample="one").tolist()
        for m in (HALF, WIDE)
    ]
    first = own.batches(HALF, "gradient", (UNITS,), bound=1.0)
    second = own.batches(WIDE, "clipped", (UNITS,), bound=1.0, draw_with=first)
    drawn = first.draw(len(data))
    for each in (first, second):
        each.add(data[drawn])
        sums.append(each.noisy().tolist())
    return sums


@pytest.mark.parametrize("in_process", [False, True])
def test_a_target_in_its_own_process(in_process: bool) -> None:
    from dpaudit.processes.host import Limits

    with hosting(both, ROWS, [PAIR], in_process=in_process, limits=Limits()) as hosted:
        made = dpaudit.run(hosted.algorithm, hosted.data, claim=CLAIM)
    one, again, first, second = (members(np.array(each)) for each in made.output)
    assert one == again
    assert first == second
    assert 0 < len(one) < UNITS
    assert [release.sample for release in made.ledger] == ["one", "one", "batch 1", "batch 1"]
    codes = {condition.code for condition in account(made.ledger).not_checked}
    assert Code.FRESH_SAMPLES not in codes


# Bad input.


def test_a_sample_that_was_drawn_otherwise_is_refused() -> None:
    own = curator()
    own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="a", sample="s")
    other = PoissonSampled(rate=0.25, mechanism=NOISE)
    with pytest.raises(InvalidParameter, match=r"rate 0\.25.*rate 0\.5"):
        own.release_sum(ROWS, bound=1.0, mechanism=other, label="b", sample="s")
    with pytest.raises(InvalidParameter, match="23, and 24 before"):
        own.release_sum(ROWS[1:], bound=1.0, mechanism=HALF, label="b", sample="s")
    with pytest.raises(InvalidParameter, match="partition"):
        own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="b", sample="s", partition="p")
    with pytest.raises(InvalidParameter, match="another name"):
        own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="b", sample="batch 7")
    assert len(own.ledger.releases) == 1


def test_a_sample_that_is_forgotten_is_refused() -> None:
    own = curator()
    for step in range(MOST_SAMPLES + 1):
        own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="a", sample=f"step {step}")
    with pytest.raises(ScheduleBroken, match="'step 0'"):
        own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="a", sample="step 0")
    own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="a", sample="step 1")


@pytest.mark.parametrize("name", ["", 5, " "])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidParameter, match="names no draw"):
        curator().release_sum(ROWS, bound=1.0, mechanism=HALF, label="a", sample=name)


def test_releases_without_a_draw_name_none() -> None:
    own = curator()
    with pytest.raises(InvalidParameter, match="stands for no draw"):
        own.release_sum(ROWS, bound=1.0, mechanism=NOISE, label="a", sample="s")
    with pytest.raises(InvalidParameter, match="stands for no draw"):
        own.release(np.zeros(2), NOISE, label="a", sample="s")
    turns = RandomAllocation(steps=3, mechanism=NOISE)
    with pytest.raises(InvalidParameter, match="this one release"):
        own.sampled_stream(turns, "a", bound=1.0, sample="s")
    with pytest.raises(InvalidParameter, match="draw_with"):
        own.batches(HALF, "a", (UNITS,), bound=1.0, sample="s")
    assert own.ledger.releases == ()


def test_sums_that_cannot_be_drawn_together() -> None:
    own = curator()
    first = own.batches(HALF, "a", (UNITS,), bound=1.0)
    fixed = FixedSizeSampled(size=3, units=UNITS, mechanism=Gaussian(sigma=1.0, sensitivity=L2(2.0)))
    for mechanism in (NOISE, PoissonSampled(rate=0.25, mechanism=NOISE), fixed):
        with pytest.raises(InvalidParameter, match="the draws of 'a'"):
            own.batches(mechanism, "b", (UNITS,), bound=1.0, draw_with=first)
    with pytest.raises(InvalidParameter, match="the draws of 'a'"):
        own.batches(HALF, "b", (UNITS,), bound=1.0, draw_with=first, partition="p")
    with pytest.raises(InvalidParameter, match="the draws of 'a'"):
        curator().batches(HALF, "b", (UNITS,), bound=1.0, draw_with=first)
    first.draw(UNITS)
    with pytest.raises(InvalidParameter, match="open all sums before the first draw"):
        own.batches(HALF, "b", (UNITS,), bound=1.0, draw_with=first)


def test_a_sum_of_the_batch_before_is_waited_for() -> None:
    own = curator()
    first = own.batches(HALF, "a", (UNITS,), bound=1.0)
    second = own.batches(WIDE, "b", (UNITS,), bound=1.0, draw_with=first)
    one, two = first.draw(UNITS), first.draw(UNITS)
    first.add(ROWS[one])
    first.noisy()
    with pytest.raises(ScheduleBroken, match="'b'"):
        first.add(ROWS[two])
    with pytest.raises(ScheduleBroken, match="'b'"):
        first.noisy()
    second.add(ROWS[one])
    second.noisy()
    first.add(ROWS[two])
    assert members(first.noisy()) == tuple(two.tolist())


def test_dropping_drops_the_batches_of_all_sums() -> None:
    own = curator()
    first = own.batches(HALF, "a", (UNITS,), bound=1.0)
    second = own.batches(WIDE, "b", (UNITS,), bound=1.0, draw_with=first)
    places = first.draw(UNITS)
    first.add(ROWS[places])
    second.add(ROWS[places[:1]])
    first.noisy()
    first.drop()
    places = second.draw(UNITS)
    for each in (first, second):
        each.add(ROWS[places])
        assert members(each.noisy()) == tuple(places.tolist())
    assert [release.sample for release in own.ledger] == ["batch 1", "batch 2", "batch 2"]


# Budgets and trials.


def test_a_pure_budget_charges_the_joint_cost_before_it_is_drawn() -> None:
    mechanism = PoissonSampled(rate=0.5, mechanism=Laplace(scale=1.0, sensitivity=L1(1.0)))
    joint = np.log1p(0.5 * np.expm1(2.0))
    budget = PureFilter(float(joint) * (1 + 1e-12), "add-or-remove-one")  # type: ignore[arg-type]
    header = Header(
        algorithm="a",
        unit="row",
        neighbouring="add-or-remove-one",
        schedule="filtered",
        budget=PureDP(epsilon=2.0),
    )
    own = Curator(Ledger(header), LiveNoise(1), budget=budget)
    for _ in range(2):
        own.release_sum(np.ones(4), bound=1.0, mechanism=mechanism, label="a", sample="s")
    assert budget.spent == pytest.approx(float(joint), rel=1e-12)
    with pytest.raises(dpaudit.errors.BudgetExceeded):
        own.release_sum(np.ones(4), bound=1.0, mechanism=mechanism, label="a", sample="s")


def test_another_budget_refuses_the_second_release_on_a_sample() -> None:
    wide = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=9.0, sensitivity=L2(1.0)))
    own = curator(budget=RDPFilter(4.0, 9.0))
    own.release_sum(ROWS, bound=1.0, mechanism=wide, label="a", sample="s")
    with pytest.raises(CannotBound, match="one vector"):
        own.release_sum(ROWS, bound=1.0, mechanism=wide, label="b", sample="s")
    assert len(own.ledger.releases) == 1


def test_a_trial_names_no_sample() -> None:
    inner = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=9.0, sensitivity=L2(1.0, "clipped")))
    mechanism = PrivateSelection(
        releases=({"mechanism": inner}, {"mechanism": inner}), repetitions=PoissonTrials(mean=30.0)
    )

    def trial(own: Curator, _: int) -> tuple[float, Any]:
        for _ in range(2):
            own.release_sum(np.ones(4), bound=1.0, mechanism=inner, label="a", sample="s")
        return 0.0, 0.0

    with pytest.raises(ScheduleBroken, match="lists another release"):
        curator().select_best(trial, mechanism, label="best")


# Several threads, several curators, and one ledger.


def test_threads_that_name_one_sample_at_the_same_time_are_on_one_draw() -> None:
    kept: NamedSamples[list[int]] = NamedSamples()
    inside, found = threading.Event(), list[list[int]]()

    def slow() -> list[int]:
        inside.set()
        other.join(timeout=0.2)  # the other thread asks meanwhile
        return [1]

    def second() -> None:
        inside.wait()
        found.append(kept.find("s", lambda: [2], "b"))

    other = threading.Thread(target=second)
    other.start()
    found.append(kept.find("s", slow, "a"))
    other.join()
    assert found == [[1], [1]]


def test_records_that_change_are_other_records() -> None:
    own, data = curator(), [{"x": 0.5, "seen": [1, 2]}, {"x": 1.0, "seen": []}]
    stated: Any = {"bound": 1.0, "mechanism": HALF, "sample": "s", "map": lambda record: record["x"]}
    own.release_sum(data, label="a", **stated)
    own.release_sum(iter(data), label="b", **stated)
    data[0]["seen"].append(3)  # type: ignore[union-attr]  # a list
    with pytest.raises(InvalidParameter, match="with other values or in another order"):
        own.release_sum(data, label="c", **stated)


ODD: list[Any] = [
    *(0, False, 0.0, -0.0, "0", b"0", None, [], (), {}, set(), frozenset(), [0], (0,), {0}, {0: 0}, [[0], 0]),
    *([0, [0]], 1 << 70000, np.int64(0), np.float64(0.0), np.zeros(1), np.zeros((1, 1)), np.zeros(1, int)),
    *(np.array([0], dtype=object), "\n", "\ud800", "other", ("other",), dt.date(2020, 1, 1), Decimal("0.0")),
    *(Decimal("0.00"), complex(0), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    *(np.full(1, 1e-12), np.full(1, 1e-12 + 1e-26), np.arange(2000) == 999, np.arange(2000) == 1000),
]


def test_no_two_records_are_taken_for_each_other() -> None:
    found = [SameRecords.of([one]) for one in ODD]
    for one, record in zip(found, ODD, strict=True):
        assert one.same(SameRecords.of([copy.deepcopy(record)]), plain_alone=True)
    assert len({one.digest for one in found}) == len(ODD)


def test_records_that_are_not_plain_are_told_apart_as_objects() -> None:
    one, other = object(), object()
    before = SameRecords.of([one, 1.0, other])
    assert before.same(SameRecords.of([one, 1.0, other]), plain_alone=False)
    assert not before.same(SameRecords.of([other, 1.0, one]), plain_alone=False)
    assert before.same(SameRecords.of([other, 1.0, one]), plain_alone=True)
    assert not before.same(SameRecords.of([one, other, 1.0]), plain_alone=True)


def test_each_curator_of_a_ledger_draws_its_own_samples() -> None:
    own = curator()
    own.release_sum(ROWS, bound=1.0, mechanism=HALF, label="a", sample="s")
    batched(own, 1)
    other = Curator(own.ledger, LiveNoise(4))
    with pytest.raises(ScheduleBroken, match="another curator drew"):
        other.release_sum(ROWS, bound=1.0, mechanism=HALF, label="b", sample="s")
    batched(other, 1)
    batched(own, 1)
    names = [f"batch {number}" for number in (1, 1, 2, 2, 3, 3)]
    assert [release.sample for release in own.ledger] == ["s", *names]
