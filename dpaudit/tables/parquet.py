"""Parquet files: a few bytes can encode any number of rows."""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

from dpaudit.errors import DataError
from dpaudit.tables.layouts import plain_schema

#: How many bytes the rows of all files together may take in memory.
MOST_BYTES: Final = 2**31
_OTHERWISE: Final = (
    "name a function that reads the columns and rows you need, MODULE.py:FUNCTION, as one that calls "
    "polars.scan_parquet, or pyarrow.parquet.read_table(..., columns=[...])"
)
#: Rows that are decoded before their size is looked at.
_ROWS: Final = 2**14
#: Bits that a cell takes at least where sums are computed.
_LEAST_BITS: Final = 128


def read_parquet(
    path: str | os.PathLike[str], *, where: str, otherwise: str = _OTHERWISE, room: int | None = None
) -> Any:
    """Read a file as a PyArrow table of at most `room` bytes, left out `MOST_BYTES`, without metadata.

    `where` names the file in errors, and `otherwise` is the remedy for one of too many rows. What pandas and
    Arrow write beside the rows is left out: names of indexes, attributes, metadata of columns.

    Raises:
        DataError: the file is no Parquet file, or its rows take more room; the rest is not read.
    """
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    room = MOST_BYTES if room is None else room
    batches, size = [], 0
    try:
        with parquet.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            if rows * sum(map(_least_bits, schema.types)) > 8 * room:
                raise _too_large(where, rows, otherwise)
            for batch in file.iter_batches(batch_size=_ROWS):
                batches.append(batch)
                size += batch.nbytes
                if size > room:
                    raise _too_large(where, rows, otherwise)
        table = arrow.Table.from_batches(batches, schema=schema).unify_dictionaries()
    except (OSError, arrow.ArrowException) as error:
        what, remedy = f"cannot be read: {error}", "give Parquet files"
        raise DataError(what, where=where, remedy=remedy) from None
    return table.cast(plain_schema(table.schema))


def _least_bits(dtype: Any) -> int:
    try:
        return max(int(dtype.bit_width), _LEAST_BITS)
    except ValueError:  # a type whose values differ in size
        return _LEAST_BITS


def _too_large(where: str, rows: int, remedy: str) -> DataError:
    what = f"{rows} rows, which take more than {MOST_BYTES / 2**30:g} GiB in memory"
    why = "a Parquet file of a few bytes can encode any number of rows"
    return DataError(what, where=where, why=why, remedy=remedy)
