"""One unit's cell can change the type that pandas gives to a column, and changes nothing of other units."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit import ZCDP, ApproxDP, Claim, Curator, run
from dpaudit.curator.noise import NoNoise

#: 100 people with four rows each, of which one is kept.
N = 400
ROWS: dict[str, list[Any]] = {
    "person": [f"p{i // 4}" for i in range(N)],
    "urgent": [i % 2 == 0 for i in range(N)],
    "device": [10**17 + 7 * i for i in range(N)],
    "ward": [1 + i % 3 for i in range(N)],
    "note": [f"text {i % 5}" for i in range(N)],
    "beds": [i / 8 for i in range(N)],
    "when": [dt.datetime(2026, 1, 1 + i % 9) for i in range(N)],  # noqa: DTZ001  (as in a file)
    "x": [i % 7 for i in range(N)],
}
#: Another person's only row, which adds nothing to any sum.
ORDINARY = {
    "person": "z",
    "urgent": True,
    "device": 5,
    "ward": 1,
    "note": "a",
    "beds": 0.5,
    "when": ROWS["when"][0],
    "x": 0,
}


class Hostile:
    """A value that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


def answers(frame: pd.DataFrame) -> dict[str, Any]:
    """What all rows of all people but z add up to, and the groups they are in."""

    def algorithm(given: Any, curator: Curator) -> dict[str, Any]:
        table, cost = curator.table(given, unit="person").bound(rows_per_unit=1), ZCDP(rho=0.1)
        bounds: dict[str, Any] = {"lower": 0, "upper": 6, "cost": cost}
        selected = {"cost": ApproxDP(epsilon=1.0, delta=0.1)}
        return {
            "all": table.sum("x", **bounds),
            "by ward": table.group_by("ward", keys=[1, 2, 3]).sum("x", **bounds),
            "by ward and note": table.group_by(
                ["ward", "note"], keys={"ward": [1, 2], "note": ["text 1", "text 2"]}
            ).sum("x", **bounds),
            "by urgent": table.group_by("urgent", keys=[True, False]).sum("x", **bounds),
            "by device": table.group_by("device", keys=[5]).sum("x", **bounds),
            "wards": {1, 2, 3}.intersection(table.select_keys("ward", **selected)),
            "urgent": {True, False}.intersection(table.select_keys("urgent", **selected)),
        }

    claim = Claim(ApproxDP(epsilon=99.0, delta=0.9), unit="person", neighbouring="add-or-remove-one")
    return run(algorithm, frame, claim=claim, noise=NoNoise()).output


def with_cells(**cells: Any) -> pd.DataFrame:
    row = ORDINARY | cells
    made = {name: [*values, row[name]] for name, values in ROWS.items()}
    beyond = {name for name, cell in row.items() if isinstance(cell, int) and abs(cell) > 2**1024}
    return pd.DataFrame(
        {name: pd.Series(values, dtype=object if name in beyond else None) for name, values in made.items()}
    )


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found = answers(with_cells())
    assert found["wards"] == {1, 2, 3}
    assert found["urgent"] == {True, False}
    assert all(found["by ward"].values())
    return found


@pytest.mark.parametrize(
    ("column", "cell", "dtype"),
    [
        ("urgent", None, "object"),
        ("urgent", 2.5, "object"),
        ("urgent", np.bool_(True), "bool"),
        ("urgent", "yes", "object"),
        ("device", None, "float64"),
        ("device", 2**63, "uint64"),
        ("device", -1.5, "float64"),
        pytest.param("device", 10**400, "object", id="beyond all doubles"),
        pytest.param("device", -(10**400), "object", id="below all doubles"),
        ("device", "K1A", "object"),
        ("ward", None, "float64"),
        ("ward", 2**63, "uint64"),
        ("ward", 1.5, "float64"),
        ("ward", True, "object"),
        ("ward", np.float64(9.5), "float64"),
        ("ward", "ICU", "object"),
        ("ward", [1], "object"),
        ("note", 7, "object"),
        ("note", Hostile(), "object"),
        ("beds", "many", "object"),
        ("beds", float("inf"), "float64"),
        ("when", "soon", "object"),
        ("when", None, "datetime64"),
    ],
)
def test_one_units_cell_changes_nothing_of_the_others(
    column: str, cell: Any, dtype: str, expected: dict[str, Any]
) -> None:
    frame = with_cells(**{column: cell})
    assert str(frame[column].dtype).startswith(dtype)
    assert answers(frame) == expected


def test_categories_are_their_values(expected: dict[str, Any]) -> None:
    frame = with_cells()
    assert answers(frame.astype({"note": "category", "ward": "category", "urgent": "category"})) == expected
    assert answers(with_cells(note=7).astype({"note": "category"})) == expected


def test_types_of_ones_own_give_the_same_answers(expected: dict[str, Any]) -> None:
    own = {"urgent": "boolean", "device": "Int64", "ward": "Int64", "note": "string", "beds": "Float64"}
    assert answers(with_cells().astype(own)) == expected
    strange = with_cells(urgent=None, device=None, ward=None, note=None, beds=None)
    assert answers(strange.astype(own)) == expected


def test_another_column_of_missing_values_changes_nothing(expected: dict[str, Any]) -> None:
    assert answers(with_cells().assign(other=None)) == expected
    assert answers(with_cells().assign(other=1.0)) != expected


def test_a_key_is_named_as_it_was_in_the_table() -> None:
    """Two equal values of two types have one name, whichever of their rows comes first."""
    cells = [True, 1, 2.0, "a", 0.5, None] * 50
    for order in (cells, cells[::-1]):
        people = [f"p{i}" for i in range(len(order))]
        frame = pd.DataFrame({"person": people, "own": pd.Series(order, dtype=object)})

        def algorithm(given: Any, curator: Curator) -> Any:
            table = curator.table(given, unit="person").bound(rows_per_unit=1)
            return table.select_keys("own", cost=ApproxDP(epsilon=1.0, delta=0.1))

        claim = Claim(ApproxDP(epsilon=1.0, delta=0.1), unit="person", neighbouring="add-or-remove-one")
        found = run(algorithm, frame, claim=claim, noise=NoNoise()).output
        assert [(type(each), each) for each in found] == [(int, 2), (bool, True), (str, "a")]
