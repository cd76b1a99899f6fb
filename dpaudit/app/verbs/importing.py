"""`dpaudit import`: a ledger from what another library recorded."""

from pathlib import Path
from typing import Any

import click

from dpaudit.accountants.bridges.from_diffprivlib import from_diffprivlib
from dpaudit.accountants.bridges.from_opacus import IN_CHECKPOINT, from_opacus, read_checkpoint
from dpaudit.accountants.bridges.from_opendp import from_opendp
from dpaudit.app.options.claim_options import NEIGHBOURING
from dpaudit.app.options.files import about_file, require_no_input
from dpaudit.app.options.option import COUNT, FILE, NUMBER, PATH, option
from dpaudit.app.text.output import counted, print_text, unwrapped
from dpaudit.app.text.streams import note
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import UsageError
from dpaudit.json_text import strictly_parsed
from dpaudit.ledger.ledger import Ledger

LIBRARIES = ("opacus", "opendp", "diffprivlib")

#: How a file begins that `torch.save` wrote: a zip archive, or a pickle in the old format.
_TORCH = (b"PK\x03\x04", b"\x80\x02")

#: A field that only one library's records have, and that library.
_TELLING = {
    "history": "opacus",
    IN_CHECKPOINT: "opacus",
    "__function__": "opendp",
    "spent_budget": "diffprivlib",
}


class _Number(click.ParamType[int | float]):
    """A whole number as it is, however large: as a float it might become a smaller one."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        """An int where the text is one, else a float."""
        try:
            return int(value)
        except ValueError:
            return NUMBER.convert(value, param, ctx)


@click.command(
    epilog="""\b
Examples:
  dpaudit import checkpoint.pt --unit example -o ledger.jsonl
  dpaudit import measurement.json --unit row --neighbouring replace-one \\
      -o ledger.jsonl
  dpaudit verify ledger.jsonl --allow-unhashed --epsilon 8 --delta 1e-6

SOURCE: a checkpoint of Opacus, or an accountant's state_dict() as JSON; what
OpenDP's serialize() wrote; {"spent_budget": [[epsilon, delta], ...]} of
diffprivlib. See docs/proving/importing.md.
"""
)
@click.argument("source", type=PATH)
@option("-o --output", FILE, "The ledger file to write.", required=True, metavar="LEDGER")
@option("--from library", LIBRARIES, "The library that wrote SOURCE; default: detected from the content.")
@option("--unit", str, "Unit of privacy; the source does not name it.", required=True)
@option(
    "--neighbouring",
    NEIGHBOURING,
    "How neighbouring data sets differ; Opacus uses add-or-remove-one, the others state none.",
)
@option("--d-in", _Number(), "OpenDP: the distance between neighbouring inputs; default: that of one record.")
@option("--count", COUNT, "OpenDP: how many times the measurement ran; default 1.")
def import_ledger(
    *,
    source: Path,
    output: Path,
    library: str | None,
    unit: str,
    neighbouring: str | None,
    d_in: float | None,
    count: int | None,
) -> None:
    """Write a ledger of what another library recorded in SOURCE.

    It has no hashes and no footer: `dpaudit verify --allow-unhashed` accounts for
    it, and no certificate is ever made of it.
    """
    require_no_input(output, source)
    with about_file(source):
        record = _record(source)
        library = library or _library(record)
        for name, value in {"--d-in": d_in, "--count": count}.items():
            if value is not None and library != "opendp":
                why = "its records contain this; only a measurement of OpenDP leaves it open"
                remedy = "leave it out"
                raise UsageError(f"{name} with a record of {library}", where=name, why=why, remedy=remedy)
        ledger = _ledger(record, library, unit, neighbouring, d_in, count)
    ledger.write(output)
    releases = counted(len(ledger.releases), "release", "releases")
    runs = sum(release.count for release in ledger)
    print_text(unwrapped(f"{output}: {releases}, {counted(runs, 'run', 'runs')}"))
    note("accounted for with `dpaudit verify --allow-unhashed`, never certified; taken on trust:")
    for line in ledger.header.to_json()["parameters"]["taken on trust"]:
        note(f"  - {line}")


def _ledger(
    record: Any, library: str, unit: str, neighbouring: str | None, d_in: float | None, count: int | None
) -> Ledger:
    if library == "opacus":
        relation = neighbouring or str(Neighbouring.ADD_OR_REMOVE_ONE)
        return from_opacus(record, unit=unit, neighbouring=relation)
    if neighbouring is None:
        what = f"no relation, and {library} records none"
        why = "the same figure means different protection for a record added and for one replaced"
        remedy = "state the relation that the figures hold for"
        raise UsageError(what, where="--neighbouring", why=why, remedy=remedy)
    if library == "diffprivlib":
        spent = record.get("spent_budget") if isinstance(record, dict) else record
        return from_diffprivlib(spent, unit=unit, neighbouring=neighbouring)
    if not isinstance(record, dict):
        what = f"a {type(record).__name__} where OpenDP writes an object"
        raise UsageError(what, where="FILE", remedy="give what opendp.mod.serialize(measurement) returned")
    return from_opendp(record, unit=unit, neighbouring=neighbouring, d_in=d_in, count=count or 1)


def _record(source: Path) -> Any:
    """What the file holds: as torch reads weights, or as JSON."""
    with source.open("rb") as file:
        content = file.read(4)
        if content.startswith(_TORCH):
            return read_checkpoint(source)
        content += file.read()
    try:
        return strictly_parsed(content)
    except (ValueError, RecursionError) as error:
        what = f"neither a checkpoint nor JSON: {error}"
        why = "what cannot be read cannot be accounted for"
        remedy = "see docs/proving/importing.md for how each library's record is written"
        raise UsageError(what, where=str(source), why=why, remedy=remedy) from None


def _library(record: Any) -> str:
    """The only library whose records have what this one has; `UsageError` if none is, or more than one."""
    keys = record if isinstance(record, dict) else ()
    found = {library for field, library in _TELLING.items() if field in keys}
    if len(found) != 1:
        fields = f"fields of {' and of '.join(sorted(found))}"
        what = fields if found else "no field that identifies the library"
        why = "a figure means another mechanism in each library"
        raise UsageError(what, where="--from", why=why, remedy=f"give --from {'|'.join(LIBRARIES)}")
    return found.pop()
