"""Levels and metadata of neighbouring frames: each frame has only those of its own rows.

A frame that lost a unit's rows still has the unit's levels: categories, Arrow's dictionaries, the values of
enumerations. An audit that compared such frames could not see an algorithm that publishes them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dpaudit.tables.layouts import duckdb_type, plain_schema, polars_dtype, polars_type, quoted

#: Gives a frame that was made of a plain one the levels that its own rows have.
Restore: TypeAlias = Callable[[Any], Any]


def without_levels(native: Any) -> tuple[Any, Restore]:
    """Return a frame with text in place of levels, and what restores the levels that rows use."""
    import narwhals as nw

    if nw.dependencies.is_ibis_table(native):
        return native, _same
    match nw.from_native(native).implementation:
        case nw.Implementation.PANDAS:
            return _pandas(native)
        case nw.Implementation.DASK:
            return _dask(native)
        case nw.Implementation.PYARROW:
            return _arrow(native)
        case nw.Implementation.POLARS:
            return _polars(native)
        case nw.Implementation.DUCKDB:
            return _duckdb(native)
        case nw.Implementation.PYSPARK:
            return native, _without_metadata
        case _:
            return native, _same


def _same(native: Any) -> Any:
    return native


def _own(levels: Iterable[Any], used: Iterable[Any]) -> list[Any]:
    """Return the levels that occur in rows, in the data's order, followed by new ones."""
    known, present = list(levels), {each for each in used if each is not None}
    return [each for each in known if each in present] + sorted(present - set(known))


def _pandas(frame: Any) -> tuple[Any, Restore]:
    pd: Any = importlib.import_module("pandas")

    categories = {n: own for n, own in frame.dtypes.items() if isinstance(own, pd.CategoricalDtype)}
    texts = {
        name: own for name, own in categories.items() if all(isinstance(one, str) for one in own.categories)
    }
    dictionaries = [name for name, own in frame.dtypes.items() if "dictionary" in str(own)]

    def restore(made: Any) -> Any:
        made = pd.DataFrame(made, copy=True)
        for name, own in texts.items():
            levels = _own(own.categories, made[name].dropna().unique())
            kept = pd.Index(levels, dtype=own.categories.dtype)
            made[name] = made[name].astype(pd.CategoricalDtype(kept, ordered=own.ordered))
        for name in categories.keys() - texts.keys():
            made[name] = made[name].cat.remove_unused_categories()
        for name in dictionaries:
            pa = importlib.import_module("pyarrow")
            column = _encoded(pa.chunked_array(pa.array(made[name].array)))
            made[name] = pd.Series(pd.arrays.ArrowExtensionArray(column), index=made.index)
        return _stripped(made)

    plain = frame.set_flags(allows_duplicate_labels=True)  # a unit's rows may come twice in a neighbour
    return plain.astype(dict.fromkeys(texts, pd.StringDtype(na_value=np.nan))), restore


def _stripped(frame: Any) -> Any:
    """Remove attributes, index names and unused index levels."""
    index = frame.index
    if hasattr(index, "remove_unused_levels"):
        index = index.remove_unused_levels()
    elif hasattr(index, "remove_unused_categories"):
        index = index.remove_unused_categories()
    frame = frame.set_axis(index.set_names([None] * index.nlevels), axis=0)
    frame.columns = list(frame.columns)
    frame.attrs = {}
    return frame


def _dask(frame: Any) -> tuple[Any, Restore]:
    pd: Any = importlib.import_module("pandas")
    categories = {n: own for n, own in frame.dtypes.items() if isinstance(own, pd.CategoricalDtype)}
    known = [name for name in categories if frame[name].cat.known]
    texts = [name for name in known if all(isinstance(one, str) for one in categories[name].categories)]

    def restore(made: Any) -> Any:
        rest = [name for name in categories if name not in texts]
        meta = _stripped(made._meta)  # noqa: SLF001  (its types)
        made = made.map_partitions(_without_unused, rest, meta=meta).clear_divisions()
        made = made.astype(dict.fromkeys(texts, "category"))
        for name in set(known) - set(texts):  # an author who asks for levels has them computed from the rows
            made[name] = made[name].cat.as_unknown()
        return made

    return frame.astype(dict.fromkeys(texts, pd.StringDtype(na_value=np.nan))), restore


def _without_unused(frame: Any, names: Sequence[str]) -> Any:
    """Reduce one partition to the levels of its own rows, without metadata."""
    own = {name: frame[name].cat.remove_unused_categories() for name in names}
    return _stripped(frame.assign(**own))


def _arrow(table: Any) -> tuple[Any, Restore]:
    pa: Any = importlib.import_module("pyarrow")

    schema = plain_schema(table.schema)
    text = schema
    for position, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            text = text.set(position, field.with_type(field.type.value_type))

    def restore(made: Any) -> Any:
        columns = [
            _dictionary(made[i], field.type) if "dictionary" in str(field.type) else made[i]
            for i, field in enumerate(schema)
        ]
        return pa.table(columns, names=schema.names)

    return table.cast(text), restore


def _encoded(column: Any) -> Any:
    return _dictionary(column.cast(column.type.value_type), column.type)


def _dictionary(column: Any, dtype: Any) -> Any:
    """A column with the dictionary of its own values."""
    pa: Any = importlib.import_module("pyarrow")

    if not pa.types.is_dictionary(dtype):  # nested in lists or structs
        return pa.chunked_array([pa.array(column.to_pylist(), dtype)])
    made = column.combine_chunks().dictionary_encode()
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    own = pa.DictionaryArray.from_arrays(
        made.indices.cast(dtype.index_type), made.dictionary, ordered=dtype.ordered
    )
    return pa.chunked_array([own])


def _polars(frame: Any) -> tuple[Any, Restore]:
    pl: Any = importlib.import_module("polars")

    schema = frame.collect_schema()
    enums = {name: dtype for name, dtype in schema.items() if isinstance(dtype, pl.Enum)}
    texts = dict.fromkeys(enums, pl.String)
    texts |= {name: pl.String for name, dtype in schema.items() if isinstance(dtype, pl.Categorical)}
    for name, dtype in schema.items():
        if name not in texts and "Enum" in str(dtype):  # nested: as text, whatever rows are left
            texts[name] = polars_dtype(polars_type(name, dtype), enum=pl.String)

    def restore(made: Any) -> Any:
        columns = []
        for name, dtype in schema.items():
            if name in enums:
                used = made.lazy().select(pl.col(name).drop_nulls().unique()).collect()[name].to_list()
                columns.append(pl.col(name).cast(pl.Enum(_own(dtype.categories.to_list(), used))))
            elif isinstance(dtype, pl.Categorical):
                columns.append(pl.col(name).cast(dtype))
        return made.with_columns(columns)

    return frame.with_columns(pl.col(name).cast(own) for name, own in texts.items()), restore


def _duckdb(relation: Any) -> tuple[Any, Restore]:
    types = dict(zip(relation.columns, relation.types, strict=True))
    changed = {name: duckdb_type(own) for name, own in types.items() if "ENUM(" in str(own)}
    enums = {name: dict(own.children)["values"] for name, own in types.items() if own.id == "enum"}

    def restore(made: Any) -> Any:
        own: dict[str, str] = {}
        for name, values in enums.items():
            used = [row[0] for row in made.project(quoted(name)).distinct().fetchall()]
            levels = ", ".join("'" + each.replace("'", "''") + "'" for each in _own(values, used))
            own |= {name: f"ENUM({levels})"} if levels else {}
        return _cast(made, own)

    return _cast(relation, changed), restore


def _cast(relation: Any, types: dict[str, str]) -> Any:
    casts = ", ".join(f"CAST({quoted(name)} AS {own}) AS {quoted(name)}" for name, own in types.items())
    return relation.project(f"* REPLACE ({casts})") if casts else relation


def _without_metadata(frame: Any) -> Any:
    """Return a PySpark frame without column metadata, for example a model's labels."""
    column = importlib.import_module("pyspark.sql.functions").col
    names: Sequence[str] = frame.columns
    # Without any metadata an alias keeps its column's.
    own = [column(f"`{name.replace('`', '``')}`").alias(name, metadata={"dpaudit": ""}) for name in names]
    return frame.select(own)
