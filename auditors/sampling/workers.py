"""Chunks of trials on one process, on several, or on a cluster; always returned in order.

Which chunk is done first may depend on its outputs: keeping the first ones to arrive would change the
distribution that is audited.
"""

import contextlib
import os
import sys
import sysconfig
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dpaudit.auditors.sampling.elsewhere import HostedSide, compute_elsewhere
from dpaudit.auditors.sampling.scores import Scored
from dpaudit.auditors.sampling.trial import Side, chunk_of_both
from dpaudit.errors import InvalidParameter, MissingExtra, UsageError, WorkersLost
from dpaudit.interrupts import leave_to_parent

#: How often workers may die in a row without one chunk being finished.
RETRIES = 3
_CONNECTING = "20s"
#: Calls sent at once for each worker, seconds for which one waits for further calls, and the threads of its
#: numerical libraries: one each.
_WAITING = 2
_IDLE = 300
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_INSTALLED = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")})


@dataclass(frozen=True, order=True)
class Chunk:
    """Trials ``first`` to ``first + trials - 1`` on one side."""

    first: int
    side: int
    trials: int

    def __str__(self) -> str:
        return f"side {self.side}, trials {self.first} to {self.first + self.trials - 1}"


def compute(
    sides: Sequence[Side], chunks: Sequence[Chunk], *, workers: int = 1, cluster: str | None = None
) -> Generator[Scored, None, None]:
    """The outcomes of each chunk, in the given order: of both sides, trials by trials.

    Where the runs share a process, those of both sides are in one random order; see `chunk_of_both`. One
    worker runs everything in this process; sides that a host holds are run in forks of it, by as many at
    once as there are workers. A cluster, the address of a `distributed` scheduler, is used instead of
    workers. `TrialFailed` is raised for a trial that raised, `WorkersLost` after workers died more than
    `RETRIES` times in a row, `MissingExtra` where `distributed` is not installed.
    """
    if workers < 1:
        raise InvalidParameter(f"{workers} workers", where="workers", remedy="give 1 or more")
    if hosted := [side for side in sides if isinstance(side, HostedSide)]:
        parts = [(one.side, one.first, one.trials) for one in chunks]
        yield from compute_elsewhere(hosted, parts, workers)
        return
    both = [(one.first, one.trials) for one in chunks if one.side == 0]
    if cluster is None and workers == 1:
        for first, trials in both:
            yield from chunk_of_both(sides, first, trials)
        return
    try:
        payload = shipped(*sides)
    except Exception as error:
        what = f"cannot be sent to another process: {type(error).__name__}"
        why = "a handle on another library's object is not valid there"
        remedy = "make that object inside the function that is audited, or run with one worker"
        raise UsageError(what, where="workers", why=why, remedy=remedy) from error
    done = lost = 0
    while done < len(both):
        with processes(workers) if cluster is None else _cluster(cluster) as pool:
            tasks = (partial(_run, payload, first, trials) for first, trials in both[done:])
            try:
                for scores in pool.in_order(tasks):
                    if isinstance(scores, Exception):
                        raise scores
                    done, lost = done + 1, 0
                    yield from scores
            except pool.died as error:
                lost += 1
                if lost > RETRIES:
                    what, where = f"workers died {lost} times in a row", f"trials {both[done][0]} and on"
                    raise WorkersLost(what, where=where) from error


class Pool(NamedTuple):
    """Where calls are made: how one is sent, how many at once, and what is raised where a worker died."""

    submit: Callable[[Callable[[], Any]], Any]
    at_once: int
    died: type[Exception]

    def in_order(self, tasks: Iterator[Callable[[], Any]]) -> Iterator[Any]:
        """What each task returns, in their order."""
        begun = deque(map(self.submit, islice(tasks, self.at_once)))
        while begun:
            yield begun.popleft().result()
            begun.extend(map(self.submit, islice(tasks, 1)))


@contextmanager
def processes(workers: int) -> Iterator[Pool]:
    """Processes of this machine; what they have not finished at the end is ended with them.

    Not through joblib's `Parallel`: ended early, it stops loky's workers while a thread of its own sends them
    tasks, and that thread raises KeyError. The pool is joblib's, whom the caller's own code may ask for one.
    """
    from joblib.executor import get_memmapping_executor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    threads = {name: "1" for name in _THREADS if name not in os.environ}
    executor = get_memmapping_executor(workers, timeout=_IDLE, env=threads, max_nbytes=None)
    begun = list[Any]()

    def submit(task: Callable[[], Any]) -> Any:
        begun[:] = [*(one for one in begun if not one.done()), executor.submit(task)]
        return begun[-1]

    try:
        yield Pool(submit, _WAITING * workers, TerminatedWorkerError)
    finally:
        while not all(one.running() or one.done() for one in begun):
            time.sleep(1e-3)  # until that thread has sent them all
        if not all(one.done() for one in begun):
            executor.shutdown(kill_workers=True)


@contextmanager
def _cluster(address: str) -> Iterator[Pool]:
    with connected(address) as client:
        from distributed import KilledWorker

        at_once = _WAITING * max(1, sum(client.nthreads().values()))
        yield Pool(partial(client.submit, pure=False), at_once, KilledWorker)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The client of a cluster (``local``: of this machine's own)."""
    try:
        from distributed import Client
    except ImportError as error:
        what, remedy = "distributed is not installed", "pip install 'dpaudit[dask]'"
        raise MissingExtra(what, where="cluster", remedy=remedy) from error
    try:
        here = {"threads_per_worker": 1, "dashboard_address": None} if address == "local" else {}
        given = {} if here else {"address": address, "timeout": _CONNECTING}
        client = Client(**given, **here)  # type: ignore[no-untyped-call]  # it annotates nothing
    except (OSError, ValueError) as error:
        what, why = f"no scheduler answers: {type(error).__name__}", "the work is to be done by its workers"
        remedy = "start one with `dask scheduler`, and give its address, such as tcp://10.0.0.1:8786"
        raise UsageError(what, where=f"cluster {address}", why=why, remedy=remedy) from error
    with client:
        yield client


def _run(payload: bytes, first: int, trials: int) -> list[Scored] | Exception:
    """The scores of a chunk of either side, or the error, which is raised where chunks are put in order."""
    import cloudpickle

    leave_to_parent()
    try:
        # What an algorithm prints must not mix with the caller's output on stdout, which a worker may share.
        with contextlib.redirect_stdout(sys.stderr):
            sides: Sequence[Side] = cloudpickle.loads(payload)
            return chunk_of_both(sides, first, trials)
    except Exception as error:  # noqa: BLE001  (returned)
        # The chained cause does not cross a process border; its traceback does.
        error.add_note("".join(traceback.format_exception(error)))
        return error


def shipped(*values: object) -> bytes:
    """Values pickled together, functions and classes by value unless they belong to an installed package.

    Closures and lambdas have no name to import them by, and the module of a script or a test cannot be
    imported from elsewhere: what it defines has to travel. Raises whatever pickling raises.
    """
    import cloudpickle

    # The modules that define the values, their classes and attributes, as far as they are not installed.
    parts = [each for value in values for part in _parts(value, depth=3) for each in (part, type(part))]
    names = {name for part in parts if isinstance(name := getattr(part, "__module__", None), str)}
    names -= set(cloudpickle.list_registry_pickle_by_value())
    modules = [sys.modules[name] for name in sorted(names) if sys.modules.get(name) is not None]
    added = [module for module in modules if not _importable(module)]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(values)
        return content
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _parts(value: Any, depth: int) -> Iterator[object]:
    yield value
    if depth == 0:
        return
    inner = list(vars(value).values()) if hasattr(value, "__dict__") and not isinstance(value, type) else []
    if isinstance(value, partial):
        inner += [value.func, *value.args, *value.keywords.values()]
    for part in inner:
        yield from _parts(part, depth - 1)


def _importable(module: ModuleType) -> bool:
    """Whether a worker has the module: Python's own, an installed one, or dpaudit's."""
    if module.__name__.partition(".")[0] == "dpaudit" or getattr(module, "__file__", None) is None:
        return True
    file = Path(str(module.__file__))
    return any(file.is_relative_to(folder) for folder in _INSTALLED)
