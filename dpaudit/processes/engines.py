"""Frames of engines with threads and connections that do not survive a fork, and their transfer."""

from __future__ import annotations

import functools
import importlib
import pickle
import re
import sys
from pathlib import Path
from typing import Any, Final

from dpaudit.curator.deferred import Deferred
from dpaudit.errors import DataError

#: Package and class of the frames that need threads or connections of their own.
_WITH_THREADS: Final = {
    ("polars", "DataFrame"): "Polars",
    ("polars", "LazyFrame"): "Polars",
    ("dask", "DataFrame"): "Dask",
    ("duckdb", "DuckDBPyRelation"): "DuckDB",
    ("ibis", "Table"): "Ibis",
    ("pyspark", "DataFrame"): "PySpark",
}
#: The name of the threads of Polars' pool.
_POOL: Final = re.compile(r"polars-\d+\n")


def carried(data: Any) -> Any:
    """Return data in a form that other processes can use; raises `DataError` if there is none."""
    found = written(data)
    engine = _engine_with_threads(found)
    if engine is not None:
        raise _not_carried(f"a frame of {engine}")
    return found


def has_polars_threads() -> bool:
    """Return whether Polars has started its thread pool here, as its first computation does.

    A fork of this process lacks these threads, and would wait for them for ever.
    """
    if "polars" not in sys.modules:
        return False
    names = (path.read_text("utf-8", "replace") for path in Path("/proc/self/task").glob("*/comm"))
    return any(_POOL.fullmatch(name) for name in names)


def written(data: Any) -> Any:
    """Return a function that rebuilds a Polars or Dask frame in any process, or other data unchanged."""
    engine = _engine_with_threads(data)
    if engine not in {"Polars", "Dask"}:
        return data
    pickler = importlib.import_module("cloudpickle" if engine == "Dask" else "pickle")
    try:
        return Deferred(functools.partial(pickle.loads, pickler.dumps(data)))
    except Exception as error:  # a part of the frame may raise anything
        raise _not_carried(f"a frame of {engine} that cannot be written ({type(error).__name__})") from error


def _not_carried(what: str) -> DataError:
    why = "each run has a process of its own, which cannot use this one's threads and connections"
    remedy = "pass dpaudit.Deferred(function), where the function opens the data"
    return DataError(what, where="data", why=why, remedy=remedy)


def _engine_with_threads(data: Any) -> str | None:
    """Return the engine of a frame that needs its own threads or connections; None for other data."""
    native = data.to_native() if type(data).__module__.startswith("narwhals.") else data
    kind = type(native)
    return _WITH_THREADS.get((kind.__module__.partition(".")[0].lstrip("_"), kind.__name__))
