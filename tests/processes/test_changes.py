"""Changes of single records by their names: what they make, and what is no such data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.processes.changes import Changeable, Records, changed, named, records_of, words

ROWS = np.array([[1.0, 8.0], [3.0, 2.0], [5.0, 4.0]])


@pytest.mark.parametrize(
    ("change", "made"),
    [
        ("drop 1", [[1, 8], [5, 4]]),
        ("double 0", [[1, 8], [3, 2], [5, 4], [1, 8]]),
        ("high 1", [[1, 8], [5, 8], [5, 4]]),
        ("low 0", [[1, 2], [3, 2], [5, 4]]),
        ("low 0.1", [[1, 2], [3, 2], [5, 4]]),
        ("high 0.0", [[5, 8], [3, 2], [5, 4]]),
        ("zero 2", [[1, 8], [3, 2], [0, 0]]),
        ("like 2.0", [[1, 8], [3, 2], [1, 8]]),
        ("others-zero 1", [[0, 0], [3, 2], [0, 0]]),
        ("others-high 1", [[5, 8], [3, 2], [5, 8]]),
    ],
)
def test_a_change_of_one_record(change: str, made: Any) -> None:
    before = ROWS.copy()
    found = changed(ROWS, [change])
    assert found.tolist() == made
    assert np.array_equal(ROWS, before)
    assert [list(row) for row in changed([row.tolist() for row in ROWS], [change])] == made
    x, y = changed((ROWS[:, :1], ROWS[:, 1]), [change])
    assert np.column_stack([x, y]).tolist() == made
    assert words([change])


def test_changes_follow_each_other_and_kinds_stay() -> None:
    assert changed([1, 5, 3], ["high 0", "drop 1"]) == [5, 3]
    assert changed((1, 5, 3), []) == (1, 5, 3)
    assert changed(np.array([1, 5]), ["high 0"]).dtype == np.array([1]).dtype
    held = Changeable({"pair 0": ROWS})
    assert held[named("pair 0", ["drop 0", "drop 0"])].tolist() == [[5.0, 4.0]]
    assert held[named("pair 0", [])] is ROWS
    with pytest.raises(KeyError):
        held["pair 1|drop 0"]
    with pytest.raises(KeyError):
        held["other"]


def test_records_of_pairs_that_differ_in_one() -> None:
    other = ROWS.copy()
    other[1] = 9.0
    assert records_of(ROWS, other) == Records(number=3, columns=2, row=1, largest=0, smallest=1)
    assert records_of(ROWS, ROWS[[0, 2]]) == Records(3, 2, 1, 0, 1)
    assert records_of(ROWS[:2], ROWS) == Records(2, 2, 1, 0, 1)
    assert records_of([1, 2], [1, 3]) == Records(2, 1, 1, 1, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ROWS, ROWS),
        (ROWS, ROWS[::-1]),
        (ROWS, ROWS[:1]),
        (ROWS, ROWS[:, :1]),
        (ROWS, ROWS * np.nan),
        (ROWS[:0], ROWS[:1]),
        ({"a": 1}, {"a": 2}),
        ("ab", "ac"),
        (["a"], ["b"]),
        ([[1], [1, 2]], [[1], [1, 3]]),
        (3.0, 4.0),
        (None, ROWS),
        (np.array(1.0), np.array(2.0)),
        (np.array([object()]), np.array([object()])),
    ],
)
def test_other_data_are_no_records(one: Any, other: Any) -> None:
    assert records_of(one, other) is None


def test_what_is_no_change_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no change"):
        changed(ROWS, ["shuffle 1"])
    with pytest.raises(InvalidParameter, match="type dict"):
        changed({}, ["drop 0"])


def test_a_change_in_words_names_every_record_also_the_first() -> None:
    assert words(["like 1.0"]) == "record 2 replaced by record 1"
    assert words(["high 0.2", "drop 3"]) == (
        "record 1, column 3, at the largest values and record 4 taken out"
    )
    assert words([]) == "as it is"


def test_a_mask_is_not_lost_and_metadata_are_not_kept() -> None:
    """What a mask hides would count in a changed copy, and a type's metadata could be one unit's."""
    masked = np.ma.MaskedArray([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 1], [0, 0]])
    for data in (masked, list(masked), (masked, masked)):
        assert records_of(data, data) is None
        with pytest.raises(InvalidParameter, match="data of type"):
            changed(data, ["double 0"])
    rows = np.arange(3.0).astype(np.dtype("f8", metadata={"note": "of u7"}))
    assert rows.dtype.metadata
    for change in ("high 0", "drop 0", "double 0", "others-zero 1"):
        assert not changed(rows, [change]).dtype.metadata
