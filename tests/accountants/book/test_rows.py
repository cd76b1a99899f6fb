"""Books that were damaged, or that another version wrote: never read as if nothing had been spent."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from dpaudit import ZCDP
from dpaudit.accountants.book import Book
from dpaudit.errors import BookFormat, InvalidParameter, UsageError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book with a reservation that is spent, one that was cancelled, and one that is open."""
    path = tmp_path_factory.mktemp("made") / "book.sqlite"
    with Book(path) as book:
        book.open_account("patients", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
        names = [book.reserve("patients", ZCDP(rho=0.25)) for _ in range(3)]
        book.spend(names[0])
        book.cancel(names[1], note="never started")
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of that book."""
    return shutil.copy(made, tmp_path / "book.sqlite")


def change(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_an_innocent_twin(path: Path) -> None:
    change(path, "UPDATE dpaudit_events SET note = 'another'")
    with Book(path) as book:
        assert book.account("patients").remaining == ZCDP(rho=0.5)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("schema", "dpaudit.book/99"),
        ("schema", ""),
        ("budget", "{"),
        ("budget", '{"kind": "zcdp", "rho": -1.0}'),
        ("budget", '{"kind": "zcdp", "rho": -0.0}'),
        ("budget", '{"kind": "zcdp", "rho": 1e999}'),
        ("budget", '{"kind": "zcdp", "rho": 1e-400}'),
        ("budget", '{"kind": "zcdp", "rho": 1.0, "rho": 2.0}'),
        ("budget", '{"kind": "approx-dp", "epsilon": 1.0, "delta": 1e-6}'),
        ("budget", '{"kind": "hope"}'),
        ("budget", "3"),
        ("budget", b"\x00\x01"),
        ("unit", ""),
        ("neighbouring", "similar"),
        ("trust_model", "blind"),
    ],
)
def test_an_account_that_no_call_of_the_book_writes(path: Path, column: str, value: object) -> None:
    change(path, f"UPDATE dpaudit_accounts SET {column} = ?", value)  # noqa: S608  (the names stand above)
    with Book(path) as book, pytest.raises(BookFormat, match="account 'patients'"):
        book.account("patients")
    with Book(path) as book, pytest.raises(BookFormat):
        book.reserve("patients", ZCDP(rho=0.1))


@pytest.mark.parametrize("number", [1, 4, 5])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("cost", "{"),
        ("cost", "[" * 100_000),
        ("cost", '{"kind": "zcdp", "rho": -0.25}'),
        ("cost", '{"kind": "zcdp", "rho": NaN}'),
        ("cost", '{"kind": "gdp", "mu": 0.25}'),
        ("cost", '{"kind": "pure-dp", "epsilon": 0.25}'),
        ("action", "refund"),
        ("action", ""),
    ],
)
def test_an_event_that_no_call_of_the_book_writes(
    path: Path, number: int, column: str, value: object
) -> None:
    statement = f"UPDATE dpaudit_events SET {column} = ? WHERE number = ?"  # noqa: S608  (the names stand above)
    change(path, statement, value, number)
    with Book(path) as book, pytest.raises(BookFormat, match=f"event {number}"):
        book.account("patients")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpaudit_events SET action = 'reserve' WHERE number = 4",
        "UPDATE dpaudit_events SET action = 'spend' WHERE number = 1",
        "UPDATE dpaudit_events SET reservation = 'ffffffff' WHERE number = 4",
        "DELETE FROM dpaudit_events WHERE number = 1",
        "UPDATE dpaudit_events SET action = 'cancel' WHERE number = 4",
        (
            "INSERT INTO dpaudit_events SELECT 9, dataset, reservation, 'cancel', cost, NULL, note, at "
            "FROM dpaudit_events WHERE number = 5"
        ),
    ],
)
def test_an_order_of_events_that_there_never_was(path: Path, statement: str) -> None:
    change(path, statement)
    with Book(path) as book, pytest.raises(BookFormat, match=r"out of order|a cancellation that counts"):
        book.account("patients")


@pytest.mark.parametrize("name", ["", " ", "a\udcff", "a\nb", "a\x00b"])
def test_names_that_no_reader_can_tell_are_refused(path: Path, name: str) -> None:
    with Book(path) as book:
        for dataset, unit in ((name, "row"), ("others", name)):
            with pytest.raises(UsageError):
                book.open_account(dataset, ZCDP(rho=1.0), unit=unit, neighbouring="replace-one")
        with pytest.raises(UsageError):
            book.account(name)
        with pytest.raises(UsageError):
            book.spend(name)
        if name.strip():
            with pytest.raises(UsageError):
                book.reserve("patients", ZCDP(rho=0.1), note=name)
        assert book.datasets == ("patients",)


def test_a_figure_below_nothing_is_refused(path: Path) -> None:
    with Book(path) as book:
        with pytest.raises(InvalidParameter, match=r"-0\.0"):
            book.open_account("others", ZCDP(rho=-0.0), unit="row", neighbouring="replace-one")
        with pytest.raises(InvalidParameter, match=r"-0\.0"):
            book.reserve("patients", ZCDP(rho=-0.0))
        book.reserve("patients", ZCDP(rho=0.0))
