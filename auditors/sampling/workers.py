"""Chunks of trials on one process, on several, or on a cluster; always handed back in order.

In order, because which chunk is done first may depend on what came out of it: keeping the first ones to
arrive would bend the distribution that is audited.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cloudpickle
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dpaudit.auditors.sampling.scores import Array
from dpaudit.auditors.sampling.serialization import shipped
from dpaudit.auditors.sampling.trial import Side
from dpaudit.errors import InvalidParameter, MissingExtra, UsageError, WorkersLost
from dpaudit.interrupts import leave_to_parent

#: How often workers may die in a row without one chunk being finished.
RETRIES = 3
_CONNECTING = "20s"


@dataclass(frozen=True, order=True)
class Chunk:
    """Trials ``first`` to ``first + trials - 1`` on one side."""

    first: int
    side: int
    trials: int


def compute(
    sides: tuple[Side, Side], chunks: Sequence[Chunk], *, workers: int = 1, cluster: str | None = None
) -> Generator[tuple[Array, str | None], None, None]:
    """The scores of each chunk and the structure of its outputs, in the order given.

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
            yield sides[chunk.side].scored(chunk.first, chunk.trials)
        return
    payloads = [_payload(side) for side in sides]
    done = lost = 0
    with _cluster(cluster):
        while done < len(chunks):
            tasks = (
                delayed(_run)(payloads[chunk.side], chunk.first, chunk.trials) for chunk in chunks[done:]
            )
            try:
                # Sending the first tasks may find the worker that is gone, too.
                with _stopping(_parallel(workers, cluster)(tasks)) as results:
                    for scores in results:
                        if isinstance(scores, Exception):
                            raise scores
                        done, lost = done + 1, 0
                        yield scores
            except TerminatedWorkerError as error:
                lost += 1
                if lost > RETRIES:
                    raise WorkersLost(
                        f"workers died {lost} times in a row", where=f"trials {chunks[done].first} and on"
                    ) from error


def _payload(side: Side) -> bytes:
    try:
        return shipped(side)
    except Exception as error:
        raise UsageError(
            f"cannot be sent to another process: {type(error).__name__}",
            where="workers",
            why="a handle on another library's object means nothing there",
            remedy="make that object inside the function that is audited, or run with one worker",
        ) from error


@contextmanager
def _stopping(results: Any) -> Iterator[Any]:
    """Close joblib's results quietly: whoever stops early knows that chunks under way are lost."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed")
            results.close()


def _parallel(workers: int, cluster: str | None) -> Parallel:
    backend = {"backend": "loky", "n_jobs": workers} if cluster is None else {"backend": "dask", "n_jobs": -1}
    with parallel_config(**backend):
        return Parallel(return_as="generator", max_nbytes=None)


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Be the client of a cluster: joblib's dask backend takes the one that is current."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtra(
            "distributed is not installed", where="cluster", remedy="pip install 'dpaudit[dask]'"
        ) from error
    try:
        client = Client(address, timeout=_CONNECTING)  # type: ignore[no-untyped-call]  # it annotates nothing
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no scheduler answers: {type(error).__name__}",
            where=f"cluster {address}",
            why="there is nothing to run the trials on",
            remedy="start one with `dask scheduler`, and give its address, such as tcp://10.0.0.1:8786",
        ) from error
    with client:
        yield


def _run(payload: bytes, first: int, trials: int) -> tuple[Array, str | None] | Exception:
    """A chunk's scores, or what was raised: joblib would raise the first error to arrive, not the first."""
    leave_to_parent()
    try:
        # What an algorithm prints is no part of an answer on the caller's stdout, which a worker may share.
        with contextlib.redirect_stdout(sys.stderr):
            side: Side = cloudpickle.loads(payload)
            return side.scored(first, trials)
    except Exception as error:  # noqa: BLE001  (raised again where the chunks are put in order)
        # The chained cause does not cross a process border; its traceback does.
        error.add_note("".join(traceback.format_exception(error)))
        return error
