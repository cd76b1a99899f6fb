"""One unit's cell can change the type that pandas gives to a column, and changes nothing of other units."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpaudit import ZCDP, ApproxDP, Claim, Curator, run
from dpaudit.curator.noise import NoNoise
from dpaudit.errors import InvalidParameter

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


#: Numbers of which pandas of some versions makes no column, but of objects.
BEYOND = (10**400, -(10**400))


class Strange(int):
    """A number that says of itself that it is none."""

    def __float__(self) -> float:
        raise ValueError


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
            "notes": [each for each in table.select_keys("note", **selected) if each.startswith("text")],
        }

    claim = Claim(ApproxDP(epsilon=99.0, delta=0.9), unit="person", neighbouring="add-or-remove-one")
    return run(algorithm, frame, claim=claim, noise=NoNoise()).output


def with_cells(**cells: Any) -> pd.DataFrame:
    row = ORDINARY | cells
    made = {name: [*values, row[name]] for name, values in ROWS.items()}
    beyond = {
        name for name, cell in row.items() if type(cell) is Strange or any(cell is each for each in BEYOND)
    }
    return pd.DataFrame(
        {name: pd.Series(values, dtype=object if name in beyond else None) for name, values in made.items()}
    )


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found = answers(with_cells())
    assert found["notes"] == [f"text {i}" for i in range(5)]
    assert all(found["by ward"].values())
    return found


@pytest.mark.parametrize(
    ("column", "cell", "dtype"),
    [
        ("urgent", None, "object"),
        ("urgent", 2.5, "object"),
        ("urgent", 1 + 0j, "object"),
        ("urgent", np.timedelta64(1, "s"), "object"),
        ("urgent", "yes", "object"),
        ("device", None, "float64"),
        ("device", 2**63, "uint64"),
        ("device", -1.5, "float64"),
        ("device", np.longdouble(1) / 3, "float"),
        ("device", 1j, "complex128"),
        ("device", Strange(3), "object"),
        ("device", np.datetime64("2026-01-01", "ns"), "object"),
        pytest.param("device", BEYOND[0], "object", id="beyond all doubles"),
        pytest.param("device", BEYOND[1], "object", id="below all doubles"),
        ("device", "K1A", "object"),
        ("ward", None, "float64"),
        ("ward", 2**63, "uint64"),
        ("ward", 1.5, "float64"),
        ("ward", complex("nan"), "complex128"),
        ("ward", np.timedelta64(1, "ns"), "object"),
        ("ward", Strange(3), "object"),
        ("ward", True, "object"),
        ("ward", np.float64(9.5), "float64"),
        ("ward", "ICU", "object"),
        ("ward", [1], "object"),
        ("note", 7, "object"),
        ("note", Hostile(), "object"),
        ("beds", "many", "object"),
        ("beds", 2j, "complex128"),
        ("beds", Decimal("0.125"), "object"),
        ("beds", Decimal("sNaN"), "object"),
        ("beds", Fraction(10**400), "object"),
        ("beds", np.timedelta64("NaT", "s"), "object"),
        ("beds", float("inf"), "float64"),
        ("when", "soon", "object"),
    ],
)
def test_one_units_cell_changes_nothing_of_the_others(
    column: str, cell: Any, dtype: str, expected: dict[str, Any]
) -> None:
    frame = with_cells(**{column: cell})
    assert str(frame[column].dtype).startswith(dtype)
    assert answers(frame) == expected


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_are_their_values(ordered: bool, expected: dict[str, Any]) -> None:
    own = pd.CategoricalDtype(ordered=ordered)
    assert answers(with_cells().astype({"note": own, "ward": own, "urgent": own})) == expected
    assert answers(with_cells(ward=1.5).astype({"ward": own})) == expected
    assert answers(with_cells(note="7").astype({"note": own})) == expected
    for equal in (Decimal("0.125"), Fraction(1, 8), np.float32(0.125), 0.125 + 0j):
        # The first of equal values is the category of all others.
        cells = pd.Series([*ROWS["beds"], equal], dtype=object)
        categories = pd.CategoricalDtype([equal, *{each for each in ROWS["beds"] if each != equal}])
        assert answers(with_cells().assign(beds=cells.astype(categories))) == expected
    if not ordered:
        assert answers(with_cells(note=7).astype({"note": own})) == expected


def test_types_of_ones_own_give_the_same_answers(expected: dict[str, Any]) -> None:
    own = {"urgent": "boolean", "device": "Int64", "ward": "Int64", "note": "string", "beds": "Float64"}
    assert answers(with_cells().astype(own)) == expected
    strange = with_cells(urgent=None, device=None, ward=None, note=None, beds=None)
    assert answers(strange.astype(own)) == expected
    wards = pa.array(with_cells()["ward"]).dictionary_encode()
    assert answers(with_cells().assign(ward=pd.arrays.ArrowExtensionArray(wards))) == expected
    assert answers(with_cells().astype({"ward": np.longdouble, "beds": np.longdouble})) == expected
    assert answers(with_cells().astype({"ward": complex})) == expected
    objects = pd.Series([np.bool_(each) for each in [*ROWS["urgent"], True]], dtype=object)
    assert answers(with_cells().assign(urgent=objects)) == expected


def test_another_column_of_missing_values_changes_nothing(expected: dict[str, Any]) -> None:
    assert answers(with_cells().assign(other=None)) == expected
    assert answers(with_cells().assign(other=1.0)) != expected


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.bool_])
def test_keys_are_not_chosen_in_a_column_that_a_cell_could_change(dtype: Any) -> None:
    """One person's True among others' 1 would name their key, and a missing value make doubles of all."""
    frame = pd.DataFrame({"person": ["a", "b"], "own": np.array([0, 1], dtype=dtype)})

    def algorithm(given: Any, curator: Curator) -> Any:
        table = curator.table(given, unit="person").bound(rows_per_unit=1)
        return table.select_keys("own", cost=ApproxDP(epsilon=1.0, delta=0.1))

    claim = Claim(ApproxDP(epsilon=1.0, delta=0.1), unit="person", neighbouring="add-or-remove-one")
    with pytest.raises(InvalidParameter, match=r"column 'own' of (numpy's|type)(.|\n)*Int64"):
        run(algorithm, frame, claim=claim, noise=NoNoise())
    for own in ("Int64", "boolean"):
        run(algorithm, frame.astype({"own": own}), claim=claim, noise=NoNoise())


def test_no_number_is_taken_for_a_key_that_is_rounded_to_it() -> None:
    """2^53 + 1 is no double: a missing value would move all who have it to the next group."""
    for other in (1, None, "text"):
        frame = pd.DataFrame({"person": range(9), "own": [2**53 + 1] * 8 + [other]})

        def algorithm(given: Any, curator: Curator) -> Any:
            table = curator.table(given, unit="person").bound(rows_per_unit=1)
            return table.group_by("own", keys=[2**53 - 1]).count(cost=ZCDP(rho=1.0))

        claim = Claim(ZCDP(rho=1.0), unit="person", neighbouring="add-or-remove-one")
        assert run(algorithm, frame, claim=claim, noise=NoNoise()).output == {2**53 - 1: 0.0}


@pytest.mark.parametrize("key", [2**53, -(2**53)])
def test_the_key_to_which_the_next_number_is_rounded_is_refused(key: int) -> None:
    claim = Claim(ZCDP(rho=1.0), unit="person", neighbouring="add-or-remove-one")
    for cells in (np.array([2**53 + 1], np.uint64), np.array([1.0]), np.array([2**53 + 1], object)):
        frame = pd.DataFrame({"person": [1], "own": cells})
        with pytest.raises(InvalidParameter, match="to which other numbers of this size are rounded"):
            run(lambda d, c: c.table(d, unit="person").group_by("own", keys=[key]), frame, claim=claim)
