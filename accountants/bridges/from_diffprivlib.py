"""The budget that a diffprivlib accountant holds as spent, as a ledger: figures as declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpaudit.accountants.bridges.imported_ledger import declared_ledger, named, stated_relation
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InputError, UsageError
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import OpaqueApproxDP, OpaquePureDP

JUSTIFICATION = "declared by diffprivlib's BudgetAccountant"

#: What a list of spends does not say.
TAKEN_ON_TRUST = (
    "that each spend is what its query guarantees under this relation, for this unit",
    "that every query went through this one accountant",
)


def from_diffprivlib(
    spent: Any, *, neighbouring: Neighbouring | str, unit: str, algorithm: str = "diffprivlib"
) -> Ledger:
    """A ledger with one opaque release for each pair of epsilon and delta, its count how often it was spent.

    It has no footer and no hashes, since nothing here saw the run: it is accounted for, never certified.

    Args:
        spent: a ``BudgetAccountant``, or its ``spent_budget``: pairs (epsilon, delta).
        neighbouring: the relation; diffprivlib records none, so it must be stated.
        unit: the unit of privacy, which it does not record either.
        algorithm: the ledger's name for the run.

    Raises:
        UsageError: this is no list of pairs.
        InvalidParameter: an epsilon or delta outside its range.
        CannotBound: a spend that promises nothing: delta 1, or an infinite epsilon.
    """
    spends = getattr(spent, "spent_budget", spent)
    if not isinstance(spends, Sequence) or isinstance(spends, str | bytes):
        raise UsageError(
            f"a {type(spent).__name__}",
            where="spent_budget",
            why="what was spent is a list of pairs",
            remedy="give accountant.spent_budget",
        )
    return declared_ledger(
        _spends(spends),
        algorithm=algorithm,
        unit=unit,
        neighbouring=stated_relation(neighbouring),
        parameters={"source": "diffprivlib", "taken on trust": list(TAKEN_ON_TRUST)},
    )


def _spends(spends: Sequence[Any]) -> Iterator[Release]:
    for position, entry in enumerate(spends):
        place = f"spent_budget[{position}]"
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            raise UsageError(
                f"{str(entry)[:60]!r}",
                where=place,
                why="a spend is a pair (epsilon, delta)",
                remedy="give accountant.spent_budget",
            )
        epsilon, delta = entry
        if epsilon == float("inf") or delta == 1:
            raise CannotBound(
                f"a spend of epsilon {epsilon} and delta {delta}",
                where=place,
                why="that promises nothing, and so does the whole run",
                remedy="add noise",
            )
        try:
            yield Release(label=place, mechanism=_mechanism(epsilon, delta))
        except InputError as error:
            raise named(place, error) from None


def _mechanism(epsilon: Any, delta: Any) -> OpaquePureDP | OpaqueApproxDP:
    if not isinstance(delta, bool) and delta == 0:
        return OpaquePureDP(epsilon=epsilon, justification=JUSTIFICATION)
    return OpaqueApproxDP(epsilon=epsilon, delta=delta, justification=JUSTIFICATION)
