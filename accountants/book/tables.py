"""The book's two tables, and transactions that exclude other writers.

SQLite: `BEGIN IMMEDIATE` takes the only write lock before any read, and every commit reaches the disk.
PostgreSQL: a transaction locks the account's row before it reads the events. `READ COMMITTED` then shows it
the commits of others; under `REPEATABLE READ` a transaction that waited for the lock would see the
old events. In both, a process that dies before its commit leaves nothing behind; if it dies after the commit,
its reservation is in the book.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpaudit.errors import BookFormat, BookUnavailable, MissingExtra, UsageError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine, MetaData

#: Some server settings let a commit return before it has reached the disk; this turns them off.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)

PATIENCE = 60  # seconds to wait for other writers


class Tables:
    """A database with a book in it; arguments and errors as for `dpaudit.accountants.book.Book`."""

    def __init__(self, address: str | Path, *, make: bool = True) -> None:
        try:
            import sqlalchemy
        except ImportError:
            what, remedy = "SQLAlchemy is not installed", "pip install 'dpaudit[book]'"
            raise MissingExtra(what, where="book", remedy=remedy) from None
        self._sql = sqlalchemy
        url = _url(address)
        self.shown = url.database or "" if url.drivername == "sqlite" else url.render_as_string()
        if not make and url.drivername == "sqlite" and not Path(self.shown).exists():
            raise self._no_book()  # connecting would create the file
        self._metadata = _tables()
        try:
            self._engine = _engine(url)
        except ImportError:
            what = f"the driver for {url.drivername} is not installed"
            raise MissingExtra(what, where="book", remedy="pip install 'dpaudit[postgres]'") from None
        try:
            with self._named_errors():
                self._require_tables(make=make)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that excludes other writers from the rows it has locked."""
        committing = False
        try:
            with self._named_errors(), self._engine.begin() as connection:
                yield connection
                committing = True
        except BookUnavailable as error:
            if committing:
                error.why = "the database did not confirm the commit: the book may or may not hold the entry"
                error.remedy = "look with `dpaudit book show --history` before asking again"
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction for reading only."""
        with self._named_errors(), self._engine.begin() as connection:
            yield connection

    def datasets(self, connection: Connection) -> list[str]:
        """Return the names of all accounts."""
        column = self._table("accounts").c.dataset
        names = list(connection.execute(self._sql.select(column).order_by(column)).scalars())
        if not all(isinstance(name, str) for name in names):
            raise BookFormat("an account without a name", where=self.shown)
        return names

    def account(self, connection: Connection, dataset: str) -> dict[str, Any] | None:
        """Return an account's row, locked until the transaction ends; None if there is none."""
        table = self._table("accounts")
        query = self._sql.select(table).where(table.c.dataset == dataset).with_for_update()
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else dict(row)

    def dataset_of(self, connection: Connection, reservation: str) -> str | None:
        """Return the data set of a reservation."""
        table = self._table("events")
        query = self._sql.select(table.c.dataset).where(table.c.reservation == reservation).limit(1)
        found: str | None = connection.execute(query).scalar_one_or_none()
        return found

    def events(self, connection: Connection, dataset: str) -> list[dict[str, Any]]:
        """Return an account's events, oldest first."""
        table = self._table("events")
        query = self._sql.select(table).where(table.c.dataset == dataset).order_by(table.c.number)
        return [dict(row) for row in connection.execute(query).mappings()]

    def add(self, connection: Connection, table: str, row: dict[str, Any]) -> None:
        """Add one row to a table."""
        connection.execute(self._table(table).insert().values(**row))

    def _require_tables(self, *, make: bool) -> None:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Two processes that create tables at once would both find none; the number is arbitrary but
                # fixed.
                connection.execute(self._sql.text("SELECT pg_advisory_xact_lock(4609)"))
            if make:
                self._metadata.create_all(connection)
            found = self._sql.inspect(connection)
            if not any(map(found.has_table, self._metadata.tables)):
                raise self._no_book()
            for table in self._metadata.sorted_tables:
                columns = found.get_columns(table.name) if found.has_table(table.name) else []
                if {column["name"] for column in columns} != set(table.columns.keys()):
                    what = f"its table {table.name!r} does not belong to a budget book"
                    why = "another program uses that table"
                    remedy = "name a new file, a book, or another database"
                    raise UsageError(what, where=self.shown, why=why, remedy=remedy)

    def _no_book(self) -> UsageError:
        why = "a run can be charged only to a book with a stated budget"
        remedy = "name the book with --book or DPAUDIT_BOOK; `dpaudit book open` makes one"
        return UsageError("no budget book", where=self.shown, why=why, remedy=remedy)

    def _table(self, name: str) -> Any:
        return self._metadata.tables[f"dpaudit_{name}"]

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except self._sql.exc.DBAPIError as error:
            raise BookUnavailable(str(error.orig).strip().split("\n")[0], where=self.shown) from None
        except UnicodeDecodeError as error:
            raise BookFormat(f"text that is not UTF-8: {error.reason}", where=self.shown) from None


def _url(address: str | Path) -> URL:
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    text = str(address)
    what, url = "an address that cannot be read", URL.create("sqlite", database=text)
    with contextlib.suppress(ArgumentError, ValueError):
        url = make_url(text) if "://" in text else url
        what = f"a {url.get_backend_name()} database"
    if what == "a postgresql database":
        return url.set(drivername="postgresql+psycopg")
    if what != "a sqlite database":
        why = "only SQLite and PostgreSQL are known to keep two runs from spending the same budget"
        remedy = "name a file, or postgresql://user@host/database"
        raise UsageError(what, where="--book", why=why, remedy=remedy)
    file = url.database or ""
    if file.startswith((":", "file:")) or ("://" in text and (not file or url.query)):
        why = "a book in memory ends with its process, and its budget could be spent again"
        remedy = "name a file: book.sqlite, or sqlite:///folder/book.sqlite"
        raise UsageError(f"{text!r} names no file", where="--book", why=why, remedy=remedy)
    folder = Path(file).absolute().parent
    if "://" not in text and not (file and folder.is_dir()):
        raise UsageError(f"no folder {folder}", where=text, remedy="make the folder first")
    return url.set(drivername="sqlite")


def _engine(url: URL) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    if url.drivername != "sqlite":
        waiting = {"connect_timeout": 10}
        level = "READ COMMITTED"
        engine = create_engine(url, poolclass=NullPool, connect_args=waiting, isolation_level=level)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(_DURABLE))
        return engine
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": PATIENCE})

    def connected(connection: Any, record: Any) -> None:
        del record
        connection.isolation_level = None  # the driver would begin transactions late, after the first read
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _tables() -> MetaData:
    from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, UniqueConstraint

    metadata = MetaData()
    texts = functools.partial(Column, type_=String, nullable=False)
    budgets = map(texts, ("schema", "budget", "unit", "neighbouring", "trust_model", "at"))
    Table("dpaudit_accounts", metadata, Column("dataset", String, primary_key=True), *budgets)
    Table(
        "dpaudit_events",
        metadata,
        Column("number", Integer, primary_key=True, autoincrement=True),
        Column("dataset", ForeignKey("dpaudit_accounts.dataset"), nullable=False, index=True),
        Column("reservation", String, nullable=False, index=True),
        *map(texts, ("action", "cost")),
        Column("ledger_hash", String),
        *map(texts, ("note", "at")),
        UniqueConstraint("dataset", "ledger_hash"),  # one run is spent once
    )
    return metadata
