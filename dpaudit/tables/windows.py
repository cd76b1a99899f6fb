"""The same sums by window functions, which DuckDB, Polars, PySpark and Ibis compute where the rows are.

Only the sums of every cell come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import narwhals as nw

from dpaudit.tables.hashing import DIGITS, MISSING, Hash
from dpaudit.tables.plan import Key, Measure, Plan, Sums

#: The names of what is computed; a column of such a name is hidden by it.
_OWN: Final = "dpaudit_"


def sums(frame: nw.LazyFrame[Any], plan: Plan) -> Sums:
    """The sums and counts that a plan asks for."""
    one = nw.lit(1).cast(nw.Int64).alias(_own("one"))
    frame = _counted(frame.select(*(_column(name, kind) for name, kind in plan.columns), one), plan)
    if plan.groups_per_unit is not None or plan.rows_per_unit is not None:
        frame = _hashed(frame, plan)
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
        one, kind = nw.col(plan.bins.column), plan.kind(plan.bins.column)
        frame = frame.filter(_known(one, kind))
        above = [(one.cast(nw.Float64) >= edge).cast(nw.Int64) for edge in plan.bins.edges]
        measured.append(nw.sum_horizontal(*above).alias(_own("bin")))
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
    return f"{_OWN}{name}" if i is None else f"{_OWN}{name}_{i}"


def _column(name: str, kind: str) -> nw.Expr:
    """A column as text, whole number, yes or no, or double; NaN as a missing value."""
    one = nw.col(name)
    if kind == "text":
        return one.cast(nw.String)
    if kind == "whole":
        return one.cast(nw.Int64)
    return one if kind == "boolean" else one.cast(nw.Float64)


def _known(one: nw.Expr, kind: str) -> nw.Expr:
    return ~one.is_null() & ~one.is_nan() if kind == "number" else ~one.is_null()


def _counted(frame: nw.LazyFrame[Any], plan: Plan) -> nw.LazyFrame[Any]:
    """The rows that belong to a unit and to a group."""
    frame = frame.filter(~nw.col(plan.unit).is_null())
    for i, name in enumerate(plan.keys):
        frame = frame.filter(~nw.col(name).is_null())
        if plan.groups is not None:
            frame = frame.filter(nw.col(name).is_in(sorted(set(plan.groups[i]))))
    return frame


def _place(by: list[str], order: list[str]) -> nw.Expr:
    """1, 2, ... for the rows that are alike in `by`, in order."""
    return nw.col(_own("one")).cum_sum().over(*by, order_by=order).cast(nw.Int64)


def _hashed(frame: nw.LazyFrame[Any], plan: Plan) -> nw.LazyFrame[Any]:
    """With the hashes of rows and groups: columns of their own."""
    hashed = Hash(plan.hash_key)
    for name, kind in plan.columns:
        frame = _with_codes(frame, name, kind, hashed)
    names = [name for name, _ in plan.columns]

    kinds: dict[str, Sequence[str]] = {"row": names}
    if plan.groups_per_unit is not None:
        kinds["group"] = plan.keys
    for what, of in kinds.items():
        joined = [hashed.joined((nw.col(_code(name, i)) for name in of), i) for i in range(2)]
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
    return f"{_OWN}code_{i}_{name}"


def _with_codes(frame: nw.LazyFrame[Any], name: str, kind: str, hashed: Hash) -> nw.LazyFrame[Any]:
    """With both hash codes of a column's values."""
    one = nw.col(name)
    if kind == "text":
        frame = _text_codes(frame, name, hashed)
        return frame.with_columns(*(nw.col(_code(name, i)).fill_null(MISSING) for i in range(2)))
    if kind == "number":
        known = _known(one, kind)
        within = nw.when(known).then(one.clip(-(2.0**62), 2.0**62)).otherwise(0.0)
        frame = frame.with_columns(within.alias(_own("within")))
        frame = frame.with_columns(nw.col(_own("within")).floor().alias(_own("whole")))
        whole = nw.col(_own("whole")).cast(nw.Int64)
        rest = ((nw.col(_own("within")) - nw.col(_own("whole"))) * 2.0**30).floor().cast(nw.Int64)
        found = [hashed.of_number(whole, rest, i) for i in range(2)]
        known = _known(one, kind)
    else:
        found = [hashed.of_whole(one.cast(nw.Int64).fill_null(0), i) for i in range(2)]
        known = ~one.is_null()
    return frame.with_columns(
        *(nw.when(known).then(each).otherwise(MISSING).alias(_code(name, i)) for i, each in enumerate(found))
    )


def _text_codes(frame: nw.LazyFrame[Any], name: str, hashed: Hash) -> nw.LazyFrame[Any]:
    """The one step that is each engine's own: digits of a SHA-256 digest as a number; null for a null."""
    native: Any = nw.to_native(frame)
    names = [_code(name, i) for i in range(2)]
    starts = [1 + i * DIGITS for i in range(2)]
    match frame.implementation:
        case nw.Implementation.DUCKDB:
            salt, quoted = hashed.salt.replace("'", "''"), name.replace('"', '""')
            parts = (
                f"CAST('0x' || substr(sha256('{salt}' || \"{quoted}\"), {start}, {DIGITS}) AS BIGINT) "
                f'AS "{own.replace(chr(34), chr(34) * 2)}"'
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
        case nw.Implementation.PYSPARK:
            from pyspark.sql import functions

            digest = functions.sha2(
                functions.concat(functions.lit(hashed.salt), functions.col(f"`{name}`")), 256
            )
            made = native
            for own, start in zip(names, starts, strict=True):
                number = functions.conv(functions.substring(digest, start, DIGITS), 16, 10).cast("long")
                made = made.withColumn(own, number)
        case _:  # Ibis
            digest = (native[name].cast("string").__radd__(hashed.salt)).hexdigest("sha256")
            made = native.mutate(
                **{
                    own: reduce(
                        lambda total, digit: total * 16 + digit,
                        (_digit(digest.substr(start - 1 + k, 1)) for k in range(DIGITS)),
                    )
                    for own, start in zip(names, starts, strict=True)
                }
            )
    found: nw.LazyFrame[Any] = nw.from_native(made).lazy()
    return found


def _digit(character: Any) -> Any:
    """The number that a hexadecimal digit is, in Ibis."""
    import ibis

    return ibis.literal("0123456789abcdef").find(character).cast("int64")


def _measured(measure: Measure) -> nw.Expr:
    """A measure of every row, as an expression."""
    if measure.what == "rows":
        return nw.col(_own("one"))
    if measure.what == "units":
        return (nw.col(_own("place")) == 1).cast(nw.Int64)
    one = nw.col(measure.column).cast(nw.Float64)
    known = ~one.is_null() & ~one.is_nan()
    if measure.what == "known":
        return known.cast(nw.Int64)
    x = nw.when(known).then(one.clip(measure.lower, measure.upper)).otherwise(0.0)
    if measure.what == "square":
        x = (x - measure.center) * (x - measure.center)
    steps = (x * 2.0**-measure.exponent).floor().clip(*map(float, measure.steps)).cast(nw.Int64)
    return nw.when(known).then(steps).otherwise(0)
