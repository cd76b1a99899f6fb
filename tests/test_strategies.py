"""Strategies of data sets and of neighbouring pairs: drawn from the schema, and different in one unit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit import Pair
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.errors import InputError, InvalidParameter, MissingExtra
from dpaudit.strategies import Trajectories, datasets, neighbours

SCHEMA: Any = {"x": (0.0, 1.0), "age": range(18, 30), "town": ["Bern", "Genf"]}
quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@quick
@given(datasets(SCHEMA))
def test_records_are_of_the_schema(rows: list[dict[str, Any]]) -> None:
    assert 2 <= len(rows) <= 20
    for row in rows:
        assert 0.0 <= row["x"] <= 1.0
        assert row["age"] in range(18, 30)
        assert row["town"] in {"Bern", "Genf"}


@quick
@given(neighbours(datasets({"x": (0.0, 1.0), "y": range(3)}, form="array"), "replace-one"))
def test_arrays_differ_in_one_row(pair: Pair) -> None:
    assert pair.data.shape == pair.neighbour.shape
    differ = (pair.data != pair.neighbour).any(axis=1)
    assert differ.sum() <= 1
    assert not differ.any() or pair.unit == int(np.argmax(differ))


@quick
@given(neighbours(datasets(SCHEMA, max_size=5), "add-or-remove-one"))
def test_lists_differ_by_one_record(pair: Pair) -> None:
    long, short = sorted((pair.data, pair.neighbour), key=len, reverse=True)
    assert len(long) == len(short) + 1
    assert pair.unit is not None
    assert long[: pair.unit] + long[pair.unit + 1 :] == short


@quick
@given(neighbours(datasets({"x": (0.5, 1.0)}, form="array"), "zero-out"))
def test_one_number_is_zero(pair: Pair) -> None:
    assert pair.data.ndim == 1
    assert (pair.neighbour == 0.0).sum() == 1
    assert (pair.neighbour != pair.data).sum() == 1


@quick
@given(neighbours(datasets(Trajectories(3, 2, 4), max_size=4)))
def test_trajectories_differ_in_one(pair: Pair) -> None:
    assert isinstance(pair.data, TrajectoryData)
    assert pair.data.horizon == 4
    same = [all(map(np.array_equal, *two)) for two in zip(pair.data, pair.neighbour, strict=True)]
    assert same.count(False) <= 1


@quick
@given(neighbours(datasets(SCHEMA, form="frame", max_size=6), "replace-one", unit="town"))
def test_all_rows_of_a_unit_change(pair: Pair) -> None:
    kept = [set(map(tuple, side.values.tolist())) for side in (pair.data, pair.neighbour)]
    changed = {row[2] for row in kept[0] ^ kept[1]}
    assert len(changed) <= 1
    assert list(pair.data.columns) == list(pair.neighbour.columns) == list(SCHEMA)


@quick
@given(neighbours(datasets(SCHEMA, form="frame", max_size=6), "add-or-remove-one"))
def test_a_row_of_a_frame_is_removed(pair: Pair) -> None:
    assert len(pair.data) == len(pair.neighbour) + 1


def test_hypothesis_finds_and_shrinks_a_fault() -> None:
    found: list[Pair] = []

    def scaled(data: Any) -> float:
        low, high = data.min(), data.max()
        return float(((data - low) / max(high - low, 1e-9)).sum())

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(neighbours(datasets({"x": (0.0, 1.0)}, form="array", min_size=3, max_size=9)))
    def holds(pair: Pair) -> None:
        moves = abs(scaled(pair.data) - scaled(pair.neighbour))
        found[:] = [pair] if moves > 1.0 else found
        assert moves <= 1.0

    with pytest.raises(AssertionError):
        holds()
    assert len(found[0].data) == 3


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        ({}, {}, "schema"),
        ("x", {}, "schema"),
        ({"x": (0.0, 1.0)}, {"form": "table"}, "form 'table'"),
        ({"x": (1.0, 0.0)}, {}, "column 'x'"),
        ({"x": (0.0, float("nan"))}, {}, "column 'x'"),
        ({"x": range(0)}, {}, "column 'x'"),
        ({"x": []}, {}, "column 'x'"),
        ({"x": ["a"]}, {"form": "array"}, "in an array"),
        ({"x": (0.0, 1.0)}, {"min_size": 0}, "0 to 20 records"),
        ({"x": (0.0, 1.0)}, {"min_size": 3, "max_size": 2}, "3 to 2 records"),
        (Trajectories(0, 1, 1), {}, "Trajectories"),
    ],
)
def test_what_is_no_schema_is_named(schema: Any, options: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as refused:
        datasets(schema, **options)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("data", "relation", "options"),
    [
        ([1.0], "replace-one", {}),
        (st.just([1.0, 2.0]), "one-more", {}),
        (st.just([1.0, 2.0]), "replace-one", {"unit": "user"}),
        (st.just({1.0, 2.0}), "replace-one", {}),
        (datasets(SCHEMA, form="frame"), "zero-out", {}),
        (datasets(SCHEMA, form="frame"), "replace-one", {"unit": "user"}),
        (datasets(SCHEMA), "zero-out", {}),
    ],
)
def test_what_has_no_neighbours_is_named(data: Any, relation: str, options: Any) -> None:
    def drawn() -> None:
        @settings(max_examples=1, database=None)
        @given(neighbours(data, relation, **options))
        def draws(pair: Pair) -> None:
            del pair

        draws()

    with pytest.raises(InputError):
        drawn()


def test_hypothesis_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("dpaudit.strategies.importlib.import_module", missing)
    with pytest.raises(MissingExtra, match="Hypothesis") as refused:
        datasets({"x": (0.0, 1.0)})
    assert "dpaudit[strategies]" in refused.value.remedy
