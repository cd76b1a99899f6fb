"""A ledger of another library's record or declaration.

It has no hashes and no footer, since the run was not observed, so it is accounted for but never certified.
The caller states the unit and relation if the other library names none.
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
    """A reader of another library's record, for `dpaudit import`.

    Attributes:
        recognises: whether a record (a JSON value or a checkpoint's content) is of this library.
        ledger: ``(record, *, unit, neighbouring, **options) -> Ledger``.
        neighbouring: the relation of the library's figures; None: the user must state it.
        options: the arguments of `ledger`, out of `d_in` and `count`, that the user may give.
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
    """Return the ledger; all releases of one mechanism become one release, at the place of the first.

    The cost of a composition does not depend on the order of releases with parameters fixed beforehand. A
    mechanism's sensitivity is `declared`; `parameters` are written to the header. Raises `InvalidParameter`:
    no releases at all, or an empty name in the header.
    """
    counted: dict[AnyMechanism, Release] = {}
    for release in releases:
        first = counted.get(release.mechanism)
        count = release.count if first is None else first.count + release.count
        counted[release.mechanism] = (first or release).model_copy(update={"count": count})
    if not counted:
        why = "an empty record proves nothing about a run"
        remedy = "read the record after the run"
        raise InvalidParameter("no releases", where=algorithm, why=why, remedy=remedy)
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
    """Return a release for each entry of the other library's list of that name, labelled with its place.

    Each entry holds one value for each of `fields`. `mechanism` maps its place and values to a mechanism and
    a count. `remedy` says how to get such a list. Raises `UsageError`: an entry of another length; and any
    error of `mechanism`, with the entry's place.
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
    """Return the relation of that name. Raises `InvalidParameter`: there is none."""
    try:
        return Neighbouring(neighbouring)
    except ValueError:
        what = f"neighbouring = {neighbouring!r}"
        why = "the same figure means a different protection for each relation"
        remedy = f"give one of {', '.join(map(str, Neighbouring))}"
        raise InvalidParameter(what, where="neighbouring", why=why, remedy=remedy) from None


def named(place: str, error: InputError) -> InputError:
    """Return the error with the place in the source added in front, unless it already names that place."""
    if place not in error.where:
        error.where = f"{place}: {error.where}" if error.where else place
    return error
