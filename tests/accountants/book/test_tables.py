"""What holds between processes, and between a database and its settings."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP
from dpaudit.accountants.book import Book
from dpaudit.errors import BookUnavailable, BudgetExceeded, UsageError

Database = Callable[..., str]


def opened(address: str) -> Book:
    book = Book(address)
    book.open_account("patients", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
    return book


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_whoever_waited_sees_what_was_reserved_meanwhile(
    database: Database, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second asks while the first has reserved everything and not yet committed."""
    url = database(default_transaction_isolation=isolation)
    with opened(url) as first, Book(url) as second:
        outcome: list[object] = []

        def late() -> None:
            try:
                outcome.append(second.reserve("patients", ZCDP(rho=1.0)))
            except BudgetExceeded as error:
                outcome.append(error)

        waiting = threading.Thread(target=late)
        add = first._tables.add

        def slow(*arguments: Any) -> None:
            add(*arguments)
            waiting.start()
            waiting.join(timeout=1.0)
            assert waiting.is_alive()  # on the account's row

        monkeypatch.setattr(first._tables, "add", slow)
        first.reserve("patients", ZCDP(rho=1.0))
        waiting.join(timeout=30)
        assert [type(one) for one in outcome] == [BudgetExceeded]
        assert first.account("patients").committed == ZCDP(rho=1.0)


def test_an_answer_means_that_it_is_on_the_disk(database: Database) -> None:
    with opened(database(synchronous_commit="off")) as book, book._tables.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
    stricter = database(synchronous_commit="remote_apply")
    with opened(stricter) as book, book._tables.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "remote_apply"


def test_a_commit_without_an_answer_is_said_to_be_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    commit = psycopg.Connection.commit

    def lost(connection: Any) -> None:
        commit(connection)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with opened(database()) as book:
        with monkeypatch.context() as cut:
            cut.setattr(psycopg.Connection, "commit", lost)
            unknown = r"may or may not hold(?s:.*)book show --history"
            with pytest.raises(BookUnavailable, match=unknown) as caught:
                book.reserve("patients", ZCDP(rho=0.25), note="first")
            assert "nothing was reserved" not in str(caught.value)
        [entry] = book.account("patients").entries
        assert (entry.state, entry.note) == ("reserved", "first")


def test_a_connection_lost_before_the_commit_leaves_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(database()) as book:
        add = book._tables.add

        def ended(connection: Any, *arguments: Any) -> None:
            add(connection, *arguments)
            with Book(str(book._tables._engine.url.render_as_string(hide_password=False))) as other:
                process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
                with other._tables.reading() as killing:
                    killing.exec_driver_sql(f"SELECT pg_terminate_backend({process}, 5000)")
            connection.exec_driver_sql("SELECT 1")

        with monkeypatch.context() as cut:
            cut.setattr(book._tables, "add", ended)
            with pytest.raises(BookUnavailable, match="nothing was reserved"):
                book.reserve("patients", ZCDP(rho=0.25))
        assert book.account("patients").events == ()


def test_a_book_that_is_only_looked_at_is_not_made(tmp_path: Path, database: Database) -> None:
    path = tmp_path / "typo.sqlite"
    for address in (str(path), f"sqlite:///{path}", database()):
        with pytest.raises(UsageError, match="no budget book"):
            Book(address, make=False)
        assert not path.exists()
    for address in (str(path), database()):
        with opened(address):
            pass
        with Book(address, make=False) as book:
            assert book.datasets == ("patients",)


@pytest.mark.parametrize(
    "address",
    [
        ":memory:",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:b?mode=memory&uri=true",
        "file:b?mode=memory",
    ],
)
def test_a_book_in_memory_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="in memory"):
        Book(address)
