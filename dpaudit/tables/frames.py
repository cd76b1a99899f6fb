"""A data frame of any engine: its columns' types, and the place where its sums are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpaudit.claims.arguments import require_kind
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.models import did_you_mean
from dpaudit.tables.plan import Kind, Plan, Sums

if TYPE_CHECKING:
    import narwhals as nw

#: What Dask gives for the levels of a column whose levels are not known.
_UNKNOWN = "__UNKNOWN_CATEGORIES__"
_READ = "pandas, Polars, PyArrow, DuckDB, Dask, PySpark and Ibis"


@dataclass(frozen=True)
class Frame:
    """A data frame.

    Attributes:
        native: the engine's own frame; for an Ibis table, DuckDB's.
        columns: each column's type, as narwhals names it.
        kinds: the types of the columns that can be a unit, a key or a number.
        engine: ``local`` for rows in memory, ``windows`` for an engine with window functions, ``partitions``
            for Dask.
    """

    native: Any
    columns: Mapping[str, str]
    kinds: Mapping[str, Kind]
    engine: Literal["local", "windows", "partitions"]
    #: Columns of pandas in a type of numpy, which may follow from their cells.
    of_numpy: frozenset[str] = frozenset()
    #: By column, how many rows have no value there, once that is known.
    counted: dict[str, int] = field(default_factory=dict)
    #: The rows that the last plan kept, where they are in memory.
    kept: dict[Plan, Any] = field(default_factory=dict)
    #: What was given, so that it lives as long: the tables in memory of Ibis end with it.
    given: Any = None

    def sums(self, plan: Plan) -> Sums:
        """Return the sums of a plan as Python integers."""
        if self.engine == "partitions":
            from dpaudit.tables import partitions

            return partitions.sums(self.native, plan)
        import narwhals as nw

        frame = nw.from_native(self.native)
        if isinstance(frame, nw.DataFrame):
            from dpaudit.tables import local

            bounds = replace(plan, measures=(), bins=None)
            if bounds not in self.kept:  # what is asked of the same bounded rows is added up at once
                self.kept.clear()
                self.kept[bounds] = local.bounded(frame, bounds)
            return local.added(self.kept[bounds], plan)
        from dpaudit.tables import windows

        return windows.sums(frame, plan)

    def missing(self, column: str) -> int:
        """Return the number of rows without a value in a column."""
        if column not in self.counted:
            self.counted[column] = self._missing(column)
        return self.counted[column]

    def _missing(self, column: str) -> int:
        import narwhals as nw

        lazy = self.engine == "partitions"
        objects = self.kinds[column] == "objects"  # a unit is text or a whole number
        if objects or lazy:
            one, meta = self.native[column], {"meta": (column, "bool")} if lazy else {}
            number = (one.astype(object).map(_is_no_text, **meta) if objects else one.isna()).sum()
            return int(number.compute() if lazy else number)
        frame = nw.from_native(self.native)
        if isinstance(frame, nw.DataFrame):
            return int(frame[column].is_null().sum())
        from dpaudit.tables import windows

        frame = windows.named(frame, [(column, self.kinds[column])])
        found = frame.select(nw.col(windows.column_name(0)).is_null().cast(nw.Int64).sum())
        return int(found.collect().rows()[0][0] or 0)

    def require_column(self, column: object, what: str) -> str:
        """Return the name; raise `InvalidParameter` if there is no such column."""
        if isinstance(column, str) and column in self.columns:
            return column
        remedy = "the table has no columns: give it those that it has with rows, and no rows"
        if self.columns:
            remedy = f"{did_you_mean(str(column), self.columns)}its columns are {', '.join(self.columns)}"
        why = "a column is named as in the data"
        raise InvalidParameter(f"the table has no column {column!r}", where=what, why=why, remedy=remedy)

    def require_kind(self, column: str, what: str, *kinds: Kind) -> Kind:
        """Return a column's type; raise `InvalidParameter` unless it is one of `kinds`."""
        found = self.kinds.get(column)
        if found is not None and found in kinds:
            return found
        words = {"text": "text", "whole": "whole numbers", "boolean": "yes or no", "number": "numbers"}
        wanted = ", ".join(words[kind] for kind in kinds if kind in words)
        remedy = f"convert it to one of these: {wanted}"
        if "text" in kinds:
            remedy += f"; as text by {_as_text(self.native, column)}"
        if self.columns[column] == "UInt64":
            remedy = "convert it to Int64"
        elif found == "number":
            remedy = "in pandas read or make it as Int64: of other columns without rows, and of other whole "
            remedy += "numbers with missing values, pandas makes doubles"
        elif "number" in kinds and found == "objects":
            remedy += "; in pandas by pandas.to_numeric(..., errors='coerce')"
        found_words = f"column {column!r} of type {self.columns[column]}"
        why = "engines compare and convert other types differently"
        raise InvalidParameter(found_words, where=what, why=why, remedy=remedy)


def _as_text(native: Any, column: str) -> str:
    """Return the line of code that converts a column to text, for its engine."""
    match type(native).__module__.partition(".")[0].lstrip("_"):
        case "polars":
            return f"frame.with_columns(pl.col({column!r}).cast(pl.String))"
        case "duckdb":
            return f"""CAST("{column}" AS VARCHAR)"""
        case "pyarrow":
            return f"frame[{column!r}].cast(pyarrow.string()), in the place of that column"
        case "pyspark":
            return f"frame.withColumn({column!r}, frame[{column!r}].cast('string'))"
        case _:
            return f"frame[{column!r}] = frame[{column!r}].astype(str)"


def opened(frame: Any) -> Frame:
    """Return a data frame, or the result of a function without arguments, as a `Frame`.

    Raises:
        InvalidParameter: it is none that narwhals reads, or narwhals is not installed.
    """
    try:
        import narwhals as nw
    except ImportError:
        what, remedy = "narwhals is not installed, which reads data frames", "pip install 'dpaudit[tables]'"
        raise InvalidParameter(what, where="curator.table", remedy=remedy) from None
    if callable(frame) and not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        frame = frame()
    native = nw.to_native(frame, pass_through=True)
    if nw.dependencies.is_ibis_table(native):
        return replace(opened(_of_ibis(native)), given=native)
    if nw.dependencies.is_dask_dataframe(native):
        return _described(native, nw.from_native(native._meta).schema, "partitions")  # noqa: SLF001  (its types)
    try:
        found = nw.from_native(native)
    except nw.exceptions.DuplicateError:
        what, why = "two columns of one name", "either could be meant"
        remedy = "rename one of them"
        raise InvalidParameter(what, where="curator.table(frame)", why=why, remedy=remedy) from None
    except TypeError:
        what, why = f"a {type(native).__name__} is no data frame", f"what is read are frames of {_READ}"
        remedy = "give such a frame, or a function that returns one"
        raise InvalidParameter(what, where="curator.table(frame)", why=why, remedy=remedy) from None
    if isinstance(found, nw.DataFrame):
        return _described(native, found.schema, "local")
    known = {getattr(nw.Implementation, name) for name in ("DUCKDB", "POLARS", "PYSPARK")}
    if found.implementation not in known:
        what = f"a lazy frame of {found.implementation}"
        raise InvalidParameter(what, where="curator.table(frame)", remedy=f"give a frame of {_READ}")
    return _described(native, found.collect_schema(), "windows")


def _of_ibis(table: Any) -> Any:
    """Return the same rows as a DuckDB relation; Ibis writes the query."""
    import ibis

    backend = table.get_backend()
    if backend.name != "duckdb":
        what = f"a table of Ibis on {backend.name}"
        why = "some databases take 'a', 'A' and 'a ' for the same unit"
        remedy = "give a table of Ibis on DuckDB, or read the rows with another engine"
        raise InvalidParameter(what, where="curator.table(frame)", why=why, remedy=remedy)
    table.limit(0).to_pyarrow()  # tells DuckDB of tables in memory
    return backend.con.sql(str(ibis.to_sql(table)))


def _described(
    native: Any, schema: Mapping[str, Any], engine: Literal["local", "windows", "partitions"]
) -> Frame:
    columns = {name: str(dtype) for name, dtype in schema.items()}
    for name in columns:
        require_kind(name, str, "curator.table(frame), the name of a column")
    kinds = {name: kind for name, dtype in schema.items() if (kind := _kind(dtype)) is not None}
    types: Any = None if engine == "windows" else getattr(native, "dtypes", None)
    own = dict(types.items()) if hasattr(types, "items") else {}
    strange = [name for name, kind in kinds.items() if kind == "text" and not _holds_text(native, name)]
    kinds = {name: kind for name, kind in kinds.items() if name not in strange}
    columns |= {name: f"{columns[name]} of other values than text" for name in strange}
    # What these types of pandas are follows from the cells, so that one unit's could change it.
    kinds |= {name: "objects" for name, dtype in own.items() if _holds_objects(dtype)}
    of_numpy = frozenset(name for name, dtype in own.items() if isinstance(dtype, np.dtype))
    return Frame(native, columns, kinds, engine, of_numpy)


def _holds_text(native: Any, name: str) -> bool:
    """Return False for a PyArrow dictionary with values other than text."""
    import narwhals as nw

    if not nw.dependencies.is_pyarrow_table(native):
        return True
    dtype = native.schema.field(name).type
    return "string" in str(getattr(dtype, "value_type", dtype))


def _holds_objects(dtype: Any) -> bool:
    """Return whether a pandas column is read cell by cell.

    These are objects, categories and Arrow's dictionaries of other values than text, Dask's categories that
    are not known, and complex numbers and long doubles, which one cell can make of a column of doubles.
    """
    if isinstance(dtype, np.dtype):
        return dtype.kind in "Oc" or (dtype.kind == "f" and dtype.itemsize > 8)
    values = getattr(getattr(dtype, "pyarrow_dtype", None), "value_type", "string")
    return "string" not in str(values) or any(
        _is_no_text(each) or each == _UNKNOWN for each in getattr(dtype, "categories", ())
    )


def _is_no_text(value: object) -> bool:
    return not isinstance(value, str)


def _kind(dtype: nw.dtypes.DType) -> Kind | None:
    import narwhals as nw

    if dtype in {nw.String, nw.Categorical} or isinstance(dtype, nw.Enum):
        return "text"
    if dtype == nw.Boolean:
        return "boolean"
    if dtype in {nw.Int128, nw.UInt128}:
        return None
    if dtype.is_integer() and dtype != nw.UInt64:
        return "whole"
    return "number" if dtype == nw.UInt64 or dtype.is_float() else None


def require_known_units(frame: Frame, unit: str) -> None:
    """Raise `DataError` if a row has no unit."""
    number = frame.missing(unit)
    if number:
        what = f"{number} row{' has' if number == 1 else 's have'} no {unit!r}"
        why = "a row that belongs to nobody is in nobody's bound"
        remedy = "leave these rows out before, or give each of them a unit"
        if frame.kinds[unit] == "objects":
            remedy += "; of objects and categories only text is a unit: make numbers Int64 before"
        raise DataError(what, where=f"curator.table(unit={unit!r})", why=why, remedy=remedy)
