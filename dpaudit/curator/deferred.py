"""Data that every run opens for itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Deferred:
    """Data that a function makes, called once by every run, in the run's own process.

    Connections, and the threads of Polars and DuckDB, do not survive the fork that begins a run.
    """

    make: Callable[[], Any]


def at_hand(data: Any) -> Any:
    """The data, or what a `Deferred` makes."""
    return data.make() if isinstance(data, Deferred) else data
