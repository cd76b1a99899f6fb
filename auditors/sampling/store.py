"""Finished chunks of trials in a file, so that an audit that was cut short goes on where it stopped."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from dpaudit.auditors.comparison.fingerprint import fingerprint
from dpaudit.auditors.sampling.scores import Array
from dpaudit.auditors.sampling.trial import Side
from dpaudit.auditors.sampling.workers import Chunk
from dpaudit.errors import MissingExtra, StoreMismatch, UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, MetaData

SCHEMA = "dpaudit.trials/2"

#: Seconds until a file that another process writes to counts as in use; a chunk is written in far less.
_PATIENCE = 10.0
_BUSY, _LOCKED = 5, 6  # SQLITE_BUSY and SQLITE_LOCKED, without what extended codes add


class Store:
    """An SQLite file with the scores of one configuration's trials, chunk by chunk.

    A chunk is written in one transaction: a process that is killed leaves whole chunks behind. How many
    trials are asked for is no part of the configuration, so that a finished run can be extended. At how many
    they were looked at is kept beside them: see `remember_look`.

    Args:
        path: the file; made if it is not there. It holds scores of private data: keep it like them.
        sides: what is run.
        chunk: trials in a chunk.

    Raises:
        StoreMismatch: the file belongs to another configuration; the error names what differs.
        UsageError: the file is no such store, or another process has it.
        MissingExtra: SQLAlchemy is not installed.
    """

    def __init__(self, path: str | Path, sides: tuple[Side, Side], chunk: int) -> None:
        self._path = Path(path)
        configuration = configuration_of(sides, chunk)
        self._engine, self._metadata = _open(self._path)
        try:
            self._require_same(configuration)
        except BaseException:
            self._engine.dispose()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.dispose()

    def chunks(self) -> frozenset[Chunk]:
        """Which chunks are there."""
        from sqlalchemy import select

        table = self._metadata.tables["chunks"]
        with _transaction(self._engine, self._path) as connection:
            rows = connection.execute(select(table.c.first, table.c.side, table.c.trials)).all()
        return frozenset(Chunk(first, side, trials) for first, side, trials in rows)

    def read(self, chunk: Chunk) -> Array:
        """The scores [trials] or [trials, k] of a chunk that is there."""
        from sqlalchemy import select

        table = self._metadata.tables["chunks"]
        here = (table.c.first == chunk.first) & (table.c.side == chunk.side)
        with _transaction(self._engine, self._path) as connection:
            width, content = connection.execute(select(table.c.width, table.c.scores).where(here)).one()
        scores = np.frombuffer(content, dtype="<f8").astype(np.float64)
        return scores if width is None else scores.reshape(chunk.trials, width)

    def write(self, chunk: Chunk, scores: Array) -> None:
        """Keep a chunk; one of another length that began at the same trial is replaced."""
        table = self._metadata.tables["chunks"]
        here = (table.c.first == chunk.first) & (table.c.side == chunk.side)
        with _transaction(self._engine, self._path) as connection:
            connection.execute(table.delete().where(here))
            connection.execute(
                table.insert().values(
                    first=chunk.first,
                    side=chunk.side,
                    trials=chunk.trials,
                    width=None if scores.ndim == 1 else scores.shape[1],
                    scores=scores.astype("<f8").tobytes(),
                )
            )

    def require_one_size(self, trials: int) -> None:
        """Refuse a test of a fixed number of trials where another number was looked at before.

        Raises:
            UsageError: it was.
        """
        from sqlalchemy import select

        with _transaction(self._engine, self._path) as connection:
            looks = connection.execute(select(self._metadata.tables["looks"].c.trials)).scalars().all()
        _require_one_size(self._path, looks, trials)

    def _require_same(self, configuration: Mapping[str, str]) -> None:
        from sqlalchemy import inspect, select

        table = self._metadata.tables["configuration"]
        with _transaction(self._engine, self._path) as connection:
            # From here on no other process writes: two that make one file at once do not meet.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            there = set(inspect(connection).get_table_names())
            if there and not {"configuration", "chunks"} <= there:
                raise _no_store(self._path)
            self._metadata.create_all(connection)
            rows = connection.execute(select(table.c.name, table.c.value)).all()
            found = {row.name: row.value for row in rows}
            if not found:
                new = [{"name": name, "value": value} for name, value in configuration.items()]
                connection.execute(table.insert(), new)
                return
        differing = [name for name in configuration if found.get(name) != configuration[name]]
        if differing:
            # Digests of data and algorithm say nothing to a reader; plain figures do.
            details = [
                f"{name} ({found.get(name)} there, {configuration[name]} here)"
                if len(configuration[name]) < 64
                else name
                for name in differing
            ]
            raise StoreMismatch(f"differs in {', '.join(details)}", where=str(self._path))


def remember_look(path: Path, trials: int, *, fixed: bool) -> None:
    """Keep in a store that its first trials were looked at, before anybody sees what they say.

    Args:
        path: the store's file.
        trials: how many a side; of a sequential audit how many were planned.
        fixed: whether by a test of a fixed number of trials, which is valid at one number, chosen before
            anything was seen.

    Raises:
        UsageError: such a test, of another number than was looked at before; or another process has it.
    """
    from sqlalchemy import select

    engine, metadata = _open(path)
    table = metadata.tables["looks"]
    try:
        with _transaction(engine, path) as connection:
            # Written before it is read: of two processes that look at once, the second sees the first's.
            connection.execute(table.insert().prefix_with("OR IGNORE").values(trials=trials))
            if fixed:
                _require_one_size(path, connection.execute(select(table.c.trials)).scalars().all(), trials)
    finally:
        engine.dispose()


def _require_one_size(path: Path, looks: Sequence[int], trials: int) -> None:
    others = sorted(size for size in looks if size != trials)
    if not others:
        return
    again = f"ask for {others[0]} trials again, which says the same; or " if len(looks) == 1 else ""
    raise UsageError(
        f"its runs were looked at when they were {' and '.join(map(str, others))} a side, "
        f"and would be judged at {trials}",
        where=str(path),
        why="a test of a fixed number of runs is valid at one number, chosen before anything was seen: who "
        "looks, changes the number and looks again refutes any true claim sooner or later",
        remedy=f"{again}audit by the method sequential, which is valid at every moment; or name a new file "
        "and another seed, for new runs",
    )


@contextmanager
def _transaction(engine: Engine, path: Path) -> Iterator[Connection]:
    """A connection; what it wrote is kept if nothing is raised.

    Raises:
        UsageError: the file is in use, is no store, or cannot be read or written.
    """
    from sqlalchemy.exc import DatabaseError, OperationalError

    try:
        with engine.begin() as connection:
            yield connection
    except DatabaseError as error:
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if code in {_BUSY, _LOCKED}:
            raise UsageError(
                "in use by another process",
                where=str(path),
                why="one process at a time writes to it; what was kept before is still there",
                remedy="wait until the other is done and give the same command again, or name another file",
            ) from error
        if code > 1 and isinstance(error, OperationalError):  # 1 is a statement it does not understand
            raise UsageError(
                f"{error.orig}",
                where=str(path),
                why="what cannot be kept cannot be resumed; what was kept before is still there",
                remedy="make room, see to the permissions of file and folder, or name another file",
            ) from error
        raise _no_store(path) from error


def _no_store(path: Path) -> UsageError:
    return UsageError(
        "not a store of trials", where=str(path), remedy="name a new file, or one made by --resume"
    )


def configuration_of(sides: tuple[Side, Side], chunk: int) -> dict[str, str]:
    """What decides every score: the parts of a run, each as a figure or a digest."""
    side = sides[0]
    return {
        "schema": SCHEMA,
        "algorithm": fingerprint(side.algorithm),
        "data": fingerprint(side.data),
        "neighbour": fingerprint(sides[1].data),
        "score": fingerprint(side.score),
        "options": fingerprint(dict(side.options)),
        "seed": str(side.seed),
        "chunk": str(chunk),
        "form": "batch" if side.batched else "single",
        # A new numpy may draw other numbers from the same seed; a new Python compiles other code.
        "dpaudit": version("dpaudit"),
        "numpy": np.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def _open(path: Path) -> tuple[Engine, MetaData]:
    try:
        from sqlalchemy import Column, Integer, LargeBinary, MetaData, String, Table, create_engine
    except ImportError as error:
        raise MissingExtra(
            "SQLAlchemy is not installed", where="resume", remedy="pip install 'dpaudit[resume]'"
        ) from error
    from sqlalchemy import URL

    metadata = MetaData()
    Table(
        "configuration",
        metadata,
        Column("name", String, primary_key=True),
        Column("value", String, nullable=False),
    )
    Table(
        "chunks",
        metadata,
        Column("side", Integer, primary_key=True),
        Column("first", Integer, primary_key=True),
        Column("trials", Integer, nullable=False),
        Column("width", Integer),
        Column("scores", LargeBinary, nullable=False),
    )
    Table("looks", metadata, Column("trials", Integer, primary_key=True))
    if not path.parent.is_dir():
        raise UsageError(f"no folder {path.parent}", where=str(path), remedy="make the folder first")
    url = URL.create("sqlite", database=str(path))
    return create_engine(url, connect_args={"timeout": _PATIENCE}), metadata
