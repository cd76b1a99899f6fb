"""A ledger of what another library recorded, or declares.

It has no hashes and no footer, since the run was not observed: it is accounted for, and never certified. Its
unit and relation are those of the caller where the other library names none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InputError, InvalidParameter, UsageError
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism
from dpaudit.registry import Registry


@dataclass(frozen=True)
class Importer:
    """Makes a ledger of what another library recorded, for `dpaudit import`.

    Attributes:
        recognises: whether a record, a JSON value or what a checkpoint holds, is of this library.
        ledger: ``(record, *, unit, neighbouring, **options) -> Ledger``.
        neighbouring: the relation that the library's figures hold for; None: the user must state it.
        options: which of the arguments `d_in` and `count` of `ledger` the user may give.
    """

    recognises: Callable[[Any], bool]
    ledger: Callable[..., Ledger]
    neighbouring: Neighbouring | None = None
    options: tuple[str, ...] = ()


IMPORTERS: Registry[Importer] = Registry(
    "importers",
    Importer,
    {
        name: f"dpaudit.accountants.bridges.from_{name}:IMPORTER"
        for name in ("opacus", "opendp", "diffprivlib")
    },
)


def has_field(*names: str) -> Callable[[Any], bool]:
    """Return whether a record is an object with one of these fields."""
    return lambda record: isinstance(record, dict) and any(name in record for name in names)


def declared_ledger(
    releases: Iterable[Release],
    algorithm: str,
    unit: str,
    neighbouring: Neighbouring,
    parameters: dict[str, Any] | None = None,
) -> Ledger:
    """The ledger, with the releases of one mechanism as one, at the place of the first.

    What a composition costs does not depend on the order of releases whose parameters were set beforehand. A
    mechanism with a sensitivity states it as `declared`; `parameters` stand in the header. Raises
    `InvalidParameter`: no releases at all, or an empty name in the header.
    """
    counted: dict[AnyMechanism, Release] = {}
    for release in releases:
        first = counted.get(release.mechanism)
        count = release.count if first is None else first.count + release.count
        counted[release.mechanism] = (first or release).model_copy(update={"count": count})
    if not counted:
        why = "an empty record proves nothing of a run"
        raise InvalidParameter("no releases", where=algorithm, why=why, remedy="read it after the run")
    header = Header(algorithm=algorithm, unit=unit, neighbouring=neighbouring, parameters=parameters or {})
    ledger = Ledger(header, hashed=False)
    for release in counted.values():
        ledger.append(release)
    return ledger


def releases_of(
    entries: Sequence[Any],
    name: str,
    fields: tuple[str, ...],
    remedy: str,
    mechanism: Callable[..., tuple[AnyMechanism, int]],
) -> Iterator[Release]:
    """A release for each entry of a list of that name in the other library, labelled with its place there.

    Each entry holds one value for each of `fields`; `mechanism`, called with its place and values, gives its
    mechanism and count. `remedy` says where such a list is to be had. Raises `UsageError`: an entry of
    another length; and what `mechanism` raises, with the entry's place.
    """
    for position, entry in enumerate(entries):
        place = f"{name}[{position}]"
        if not isinstance(entry, list | tuple) or len(entry) != len(fields):
            why = f"an entry is ({', '.join(fields)})"
            raise UsageError(f"{str(entry)[:60]!r}", where=place, why=why, remedy=remedy)
        try:
            found, count = mechanism(place, *entry)
            yield Release(label=place, mechanism=found, count=count)
        except InputError as error:
            raise named(place, error) from None


def stated_relation(neighbouring: Neighbouring | str) -> Neighbouring:
    """The relation of that name. Raises `InvalidParameter`: there is none."""
    try:
        return Neighbouring(neighbouring)
    except ValueError:
        what = f"neighbouring = {neighbouring!r}"
        why = "the same figure means another protection under each"
        remedy = f"give one of {', '.join(map(str, Neighbouring))}"
        raise InvalidParameter(what, where="neighbouring", why=why, remedy=remedy) from None


def named(place: str, error: InputError) -> InputError:
    """The error, with the place in the source in front of its own, unless it names that place."""
    if place not in error.where:
        error.where = f"{place}: {error.where}" if error.where else place
    return error
