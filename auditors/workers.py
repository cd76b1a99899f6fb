"""Chunks of trials on one process, on several, or on a cluster; always handed back in order.

In order, because which chunk is done first may depend on what came out of it: keeping the first ones to
arrive would bend the distribution that is audited.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dpaudit.auditors.scores import Array
from dpaudit.auditors.sides import Side
from dpaudit.errors import InvalidParameter, MissingExtra, WorkersLost

#: How often workers may die in a row without one chunk being finished.
RETRIES = 3


@dataclass(frozen=True, order=True)
class Chunk:
    """Trials ``first`` to ``first + trials - 1`` on one side."""

    first: int
    side: int
    trials: int


def compute(
    sides: tuple[Side, Side], chunks: Sequence[Chunk], *, workers: int = 1, cluster: str | None = None
) -> Generator[Array, None, None]:
    """The scores of each chunk, in the order given.

    Args:
        sides: the data's and the neighbour's.
        chunks: what to run.
        workers: processes on this machine; 1 runs everything in this one.
        cluster: the address of a `distributed` scheduler, which is then used instead.

    Raises:
        TrialFailed: a trial raised.
        WorkersLost: workers died more than `RETRIES` times in a row.
        MissingExtra: a cluster is named and `distributed` is not installed.
    """
    if workers < 1:
        raise InvalidParameter(f"{workers} workers", where="workers", remedy="give 1 or more")
    if cluster is None and workers == 1:
        for chunk in chunks:
            yield sides[chunk.side].chunk(chunk.first, chunk.trials)
        return
    # Pickled once, by value: closures and lambdas, and functions of a script, reach the workers too.
    payloads = tuple(cloudpickle.dumps(side) for side in sides)
    done = lost = 0
    with _backend(workers, cluster) as backend:
        while done < len(chunks):
            tasks = (
                delayed(_run)(payloads[chunk.side], chunk.first, chunk.trials) for chunk in chunks[done:]
            )
            try:
                for scores in Parallel(return_as="generator", max_nbytes=None, **backend)(tasks):
                    done, lost = done + 1, 0
                    yield scores
            except TerminatedWorkerError as error:
                lost += 1
                if lost > RETRIES:
                    raise WorkersLost(
                        f"workers died {lost} times in a row", where=f"trials {chunks[done].first} and on"
                    ) from error


@contextmanager
def _backend(workers: int, cluster: str | None) -> Iterator[dict[str, Any]]:
    if cluster is None:
        yield {"backend": "loky", "n_jobs": workers}
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtra(
            "distributed is not installed", where="cluster", remedy="pip install 'dpaudit[dask]'"
        ) from error
    # joblib's dask backend finds the client that is the default one while it lives; lost workers'
    # chunks are run again by the scheduler.
    with Client(cluster):  # type: ignore[no-untyped-call]  # distributed annotates nothing
        yield {"backend": "dask", "n_jobs": -1}


def _run(payload: bytes, first: int, trials: int) -> Array:
    side: Side = cloudpickle.loads(payload)
    return side.chunk(first, trials)
