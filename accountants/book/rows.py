"""An account from the rows of a book, read as strictly as what others rely on must be.

Sums over lines that this version of dpaudit does not understand would say that budget is left. So whatever it
would not have written is refused, and never taken for nothing.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast, get_args

from pydantic import TypeAdapter

from dpaudit.accountants.book.accounts import Account, Action, Budget, Event, nothing, require_budget
from dpaudit.claims.guarantees import AnyGuarantee, Guarantee
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import BookFormat, UsageError
from dpaudit.json_text import strictly_parsed

SCHEMA: Final = "dpaudit.book/1"

_GUARANTEE: TypeAdapter[AnyGuarantee] = TypeAdapter(Guarantee)


def cost_text(cost: Budget) -> str:
    """A cost as a row holds it."""
    return json.dumps(cost.to_json())


def require_words(words: str, what: str, *, where: str, empty: bool = False) -> str:
    """The words, if a database of either kind can keep them and a reader can tell them from others.

    Raises:
        UsageError: no words, or control characters, or bytes that are no UTF-8.
    """
    if any(unicodedata.category(one) in {"Cc", "Cs"} for one in words):
        raise UsageError(
            f"{what} {ascii(words)[:60]}, with characters that are none",
            where=where,
            why="not every database can keep them, and no reader could tell two such names apart",
            remedy="write it in UTF-8, without line breaks and control characters",
        )
    if not empty and not words.strip():
        raise UsageError(
            f"no {what}", where=where, why="nobody could say whom the budget protects", remedy="name it"
        )
    return words


def account_of(row: Mapping[str, Any], events: list[dict[str, Any]], *, where: str) -> Account:
    """The account of a row and its events.

    Raises:
        BookFormat: a row that this version would not have written.
    """
    dataset = str(row["dataset"])
    place = f"{where}: account {dataset!r}"
    if row["schema"] != SCHEMA:
        raise BookFormat(
            f"schema {row['schema']!r} where this version reads {SCHEMA!r}",
            where=place,
            why="lines of another version may count otherwise",
            remedy="use the version of dpaudit that wrote it",
        )
    budget = _cost(row["budget"], place)
    if not isinstance(row["unit"], str) or not row["unit"].strip():
        raise _damaged(row["unit"], place)
    return Account(
        dataset=dataset,
        budget=budget,
        unit=row["unit"],
        neighbouring=Neighbouring(_one_of(Neighbouring, row["neighbouring"], place)),
        trust_model=TrustModel(_one_of(TrustModel, row["trust_model"], place)),
        events=_events(events, budget, place),
    )


def _events(rows: list[dict[str, Any]], budget: Budget, place: str) -> tuple[Event, ...]:
    """The events; each reservation is made once, and settled once at most."""
    found: list[Event] = []
    unsettled: dict[str, bool] = {}
    for row in rows:
        at = f"{place}, event {row['number']}"
        event = Event(
            number=row["number"],
            reservation=row["reservation"],
            action=cast("Action", _one_of(get_args(Action), row["action"], at)),
            cost=_cost(row["cost"], at),
            ledger_hash=row["ledger_hash"],
            note=row["note"],
            at=row["at"],
        )
        if type(event.cost) is not type(budget):
            raise BookFormat(f"a cost of {event.cost} against a budget of {budget}", where=at)
        if event.action == "cancel" and event.cost != nothing(budget):
            raise BookFormat(f"a cancellation that counts {event.cost}", where=at)
        if (event.action == "reserve") == (event.reservation in unsettled) or (
            event.action != "reserve" and not unsettled[event.reservation]
        ):
            raise BookFormat(f"{event.action!r} out of order for {event.reservation}", where=at)
        unsettled[event.reservation] = event.action == "reserve"
        found.append(event)
    return tuple(found)


def _cost(text: Any, place: str) -> Budget:
    try:
        return require_budget(_GUARANTEE.validate_python(strictly_parsed(text)), where=place)
    except (ValueError, TypeError, RecursionError):  # every InputError is a ValueError
        raise _damaged(text, place) from None


def _one_of(known: Iterable[str], value: Any, place: str) -> Any:
    if value not in tuple(known):
        raise _damaged(value, place)
    return value


def _damaged(value: Any, place: str) -> BookFormat:
    return BookFormat(f"{str(value)[:60]!r}, which dpaudit does not write there", where=place)
