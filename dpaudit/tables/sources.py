"""Data that every run opens itself, and neighbouring tables made from them."""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.deferred import Deferred, at_hand
from dpaudit.errors import DataError
from dpaudit.processes.engines import has_polars_threads, written
from dpaudit.tables.frames import opened
from dpaudit.tables.layouts import Layout, empty_frame, layout_of
from dpaudit.tables.levels import without_levels

#: How many units a table has on which replays run: one with the most rows, and others with many.
_UNITS: Final = 30
#: Which extra installs an engine.
_EXTRAS: Final = {
    "pyarrow": "parquet",
    **dict.fromkeys(("dask", "distributed"), "dask"),
    **dict.fromkeys(("polars", "duckdb", "ibis"), "engines"),
    "pyspark": "spark",
}
_NEW_UNIT, _NEW_KEY = "dpaudit: a new unit", "dpaudit: a new key"

#: What a unit's rows may become.
Change: TypeAlias = Literal["own", "nothing", "everyone", "high", "low", "strange", "new name"]

WORDS: Final[dict[Change, str]] = {
    "own": "as it is",
    "nothing": "without rows",
    "everyone": "with all units' rows, each twice",
    "high": "with the largest numbers, before each row of the others where they are in memory",
    "low": "with the least numbers, before each row of the others where they are in memory",
    "strange": "with texts that no other row has, and with missing values",
    "new name": "under a new name",
}


@dataclass(frozen=True)
class Facts:
    """The facts from which a table's neighbours are made: private, like the table.

    Attributes:
        units: those with the most rows, the first one with the most of all.
        fresh: a unit that the table does not have.
        layout: names and types of its columns.
        local: whether the rows are in memory of a kind that survives a fork.
    """

    units: tuple[Any, ...]
    fresh: Any
    layout: Layout
    local: bool


def frame_pairs(data: Any, claim: Claim | None) -> Sequence[Pair]:
    """Pairs of a data frame that has the claim's unit as a column, and its layout without rows as stand-in.

    The unit with the most rows is changed, among a few others: removed or replaced, by as many rows of
    extreme numbers, of other texts, of missing values, by each row twice, and by all rows that there are.

    The list is empty if the data are no such frame. If the data are `Deferred`, so are the data of the pairs.
    """
    unit = claim.unit if claim is not None else None
    known = facts(data, unit)
    if known is None or unit is None or claim is None:
        return ()
    relation = claim.neighbouring or Neighbouring.REPLACE_ONE
    made = neighbours(data, unit, known, relation)
    stand_ins = (empty(known),)
    return [Pair(*pair, stand_ins=stand_ins) for pair in made]


def facts(data: Any, unit: str | None) -> Facts | None:
    """Return the facts for a table's neighbours; None unless data are a table with the unit as a column."""
    if unit is None or not _warmed():
        return None
    if not isinstance(data, Deferred):
        return _facts(data, unit)
    found = _elsewhere(lambda: _plain(_facts(data.make(), unit)))
    if found is None:
        return None
    return Facts(tuple(found["units"]), found["fresh"], Layout.from_json(found["layout"]), local=False)


def neighbours(data: Any, unit: str, known: Facts, relation: Neighbouring) -> Iterator[tuple[Any, Any, str]]:
    """Return pairs of tables that differ in the unit with the most rows, each with its difference."""
    changes: tuple[Change, ...] = ("everyone", "high", "low", "strange")
    about = "the unit with the most rows"
    if relation is Neighbouring.REPLACE_ONE:
        pairs: list[tuple[Change, Change]] = [("own", each) for each in changes[:-1]]
        # Rows in all groups against rows in none: with texts that no other row has, or without values.
        pairs += [("everyone", "strange"), ("everyone", "new name"), ("high", "low")]
    else:
        pairs = [(each, "nothing") for each in changes]
    data = data if known.local else written(data)
    for one, other in pairs:
        made = [functools.partial(changed, data, unit, known, each) for each in (one, other)]
        first, second = (each() if known.local else Deferred(each) for each in made)
        yield first, second, f"{about}, {WORDS[one]} and {WORDS[other]}"


def empty(known: Facts) -> Any:
    """A table without rows, made anew from the names and types of the columns and nothing else."""
    make = functools.partial(empty_frame, known.layout)
    return make() if known.local else Deferred(make)


def changed(data: Any, unit: str, known: Facts, change: Change) -> Any:
    """Return the rows of a few units; the first unit's rows are changed."""
    import narwhals as nw

    with _quietly():
        native, restore = without_levels(nw.to_native(at_hand(data), pass_through=True))
        frame: Any = _by_bytes(nw.from_native(native), unit)
        schema = frame.collect_schema()
        heaviest, column = known.units[0], nw.col(unit)
        own = frame.filter(column == heaviest)
        others_known = list(known.units[1:])
        # PyArrow finds no type for an empty list.
        rest = frame.filter(column.is_in(others_known) if others_known else column != heaviest)
        kind = schema[unit]
        others = [name for name in schema if name != unit]
        values: dict[str, Any]
        new: list[Any]
        new, values = [own], {}
        match change:
            case "nothing":
                new = []
            case "everyone":
                all_rows = rest.with_columns(nw.lit(heaviest).cast(kind).alias(unit))
                new = [all_rows, own, own, all_rows]
            case "new name":
                values = {unit: known.fresh}
            case "strange":
                texts = {name: _NEW_KEY for name in others if schema[name] == nw.String}
                never = column != column  # noqa: PLR0124  (typed as missing values of each column)
                missing = [
                    nw.when(never).then(nw.col(name)).alias(name)
                    for name in others
                    if _may_be_missing(frame, name)
                ]
                new = [_with(own, schema, texts), own.with_columns(*missing) if missing else own]
            case "high" | "low":
                sign = 1 if change == "high" else -1
                numbers = {name: _extreme(schema[name], sign) for name in others}
                values = {name: each for name, each in numbers.items() if each is not None}
            case _:
                pass
        new = [_with(each, schema, values) for each in new]
        new = [each.select(*schema) for each in new]
        # Half of many rows stand before the others': which of two like rows is kept may depend on order.
        before = len(new) // 2 if change == "everyone" else 0
        parts = [*new[:before], rest, *new[before:]]
        if frame.implementation.is_pyarrow():
            parts = _of_one_schema(parts, nw.to_native(frame).schema)
        whole = nw.concat(parts, how="vertical")
        if known.local and change in {"high", "low"} and len(rest):
            # One row before each of the others', which may be computed from the row before it.
            whole = whole[[each for at in range(len(rest)) for each in (len(rest) + at % len(own), at)]]
        return restore(nw.to_native(whole))


def _by_bytes(frame: Any, unit: str) -> Any:
    """Return the frame with units compared by their bytes, as in a `Table`, under any collation."""
    import narwhals as nw

    if not frame.implementation.is_duckdb() or frame.collect_schema()[unit] != nw.String:
        return frame
    from dpaudit.tables.windows import by_bytes

    native = frame.to_native()
    return nw.from_native(native.select(f"* REPLACE ({by_bytes(unit, 'text')} AS {by_bytes(unit, None)})"))


def _of_one_schema(parts: Sequence[Any], schema: Any) -> list[Any]:
    """PyArrow tables in the types of the data's: narwhals casts text to one of several types of text."""
    import narwhals as nw

    for position, field in enumerate(schema):
        schema = schema.set(position, field.with_nullable(nullable=True))
    return [nw.from_native(nw.to_native(each).cast(schema)) for each in parts]


def _with(frame: Any, schema: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """A frame whose columns have one value each, of their own types."""
    import narwhals as nw

    columns = [nw.lit(one).cast(schema[name]).alias(name) for name, one in values.items()]
    return frame.with_columns(*columns) if columns else frame  # lazy frames refuse none


def _may_be_missing(frame: Any, name: str) -> bool:
    """Return whether a column can hold missing values; numpy integers or booleans in pandas cannot."""
    if frame.implementation.is_pyarrow():  # it chooses between no values of its extension types
        return not hasattr(frame.to_native().schema.field(name).type, "extension_name")
    if not (frame.implementation.is_pandas_like() or frame.implementation.is_dask()):
        return True
    dtype = frame.to_native().dtypes[name]
    return not (isinstance(dtype, np.dtype) and dtype.kind in "iub")


def _extreme(dtype: Any, sign: int) -> Any:
    """Return a number that is large for its type; None for other types."""
    if dtype.is_float():
        return sign * 1e30
    if not dtype.is_integer():
        return None
    if dtype.is_unsigned_integer():
        return 100 if sign > 0 else 0
    return sign * 100 if str(dtype) == "Int8" else sign * 30_000


def _warmed() -> bool:
    """Import here what every run would import in its own process; whether narwhals is there."""
    try:
        importlib.import_module("dpaudit.tables.local")
    except ImportError:
        return False
    return True


def _facts(data: Any, unit: str) -> Facts | None:
    """Return `facts` of data in memory."""
    import narwhals as nw

    with _quietly():
        try:
            found: Any = nw.from_native(data)
        except TypeError:
            return None
        frame = opened(data)
        if frame.kinds.get(unit) not in {"text", "whole", "objects"}:
            return None
        # Under a name that no engine reads as a table's and its column's, as some do where it has a dot.
        lazy = _by_bytes(found, unit).lazy().select(nw.col(unit).alias("own"))
        lazy = lazy.filter(~nw.col("own").is_null())
        whole = frame.kinds[unit] == "whole"
        if not whole:  # pandas' objects and categories have no order
            lazy = lazy.select(nw.col("own").cast(nw.String))
        sizes = lazy.group_by("own").agg(nw.len().alias("rows"))
        most = sizes.sort("rows", "own", descending=[True, False]).head(_UNITS).collect()
        units = tuple(row[0] for row in most.select("own").rows())
        largest = lazy.select(nw.col("own").max()).collect().rows() if whole else []
    if not units:
        return None
    fresh = int(largest[0][0]) + 1 if whole else _NEW_UNIT
    kind = found.implementation
    local = isinstance(found, nw.DataFrame) and (kind.is_pandas() or kind.is_pyarrow())
    names = tuple(each if isinstance(each, str) else int(each) for each in units)
    return Facts(names, fresh, layout_of(nw.to_native(data, pass_through=True)), local)


def _plain(found: Facts | None) -> Mapping[str, Any] | None:
    if found is None:
        return None
    return {"units": found.units, "fresh": found.fresh, "layout": found.layout.to_json()}


def _elsewhere(make: Callable[[], Any]) -> Any:
    """What a function returns in a fork of this process, in which it may start threads; plain values."""
    if sys.platform != "linux" or has_polars_threads():
        try:
            return make()
        except Exception as error:  # noqa: BLE001  (whatever the author's function raises)
            raise _unopened(error) from None
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8") as file:
                try:
                    json.dump({"found": make()}, file)
                except Exception as error:  # noqa: BLE001  (it is raised in the other process)
                    json.dump({"error": _unopened(error).__dict__}, file)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(pid, 0)
    answer = json.loads(text) if text else {"error": _unopened(EOFError("its process ended")).__dict__}
    if "error" in answer:
        failed = DataError("", where="--data")
        failed.__dict__.update(answer["error"])
        raise failed
    return answer["found"]


def _unopened(error: Exception) -> DataError:
    """Why data cannot be opened; the words of the author's code are quoted."""
    if isinstance(error, DataError):
        return error
    missing = error.name if isinstance(error, ImportError) else None
    extra = _EXTRAS.get((missing or "").partition(".")[0])
    what, why = f"cannot be opened: {type(error).__name__}: {error}", "there are no data to run on"
    remedy = f"pip install 'dpaudit[{extra}]'" if extra else "correct the function"
    failed = DataError(what, where="--data", why=why, remedy=remedy)
    failed.quoted = "" if missing else f": {error}"
    return failed


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress the notice that Dask's support moves to a separate package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield
