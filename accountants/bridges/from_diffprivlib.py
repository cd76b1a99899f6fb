"""The spent budget of a diffprivlib accountant as a ledger, with figures as declared."""

from collections.abc import Sequence
from typing import Any

from dpaudit.accountants.bridges.imported_ledger import (
    Importer,
    declared_ledger,
    has_field,
    releases_of,
    stated_relation,
)
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import OpaqueApproxDP, OpaquePureDP

JUSTIFICATION = "declared by diffprivlib's BudgetAccountant"

#: Assumptions about a list of spends.
TAKEN_ON_TRUST = (
    "that each spend is what its query guarantees under this relation, for this unit",
    "that every query went through this one accountant",
)


def from_diffprivlib(
    spent: Any, *, neighbouring: Neighbouring | str, unit: str, algorithm: str = "diffprivlib"
) -> Ledger:
    """Return a ledger with one opaque release for each pair of epsilon and delta; its count is its spends.

    `spent` is a ``BudgetAccountant``, or its ``spent_budget``: pairs (epsilon, delta). diffprivlib records
    neither relation nor unit.

    Raises `UsageError`: `spent` is not a list of pairs; `InvalidParameter`: an epsilon or delta is outside
    its range; `CannotBound`: a spend guarantees nothing (delta 1, or an infinite epsilon).
    """
    spends, remedy = getattr(spent, "spent_budget", spent), "give accountant.spent_budget"
    if not isinstance(spends, Sequence) or isinstance(spends, str | bytes):
        why = "spends are a list of pairs"
        raise UsageError(f"a {type(spent).__name__}", where="spent_budget", why=why, remedy=remedy)
    releases = releases_of(spends, "spent_budget", ("epsilon", "delta"), remedy, _mechanism)
    parameters = {"source": "diffprivlib", "taken on trust": list(TAKEN_ON_TRUST)}
    return declared_ledger(releases, algorithm, unit, stated_relation(neighbouring), parameters)


def _mechanism(place: str, epsilon: Any, delta: Any) -> tuple[OpaquePureDP | OpaqueApproxDP, int]:
    if epsilon == float("inf") or delta == 1:
        what = f"a spend of epsilon {epsilon} and delta {delta}"
        why = "it guarantees nothing, so the whole run has no guarantee"
        raise CannotBound(what, where=place, why=why, remedy="add noise")
    if not isinstance(delta, bool) and delta == 0:
        return OpaquePureDP(epsilon=epsilon, justification=JUSTIFICATION), 1
    return OpaqueApproxDP(epsilon=epsilon, delta=delta, justification=JUSTIFICATION), 1


def _imported(record: Any, **options: Any) -> Ledger:
    """Return a ledger of a file's list of spends, or of an object that holds it."""
    return from_diffprivlib(record.get("spent_budget") if isinstance(record, dict) else record, **options)


IMPORTER = Importer(has_field("spent_budget"), _imported)
