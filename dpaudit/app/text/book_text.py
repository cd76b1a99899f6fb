"""An account of a budget book as a table and as JSON, on every scale that its budget says anything of."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from dpaudit.accountants.book import Account
from dpaudit.accountants.curves.implied import budget_bounds
from dpaudit.app.text.output import line, lower, table, upper
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, ApproxDP, PureDP


def _scales(budget: AnyGuarantee, deltas: tuple[float, ...]) -> list[AnyGuarantee]:
    """On which scales a budget is shown: its own, and those that it implies."""
    wanted: list[AnyGuarantee] = [ZCDP(rho=0.0), GDP(mu=0.0), PureDP(epsilon=0.0)]
    wanted = [one for one in wanted if type(one) is not type(budget)]
    approximate = [ApproxDP(epsilon=0.0, delta=delta) for delta in deltas]
    return [*wanted, *approximate]


def _implied(cost: AnyGuarantee, wanted: AnyGuarantee) -> AnyGuarantee | None:
    found = budget_bounds(cost, wanted)
    return found[0].guarantee if found else None


def _rows(account: Account, deltas: tuple[float, ...]) -> list[list[str]]:
    """Budget, spent, committed and remaining, one row for each scale that the budget says anything of."""
    costs = [account.budget, account.spent, account.committed, account.remaining]
    kind = {ZCDP: "rho (zCDP)", GDP: "mu (GDP)", PureDP: "epsilon (pure)"}
    *own, left = map(leading_figure, costs)
    rows = [[kind[type(account.budget)], *map(upper, own), lower(left)]]
    for wanted in _scales(account.budget, deltas):
        implied = [_implied(cost, wanted) for cost in costs]
        if None in implied:
            continue
        name = f"epsilon at {wanted.delta:g}" if isinstance(wanted, ApproxDP) else kind[type(wanted)]
        rows.append([name, *(upper(leading_figure(one)) for one in implied if one is not None)])
    return rows


def account_text(account: Account, deltas: tuple[float, ...], *, history: bool) -> list[RenderableType]:
    """Figures on every scale, then reservations as they stand, or every event."""
    head = ("scale", "budget", "spent", "with reserved", "left for one run")
    parts: list[RenderableType] = [line(about(account)), line(), table(head, _rows(account, deltas)), line()]
    if history:
        events = [
            (e.at, e.reservation, e.action, e.cost, (e.ledger_hash or "")[:16], e.note)
            for e in account.events
        ]
        parts += [table(("at", "reservation", "event", "counts", "ledger", "note"), events), line()]
    elif account.entries:
        entries = [(e.reservation, e.state, e.cost, e.note) for e in account.entries]
        parts += [table(("reservation", "state", "counts", "note"), entries), line()]
    return parts


def account_json(account: Account, deltas: tuple[float, ...]) -> dict[str, Any]:
    """The same, every event included."""
    costs = {name: getattr(account, name) for name in ("budget", "spent", "committed", "remaining")}
    implied = {
        name: [
            found.to_json()
            for wanted in _scales(account.budget, deltas)
            if (found := _implied(cost, wanted)) is not None
        ]
        for name, cost in costs.items()
    }
    return {
        **{name: getattr(account, name) for name in ("dataset", "unit", "neighbouring", "trust_model")},
        **{name: cost.to_json() for name, cost in costs.items()},
        "implied": implied,
        "events": [{**vars(event), "cost": event.cost.to_json()} for event in account.events],
    }


def about(account: Account) -> str:
    """One line: whose budget, and what it is."""
    return (
        f"{account.dataset}: {account.budget} per {account.unit} "
        f"({account.neighbouring}, {account.trust_model})"
    )
