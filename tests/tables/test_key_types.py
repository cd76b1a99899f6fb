"""Every type of key works, or is refused with the line that mends it: no row falls silently in no group."""

from __future__ import annotations

import datetime as dt
import importlib
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpaudit import ZCDP, ApproxDP, Claim, Curator, run
from dpaudit.curator.noise import NoNoise
from dpaudit.errors import InvalidParameter

CLAIM = Claim(ZCDP(rho=9.0), unit="patient", neighbouring="add-or-remove-one")
DAYS = pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01"]))
IDS = [uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=1)]
ZONE = dt.timezone(dt.timedelta(hours=1))


def counted(own: Any, keys: list[Any]) -> Any:
    """How many of three people are in each group."""

    def algorithm(frame: Any, curator: Curator) -> Any:
        table = curator.table(frame, unit="patient").bound(rows_per_unit=1)
        return table.group_by("own", keys=keys).count(cost=ZCDP(rho=1.0))

    frame = own if hasattr(own, "columns") else pd.DataFrame({"patient": ["a", "b", "c"], "own": own})
    return run(algorithm, frame, claim=CLAIM, noise=NoNoise()).output


#: Columns in which the first key is that of the first and of the last person.
WORKING = [
    pytest.param(["x", "y", "x"], ["x", "y"], id="text"),
    pytest.param([1, 2, 1], [1, 2], id="whole numbers"),
    pytest.param([1.0, 2.0, 1.0], [1, 2], id="whole doubles"),
    pytest.param(np.array([1, 2, 1], np.uint64), [1, 2], id="uint64"),
    pytest.param([True, False, True], [True, False], id="yes or no"),
    pytest.param(pd.array([True, None, True], "boolean"), [True, False], id="boolean"),
    pytest.param(pd.Categorical(["x", "y", "x"]), ["x", "y"], id="categories of text"),
    pytest.param(pd.Categorical([1, 2, 1]), [1, 2], id="categories of numbers"),
    pytest.param(pd.Categorical([1, 2, 1]), ["1", "2"], id="categories of numbers, by text"),
    pytest.param(pd.Categorical([True, False, True]), [True, False], id="categories of yes or no"),
    pytest.param(pd.cut([1, 5, 2], [0, 3, 9]), ["(0, 3]", "(3, 9]"], id="cut"),
    pytest.param(pd.cut([1.0, 5.0, 2.0], [0.0, 2.5, 9.0]), ["(0.0, 2.5]"], id="cut of doubles"),
    pytest.param(DAYS.dt.date, ["2026-01-01", "2026-01-02"], id="dates"),
    pytest.param(DAYS.dt.time, ["00:00:00"], id="times"),
    pytest.param(DAYS.astype(object), ["2026-01-01 00:00:00"], id="objects of datetimes"),
    pytest.param(DAYS.astype("category"), ["2026-01-01 00:00:00"], id="categories of datetimes"),
    pytest.param(DAYS.dt.tz_localize(ZONE).astype(object), ["2026-01-01 00:00:00+01:00"], id="zones"),
    pytest.param(DAYS.dt.to_period("M").astype(object), ["2026-01"], id="objects of periods"),
    pytest.param(DAYS.dt.to_period("D").astype("category"), ["2026-01-01"], id="categories of periods"),
    pytest.param(pd.Series([dt.timedelta(1)] * 3, dtype=object), ["1 day, 0:00:00"], id="spans"),
    pytest.param(
        pd.Series([np.datetime64("2026-01-01")] * 3, dtype=object), ["2026-01-01 00:00:00"], id="np"
    ),
    pytest.param(IDS, [str(IDS[0])], id="UUIDs"),
    pytest.param(pd.Series([1, "y", 1], dtype=object), [1], id="mixed, by number"),
    pytest.param(pd.Series([1, "y", 1.0], dtype=object), ["1", "y"], id="mixed, by text"),
    pytest.param(pd.Series(["1", "2", "1"], dtype=object), [1, 2], id="objects of text, by number"),
    pytest.param(pd.Series([Decimal("1.50"), 2, 1.5], dtype=object), ["1.5"], id="decimals, by text"),
    pytest.param(pd.Series([True, None, True], dtype=object), [True], id="objects of yes or no"),
    pytest.param(pd.Series([1, 2, True], dtype=object), ["1"], id="objects that are equal"),
]


@pytest.mark.parametrize(("own", "keys"), WORKING)
def test_no_row_falls_in_no_group(own: Any, keys: list[Any]) -> None:
    found = counted(own, keys)
    assert list(found) == keys
    expected = 3.0 if len(set(map(str, own))) == 1 else 2.0
    assert found[keys[0]] == expected


REFUSED = [
    pytest.param(DAYS.dt.date, [dt.date(2026, 1, 1)], "as text this one is '2026-01-01'", id="date"),
    pytest.param(pd.cut([1], [0, 3]), [pd.Interval(0, 3)], r"as text this one is '\(0, 3\]'", id="interval"),
    pytest.param(DAYS.astype(object), [DAYS[0]], "as text this one is '2026-01-01 00:00:00'", id="Timestamp"),
    pytest.param(DAYS.dt.to_period("M").astype(object), [pd.Period("2026-01")], "'2026-01'", id="Period"),
    pytest.param(IDS, [IDS[0]], "as text this one is '00000000-0000-0000-0000-000000000001'", id="UUID"),
    pytest.param(IDS, ["a", 1], "give all keys as str, all as int or all as bool", id="several types"),
    pytest.param(DAYS, ["2026-01-01"], r"frame\['own'\].astype\(str\)", id="datetimes"),
    pytest.param(DAYS.dt.tz_localize("UTC"), ["2026-01-01"], r"frame\['own'\].astype\(str\)", id="zone"),
    pytest.param(DAYS.dt.to_period("M"), ["2026-01"], r"frame\['own'\].astype\(str\)", id="periods"),
    pytest.param(pd.interval_range(0, 3), ["(0, 1]"], r"frame\['own'\].astype\(str\)", id="intervals"),
    pytest.param(pd.to_timedelta([1, 2, 3]), ["1"], r"frame\['own'\].astype\(str\)", id="timedeltas"),
    pytest.param([1.5, 2.0, 1.5], [1.5], "give each key as int: 1.5 is none", id="double"),
    pytest.param([1, 2, 1], ["1"], "give each key as int: '1' is none", id="text for whole numbers"),
    pytest.param(["1", "2", "1"], [1], "give each key as str: 1 is none", id="number for text"),
    pytest.param(["x", None, "x"], ["x", None], "leave None out", id="None"),
    pytest.param([True, False, True], [1], "give each key as bool: 1 is none", id="number for yes or no"),
]


@pytest.mark.parametrize(("own", "keys", "words"), REFUSED)
def test_the_remedy_mends_it(own: Any, keys: list[Any], words: str) -> None:
    rows = len(own)
    frame = pd.DataFrame({"patient": [f"p{i}" for i in range(rows)], "own": own})
    with pytest.raises(InvalidParameter, match=words):
        counted(frame, keys)
    # Nothing of it depends on a cell: a twin, which has no rows, says the same.
    with pytest.raises(InvalidParameter, match=words):
        counted(frame.iloc[:0], keys)


@pytest.mark.interoperability
@pytest.mark.parametrize("engine", ["pyarrow", "polars", "duckdb"])
@pytest.mark.parametrize(
    "kind", ["date32", "timestamp", "zoned", "time", "decimal", "id", "dictionary of dates", "binary"]
)
def test_other_engines_refuse_by_type(engine: str, kind: str) -> None:
    day = pa.array([dt.date(2026, 1, 1)] * 3)
    own = {
        "date32": day,
        "timestamp": day.cast(pa.timestamp("us")),
        "zoned": day.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "time": pa.array([dt.time(1)] * 3),
        "decimal": pa.array([Decimal("1.25")] * 3),
        "id": pa.array([IDS[0].bytes] * 3, pa.uuid()),
        "dictionary of dates": day.dictionary_encode(),
        "binary": pa.array([b"x"] * 3),
    }[kind]
    table: Any = pa.table({"patient": ["a", "b", "c"], "own": own})
    cast = {"pyarrow": "pyarrow.string", "polars": "pl.String", "duckdb": "VARCHAR"}[engine]
    if engine == "polars":
        table = importlib.import_module("polars").from_arrow(table)
        if kind == "dictionary of dates":  # Polars reads its values
            assert str(table.schema["own"]) == "Date"
    elif engine == "duckdb":
        connection = importlib.import_module("duckdb").connect()
        table = connection.from_arrow(table)
    with pytest.raises(InvalidParameter, match=rf"column 'own' of type(.|\n)*{cast}"):
        counted(table, ["2026-01-01"])


def test_only_texts_are_chosen() -> None:
    def algorithm(frame: Any, curator: Curator) -> Any:
        table = curator.table(frame, unit="patient").bound(rows_per_unit=1)
        return table.select_keys("own", cost=ApproxDP(epsilon=9.0, delta=0.9))

    own = ["x", "x", "x", 1, 1, dt.date(2026, 1, 1)]
    frame = pd.DataFrame({"patient": list("abcdef"), "own": pd.Series(own, dtype=object)})
    claim = Claim(ApproxDP(epsilon=9.0, delta=0.9), unit="patient", neighbouring="add-or-remove-one")
    assert run(algorithm, frame, claim=claim, noise=NoNoise()).output == ["x"]


@pytest.mark.parametrize("keys", [["2026-01-01"], [1]])
def test_one_units_cell_moves_nobody_elses_row(keys: list[Any]) -> None:
    """Of people with two rows one is kept, whatever another person's cell makes of the column."""
    own = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)] * 50 if isinstance(keys[0], str) else [1, 2] * 50
    patients = [f"p{i // 2}" for i in range(100)]
    found = set()
    for other in (own[1], "text", 2.5, None, Decimal(7), dt.time(1), pd.Interval(0, 1), 2**70):
        cells = pd.Series([*own, other], dtype=object)
        found.add(counted(pd.DataFrame({"patient": [*patients, "z"], "own": cells}), keys)[keys[0]])
    if isinstance(keys[0], int):
        found.add(counted(pd.DataFrame({"patient": patients, "own": own}), keys)[1])
        found.add(counted(pd.DataFrame({"patient": patients, "own": np.array(own, float)}), keys)[1])
    assert len(found) == 1
