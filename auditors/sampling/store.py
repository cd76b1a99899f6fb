"""Finished chunks of trials in a file, so that an audit that was interrupted continues where it stopped."""

import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from dpaudit.auditors.comparison.fingerprint import fingerprint
from dpaudit.auditors.sampling.elsewhere import HostedSide
from dpaudit.auditors.sampling.scores import Scored
from dpaudit.auditors.sampling.trial import Side
from dpaudit.auditors.sampling.workers import Chunk
from dpaudit.errors import StoreMismatch, UsageError

SCHEMA = "dpaudit.trials/4"
_TABLES = {
    "configuration": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "chunks": "side INTEGER, first INTEGER, trials INTEGER NOT NULL, width INTEGER, scores BLOB NOT NULL, "
    "kinds BLOB NOT NULL, PRIMARY KEY (side, first)",
    "looks": "trials INTEGER PRIMARY KEY",
}
#: Seconds until a file that another process writes to counts as in use; a chunk is written in far less.
_PATIENCE = 10.0


class Store:
    """An SQLite file with the scores of one configuration's trials, chunk by chunk.

    A chunk is written in one transaction: a process that is killed leaves whole chunks behind. The number of
    trials is no part of the configuration, so that a finished run can be extended. The numbers at which the
    trials were evaluated are kept beside them: see `remember_look`.

    The file is made if it does not exist. It holds scores of private data: keep it like them. `StoreMismatch`
    is raised where it belongs to another configuration, and names what differs; `UsageError` where it is no
    such store, or another process uses it.
    """

    def __init__(self, path: str | Path, sides: tuple[Side, Side], chunk: int) -> None:
        self._path = Path(path)
        configuration = configuration_of(sides, chunk)
        self._connection = _connect(self._path)
        try:
            self._require_same(configuration)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._connection.close()

    def chunks(self) -> frozenset[Chunk]:
        """The chunks that the file holds."""
        return frozenset(Chunk(*row) for row in self._rows("SELECT first, side, trials FROM chunks"))

    def read(self, chunk: Chunk) -> Scored:
        """The outcomes of a chunk that is there; raises `UsageError` where these are not its runs'."""
        statement = "SELECT width, scores, kinds FROM chunks WHERE first = ? AND side = ?"
        [(width, *contents)] = self._rows(statement, (chunk.first, chunk.side))
        shape = (chunk.trials,) if width is None else (chunk.trials, width)
        try:
            scores, kinds = (np.frombuffer(content, dtype="<f8").astype(np.float64) for content in contents)
            # A chunk of one kind keeps it once.
            return Scored(scores.reshape(shape), np.broadcast_to(kinds, chunk.trials))
        except (TypeError, ValueError) as error:
            raise _no_store(self._path) from error

    def write(self, chunk: Chunk, found: Scored) -> None:
        """Keep a chunk; one of another length that began at the same trial is replaced."""
        width = None if found.scores.ndim == 1 else found.scores.shape[1]
        kinds = found.kinds[:1] if (found.kinds == found.kinds[0]).all() else found.kinds
        contents = (each.astype("<f8").tobytes() for each in (found.scores, kinds))
        row = (chunk.side, chunk.first, chunk.trials, width, *contents)
        self._rows("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?)", row)

    def require_one_size(self, trials: int) -> None:
        """Raise `UsageError` for a test of a fixed number of trials where another was evaluated before."""
        _require_one_size(self._path, [size for (size,) in self._rows("SELECT trials FROM looks")], trials)

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _transaction(self._connection, self._path):
            return self._connection.execute(statement, values).fetchall()

    def _require_same(self, configuration: Mapping[str, str]) -> None:
        # Within the transaction no other process writes: two that make one file at once do not interfere.
        with _transaction(self._connection, self._path) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            there = {name for (name,) in tables}
            if there and not {"configuration", "chunks"} <= there:
                raise _no_store(self._path)
            for name, columns in _TABLES.items():
                connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
            found = dict(connection.execute("SELECT name, value FROM configuration").fetchall())
            if not found:
                connection.executemany("INSERT INTO configuration VALUES (?, ?)", configuration.items())
                return
        differing = [name for name in configuration if found.get(name) != configuration[name]]
        if differing:
            # Digests of data and algorithm tell a reader nothing; plain figures do.
            here = {name: configuration[name] for name in differing}
            details = [f"{k} ({found.get(k)} there, {v} here)" if len(v) < 64 else k for k, v in here.items()]
            raise StoreMismatch(f"differs in {', '.join(details)}", where=str(self._path))


def remember_look(path: Path, trials: int, *, fixed: bool) -> None:
    """Record in a store that its first trials were evaluated, before anybody sees the result.

    The number is that of a side; of a sequential audit how many were planned. A test of a `fixed` number is
    valid at one number, chosen before any result was seen: `UsageError` is raised for another number than was
    evaluated before, and where the file is in use.
    """
    with closing(_connect(path)) as connection, _transaction(connection, path):
        # Written before it is read: of two processes that evaluate at once, the second sees the first's.
        connection.execute("INSERT OR IGNORE INTO looks VALUES (?)", (trials,))
        if fixed:
            looks = connection.execute("SELECT trials FROM looks").fetchall()
            _require_one_size(path, [size for (size,) in looks], trials)


def _require_one_size(path: Path, looks: Sequence[int], trials: int) -> None:
    others = sorted(size for size in looks if size != trials)
    if not others:
        return
    again = f"ask for {others[0]} trials again, with the same result; or " if len(looks) == 1 else ""
    before = f"its runs were evaluated when they were {' and '.join(map(str, others))} a side"
    valid = "a test of a fixed number of runs is valid at one number, chosen before any result was seen"
    why = f"{valid}: evaluating again and again with more runs refutes any true claim sooner or later"
    instead = "audit by the method sequential, which is valid whenever you stop"
    remedy = f"{again}{instead}; or name a new file and another seed, for new runs"
    what = f"{before}, and would be evaluated again at {trials}"
    raise UsageError(what, where=str(path), why=why, remedy=remedy)


def _connect(path: Path) -> sqlite3.Connection:
    if not path.parent.is_dir():
        raise UsageError(f"no folder {path.parent}", where=str(path), remedy="make the folder first")
    with _failures(path):
        return sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)


@contextmanager
def _transaction(connection: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction in which no other process writes; it is committed if no error is raised.

    `UsageError` is raised where the file is in use, is no store, or cannot be read or written.
    """
    with _failures(path):
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what extended codes add
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            what = "in use by another process"
            why = "one process at a time writes to it; what was kept before is still there"
            remedy = "wait until the other is done and give the same command again, or name another file"
        # SQLITE_ERROR is a statement that this file's tables do not support.
        elif code > sqlite3.SQLITE_ERROR and isinstance(error, sqlite3.OperationalError):
            what = f"{error}"
            why = "chunks that cannot be kept cannot be resumed; what was kept before is still there"
            remedy = "make room, check the permissions of file and folder, or name another file"
        else:
            raise _no_store(path) from error
        raise UsageError(what, where=str(path), why=why, remedy=remedy) from error


def _no_store(path: Path) -> UsageError:
    remedy = "name a new file, or one made by --resume"
    return UsageError("not a store of trials", where=str(path), remedy=remedy)


def configuration_of(sides: tuple[Side, Side], chunk: int) -> dict[str, str]:
    """Everything that determines the scores: the parts of a run, each as a figure or a digest."""
    side, other = sides
    if isinstance(side, HostedSide) and isinstance(other, HostedSide):
        call = side.host.call(configuration_of, (side.bare(), other.bare()), chunk)
        return {str(name): str(value) for name, value in call.result().items()}
    return {
        "schema": SCHEMA,
        "algorithm": fingerprint(side.algorithm),
        "data": fingerprint(side.data),
        "neighbour": fingerprint(other.data),
        "score": fingerprint(side.score),
        "options": fingerprint(dict(side.options)),
        "seed": str(side.seed),
        "chunk": str(chunk),
        "form": "batch" if side.batched else "single",
        # Another numpy may draw other numbers from the same seed; another Python compiles other code.
        "dpaudit": version("dpaudit"),
        "numpy": np.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
