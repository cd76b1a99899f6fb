"""An account of a budget book as a table and as JSON, on every scale that its budget bounds."""

from typing import Any

from rich.console import RenderableType

from dpaudit.accountants.book import Account
from dpaudit.accountants.curves.implied import budget_bounds
from dpaudit.app.text.output import line, lower, table, upper
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import GDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.errors import CannotBound, InvalidParameter


def _scales(budget: AnyGuarantee, deltas: tuple[float, ...]) -> list[AnyGuarantee]:
    """Return the further scales on which a budget is shown: those that it may imply."""
    wanted: list[AnyGuarantee] = [ZCDP(rho=0.0), GDP(mu=0.0), PureDP(epsilon=0.0)]
    wanted += [ApproxDP(epsilon=0.0, delta=delta) for delta in deltas]
    return [one for one in wanted if type(one) is not type(budget)]


def _implied(cost: AnyGuarantee, wanted: AnyGuarantee) -> AnyGuarantee | None:
    try:
        return next((bound.guarantee for bound in budget_bounds(cost, wanted)), None)
    except (
        CannotBound,
        InvalidParameter,
    ):  # of an account of an earlier version, larger than any bound known
        return None


def account_rows(account: Account, deltas: tuple[float, ...]) -> list[list[str]]:
    """Return budget, spent, committed and remaining, one row for each scale that the budget bounds."""
    costs = [account.budget, account.spent, account.committed, account.remaining]
    kind = {ZCDP: "rho (zCDP)", GDP: "mu (GDP)", PureDP: "epsilon (pure)"}
    *own, left = map(leading_figure, costs)
    rows = [[kind[type(account.budget)], *map(upper, own), lower(left)]]
    for wanted in _scales(account.budget, deltas):
        implied = [one for one in (_implied(cost, wanted) for cost in costs) if one is not None]
        if len(implied) == len(costs):
            name = f"epsilon at {wanted.delta:g}" if isinstance(wanted, ApproxDP) else kind[type(wanted)]
            rows.append([name, *map(upper, map(leading_figure, implied))])
    return rows


def account_text(account: Account, deltas: tuple[float, ...], *, history: bool) -> list[RenderableType]:
    """Return the figures on every scale, then the current reservations or every event."""
    head = ("scale", "budget", "spent", "with reserved", "left for one run")
    figures = table(head, account_rows(account, deltas), spare=("with reserved", "budget"))
    parts: list[RenderableType] = [line(about(account)), line(), figures, line()]
    if history:
        hashes = [(e.ledger_hash or "")[:16] for e in account.events]
        events = zip(account.events, hashes, strict=True)
        cells = [(e.at, e.reservation, e.action, e.cost, ledger, e.note) for e, ledger in events]
        columns = ("at", "reservation", "event", "counts", "ledger", "note")
        parts += [table(columns, cells, spare=("ledger", "at")), line()]
    elif account.entries:
        entries = [(e.reservation, e.state, e.cost, e.note) for e in account.entries]
        parts += [table(("reservation", "state", "counts", "note"), entries), line()]
    return parts


def account_json(account: Account, deltas: tuple[float, ...]) -> dict[str, Any]:
    """The same, every event included."""
    costs = {name: getattr(account, name) for name in ("budget", "spent", "committed", "remaining")}
    scales = _scales(account.budget, deltas)
    found = {name: [_implied(cost, wanted) for wanted in scales] for name, cost in costs.items()}
    implied = {name: [one.to_json() for one in each if one is not None] for name, each in found.items()}
    return {
        **{name: getattr(account, name) for name in ("dataset", "unit", "neighbouring", "trust_model")},
        **{name: cost.to_json() for name, cost in costs.items()},
        "implied": implied,
        "events": [{**vars(event), "cost": event.cost.to_json()} for event in account.events],
    }


def about(account: Account) -> str:
    """Return one line that names the data set and its budget."""
    terms = f"({account.neighbouring}, {account.trust_model})"
    return f"{account.dataset}: {account.budget} per {account.unit} {terms}"
