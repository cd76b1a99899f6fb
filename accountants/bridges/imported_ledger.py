"""A ledger of what another library recorded, or declares: nobody here saw the run.

Such a ledger has no hashes and no footer, whoever it was read for: it is accounted for, and never certified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InputError, InvalidParameter
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism


def declared_ledger(
    releases: Iterable[Release],
    *,
    algorithm: str,
    unit: str,
    neighbouring: Neighbouring,
    parameters: dict[str, Any] | None = None,
) -> Ledger:
    """The ledger, with the releases of one mechanism as one, at the place of the first.

    What a composition costs does not depend on the order of releases whose parameters were set beforehand.

    Args:
        releases: what was released; a mechanism with a sensitivity states it as `declared`.
        algorithm: the ledger's name for what made them.
        unit: the unit of privacy.
        neighbouring: the relation that the releases' sensitivities, or their guarantees, are meant for.
        parameters: public parameters for the header, such as the source's name.

    Raises:
        InvalidParameter: no releases at all, or a header that says nothing.
    """
    counted: dict[AnyMechanism, Release] = {}
    for release in releases:
        first = counted.get(release.mechanism)
        count = release.count if first is None else first.count + release.count
        counted[release.mechanism] = (first or release).model_copy(update={"count": count})
    if not counted:
        raise InvalidParameter(
            "no releases",
            where=algorithm,
            why="an empty record proves nothing of a run",
            remedy="read it after the run",
        )
    header = Header(algorithm=algorithm, unit=unit, neighbouring=neighbouring, parameters=parameters or {})
    ledger = Ledger(header, hashed=False)
    for release in counted.values():
        ledger.append(release)
    return ledger


def stated_trust(parameters: Mapping[str, Any]) -> list[str]:
    """What a header's parameters say that another library's record does not show."""
    stated = parameters.get("taken on trust")
    return [line for line in stated if isinstance(line, str)] if isinstance(stated, tuple) else []


def stated_relation(neighbouring: Neighbouring | str) -> Neighbouring:
    """The relation of that name.

    Raises:
        InvalidParameter: there is none.
    """
    try:
        return Neighbouring(neighbouring)
    except ValueError:
        raise InvalidParameter(
            f"neighbouring = {neighbouring!r}",
            where="neighbouring",
            why="the same figure means another protection under each",
            remedy=f"give one of {', '.join(map(str, Neighbouring))}",
        ) from None


def named(place: str, error: InputError) -> InputError:
    """The error, with the place in the source in front of where it says it was."""
    error.where = f"{place}: {error.where}" if error.where else place
    return error
