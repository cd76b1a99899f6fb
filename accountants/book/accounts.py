"""A book's record of one data set: the events, the entries they form, and the remaining budget.

Costs add up over runs on three scales: rho, the square of mu, and pure epsilon. Later runs and their number
may be chosen after earlier results; the sum stays valid (`dpaudit.accountants.filters.filters`). Any content
that this version of dpaudit would not write is refused: a sum over lines with an unknown meaning could show
more budget than remains.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, assert_never, cast, get_args

from pydantic import TypeAdapter

from dpaudit.accountants.closed_forms.rounding import down, sqrt_down, sqrt_up, up
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE, leading_figure
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, Guarantee, PureDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import BookFormat, InvalidParameter, UsageError
from dpaudit.json_text import strictly_parsed

SCHEMA: Final = "dpaudit.book/1"

#: A guarantee that can be a budget: its scale adds up over runs.
Budget = PureDP | ZCDP | GDP

Action = Literal["reserve", "spend", "cancel"]
State = Literal["reserved", "spent", "cancelled"]

#: The state of a reservation after each action.
_STATES: dict[Action, State] = {"reserve": "reserved", "spend": "spent", "cancel": "cancelled"}

_GUARANTEE: TypeAdapter[AnyGuarantee] = TypeAdapter(Guarantee)


@dataclass(frozen=True)
class Event:
    """One line of the book, at its place `number`; lines are only ever added.

    `reservation` is eight hexadecimal digits; from here on it counts `cost`. `ledger_hash` is the last hash
    of the run's ledger, if the cost came from a ledger; `note` is the author's text; `at` is the time, UTC,
    ISO 8601.
    """

    number: int
    reservation: str
    action: Action
    cost: Budget
    ledger_hash: str | None
    note: str
    at: str


@dataclass(frozen=True)
class Entry:
    """A reservation and its current state."""

    reservation: str
    state: State
    cost: Budget
    note: str


@dataclass(frozen=True)
class Account:
    """A data set's budget, the unit, relation and trust model of every run, and all events, oldest first."""

    dataset: str
    budget: Budget
    unit: str
    neighbouring: Neighbouring
    trust_model: TrustModel
    events: tuple[Event, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every reservation in its current state."""
        notes = {event.reservation: event.note for event in reversed(self.events)}
        latest = {event.reservation: event for event in self.events}
        return tuple(Entry(name, _STATES[e.action], e.cost, notes[name]) for name, e in latest.items())

    @property
    def committed(self) -> Budget:
        """The sum of all reserved or spent costs, rounded up."""
        return _on_scale(self.budget, self._committed())

    @property
    def spent(self) -> Budget:
        """The sum of all spent costs, rounded up."""
        return _on_scale(self.budget, _sum(e.cost for e in self.entries if e.state == "spent"))

    @property
    def remaining(self) -> Budget:
        """The most that can still be reserved, rounded down; zero if the budget is overspent."""
        left = max(amount(self.budget) - self._committed(), Fraction(0))
        return _on_scale(self.budget, left, down)

    def fits(self, cost: Budget, instead_of: Budget | None = None) -> bool:
        """Return whether a cost still fits, optionally in place of a cost that already counts.

        Sums are exact. The usual tolerance of claims lets ten tenths fill a whole.
        """
        freed = 0 if instead_of is None else amount(instead_of)
        together = self._committed() - freed + amount(cost)
        return together <= amount(self.budget) * (1 + Fraction(CLAIM_TOLERANCE))

    def _committed(self) -> Fraction:
        return _sum(entry.cost for entry in self.entries)


def amount(cost: Budget) -> Fraction:
    """Return the exact quantity that adds up over runs: rho, the square of mu, or epsilon."""
    figure = Fraction(leading_figure(cost))
    return figure**2 if isinstance(cost, GDP) else figure


def nothing(budget: Budget) -> Budget:
    """Return a zero cost on a budget's scale."""
    return _on_scale(budget, Fraction(0))


def require_budget(guarantee: AnyGuarantee, where: str) -> Budget:
    """Return the guarantee if runs add up on its scale.

    Raises `InvalidParameter`: they do not add up, or the figure is -0.
    """
    if isinstance(guarantee, PureDP | ZCDP | GDP):
        if math.copysign(1.0, leading_figure(guarantee)) < 0:
            what, why = f"a figure of {leading_figure(guarantee)}", "a cost is never negative"
            raise InvalidParameter(what, where=where, why=why, remedy="give 0, or more")
        return guarantee
    why = "the remainder after a run depends on its composition with all other runs"
    remedy = "state it as zCDP, GDP or pure DP; `budget_for` gives the largest rho that proves it"
    raise InvalidParameter(f"a budget of {guarantee}", where=where, why=why, remedy=remedy)


def _sum(costs: Iterable[Budget]) -> Fraction:
    return sum(map(amount, costs), Fraction(0))


def _on_scale(budget: Budget, total: Fraction, rounded: Callable[[Fraction], float] = up) -> Budget:
    """Return a total as a guarantee of the budget's kind."""
    match budget:
        case ZCDP():
            return ZCDP(rho=rounded(total))
        case GDP():
            return GDP(mu=sqrt_up(total) if rounded is up else sqrt_down(total))
        case PureDP():
            return PureDP(epsilon=rounded(total))
        case _:
            assert_never(budget)


def require_shown(budget: Budget, where: str) -> None:
    """Raise `InvalidParameter` for a budget so large that it limits nothing."""
    if leading_figure(budget) > MOST:
        what, why = f"a budget of {budget}", "it would let every run pass, and protects nobody"
        raise InvalidParameter(what, where=where, why=why, remedy=f"give a figure of at most {MOST:g}")


#: A larger budget is a slip: at 1,000,000-DP an attacker's guess fails with probability e^-1000000.
MOST: Final = 1e6


def cost_text(cost: Budget) -> str:
    """Return a cost in the form that a row stores."""
    return json.dumps(cost.to_json())


def require_words(words: str, what: str, *, where: str, empty: bool = False) -> str:
    """Return the text if every supported database can store it and a reader can distinguish it.

    Raises `UsageError`: the text is empty, or has characters that no reader sees (control and format
    characters, fillers, bytes that are not UTF-8).
    """
    if any(unicodedata.category(one) in _UNSEEN or one in _BLANK for one in words):
        found = f"{what} {ascii(words)[:60]} holds control characters, invisible ones or invalid UTF-8"
        why = "not every database can keep them, and a reader could not distinguish two such names"
        remedy = "write it in UTF-8, without line breaks, control characters or invisible characters"
        raise UsageError(found, where=where, why=why, remedy=remedy)
    if not empty and not words.strip():
        why = "without it the entry cannot be distinguished from others"
        raise UsageError(f"no {what}", where=where, why=why, remedy="name it")
    return words


def require_name(name: str, what: str, *, where: str) -> str:
    """Return the name in the book's one spelling: composed (NFC), single spaces, none around it.

    Raises `UsageError` as `require_words` does.
    """
    return " ".join(unicodedata.normalize("NFC", require_words(name, what, where=where)).split())


def look(name: str) -> str:
    """Return roughly how a name looks: two names with the same look are easily confused.

    Ignores compatibility forms, case, the kind of a dash, and the alphabet of a letter with the same shape (a
    part of the skeleton of Unicode Technical Standard 39).
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", name).translate(_ALIKE)).casefold()
    return "".join("-" if unicodedata.category(one) == "Pd" else one for one in plain.translate(_ALIKE))


#: Control and format characters, surrogates, unassigned and private characters, line separators.
_UNSEEN: Final = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
#: Characters of other categories that are invisible: fillers, joiners and variation selectors.
_BLANK: Final = {"\u034f", "\u115f", "\u1160", "\u17b4", "\u17b5", "\u2800", "\u3164", "\uffa0"} | {
    chr(code) for code in (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}
#: Letters of one shape: Greek and Cyrillic as Latin letters; look-alikes of i and o.
_ALIKE: Final = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "αικνορτυ" + "АВЕЅІЈКМНОРСТУХ" + "авеѕіјкмнорстухԁһԛԝ" + "l1|0",  # noqa: RUF001  (letters that look alike are the point)
    "ABEZHIKMNOPTYX" + "aikvoptu" + "ABESIJKMHOPCTYX" + "abesijkmhopctyxdhqw" + "iiio",
)


def account_of(row: Mapping[str, Any], events: list[dict[str, Any]], *, where: str) -> Account:
    """Return the account in a row, with its events.

    Raises `BookFormat`: this version would not write such a row.
    """
    dataset = str(row["dataset"])
    place = f"{where}: account {dataset!r}"
    if row["schema"] != SCHEMA:
        what = f"schema {row['schema']!r} where this version reads {SCHEMA!r}"
        why = "lines of another version may count differently"
        raise BookFormat(what, where=place, why=why, remedy="use the version of dpaudit that wrote it")
    budget = _cost(row["budget"], place)
    if not isinstance(row["unit"], str) or not row["unit"].strip():
        raise _damaged(row["unit"], place)
    neighbouring = Neighbouring(_one_of(Neighbouring, row["neighbouring"], place))
    trust_model = TrustModel(_one_of(TrustModel, row["trust_model"], place))
    return Account(dataset, budget, row["unit"], neighbouring, trust_model, _events(events, budget, place))


def _events(rows: list[dict[str, Any]], budget: Budget, place: str) -> tuple[Event, ...]:
    """Return the events; each reservation is made once, and settled at most once."""
    found: list[Event] = []
    unsettled: dict[str, bool] = {}
    for row in rows:
        at = f"{place}, event {row['number']}"
        action = cast("Action", _one_of(get_args(Action), row["action"], at))
        stated = {name: row[name] for name in ("number", "reservation", "ledger_hash", "note", "at")}
        event = Event(action=action, cost=_cost(row["cost"], at), **stated)
        if type(event.cost) is not type(budget):
            raise BookFormat(f"a cost of {event.cost}, but the budget is {budget}", where=at)
        if event.action == "cancel" and event.cost != nothing(budget):
            raise BookFormat(f"a cancellation that counts {event.cost}", where=at)
        made = event.action == "reserve"
        if made == (event.reservation in unsettled) or not (made or unsettled[event.reservation]):
            raise BookFormat(f"{event.action!r} out of order for {event.reservation}", where=at)
        unsettled[event.reservation] = made
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
    return BookFormat(f"{str(value)[:60]!r}, a value that dpaudit does not write there", where=place)
