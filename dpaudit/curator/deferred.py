"""Data that each run loads in its own process."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Deferred:
    """Data that each run loads by calling `make` once in its own process.

    Database connections, and the threads of Polars and DuckDB, do not survive the fork that starts a run.
    """

    make: Callable[[], Any]


def at_hand(data: Any) -> Any:
    """Return the data; load them first if they are `Deferred`."""
    return data.make() if isinstance(data, Deferred) else data
