"""A stand-in and neighbours hold nothing that one unit decides: no levels, attributes, names of indexes."""

from __future__ import annotations

import datetime as dt
import importlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpaudit.errors import DataError
from dpaudit.tables import sources
from dpaudit.tables.frames import opened
from dpaudit.tables.layouts import Layout, empty_frame, layout_of

RARE = "rare disease of u7"
PATIENTS = ["a", "a", "b", "b", "c", "u7"]
WARDS = ["ICU", "ER", "ICU", "ER", "ICU", RARE]


def of_pandas() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "patient": PATIENTS,
            "ward": pd.Categorical(WARDS, ordered=True, categories=["ICU", "ER", RARE, "unused"]),
            "whole": pd.array([1, 2, 3, 4, 5, None], "Int64"),
            "urgent": pd.array([True] * 6, "boolean"),
            "int8": np.arange(6, dtype="i1"),
            "complex": np.arange(6) * 1j,
            "when": pd.date_range("2026", periods=6, tz="Europe/Berlin"),
            "month": pd.period_range("2026", periods=6, freq="M"),
            "age": pd.cut(range(6), 3),
            "grade": pd.Categorical([1, 2, 3, 1, 2, 99]),
            "range": pd.interval_range(0, 6),
            "all": [1, "x", None, 2.5, dt.date(2026, 1, 1), True],
            "sparse": pd.arrays.SparseArray([0, 0, 1, 0, 0, 7], fill_value=7),
            "text": pd.array(["x"] * 6, pd.StringDtype("python")),
            "arrow": pd.array(WARDS, pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        }
    )
    frame.index = pd.MultiIndex.from_arrays([WARDS, range(6)], names=[RARE, "place"])
    frame.columns.name = RARE
    frame.attrs = {"note": RARE}
    return frame


def of_arrow() -> Any:
    ward = pa.field("own", pa.dictionary(pa.int8(), pa.string()), metadata={"note": RARE})
    fields = [
        pa.field("patient", pa.string(), metadata={"note": RARE}),
        pa.field("ward", pa.dictionary(pa.int32(), pa.string())),
        pa.field("nested", pa.struct([ward])),
        pa.field("list", pa.list_(pa.field("item", pa.int8(), metadata={"note": RARE}))),
        pa.field("fixed", pa.list_(pa.int8(), 1)),
        pa.field("map", pa.map_(pa.string(), pa.int32())),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("when", pa.timestamp("us", tz="UTC")),
        pa.field("id", pa.uuid()),
    ]
    rows = [
        {
            "patient": patient,
            "ward": ward,
            "nested": {"own": ward},
            "list": [1],
            "fixed": [1],
            "map": [("a", 1)],
            "price": 1,
            "when": 1,
            "id": b"x" * 16,
        }
        for patient, ward in zip(PATIENTS, WARDS, strict=True)
    ]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in fields]
    return pa.table(columns, schema=pa.schema(fields, metadata={"note": RARE}))


def of_polars() -> Any:
    pl: Any = importlib.import_module("polars")
    wards = pl.Enum([*dict.fromkeys(WARDS), "unused"])
    return pl.DataFrame(
        {
            "patient": PATIENTS,
            "ward": WARDS,
            "text": WARDS,
            "list": [[ward] for ward in WARDS],
            "nested": [{"own": ward, "number": 1} for ward in WARDS],
            "array": [[1, 2]] * 6,
            "when": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 6,
            "span": [dt.timedelta(1)] * 6,
            "day": [dt.date(2026, 1, 1)] * 6,
            "nothing": [None] * 6,
        },
        schema_overrides={
            "ward": wards,
            "text": pl.Categorical,
            "list": pl.List(wards),
            "nested": pl.Struct({"own": wards, "number": pl.Int8}),
            "array": pl.Array(pl.Int8, 2),
        },
    ).with_columns(price=pl.lit(1).cast(pl.Decimal(10, 2)))


def of_duckdb() -> Any:
    connection = importlib.import_module("duckdb").connect()
    connection.execute(f"CREATE TYPE wards AS ENUM ('ICU', 'ER', '{RARE}', 'unused', 'it''s')")
    connection.execute(
        "CREATE TABLE visits (patient VARCHAR, ward wards, list STRUCT(own wards, n INTEGER)[], "
        "map MAP(VARCHAR, INTEGER), price DECIMAL(10, 2), huge HUGEINT, id UUID, pair INTEGER[2], "
        "either UNION(a INTEGER, b wards))"
    )
    connection.execute(f"COMMENT ON COLUMN visits.ward IS '{RARE}'")
    rows = list(zip(PATIENTS, WARDS, strict=True))
    connection.executemany("INSERT INTO visits (patient, ward) VALUES (?, ?)", rows)
    return connection.sql("FROM visits")


def of_ibis() -> Any:
    connection = importlib.import_module("ibis").duckdb.connect()
    connection.raw_sql("CREATE TABLE visits (patient VARCHAR, ward VARCHAR, n INTEGER)")
    for patient, ward in zip(PATIENTS, WARDS, strict=True):
        connection.raw_sql(f"INSERT INTO visits VALUES ('{patient}', '{ward}', 1)")  # noqa: S608  (both above)
    return connection.table("visits")


def of_dask() -> Any:
    frame = of_pandas()[["patient", "ward", "grade", "whole"]].reset_index(drop=True)
    frame.index.name = RARE
    return importlib.import_module("dask.dataframe").from_pandas(frame, npartitions=2)


ENGINES: dict[str, Callable[[], Any]] = {
    "pandas": of_pandas,
    "pyarrow": of_arrow,
    "polars": of_polars,
    "polars lazily": lambda: of_polars().lazy(),
    "duckdb": of_duckdb,
    "ibis": of_ibis,
    "dask": of_dask,
}
#: pandas and PyArrow are there wherever tables are tested.
EACH = [
    pytest.param(name, marks=() if name in {"pandas", "pyarrow"} else pytest.mark.interoperability)
    for name in ENGINES
]
pytestmark = pytest.mark.filterwarnings("ignore")  # what narwhals says of Dask


def told(frame: Any) -> str:
    """All that a frame says beside its cells, and its number of rows."""
    kind = type(frame).__module__.partition(".")[0]
    if kind == "pandas":
        levels = [own.categories.tolist() for own in frame.dtypes if isinstance(own, pd.CategoricalDtype)]
        arrow = pa.Table.from_pandas(frame[["arrow"]])["arrow"].combine_chunks() if "arrow" in frame else None
        dictionary = None if arrow is None else arrow.dictionary
        index = getattr(frame.index, "levels", None), frame.index.names, frame.columns.name
        return repr((dict(frame.dtypes), levels, dictionary, index, frame.attrs, frame.flags))
    if kind == "pyarrow":
        chunks = [c for name in frame.column_names for c in frame[name].chunks if name in {"ward", "nested"}]
        return f"{frame.schema.to_string(show_schema_metadata=True)} {chunks}"
    if kind == "polars":
        return repr(frame.collect_schema())
    if kind == "ibis":
        return str(frame.schema())
    if kind == "dask":
        return told(frame.compute()) + repr(frame.divisions)
    comments = frame.query("own", "SELECT comment FROM duckdb_columns() WHERE comment IS NOT NULL").fetchall()
    return repr([*map(str, frame.types), comments])


@pytest.mark.parametrize("engine", EACH)
def test_a_stand_in_has_names_and_kinds_and_nothing_else(engine: str) -> None:
    data = ENGINES[engine]()
    assert RARE in told(data) or engine == "ibis"
    layout = Layout.from_json(json.loads(json.dumps(layout_of(data).to_json())))
    assert RARE not in json.dumps(layout.to_json())
    found = empty_frame(layout)
    assert type(found) is type(data)
    assert opened(found).columns.keys() == opened(data).columns.keys()
    assert opened(found).kinds.keys() == opened(data).kinds.keys()
    assert RARE not in told(found)
    assert layout_of(found).columns == layout.columns


@pytest.mark.parametrize("engine", EACH)
def test_levels_of_neighbours_follow_from_their_rows(engine: str) -> None:
    """What only the changed unit has differs between the two, so that a replay sees who publishes it."""
    data = ENGINES[engine]()
    known = sources.Facts(("u7", "a", "b"), "new", layout_of(data), local=True)
    with_unit, without = (sources.changed(data, "patient", known, change) for change in ("own", "nothing"))
    assert type(with_unit) is type(data)
    assert opened(with_unit).kinds == opened(without).kinds
    if engine == "duckdb":  # comments stay with the connection: that is a condition of every certificate
        assert RARE in str(with_unit.types)
        assert RARE not in str(without.types)
        assert "'unused'" not in str(with_unit.types)
    elif engine != "ibis":  # it has no levels
        assert RARE in told(with_unit)
        assert RARE not in told(without)
        assert "unused" not in told(with_unit)
    strange = sources.changed(data, "patient", known, "strange")
    assert len(strange.execute() if engine == "ibis" else rows_of(strange)) == 6


def rows_of(frame: Any) -> Any:
    """The rows, where they are elsewhere."""
    for name in ("collect", "fetchall", "compute"):
        if hasattr(frame, name):
            return getattr(frame, name)()
    return frame


def test_the_order_of_levels_is_kept() -> None:
    known = sources.Facts(("u7", "a", "b"), "new", layout_of(of_pandas()), local=True)
    found = sources.changed(of_pandas(), "patient", known, "own")["ward"]
    assert found.cat.categories.tolist() == ["ICU", "ER", RARE]
    assert found.cat.ordered
    strange = sources.changed(of_pandas(), "patient", known, "strange")["ward"]
    assert strange.cat.categories.tolist() == ["ICU", "ER", "dpaudit: a new key"]


class Named(pa.ExtensionType):  # type: ignore[misc]
    """A type of one's own, whose parameter could be anything."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.named")

    def __arrow_ext_serialize__(self) -> bytes:
        return RARE.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, serialized: bytes) -> Named:
        del storage, serialized
        return cls()


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pa.table({"own": pa.ExtensionArray.from_storage(Named(), pa.array([1]))}), "'own' of type Named"),
        (pa.table({"own": pa.array([1]).view(pa.int64())}), None),
        (pa.table({"own": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}), "'own'"),
    ],
)
def test_a_type_that_cannot_be_made_without_data_is_refused(frame: Any, words: str | None) -> None:
    if words is None:
        assert layout_of(frame).columns
        return
    with pytest.raises(DataError, match=words) as error:
        layout_of(frame)
    assert error.value.where == "the twin's stand-in"
    assert "leave the column out" in error.value.remedy
    assert RARE not in str(error.value)


def test_an_unknown_type_of_pandas_is_refused() -> None:
    zone = dt.timezone(dt.timedelta(hours=1), RARE)
    frame = pd.DataFrame({"when": pd.date_range("2026", periods=1, tz=zone)})
    with pytest.raises(DataError, match="column 'when' of type DatetimeTZDtype") as error:
        layout_of(frame)
    assert RARE not in str(error.value)
