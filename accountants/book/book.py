"""The budget book of one or more data sets: reserve before a run, spend after it."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from dpaudit.accountants.accounting import account as account_for
from dpaudit.accountants.book import accounts
from dpaudit.accountants.book.accounts import (
    Account,
    Budget,
    cost_text,
    look,
    require_budget,
    require_name,
    require_shown,
    require_words,
)
from dpaudit.accountants.book.tables import Tables
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import BudgetExceeded, CannotBound, ClaimMismatch, NotCertifiable, UsageError
from dpaudit.ledger.ledger import Ledger

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Book:
    """Spending of data sets over all runs, on disk, shared by every process that opens the book.

    A reservation counts from the moment it is made, even if the run crashes. Any process that knows its name
    can spend it later, or cancel it once it is certain that nothing was released. `address` is a file for
    SQLite, or a URL such as ``postgresql://user@host/database``. `make` creates the book if it does not
    exist.

    Raises `BookUnavailable`: the database does not answer; `UsageError`: the address is of another kind, the
    database has other content, or there is no book; `MissingExtra`: SQLAlchemy or a driver is not installed.
    """

    def __init__(self, address: str | Path, *, make: bool = True) -> None:
        self._tables = Tables(address, make=make)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._tables.close()

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of all accounts."""
        with self._tables.reading() as connection:
            return tuple(self._tables.datasets(connection))

    def account(self, dataset: str) -> Account:
        """Return a data set's current account. Raises `UsageError`: no account has this name."""
        with self._tables.reading() as connection:
            return self._locked_account(connection, dataset)

    def open_account(
        self,
        dataset: str,
        budget: AnyGuarantee,
        *,
        unit: str,
        neighbouring: Neighbouring | str,
        trust_model: TrustModel | str = TrustModel.CENTRAL,
    ) -> Account:
        """Give a data set a permanent budget.

        Raises `InvalidParameter`: runs do not add up on the budget's scale; `UsageError`: the data set
        already has an account, or the data set or the unit has no name.
        """
        kept = require_budget(budget, where=f"account {dataset!r}")
        claim = Claim(kept, unit=unit, neighbouring=neighbouring, trust_model=trust_model)
        dataset = require_name(dataset, "data set's name", where="open_account")
        require_words(unit, "unit of privacy", where=f"account {dataset!r}")
        require_shown(kept, where=f"account {dataset!r}")
        with self._tables.writing() as connection:
            for other in self._tables.datasets(connection):
                if look(other) == look(dataset):
                    raise self._name_taken(dataset, other)
            row = {"dataset": dataset, "schema": accounts.SCHEMA, "budget": cost_text(kept), "unit": unit}
            about = {"neighbouring": str(claim.neighbouring), "trust_model": str(claim.trust_model)}
            self._tables.add(connection, "accounts", {**row, **about, "at": _now()})
            return self._locked_account(connection, dataset)

    def reserve(self, dataset: str, cost: AnyGuarantee, *, note: str = "") -> str:
        """Set a run's cost aside before the run starts; return the reservation's name.

        Raises `BudgetExceeded`: it does not fit, and nothing is set aside; `ClaimMismatch`: the cost and the
        budget are on different scales; `UsageError`: no such account.
        """
        require_words(note, "note", where=f"account {dataset!r}", empty=True)
        with self._tables.writing() as connection:
            account = self._locked_account(connection, dataset)
            wanted = _same_scale(account, cost)
            if not account.fits(wanted):
                raise _refusal(account, wanted)
            reservation = secrets.token_hex(4)
            while self._tables.dataset_of(connection, reservation) is not None:
                reservation = secrets.token_hex(4)
            self._note(connection, account.dataset, reservation, "reserve", wanted, note=note)
            return reservation

    def spend(self, reservation: str, ledger: Ledger | None = None, *, published: bool = False) -> Account:
        """Replace a reservation by the run's cost from its ledger.

        Without a ledger the whole reservation is spent, as for a run that was cut short. If others already
        know the run's output (`published`), its cost is entered even if it does not fit.

        Raises:
            BudgetExceeded: the run cost more than was reserved, and does not fit; the reservation stands.
            ClaimMismatch: the ledger is about another unit, relation or trust model.
            CannotBound: the ledger has no bound on the budget's scale, or one of its premises fails.
            NotCertifiable, LedgerTruncated: the ledger is unhashed, unfinished, without noise or seeded.
            UsageError: the reservation is unknown or settled, or the ledger was spent under another one.
        """
        with self._tables.writing() as connection:
            account = self._account_of(connection, reservation)
            cost = None if ledger is None else _cost_of(ledger, account)
            if ledger is not None and self._spent_already(account, reservation, ledger):
                return account
            entry = self._reserved_cost(account, reservation)
            paid = entry if cost is None else cost
            if not published and not account.fits(paid, instead_of=entry):
                raise _refusal(account, paid, reserved=entry)
            hashed = None if ledger is None else _run_hash(ledger)
            note = "" if ledger is None or hashed else f"{_NO_RUN}{ledger.hash}"
            self._note(connection, account.dataset, reservation, "spend", paid, ledger_hash=hashed, note=note)
            return self._locked_account(connection, account.dataset)

    def cancel(self, reservation: str, *, note: str) -> Account:
        """Give back the reservation of a run that released nothing, for the reason in `note`.

        Raises `UsageError`: the reservation is unknown or settled, or the note is empty.
        """
        if not note.strip():
            what, where = "a cancellation without a reason", f"reservation {reservation}"
            why = "budget may come back only if it is certain that nothing was released"
            raise UsageError(what, where=where, why=why, remedy="state in the note how you know that")
        require_words(note, "note", where=f"reservation {reservation}")
        with self._tables.writing() as connection:
            account = self._account_of(connection, reservation)
            self._reserved_cost(account, reservation)
            free = accounts.nothing(account.budget)
            self._note(connection, account.dataset, reservation, "cancel", free, note=note)
            return self._locked_account(connection, account.dataset)

    def _name_taken(self, dataset: str, other: str) -> UsageError:
        """Return the error for a second account with the same name or a name that looks the same."""
        if dataset == other:
            what, why = (
                f"{dataset!r} has an account already",
                "a budget that can be changed later limits nothing",
            )
            remedy = "look at it with `dpaudit book show`"
        else:
            what = f"{dataset!r} looks like {other!r}, which has an account ({dataset!a}, {other!a})"
            why = "one data set would have two budgets, and both could be spent"
            remedy = "use that account, or choose a name that looks different"
        return UsageError(what, where=self._tables.shown, why=why, remedy=remedy)

    def _locked_account(self, connection: Connection, dataset: str) -> Account:
        spelled = require_name(dataset, "data set's name", where=self._tables.shown)
        row = self._tables.account(connection, dataset)
        if row is None:  # a book of an earlier version may keep another spelling, which takes precedence
            row = self._tables.account(connection, spelled)
            dataset = dataset if row is None else spelled
        if row is None:
            known = ", ".join(self._tables.datasets(connection)) or "none"
            what, where = f"no account {dataset!r}; there are: {known}", self._tables.shown
            why = "a data set without an account has no budget"
            raise UsageError(what, where=where, why=why, remedy="open one with `dpaudit book open`")
        events = self._tables.events(connection, dataset)
        return accounts.account_of(row, events, where=self._tables.shown)

    def _account_of(self, connection: Connection, reservation: str) -> Account:
        require_words(reservation, "reservation", where=self._tables.shown)
        dataset = self._tables.dataset_of(connection, reservation)
        if dataset is None:
            what = f"no reservation {reservation!r}"
            why = "only a reservation can be spent or cancelled"
            remedy = "reserve first; `dpaudit book show` lists the open reservations"
            raise UsageError(what, where=self._tables.shown, why=why, remedy=remedy)
        return self._locked_account(connection, dataset)

    def _reserved_cost(self, account: Account, reservation: str) -> Budget:
        """Return the cost that an unsettled reservation counts."""
        entry = next(entry for entry in account.entries if entry.reservation == reservation)
        if entry.state != "reserved":
            where, why = f"reservation {reservation}", "a run is settled once"
            remedy = "reserve again for another run"
            raise UsageError(f"{entry.state} already", where=where, why=why, remedy=remedy)
        return entry.cost

    def _spent_already(self, account: Account, reservation: str, ledger: Ledger) -> bool:
        """Return whether this run was already spent under this reservation: a second time counts nothing."""
        run = _run_hash(ledger)
        spent = next((e.reservation for e in account.events if run and e.ledger_hash == run), None)
        if spent not in {None, reservation}:
            what, where = f"this ledger was spent under reservation {spent}", f"reservation {reservation}"
            remedy = "give the ledger of this reservation's own run"
            raise UsageError(what, where=where, why="one run is spent once", remedy=remedy)
        return spent is not None

    def _note(
        self,
        connection: Connection,
        dataset: str,
        reservation: str,
        action: str,
        cost: Budget,
        **rest: str | None,
    ) -> None:
        """Write an event; `rest` holds its note and ledger_hash."""
        row = {"dataset": dataset, "reservation": reservation, "action": action, "at": _now(), **rest}
        self._tables.add(connection, "events", {**row, "cost": cost_text(cost)})


#: Note for a hand-written ledger: two runs may have equal ledgers, so each one counts.
_NO_RUN = "of a ledger that names no run: "


def _run_hash(ledger: Ledger) -> str | None:
    """Return the ledger's hash if it identifies the run."""
    return None if ledger.header.run is None else ledger.hash


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


#: How to settle a reservation whose run has no figure.
_UNKNOWN_COST = (
    "do not publish the run's output: cancel the reservation with a note that says so, and {instead}; if the "
    "output is already known, spend the reservation without the ledger, and state no guarantee for it"
)


def _cost_of(ledger: Ledger, account: Account) -> Budget:
    """Return a run's cost on the scale of an account's budget, rounded up; errors as in `Book.spend`."""
    ledger.require_certifiable()
    place = f"ledger of {ledger.header.algorithm!r}"
    if ledger.header.noise.seeded:
        covered = "anyone who knows the seed can subtract the noise, so no figure bounds the output's cost"
        why = f"{covered}, and two seeded runs can have the same ledger"
        remedy = _UNKNOWN_COST.format(instead="run it again without a seed")
        raise NotCertifiable("a run whose noise came from a known seed", where=place, why=why, remedy=remedy)
    failing = [str(premise) for premise in getattr(ledger.claim, "premises", ()) if not premise.holds]
    if failing:
        why = "without the premise, the figure of the releases may be smaller than the run's cost"
        remedy = _UNKNOWN_COST.format(instead="run it again with parameters that meet it")
        raise CannotBound(f"a premise fails: {'; '.join(failing)}", where=place, why=why, remedy=remedy)
    about = {"unit": account.unit, "neighbouring": account.neighbouring, "trust_model": account.trust_model}
    found = account_for(ledger, Claim(account.budget, **about)).bounds
    if not found:
        what = f"the run of {ledger.header.algorithm!r} has no bound on the scale of {account.budget}"
        remedy = "keep the budget on a scale that all its mechanisms have, such as zCDP"
        raise CannotBound(what, where=f"account {account.dataset!r}", remedy=remedy)
    return _same_scale(account, found[0].guarantee)


def _same_scale(account: Account, cost: AnyGuarantee) -> Budget:
    """Return the cost if it is on the scale of the account's budget."""
    found = require_budget(cost, where=f"account {account.dataset!r}")
    if type(found) is not type(account.budget):
        what = f"a cost of {found}, but the budget is {account.budget}"
        remedy = "state it on the budget's scale, as `dpaudit epsilon` prints it for the run's mechanisms"
        raise ClaimMismatch(what, where=f"account {account.dataset!r}", remedy=remedy)
    return found


def _refusal(account: Account, wanted: Budget, *, reserved: Budget | None = None) -> BudgetExceeded:
    """Return the error for a cost that does not fit, or does not fit in place of the `reserved` cost."""
    instead = "" if reserved is None else f" instead of the {reserved} reserved"
    remedy = "add noise, release less, or do not run it: a budget can be spent only once"
    if reserved is not None:
        remedy = "do not publish the run's output; if it is known already, enter the cost as published"
    spent = f"{account.committed} of {account.budget} is reserved or spent, {account.remaining} is left"
    why = "above the budget the data set's guarantee does not hold"
    where = f"account {account.dataset!r}"
    return BudgetExceeded(f"{wanted}{instead} is refused: {spent}", where=where, why=why, remedy=remedy)
