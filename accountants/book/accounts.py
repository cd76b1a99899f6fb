"""What a book says of one data set: the events, the entries that they make up, and what is left.

Costs add up over runs on three scales: rho, the square of mu, and pure epsilon. That later runs, and how
many there are, are chosen after seeing earlier results does not change the sum:
`dpaudit.accountants.filters.filters` names the theorems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, assert_never

from dpaudit.accountants.closed_forms.rounding import down, sqrt_down, sqrt_up, up
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE, leading_figure
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, PureDP
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import InvalidParameter

#: What a budget may be stated in: a scale on which runs add up.
Budget = PureDP | ZCDP | GDP

Action = Literal["reserve", "spend", "cancel"]


@dataclass(frozen=True)
class Event:
    """One line of the book; lines are only ever added.

    Attributes:
        number: its place in the book.
        reservation: what it is about, eight hexadecimal digits.
        action: a reservation made, spent or cancelled.
        cost: what the reservation counts from here on, on the budget's scale.
        ledger_hash: of a run that was accounted for, the last hash of its ledger.
        note: the author's words.
        at: the time, UTC, ISO 8601.
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
    """A reservation and what became of it."""

    reservation: str
    state: Literal["reserved", "spent", "cancelled"]
    cost: Budget
    note: str


@dataclass(frozen=True)
class Account:
    """A data set's budget and everything that counts against it.

    Attributes:
        dataset: its name in the book.
        budget: what all runs together are held to.
        unit, neighbouring, trust_model: whom the budget protects; every run must be about the same.
        events: all of them, oldest first.
    """

    dataset: str
    budget: Budget
    unit: str
    neighbouring: Neighbouring
    trust_model: TrustModel
    events: tuple[Event, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every reservation as it stands now."""
        states: dict[Action, Literal["reserved", "spent", "cancelled"]] = {
            "reserve": "reserved",
            "spend": "spent",
            "cancel": "cancelled",
        }
        notes = {event.reservation: event.note for event in reversed(self.events)}
        latest = {event.reservation: event for event in self.events}
        return tuple(
            Entry(name, states[event.action], event.cost, notes[name]) for name, event in latest.items()
        )

    @property
    def committed(self) -> Budget:
        """Everything reserved or spent, rounded up."""
        return _on_scale(self.budget, self._committed())

    @property
    def spent(self) -> Budget:
        """Everything spent, rounded up."""
        return _on_scale(self.budget, _sum(e.cost for e in self.entries if e.state == "spent"))

    @property
    def remaining(self) -> Budget:
        """The most that can still be reserved, rounded down; zero where more was spent than there was."""
        left = max(amount(self.budget) - self._committed(), Fraction(0))
        return _on_scale(self.budget, left, down)

    def fits(self, cost: Budget, instead_of: Budget | None = None) -> bool:
        """Whether a cost still fits, in the place of one that is counted already.

        Sums are exact; the budget may be exceeded by the tolerance with which every claim is met, so that ten
        tenths make a whole.
        """
        freed = Fraction(0) if instead_of is None else amount(instead_of)
        together = self._committed() - freed + amount(cost)
        return together <= amount(self.budget) * (1 + Fraction(CLAIM_TOLERANCE))

    def _committed(self) -> Fraction:
        return _sum(entry.cost for entry in self.entries)


def amount(cost: Budget) -> Fraction:
    """What adds up over runs, exactly: rho, the square of mu, or epsilon."""
    match cost:
        case ZCDP(rho=rho):
            return Fraction(rho)
        case GDP(mu=mu):
            return Fraction(mu) ** 2
        case PureDP(epsilon=epsilon):
            return Fraction(epsilon)
        case _:
            assert_never(cost)


def nothing(budget: Budget) -> Budget:
    """No cost, on a budget's scale."""
    return _on_scale(budget, Fraction(0))


def require_budget(guarantee: AnyGuarantee, where: str) -> Budget:
    """The guarantee, if runs add up on its scale.

    Raises:
        InvalidParameter: they do not, or it is -0, which no figure is.
    """
    if isinstance(guarantee, PureDP | ZCDP | GDP):
        if math.copysign(1.0, leading_figure(guarantee)) < 0:
            raise InvalidParameter(
                f"a figure of {leading_figure(guarantee)}",
                where=where,
                why="nothing costs less than nothing",
                remedy="give 0, or more",
            )
        return guarantee
    raise InvalidParameter(
        f"a budget of {guarantee}",
        where=where,
        why="what is left of it after a run depends on how the run is composed with all others",
        remedy="state it as zCDP, GDP or pure DP; `dpaudit convert` names the largest rho that meets it",
    )


def _sum(costs: Iterable[Budget]) -> Fraction:
    return sum(map(amount, costs), Fraction(0))


def _on_scale(budget: Budget, total: Fraction, rounded: Callable[[Fraction], float] = up) -> Budget:
    """A total of amounts as a guarantee of the budget's kind."""
    match budget:
        case ZCDP():
            return ZCDP(rho=rounded(total))
        case GDP():
            return GDP(mu=sqrt_up(total) if rounded is up else sqrt_down(total))
        case PureDP():
            return PureDP(epsilon=rounded(total))
        case _:
            assert_never(budget)
