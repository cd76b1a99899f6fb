"""Records of data of many kinds, and data sets that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.errors import InvalidParameter
from dpaudit.processes.changes import Changeable, changed, named, take, words
from dpaudit.processes.records import cut, pool_of, taken, taking

ROWS = np.array([[1.0, 8.5], [3.5, 2.0], [5.0, 4.0]])
OTHER = np.array([[1.0, 8.5], [9.5, 0.5], [5.0, 4.0]])
EPISODES = TrajectoryData(
    np.zeros((3, 2), int), np.array([[0], [1], [0]]), np.array([[0.1], [0.5], [1.0]]), 1, 2
)


@dataclass(frozen=True)
class Person:
    age: int
    town: str


KINDS: list[tuple[str, Any, Any]] = [
    ("array", ROWS, OTHER),
    ("list", [1.0, 2.5, 3.0], [1.0, 9.0, 3.0]),
    ("tuple", (1, 2, 3), (1, 9, 3)),
    ("training", (ROWS, np.array([0, 1, 0])), (ROWS, np.array([0, 0, 0]))),
    ("mapping", {"x": ROWS, "y": [1, 2, 3], "n": 3}, {"x": ROWS, "y": [1, 9, 3], "n": 3}),
    ("episodes", EPISODES, EPISODES.replace(1, EPISODES[0])),
    ("steps", [[(0, 1.0)], [(1, 0.5), (0, 0.0)], []], [[(0, 1.0)], [(1, 0.5)], []]),
    (
        "people",
        [Person(3, "a"), Person(4, "b"), Person(5, "c")],
        [Person(3, "a"), Person(4, "c"), Person(5, "c")],
    ),
    ("texts", ["a", "b", "c"], ["a", "x", "c"]),
]


@pytest.mark.parametrize(("data", "neighbour"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_data_sets_of_a_pair_s_records(data: Any, neighbour: Any) -> None:
    pool = pool_of(data, neighbour)
    assert pool is not None
    assert (pool.number, pool.mine, pool.theirs) == (3, 1, 4)
    assert set(pool.extremes) >= {1, 4}
    whole = changed(data, [take(range(3))], neighbour)
    other = changed(data, [take([0, 4, 2])], neighbour)
    back = pool_of(whole, other)
    assert back is not None
    assert back == pool
    assert pool_of(other, neighbour) is None  # they are the same
    less = changed(data, [take([0, 2])], neighbour)
    fewer = pool_of(data, less)
    assert fewer is not None
    assert (fewer.mine, fewer.theirs, fewer.are_records) == (1, None, True)
    more = pool_of(less, data)
    assert more is not None
    assert (more.mine, more.theirs) == (None, 3)
    held = Changeable({"pair 0": data, "neighbour 0": neighbour}, {"pair 0": "neighbour 0"})
    assert pool_of(held[named("pair 0", [take([0, 4, 2])])], other) is None


def test_which_records_stand_out() -> None:
    pool = pool_of(np.array([0.5, 0.9, 0.1]), np.array([0.6, 0.9, 0.1]))
    assert pool is not None
    assert (pool.ends, pool.smallest) == ((2, 1), 2)
    assert pool.extremes == (0, 3, 1, 2)


@pytest.mark.parametrize(
    ("data", "records", "units"),
    [
        (ROWS, False, True),  # no column of whole numbers that could name a user
        (ROWS.round(), False, False),
        (np.array([1.0, 2.0, 3.0]), False, True),
        ([{"user": 1, "x": 0.5}, {"user": 1, "x": 0.25}], True, False),
        ([{"x": 0.5}, {"x": 0.25}], True, True),
        ([["a", 0.5], ["b", 0.5]], True, False),
        (EPISODES, True, True),
        ([[(0, 1.0)], [(1, 0.5)]], True, True),
        ((ROWS, np.array([0, 1, 0])), True, False),
    ],
)
def test_what_entries_are(data: Any, records: bool, units: bool) -> None:
    pool = pool_of(taken(data, None, [0, 1]), taken(data, None, [0, 0]))
    assert pool is not None
    assert (pool.are_records, pool.are_units) == (records, units)


@pytest.mark.parametrize(
    ("data", "neighbour"),
    [
        (ROWS, ROWS),
        (ROWS, ROWS[::-1]),
        (ROWS, ROWS[:1]),
        (ROWS, [1.0, 2.0]),
        (ROWS[:0], ROWS[:1]),
        ([], []),
        ({1.0}, {2.0}),
        ({"x": ROWS, "y": [1]}, {"x": OTHER, "y": [1]}),
        (np.float64(1.0), np.float64(2.0)),
        (np.array(1.0), np.array(2.0)),
        (1.0, 2.0),
        (None, None),
        ("abc", "abd"),
        (ROWS, ROWS[:, :1]),
    ],
)
def test_what_differs_otherwise_has_no_pool(data: Any, neighbour: Any) -> None:
    assert pool_of(data, neighbour) is None


def test_missing_numbers_are_the_same() -> None:
    holed = ROWS.copy()
    holed[0, 0] = np.nan
    other = holed.copy()
    other[2] = 1.0
    pool = pool_of(holed, other)
    assert pool is not None
    assert (pool.mine, pool.extremes) == (2, (2, 5, 0, 1))  # 0 lacks a number


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0, 1, 2, 7, 7, 7, 3], "0-2,7*3,3"),
        ([4], "4"),
        ([1, 1, 2], "1*2,2"),
        ([5, 4, 3], "5,4,3"),
        ([0, 1, 1], "0-1,1"),
    ],
)
def test_numbers_as_a_name(numbers: list[int], text: str) -> None:
    assert taking(numbers) == text
    assert changed(list(range(9)), [take(numbers)]) == numbers
    assert words([take(numbers)])


@pytest.mark.parametrize("change", ["take 9", "take", "take x", "take 1-", "take -1", "take 0,,1"])
def test_records_that_are_not_there_are_refused(change: str) -> None:
    with pytest.raises(InvalidParameter):
        changed([1.0, 2.0], [change])


def test_data_without_records_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="type set"):
        changed({1.0}, ["take 0"])


def test_numbers_are_cut_toward_zero() -> None:
    assert cut(np.array([0.19, -0.19, 2.0]), 1).tolist() == [0.1, -0.1, 2.0]
    assert cut([{"x": 0.55, "n": 3, "t": "a"}, (0.99,)], 0) == [{"x": 0.0, "n": 3, "t": "a"}, (0.0,)]
    assert cut(EPISODES, 0).rewards.tolist() == [[0.0], [0.0], [1.0]]
    assert changed([0.19, 0.5], [take([1, 0]), "plain 1"]) == [0.5, 0.1]
