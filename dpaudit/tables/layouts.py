"""The names and types of a frame's columns as plain values, and new frames made from them.

A frame says more than its columns' names and types: category levels, an index and its name, attributes,
metadata of schemas and fields, dictionaries, comments. One unit can decide each of these. A `Layout` holds
none of them by construction: it consists of texts, so a frame without rows that is made from it has none.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from dpaudit.errors import DataError

#: A type in the engine's own words: a text, or a list that begins with one.
Type: TypeAlias = Any

#: Extension types of Arrow that have no parameters.
_PLAIN_EXTENSIONS: Final = {"arrow.uuid", "arrow.json", "arrow.bool8"}


@dataclass(frozen=True)
class Layout:
    """The names and types of a frame's columns.

    Attributes:
        engine: a key of `_ENGINES`.
        columns: name and type of each column, in order.
        index: types of the index's levels, of pandas and Dask; their names are left out.
    """

    engine: str
    columns: tuple[tuple[str, Type], ...]
    index: tuple[Type, ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return {"engine": self.engine, "columns": list(map(list, self.columns)), "index": list(self.index)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Layout:
        """Return the layout that `to_json` described."""
        return cls(
            plain["engine"], tuple((name, own) for name, own in plain["columns"]), tuple(plain["index"])
        )


def layout_of(native: Any) -> Layout:
    """Describe a frame; raises `DataError` for a type that cannot be made without the data."""
    engine = _engine_of(native)
    if engine is None:
        what = f"a frame of {type(native).__module__.partition('.')[0]}"
        remedy = "give a frame of pandas, Polars, PyArrow, DuckDB, Dask, PySpark or Ibis"
        why = "a twin's frame is made anew from column names and types alone"
        raise DataError(what, where="the twin's stand-in", why=why, remedy=remedy)
    found = _ENGINES[engine][0](native)
    # A text of a subclass could carry more than its letters.
    columns = tuple((str.__str__(name), own) for name, own in found.columns)
    layout = Layout(engine, columns, found.index)
    json.dumps(layout.to_json())  # texts alone
    return layout


def empty_frame(layout: Layout) -> Any:
    """Make a frame without rows, of the engine's own kind."""
    return _ENGINES[layout.engine][1](layout)


def _engine_of(native: Any) -> str | None:
    """The name of a frame's engine; None for an unknown one."""
    import narwhals as nw

    if nw.dependencies.is_ibis_table(native):
        return "ibis"
    found = nw.from_native(native)
    name = str(found.implementation.name).lower()
    name = f"{name} lazily" if name == "polars" and isinstance(found, nw.LazyFrame) else name
    return name if name in _ENGINES else None


def _refuse(column: str, dtype: object, remedy: str) -> NoReturn:
    what = f"column {column!r} of type {type(dtype).__name__}"
    why = "a twin's frame is made from names and types alone, and this type cannot be made from its name"
    raise DataError(what, where="the twin's stand-in", why=why, remedy=f"leave the column out, or {remedy}")


# pandas and Dask


def _of_pandas(frame: Any) -> Layout:
    columns = tuple((name, _pandas_type(name, dtype)) for name, dtype in frame.dtypes.items())
    levels = [frame.index.get_level_values(i) for i in range(frame.index.nlevels)]
    return Layout("pandas", columns, tuple(_pandas_type("index", each.dtype) for each in levels))


def _pandas_type(name: str, dtype: Any) -> Type:
    pd: Any = importlib.import_module("pandas")

    if isinstance(dtype, np.dtype):
        return ["numpy", dtype.str]
    if isinstance(dtype, pd.CategoricalDtype):
        return ["category", _pandas_type(name, dtype.categories.dtype), bool(dtype.ordered)]
    if isinstance(dtype, pd.StringDtype):
        return ["string", dtype.storage, dtype.na_value is pd.NA]
    if isinstance(dtype, pd.ArrowDtype):
        return ["arrow", _arrow_text(name, dtype.pyarrow_dtype)]
    if isinstance(dtype, pd.SparseDtype):
        return ["sparse", _pandas_type(name, dtype.subtype)]
    try:
        known = pd.api.types.pandas_dtype(str(dtype)) == dtype
    except (TypeError, ValueError):
        known = False
    if not known:
        _refuse(name, dtype, "convert it: frame.astype({...: 'string'})")
    return ["named", str(dtype)]


def _pandas_dtype(own: Type) -> Any:
    pd: Any = importlib.import_module("pandas")

    match own:
        case ["numpy", text]:
            return np.dtype(text)
        case ["category", of, ordered]:
            return pd.CategoricalDtype(pd.Index([], dtype=_pandas_dtype(of)), ordered=ordered)
        case ["string", storage, missing]:
            return pd.StringDtype(storage, na_value=pd.NA if missing else np.nan)
        case ["arrow", text]:
            return pd.ArrowDtype(_arrow_type(text))
        case ["sparse", of]:
            return pd.SparseDtype(_pandas_dtype(of))
    return pd.api.types.pandas_dtype(own[1])


def _pandas_frame(layout: Layout) -> Any:
    pd: Any = importlib.import_module("pandas")

    levels = [pd.Index([], dtype=_pandas_dtype(each)) for each in layout.index]
    index = levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
    columns = {name: pd.Series([], dtype=_pandas_dtype(own), index=index) for name, own in layout.columns}
    return pd.DataFrame(columns, index=index)


def _of_dask(frame: Any) -> Layout:
    return _of_pandas(frame._meta)  # noqa: SLF001  (its types)


def _dask_frame(layout: Layout) -> Any:
    dd: Any = importlib.import_module("dask.dataframe")

    return dd.from_pandas(_pandas_frame(layout), npartitions=1)


# PyArrow


def _of_arrow(table: Any) -> Layout:
    return Layout(
        "pyarrow", tuple((field.name, _arrow_text(field.name, field.type)) for field in table.schema)
    )


def plain_type(name: str, dtype: Any) -> Any:
    """A type of Arrow without metadata of the fields in it; raises `DataError` for an unknown one."""
    pa: Any = importlib.import_module("pyarrow")

    kinds = pa.types

    def field(of: Any) -> Any:
        return pa.field(of.name, plain_type(name, of.type), nullable=of.nullable)

    if isinstance(dtype, pa.BaseExtensionType):
        if dtype.extension_name not in _PLAIN_EXTENSIONS:
            _refuse(name, dtype, "cast it to its storage type")
        return dtype
    if kinds.is_struct(dtype):
        return pa.struct([field(dtype.field(i)) for i in range(dtype.num_fields)])
    if kinds.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, plain_type(name, dtype.value_type), ordered=dtype.ordered)
    if kinds.is_fixed_size_list(dtype):
        return pa.list_(field(dtype.value_field), dtype.list_size)
    if kinds.is_list(dtype) or kinds.is_large_list(dtype):
        return (pa.list_ if kinds.is_list(dtype) else pa.large_list)(field(dtype.value_field))
    if kinds.is_map(dtype):
        return pa.map_(field(dtype.key_field), field(dtype.item_field), keys_sorted=dtype.keys_sorted)
    if dtype.num_fields or kinds.is_nested(dtype):
        _refuse(name, dtype, "cast it to a list or a struct")
    return dtype


def plain_schema(schema: Any) -> Any:
    """A schema of Arrow with names and types, without metadata of its own and of its fields."""
    pa: Any = importlib.import_module("pyarrow")

    return pa.schema(
        [pa.field(each.name, plain_type(each.name, each.type), each.nullable) for each in schema]
    )


def _arrow_text(name: str, dtype: Any) -> Type:
    pa: Any = importlib.import_module("pyarrow")

    content = pa.schema([pa.field("", plain_type(name, dtype))]).serialize().to_pybytes()
    return base64.b64encode(content).decode("ascii")


def _arrow_type(text: Type) -> Any:
    ipc = importlib.import_module("pyarrow.ipc")
    return ipc.read_schema(importlib.import_module("pyarrow").py_buffer(base64.b64decode(text))).field(0).type


def _arrow_frame(layout: Layout) -> Any:
    pa: Any = importlib.import_module("pyarrow")

    return pa.schema([pa.field(name, _arrow_type(own)) for name, own in layout.columns]).empty_table()


# Polars


def _of_polars(frame: Any) -> Layout:
    schema = frame.collect_schema()
    return Layout("polars", tuple((name, polars_type(name, dtype)) for name, dtype in schema.items()))


def polars_type(name: str, dtype: Any) -> Type:
    """Describe a type of Polars, without an enumeration's values; raises `DataError` for an unknown one."""
    pl: Any = importlib.import_module("polars")

    if isinstance(dtype, pl.Enum | pl.Categorical):
        return [type(dtype).__name__]
    if isinstance(dtype, pl.List):
        return ["List", polars_type(name, dtype.inner)]
    if isinstance(dtype, pl.Array):
        shape = list(dtype.shape)
        inner = dtype.inner
        for _ in shape[1:]:
            inner = inner.inner
        return ["Array", polars_type(name, inner), shape]
    if isinstance(dtype, pl.Struct):
        return ["Struct", [[each.name, polars_type(name, each.dtype)] for each in dtype.fields]]
    if isinstance(dtype, pl.Datetime):
        return ["Datetime", dtype.time_unit, dtype.time_zone]
    if isinstance(dtype, pl.Duration):
        return ["Duration", dtype.time_unit]
    if isinstance(dtype, pl.Decimal):
        return ["Decimal", dtype.precision, dtype.scale]
    own = type(dtype).__name__
    if getattr(pl, own, None) is not type(dtype):
        _refuse(name, dtype, "cast it to pl.String")
    return [own]


def polars_dtype(own: Type, enum: Any = None) -> Any:
    """Return a Polars type; an enumeration has no values or becomes another type."""
    pl: Any = importlib.import_module("polars")

    match own:
        case ["Enum"]:
            return pl.Enum([]) if enum is None else enum
        case ["List", inner]:
            return pl.List(polars_dtype(inner, enum))
        case ["Array", inner, shape]:
            return pl.Array(polars_dtype(inner, enum), tuple(shape))
        case ["Struct", fields]:
            return pl.Struct([pl.Field(name, polars_dtype(each, enum)) for name, each in fields])
        case _:
            return getattr(pl, own[0])(*own[1:])


def _polars_frame(layout: Layout) -> Any:
    pl: Any = importlib.import_module("polars")

    return pl.DataFrame(schema={name: polars_dtype(own) for name, own in layout.columns})


# DuckDB


def _of_duckdb(relation: Any) -> Layout:
    names_and_types = zip(relation.columns, relation.types, strict=True)
    return Layout("duckdb", tuple((name, duckdb_type(dtype)) for name, dtype in names_and_types))


def duckdb_type(dtype: Any) -> Type:
    """Return a type in SQL; text replaces an enumeration, because its values are levels."""
    match dtype.id:
        case "enum":
            return "VARCHAR"
        case "list":
            return f"{duckdb_type(dict(dtype.children)['child'])}[]"
        case "array":
            of = dict(dtype.children)
            return f"{duckdb_type(of['child'])}[{of['size']}]"
        case "map":
            of = dict(dtype.children)
            return f"MAP({duckdb_type(of['key'])}, {duckdb_type(of['value'])})"
        case "struct" | "union":
            # The first member of a union is its tag, which has no name.
            parts = ", ".join(f"{quoted(name)} {duckdb_type(each)}" for name, each in dtype.children if name)
            return f"{dtype.id.upper()}({parts})"
        case _:
            return str(dtype)


def quoted(name: str) -> str:
    """A name in DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def _duckdb_frame(layout: Layout) -> Any:
    """Return a relation on a separate connection without access to the data's file."""
    duckdb = importlib.import_module("duckdb")
    parts = ", ".join(f"CAST(NULL AS {own}) AS {quoted(name)}" for name, own in layout.columns)
    return duckdb.connect().sql(f"SELECT {parts} WHERE false")


# Ibis, and PySpark


def _of_ibis(table: Any) -> Layout:
    for name, dtype in table.schema().items():
        if "unknown(" in str(dtype):  # the database's own words, which may quote values
            _refuse(name, dtype, "cast it to a string")
    return Layout(
        "ibis", tuple((name, str(dtype).replace("!", "")) for name, dtype in table.schema().items())
    )


def _ibis_frame(layout: Layout) -> Any:
    ibis = importlib.import_module("ibis")
    schema = ibis.schema(dict(layout.columns))
    return ibis.duckdb.connect().create_table("data", schema=schema)


def _of_pyspark(frame: Any) -> Layout:
    fields = frame.schema.jsonValue()["fields"]
    return Layout("pyspark", tuple((each["name"], _spark_type(each["type"])) for each in fields))


def _spark_type(own: Type) -> Type:
    """A type of Spark's JSON without the metadata of the fields in it."""
    if isinstance(own, dict):
        return {name: {} if name == "metadata" else _spark_type(each) for name, each in own.items()}
    return list(map(_spark_type, own)) if isinstance(own, list) else own


def _pyspark_frame(layout: Layout) -> Any:
    sql = importlib.import_module("pyspark.sql")
    types = importlib.import_module("pyspark.sql.types")
    fields = [{"name": name, "type": own, "nullable": True, "metadata": {}} for name, own in layout.columns]
    schema = types.StructType.fromJson({"type": "struct", "fields": fields})
    return sql.SparkSession.builder.getOrCreate().createDataFrame([], schema)


#: What describes a frame of each engine, and what makes one.
_ENGINES: Final[Mapping[str, tuple[Callable[[Any], Layout], Callable[[Layout], Any]]]] = {
    "pandas": (_of_pandas, _pandas_frame),
    "dask": (_of_dask, _dask_frame),
    "pyarrow": (_of_arrow, _arrow_frame),
    "polars": (_of_polars, _polars_frame),
    "polars lazily": (_of_polars, lambda layout: _polars_frame(layout).lazy()),
    "duckdb": (_of_duckdb, _duckdb_frame),
    "ibis": (_of_ibis, _ibis_frame),
    "pyspark": (_of_pyspark, _pyspark_frame),
}
