"""The book's two tables, and transactions that exclude other writers.

SQLite: `BEGIN IMMEDIATE` takes the one lock on writing before anything is read, and every commit reaches the
disk. PostgreSQL: the account's row is locked before its events are read, and what others committed meanwhile
is seen, as `READ COMMITTED` has it: under `REPEATABLE READ` a transaction that waited for the lock would see
the events of before. In both, a process that dies before its commit leaves nothing behind, and one that dies
after it has its reservation in the book.
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

#: A server may answer before a commit has reached the disk, if its settings say so.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)

PATIENCE = 60  # seconds to wait for others who write


class Tables:
    """A database with a book in it; arguments and errors as `dpaudit.accountants.book.Book` has them."""

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
            raise self._no_book()  # connecting would make the file
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
        """A transaction that excludes other writers from what it has locked."""
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
        """A transaction that adds nothing."""
        with self._named_errors(), self._engine.begin() as connection:
            yield connection

    def datasets(self, connection: Connection) -> list[str]:
        """The names of all accounts."""
        column = self._table("accounts").c.dataset
        names = list(connection.execute(self._sql.select(column).order_by(column)).scalars())
        if not all(isinstance(name, str) for name in names):
            raise BookFormat("an account without a name", where=self.shown)
        return names

    def account(self, connection: Connection, dataset: str) -> dict[str, Any] | None:
        """An account's row, locked until the transaction ends; None where there is none."""
        table = self._table("accounts")
        query = self._sql.select(table).where(table.c.dataset == dataset).with_for_update()
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else dict(row)

    def dataset_of(self, connection: Connection, reservation: str) -> str | None:
        """The data set that a reservation is for."""
        table = self._table("events")
        query = self._sql.select(table.c.dataset).where(table.c.reservation == reservation).limit(1)
        found: str | None = connection.execute(query).scalar_one_or_none()
        return found

    def events(self, connection: Connection, dataset: str) -> list[dict[str, Any]]:
        """An account's events, oldest first."""
        table = self._table("events")
        query = self._sql.select(table).where(table.c.dataset == dataset).order_by(table.c.number)
        return [dict(row) for row in connection.execute(query).mappings()]

    def add(self, connection: Connection, table: str, row: dict[str, Any]) -> None:
        """Add one row to a table."""
        connection.execute(self._table(table).insert().values(**row))

    def _require_tables(self, *, make: bool) -> None:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Two who create at once would both find nothing there; the number is any that all agree on.
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
                    why = "what is written there belongs to something else"
                    remedy = "name a new file, a book, or another database"
                    raise UsageError(what, where=self.shown, why=why, remedy=remedy)

    def _no_book(self) -> UsageError:
        why = "nothing is reserved or spent where no budget was stated"
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
