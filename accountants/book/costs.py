"""What a run costs a data set's budget, and what is said where that does not fit."""

from __future__ import annotations

from dpaudit.accountants.accounting import account as account_for
from dpaudit.accountants.book.accounts import Account, Budget, require_budget
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import BudgetExceeded, CannotBound, ClaimMismatch, NotCertifiable
from dpaudit.ledger.ledger import Ledger

#: What is left to do with a reservation whose run has no figure.
_UNKNOWN_COST = (
    "do not publish the run's output: cancel the reservation, saying so, and {instead}; if it is known "
    "already, spend the reservation without the ledger, and state no guarantee for it"
)


def cost_of(ledger: Ledger, account: Account) -> Budget:
    """A run's cost on the scale of an account's budget, rounded up.

    Raises:
        ClaimMismatch: the ledger is about another unit, relation or trust model.
        CannotBound: it has no bound on that scale, or one that rests on a premise that fails.
        NotCertifiable, LedgerTruncated: it is unhashed, unfinished or without noise, or its noise was seeded.
    """
    ledger.require_certifiable()
    place = f"ledger of {ledger.header.algorithm!r}"
    if ledger.header.noise.seeded:
        raise NotCertifiable(
            "a run whose noise came from a known seed",
            where=place,
            why="whoever knows the seed can subtract the noise, so no figure covers its output, and nothing "
            "in its ledger tells it from another run with a seed",
            remedy=_UNKNOWN_COST.format(instead="run it again without a seed"),
        )
    failing = [str(premise) for premise in getattr(ledger.claim, "premises", ()) if not premise.holds]
    if failing:
        raise CannotBound(
            f"a premise fails: {'; '.join(failing)}",
            where=place,
            why="without it nothing bounds what the run cost: the figure of its releases may be too small",
            remedy=_UNKNOWN_COST.format(instead="run it again with parameters that meet it"),
        )
    claim = Claim(
        account.budget,
        unit=account.unit,
        neighbouring=account.neighbouring,
        trust_model=account.trust_model,
    )
    found = account_for(ledger, claim).bounds
    if not found:
        raise CannotBound(
            f"the run of {ledger.header.algorithm!r} has no bound on the scale of {account.budget}",
            where=f"account {account.dataset!r}",
            remedy="keep the budget on a scale that all its mechanisms have, such as zCDP",
        )
    return same_scale(account, found[0].guarantee)


def same_scale(account: Account, cost: AnyGuarantee) -> Budget:
    """The cost, if it is on the scale of the account's budget.

    Raises:
        ClaimMismatch: it is on another.
        InvalidParameter: it is on a scale where runs do not add up.
    """
    found = require_budget(cost, where=f"account {account.dataset!r}")
    if type(found) is not type(account.budget):
        raise ClaimMismatch(
            f"a cost of {found} against a budget of {account.budget}",
            where=f"account {account.dataset!r}",
            remedy="state the cost on the budget's scale; `dpaudit convert` gives it",
        )
    return found


def refusal(account: Account, wanted: Budget, *, reserved: Budget | None = None) -> BudgetExceeded:
    """What is said of a cost that does not fit, in the place of what was reserved for it."""
    instead = "" if reserved is None else f" instead of the {reserved} reserved"
    remedy = "add noise, ask for less, or leave it: the budget is there to be used up once"
    if reserved is not None:
        remedy = "do not publish the run's output; if it is known already, enter the cost as published"
    return BudgetExceeded(
        f"{wanted}{instead} is refused: {account.committed} of {account.budget} is reserved or spent, "
        f"{account.remaining} is left",
        where=f"account {account.dataset!r}",
        why="past the budget the data set's guarantee no longer holds",
        remedy=remedy,
    )
