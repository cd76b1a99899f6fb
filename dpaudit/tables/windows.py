"""The same sums by window functions, which DuckDB, Polars and PySpark compute where the rows are.

Only the sums of every cell come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw

from dpaudit.tables.hashing import DIGITS, MISSING, Hash
from dpaudit.tables.plan import Key, Kind, Measure, Plan, Sums


def sums(frame: nw.LazyFrame[Any], plan: Plan) -> Sums:
    """The sums and counts that a plan asks for."""
    one = nw.lit(1).cast(nw.Int64).alias(_own("one"))
    real = {column_name(i): name for i, (name, _) in enumerate(plan.columns)}
    frame, plan = named(frame, plan.columns).with_columns(one), _renamed(plan)
    frame = _counted(frame, plan)
    if plan.groups_per_unit is not None or plan.rows_per_unit is not None:
        frame = _hashed(frame, plan, real)
    names = [name for name, _ in plan.columns]
    row_order = [_own("row", i) for i in range(2)] + names
    cell = [plan.unit, *plan.keys]
    if plan.groups_per_unit is not None:
        frame = frame.with_columns(_place(cell, row_order).alias(_own("place")))
        frame = frame.with_columns((nw.col(_own("place")) == 1).cast(nw.Int64).alias(_own("first")))
        group_order = [*(_own("group", i) for i in range(2)), *plan.keys, _own("place")]
        number = nw.col(_own("first")).cum_sum().over(plan.unit, order_by=group_order)
        frame = frame.with_columns(number.cast(nw.Int64).alias(_own("number")))
        frame = frame.filter(nw.col(_own("number")) <= plan.groups_per_unit)
    if plan.rows_per_unit is not None:
        frame = frame.with_columns(_place([plan.unit], row_order).alias(_own("place")))
        frame = frame.filter(nw.col(_own("place")) <= plan.rows_per_unit)
    if any(measure.what == "units" for measure in plan.measures):
        order = row_order if plan.groups_per_unit or plan.rows_per_unit else names
        frame = frame.with_columns(_place(cell, order).alias(_own("place")))
    by = list(plan.keys)
    measured = [_measured(measure).alias(_own("measure", i)) for i, measure in enumerate(plan.measures)]
    if plan.bins is not None:
        one = nw.col(plan.bins.column)
        frame = frame.filter(~one.is_null())
        above = [(one.cast(nw.Float64) >= edge).cast(nw.Int64) for edge in plan.bins.edges]
        bin_of = nw.sum_horizontal(*above) if above else nw.lit(0).cast(nw.Int64)
        measured.append(bin_of.alias(_own("bin")))
        by.append(_own("bin"))
    frame = frame.with_columns(*measured)
    added = [nw.col(_own("measure", i)).sum() for i in range(len(plan.measures))]
    found = frame.group_by(*by).agg(*added) if by else frame.select(*added)
    answer: Sums = {}
    for row in found.collect().rows():
        key: Key = tuple(each if isinstance(each, str | bool) else int(each) for each in row[: len(by)])
        answer[key] = [int(each or 0) for each in row[len(by) :]]
    return answer


def _own(name: str, i: int | None = None) -> str:
    return f"dpaudit_{name}" if i is None else f"dpaudit_{name}_{i}"


def named(frame: nw.LazyFrame[Any], columns: Sequence[tuple[str, Kind]]) -> nw.LazyFrame[Any]:
    """Some columns as text, whole number, yes or no, or double, under the names `column_name` has for them.

    No engine reads these as anything else than names, as some do with a dot or a quotation mark in one. Texts
    are the same only where their bytes are: a column of DuckDB or of Spark may have another collation.
    """
    native: Any = nw.to_native(frame)
    own = {name: column_name(i) for i, (name, _) in enumerate(columns)}
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            parts = (f"{by_bytes(name, kind)} AS {own[name]}" for name, kind in columns)
            native = native.project(", ".join(parts))
        case nw.Implementation.PYSPARK:
            native = native.toDF(*(own.get(each, f"other_{i}") for i, each in enumerate(native.columns)))
        case _:
            native = nw.to_native(frame.select(*(nw.col(name).alias(new) for name, new in own.items())))
    found: nw.LazyFrame[Any] = nw.from_native(native)
    return found.select(*(_column(own[name], kind).alias(own[name]) for name, kind in columns))


def by_bytes(name: str, kind: Kind | None) -> str:
    """A column in DuckDB's words; as text whose comparisons are those of its bytes."""
    quoted = '"' + name.replace('"', '""') + '"'
    return f'CAST({quoted} AS VARCHAR) COLLATE "binary"' if kind == "text" else quoted


def column_name(i: int) -> str:
    """What the i-th column is called."""
    return _own("column", i)


def _renamed(plan: Plan) -> Plan:
    """The same plan of columns under these names, in the same order."""
    own = {name: column_name(i) for i, (name, _) in enumerate(plan.columns)}
    return replace(
        plan,
        unit=own[plan.unit],
        columns=tuple((own[name], kind) for name, kind in plan.columns),
        keys=tuple(own[name] for name in plan.keys),
        measures=tuple(replace(each, column=own.get(each.column, "")) for each in plan.measures),
        bins=None if plan.bins is None else replace(plan.bins, column=own[plan.bins.column]),
    )


def _column(name: str, kind: Kind) -> nw.Expr:
    """A column as text, whole number, yes or no, or double; NaN is a missing value, and -0.0 is 0.0."""
    one = nw.col(name)
    if kind == "text":
        return one.cast(nw.String)
    if kind == "whole":
        return one.cast(nw.Int64)
    if kind == "boolean":
        return one
    number = one.cast(nw.Float64)
    known = ~number.is_null() & ~number.is_nan()
    return nw.when(known).then(nw.when(number == 0.0).then(0.0).otherwise(number))


def _counted(frame: nw.LazyFrame[Any], plan: Plan) -> nw.LazyFrame[Any]:
    """The rows that belong to a unit and to a group."""
    frame = frame.filter(~nw.col(plan.unit).is_null())
    for i, name in enumerate(plan.keys):
        frame = frame.filter(~nw.col(name).is_null())
        if plan.groups is not None:
            doubles = dict(plan.columns)[name] == "number"
            known = map(float, plan.groups[i]) if doubles else plan.groups[i]
            frame = frame.filter(nw.col(name).is_in(sorted(set(known))))
    return frame


def _place(by: list[str], order: list[str]) -> nw.Expr:
    """1, 2, ... for the rows that are alike in `by`, in order."""
    return nw.col(_own("one")).cum_sum().over(*by, order_by=order).cast(nw.Int64)


def _hashed(frame: nw.LazyFrame[Any], plan: Plan, real: Mapping[str, str]) -> nw.LazyFrame[Any]:
    """With the hashes of rows and groups: columns of their own; `real` are the columns' names in the data."""
    hashed = Hash(plan.hash_key)
    for name, kind in plan.columns:
        frame = _with_codes(frame, name, kind, hashed)
    names = [name for name, _ in plan.columns]
    kinds: dict[str, Sequence[str]] = {"row": names}
    if plan.groups_per_unit is not None:
        kinds["group"] = plan.keys
    for what, of in kinds.items():
        joined = [hashed.joined({real[name]: nw.col(_code(name, i)) for name in of}, i) for i in range(2)]
        frame = frame.with_columns(*(each.alias(_own("joined", i)) for i, each in enumerate(joined)))
        unit = [nw.col(_code(plan.unit, i)) for i in range(2)]
        other = [nw.col(_own("joined", i)) for i in range(2)]
        found = [hashed.begun(unit[i], other[i], i) for i in range(2)]
        for each in (other, unit, other, None):
            frame = frame.with_columns(*(one.alias(_own(what, i)) for i, one in enumerate(found)))
            if each is not None:
                found = [hashed.mixed(nw.col(_own(what, i)), each[i], i) for i in range(2)]
    return frame


def _code(name: str, i: int) -> str:
    return f"{name}_code_{i}"


def _with_codes(frame: nw.LazyFrame[Any], name: str, kind: Kind, hashed: Hash) -> nw.LazyFrame[Any]:
    """With both hash codes of a column's values."""
    one = nw.col(name)
    if kind == "text":
        frame = _text_codes(frame, name, hashed)
        return frame.with_columns(*(nw.col(_code(name, i)).fill_null(MISSING) for i in range(2)))
    if kind == "number":
        within = nw.when(~one.is_null()).then(one.clip(-(2.0**62), 2.0**62)).otherwise(0.0)
        frame = frame.with_columns(within.alias(_own("within")))
        frame = frame.with_columns(nw.col(_own("within")).floor().alias(_own("whole")))
        whole = nw.col(_own("whole")).cast(nw.Int64)
        rest = ((nw.col(_own("within")) - nw.col(_own("whole"))) * 2.0**30).floor().cast(nw.Int64)
        found = [hashed.of_number(whole, rest, i) for i in range(2)]
    else:
        found = [hashed.of_whole(one.cast(nw.Int64).fill_null(0), i) for i in range(2)]
    coded = [nw.when(~one.is_null()).then(each).otherwise(MISSING) for each in found]
    return frame.with_columns(*(each.alias(_code(name, i)) for i, each in enumerate(coded)))


def _text_codes(frame: nw.LazyFrame[Any], name: str, hashed: Hash) -> nw.LazyFrame[Any]:
    """The one step that is each engine's own: digits of a SHA-256 digest as a number; null for a null."""
    native: Any = nw.to_native(frame)
    names = [_code(name, i) for i in range(2)]
    starts = [1 + i * DIGITS for i in range(2)]
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            salt = hashed.salt.replace("'", "''")
            parts = (
                f"CAST('0x' || substr(sha256('{salt}' || {name}), {start}, {DIGITS}) AS BIGINT) AS {own}"
                for own, start in zip(names, starts, strict=True)
            )
            made = native.project(", ".join(("*", *parts)))
        case nw.Implementation.POLARS:
            import polars as pl

            def coded(i: int) -> Any:
                def of(series: Any) -> Any:
                    distinct = series.unique().drop_nulls().to_list()
                    codes = dict(zip(distinct, hashed.of_text(distinct)[:, i].tolist(), strict=True))
                    return pl.Series(series.name, [codes.get(each) for each in series.to_list()], pl.Int64)

                return of

            made = native.with_columns(
                pl.col(name).map_batches(coded(i), return_dtype=pl.Int64, is_elementwise=True).alias(own)
                for i, own in enumerate(names)
            )
        case _:  # PySpark
            from pyspark.sql import functions

            digest = functions.sha2(functions.concat(functions.lit(hashed.salt), functions.col(name)), 256)
            made = native
            for own, start in zip(names, starts, strict=True):
                number = functions.conv(functions.substring(digest, start, DIGITS), 16, 10).cast("long")
                made = made.withColumn(own, number)
    found: nw.LazyFrame[Any] = nw.from_native(made).lazy()
    return found


def _measured(measure: Measure) -> nw.Expr:
    """A measure of every row, as an expression."""
    if measure.what == "rows":
        return nw.col(_own("one"))
    if measure.what == "units":
        return (nw.col(_own("place")) == 1).cast(nw.Int64)
    one = nw.col(measure.column).cast(nw.Float64)
    known = ~one.is_null()
    if measure.what == "known":
        return known.cast(nw.Int64)
    x = nw.when(known).then(one.clip(measure.lower, measure.upper)).otherwise(0.0)
    if measure.what == "square":
        x = (x - measure.center) * (x - measure.center)
    steps = (x * 2.0**-measure.exponent).floor().clip(*map(float, measure.steps)).cast(nw.Int64)
    return nw.when(known).then(steps).otherwise(0)
