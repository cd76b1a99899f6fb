import signal
import sqlite3
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpaudit import GDP, ZCDP, ApproxDP, Claim, Curator, Ledger, Premise, PureDP, run
from dpaudit.accountants.book import Book
from dpaudit.claims.guarantees import AnyGuarantee, leading_figure
from dpaudit.errors import (
    BookFormat,
    BookUnavailable,
    BudgetExceeded,
    CannotBound,
    ClaimMismatch,
    DpauditError,
    InvalidParameter,
    LedgerTruncated,
    NotCertifiable,
    UsageError,
)
from tests import make

CLAIM = Claim(ZCDP(rho=1.0), unit="row", neighbouring="replace-one")


def ledger(rho: float, *, unit: str = "row", **options: Any) -> Ledger:
    """Of a run that really costs rho."""

    def algorithm(data: Any, curator: Curator) -> Any:
        return curator.release(data, make.gaussian((0.5 / rho) ** 0.5), label="sum")

    claim = Claim(ZCDP(rho=10.0), unit=unit, neighbouring="replace-one")
    return run(algorithm, np.zeros(1), claim=claim, **options).ledger


def opened(address: str, budget: AnyGuarantee | None = None) -> Book:
    book = Book(address)
    book.open_account("patients", budget or ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
    return book


def test_reserve_spend_refuse(address: str) -> None:
    with opened(address) as book:
        first = book.reserve("patients", ZCDP(rho=0.75), note="first")
        with pytest.raises(BudgetExceeded, match=r"0.25-zCDP is left"):
            book.reserve("patients", ZCDP(rho=0.5))
        account = book.spend(first, ledger(0.5))
        assert isinstance(account.spent, ZCDP)
        assert account.spent.rho == pytest.approx(0.5, rel=1e-12)
        assert account.spent.rho >= 0.5 * (1 - 1e-15)
        second = book.reserve("patients", ZCDP(rho=0.5 - 1e-9))
        book.cancel(second, note="never started")
        assert book.account("patients").committed == account.spent
    with Book(address) as again:  # durable
        events = again.account("patients").events
        assert [event.action for event in events] == ["reserve", "spend", "reserve", "cancel"]
        assert events[0].note == "first"
        assert again.datasets == ("patients",)


def test_a_run_that_cost_more_than_was_reserved(address: str) -> None:
    with opened(address) as book:
        small, large = book.reserve("patients", ZCDP(rho=0.1)), book.reserve("patients", ZCDP(rho=0.8))
        book.spend(small, ledger(0.19))  # the rest still fits
        costly = ledger(0.9)
        with pytest.raises(BudgetExceeded, match=r"instead of the .* reserved"):
            book.spend(large, costly)
        assert book.account("patients").entries[1].state == "reserved"
        account = book.spend(large, costly, published=True)  # known already: the book records it
        assert account.remaining == ZCDP(rho=0.0)
        assert account.committed.rho > 1.0  # type: ignore[union-attr]
        with pytest.raises(BudgetExceeded):
            book.reserve("patients", ZCDP(rho=1e-300))


def test_one_run_is_spent_once(address: str) -> None:
    with opened(address) as book:
        one, other = book.reserve("patients", ZCDP(rho=0.2)), book.reserve("patients", ZCDP(rho=0.2))
        found = ledger(0.1)
        before = book.spend(one, found)
        assert book.spend(one, found) == before  # asked again after an answer that was lost
        with pytest.raises(UsageError, match="was spent under"):
            book.spend(other, found)
        with pytest.raises(UsageError, match="spent already"):
            book.spend(one, ledger(0.1))
        with pytest.raises(UsageError, match="spent already"):
            book.cancel(one, note="no")


@pytest.mark.parametrize("published", [False, True])
def test_a_run_with_a_seed_has_no_price(address: str, published: bool) -> None:
    """Two such runs, on other data too, have one ledger: the second counted nothing."""
    one, other = ledger(0.1, seed=7), ledger(0.1, seed=8)
    assert one.hash == other.hash
    with opened(address) as book:
        reservation = book.reserve("patients", ZCDP(rho=0.2))
        for seeded in (one, other):
            with pytest.raises(NotCertifiable, match=r"known seed(?s:.*)do not publish"):
                book.spend(reservation, seeded, published=published)
        assert book.account("patients").entries[0].state == "reserved"
        assert book.spend(reservation).spent == ZCDP(rho=0.2)  # the way out that is named


@pytest.mark.parametrize("published", [False, True])
def test_a_run_whose_premise_fails_has_no_price(address: str, published: bool) -> None:
    def premised(right: float) -> Ledger:
        held = Premise(name="records", left=100, relation=">=", right=right, source="Theorem 1")
        broken = Premise(name="horizon", left=2, relation="<", right=3)
        found = ledger(0.1)
        claim = Claim(ZCDP(rho=10.0), unit="row", neighbouring="replace-one", premises=(held, broken))
        return make.ledger(*found.releases, **{**dict(found.header), "claim": claim})

    with opened(address) as book:
        reservation = book.reserve("patients", ZCDP(rho=0.2))
        with pytest.raises(CannotBound, match=r"records: 100 >= 1000(?s:.*)without the ledger") as caught:
            book.spend(reservation, premised(1000), published=published)
        assert "horizon" not in str(caught.value)
        assert book.account("patients").entries[0].state == "reserved"
        account = book.spend(reservation, premised(100))  # its innocent twin
        assert account.spent.rho == pytest.approx(0.1, rel=1e-12)  # type: ignore[union-attr]


def test_a_ledger_that_names_no_run_counts_each_time(address: str) -> None:
    found = ledger(0.1)
    by_hand = make.ledger(*found.releases, **{**dict(found.header), "run": None})
    with opened(address) as book:
        one, other = book.reserve("patients", ZCDP(rho=0.2)), book.reserve("patients", ZCDP(rho=0.2))
        book.spend(one, by_hand)
        with pytest.raises(UsageError, match="spent already"):
            book.spend(one, by_hand)
        account = book.spend(other, by_hand)
        assert account.spent.rho == pytest.approx(0.2, rel=1e-12)  # type: ignore[union-attr]
        assert account.events[-1].note.endswith(by_hand.hash)


def test_a_run_cut_short_costs_what_was_reserved(address: str) -> None:
    with opened(address) as book:
        reservation = book.reserve("patients", ZCDP(rho=0.2))
        assert book.spend(reservation).spent == ZCDP(rho=0.2)


def test_ten_tenths_make_a_whole_and_not_more(address: str) -> None:
    with opened(address) as book:
        for _ in range(10):
            book.reserve("patients", ZCDP(rho=0.1))
        with pytest.raises(BudgetExceeded):
            book.reserve("patients", ZCDP(rho=1e-6))


@pytest.mark.parametrize(
    ("budget", "costs", "left"),
    [
        (GDP(mu=1.0), [GDP(mu=0.6)], GDP(mu=0.8)),  # squares add up
        (PureDP(epsilon=1.0), [PureDP(epsilon=0.25)] * 2, PureDP(epsilon=0.5)),
        (ZCDP(rho=1.0), [ZCDP(rho=0.25)] * 3, ZCDP(rho=0.25)),
    ],
)
def test_every_scale(address: str, budget: AnyGuarantee, costs: list[AnyGuarantee], left: Any) -> None:
    with opened(address, budget) as book:
        for cost in costs:
            book.reserve("patients", cost)
        remaining = book.account("patients").remaining
        assert type(remaining) is type(left)
        figure, wanted = leading_figure(remaining), leading_figure(left)
        assert wanted * (1 - 1e-14) <= figure <= wanted * (1 + 1e-14)
        with pytest.raises(BudgetExceeded):
            book.reserve("patients", type(left)(**{**left.to_json(), **_raised(left)}))


def _raised(cost: Any) -> dict[str, float]:
    return {name: value * 1.001 for name, value in cost.to_json().items() if name != "kind"}


def test_mistakes_are_named_and_nothing_is_written(address: str) -> None:
    with opened(address) as book:
        before = book.account("patients")
        reservation = book.reserve("patients", ZCDP(rho=0.5))
        mistakes: list[tuple[type[DpauditError], Any]] = [
            (UsageError, lambda: book.reserve("nobody", ZCDP(rho=0.1))),
            (UsageError, lambda: book.spend("ffff")),
            (UsageError, lambda: book.cancel("ffff", note="x")),
            (UsageError, lambda: book.cancel(reservation, note=" ")),
            (UsageError, lambda: book.open_account(" ", ZCDP(rho=1), unit="row", neighbouring="zero-out")),
            (
                UsageError,
                lambda: book.open_account("patients", ZCDP(rho=9), unit="r", neighbouring="zero-out"),
            ),
            (ClaimMismatch, lambda: book.reserve("patients", GDP(mu=0.1))),
            (InvalidParameter, lambda: book.reserve("patients", ApproxDP(epsilon=0.1, delta=1e-6))),
            (ClaimMismatch, lambda: book.spend(reservation, ledger(0.1, unit="user"))),
            (NotCertifiable, lambda: book.spend(reservation, Ledger(ledger(0.1).header))),
        ]
        for kind, mistake in mistakes:
            with pytest.raises(kind):
                mistake()
        account = book.account("patients")
        assert account.events[: len(before.events)] == before.events
        assert len(account.events) == 1
        assert book.datasets == ("patients",)


def test_a_ledger_cut_short_is_not_taken_for_a_run(tmp_path: Path) -> None:
    path = ledger(0.1).write(tmp_path / "l.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises((LedgerTruncated, NotCertifiable)), opened(str(tmp_path / "book.sqlite")) as book:
        book.spend(book.reserve("patients", ZCDP(rho=0.5)), Ledger.read(path, allow_truncated=True))


def test_laplace_against_a_zcdp_budget(address: str) -> None:
    def algorithm(data: Any, curator: Curator) -> Any:
        return curator.release(data, make.laplace(10.0), label="sum")

    with opened(address) as book:
        reservation = book.reserve("patients", ZCDP(rho=0.01))
        account = book.spend(reservation, run(algorithm, np.zeros(1), claim=CLAIM).ledger)
        assert isinstance(account.spent, ZCDP)
        assert 0.0 < account.spent.rho <= 0.1**2 / 2  # Bun and Steinke 2016, Proposition 1.4


RESERVING = """
import sys
from dpaudit import ZCDP
from dpaudit.accountants.book import Book
from dpaudit.errors import BudgetExceeded
won = 0
with Book(sys.argv[1]) as book:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(8):
        try:
            book.reserve("patients", ZCDP(rho=0.0625))
            won += 1
        except BudgetExceeded:
            pass
print(won)
"""

DYING = """
import os, signal, sys
from dpaudit import ZCDP
from dpaudit.accountants.book import Book
with Book(sys.argv[1]) as book:
    if sys.argv[2] == "before the commit":
        add = book._tables.add
        def dying(*arguments):
            add(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        book._tables.add = dying
    book.reserve("patients", ZCDP(rho=0.5))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _started(python: list[str], code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [*python, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_no_two_processes_have_the_same_budget(address: str, python: list[str]) -> None:
    with opened(address) as book:
        workers = [_started(python, RESERVING, address) for _ in range(4)]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        answers = [worker.communicate("go\n", timeout=120)[0] for worker in workers]
        account = book.account("patients")
        assert sum(map(int, answers)) == 16  # of 32 attempts, exactly as many as fit
        assert account.committed == ZCDP(rho=1.0)
        assert len(account.events) == 16


@pytest.mark.parametrize(("at", "kept"), [("before the commit", 0), ("after the commit", 1)])
def test_a_crash_loses_nothing_and_leaks_nothing(address: str, python: list[str], at: str, kept: int) -> None:
    with opened(address) as book:
        worker = _started(python, DYING, address, at)
        worker.communicate(timeout=120)
        assert worker.returncode == -signal.SIGKILL
        account = book.account("patients")
        assert len(account.entries) == kept
        assert account.remaining == ZCDP(rho=1.0 - 0.5 * kept)
        for entry in account.entries:  # whoever comes next can settle it
            left = book.spend(entry.reservation, ledger(0.25)).remaining
            assert left.rho == pytest.approx(0.75, rel=1e-12)  # type: ignore[union-attr]


STEPS = st.lists(
    st.tuples(st.sampled_from(["reserve", "spend", "cancel"]), st.floats(0.0, 0.6), st.integers(0, 5)),
    max_size=12,
)


@settings(
    max_examples=min(25, settings().max_examples // 2),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_the_book_agrees_with_sums_by_hand(
    steps: list[tuple[str, float, int]], tmp_path_factory: Any
) -> None:
    path = tmp_path_factory.mktemp("book") / "book.sqlite"
    counted: dict[str, Fraction] = {}
    unsettled: list[str] = []
    with opened(str(path)) as book:
        for action, cost, which in steps:
            if action == "reserve":
                fits = sum(counted.values()) + Fraction(cost) <= 1 + Fraction(1e-9)
                try:
                    name = book.reserve("patients", ZCDP(rho=cost))
                except BudgetExceeded:
                    assert not fits
                    continue
                assert fits
                counted[name] = Fraction(cost)
                unsettled.append(name)
            elif unsettled:
                name = unsettled.pop(which % len(unsettled))
                if action == "cancel":
                    book.cancel(name, note="nothing was released")
                    counted[name] = Fraction(0)
                else:
                    book.spend(name)
            account = book.account("patients")
            assert Fraction(account.committed.rho) >= sum(counted.values())  # type: ignore[union-attr]
            assert Fraction(account.remaining.rho) <= max(0, 1 - sum(counted.values()))  # type: ignore[union-attr]


def test_what_is_no_book_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be looked at " * 100)
    with pytest.raises(BookUnavailable, match="not a database"):
        Book(text)
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE dpaudit_events (other TEXT)")
    connection.close()
    with pytest.raises(UsageError, match="does not belong to a budget book"):
        Book(foreign)
    for wrong in (tmp_path / "absent" / "book.sqlite", "mysql://somewhere/book", "://", ""):
        with pytest.raises((UsageError, DpauditError)):
            Book(wrong)


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(BookUnavailable) as caught:
        Book("postgresql://someone:secret@127.0.0.1:1/book")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("spoilt", ["NULL", "CAST(x'66f4' AS TEXT)"], ids=["no name", "no text"])
def test_a_name_that_cannot_be_read_is_a_broken_book(tmp_path: Path, spoilt: str) -> None:
    address = str(tmp_path / "book.sqlite")
    with Book(address) as book:
        book.open_account("patients", ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
        assert list(book.datasets) == ["patients"]
    with sqlite3.connect(address) as connection:
        connection.execute(
            "PRAGMA writable_schema = ON"
        )  # what a damaged file can hold, and SQL cannot write
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
    connection.close()
    with sqlite3.connect(address) as connection:
        connection.execute(f"UPDATE dpaudit_accounts SET dataset = {spoilt}")  # noqa: S608  (ours)
    connection.close()
    with Book(address, make=False) as book, pytest.raises((BookFormat, BookUnavailable)) as caught:
        book.account("patients")
    assert caught.value.where == address
