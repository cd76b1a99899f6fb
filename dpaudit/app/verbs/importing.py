"""`dpaudit import`: a ledger from what another library recorded."""

from pathlib import Path
from typing import Any

import click

from dpaudit.accountants.bridges.imported_ledger import IMPORTERS
from dpaudit.app.options.claim_options import NEIGHBOURING
from dpaudit.app.options.files import about_file, require_no_input
from dpaudit.app.options.option import COUNT, FILE, NUMBER, PATH, option
from dpaudit.app.text.output import counted, print_text, unwrapped
from dpaudit.app.text.streams import note
from dpaudit.errors import UsageError
from dpaudit.json_text import strictly_parsed

#: How a file begins that `torch.save` wrote: a zip archive, or a pickle in the old format.
_TORCH = (b"PK\x03\x04", b"\x80\x02")


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

SOURCE: a checkpoint of Opacus, or an accountant's state_dict() as JSON; the
output of OpenDP's serialize(); {"spent_budget": [[epsilon, delta], ...]} of
diffprivlib. See docs/proving/importing.md.
"""
)
@click.argument("source", type=PATH)
@option("-o --output", FILE, "The ledger file to write.", required=True, metavar="LEDGER")
@option("--from library", IMPORTERS, "The library that wrote SOURCE; default: detected from the content.")
@option("--unit", str, "Unit of privacy; the source does not name it.", required=True)
@option(
    "--neighbouring",
    NEIGHBOURING,
    "How neighbouring data sets differ; Opacus uses add-or-remove-one, the others state none.",
)
@option(
    "--d-in",
    _Number(),
    "OpenDP: the distance between neighbouring inputs; default: the distance for one record.",
)
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
        importer, options = IMPORTERS[library], {"d_in": d_in, "count": count}
        stated = {name: value for name, value in options.items() if value is not None}
        for name in stated.keys() - set(importer.options):
            option = f"--{name.replace('_', '-')}"
            why, remedy = "its records contain this; a measurement of OpenDP leaves it open", "leave it out"
            raise UsageError(f"{option} with a record of {library}", where=option, why=why, remedy=remedy)
        if neighbouring is None and importer.neighbouring is None:
            what = f"no relation, and {library} records none"
            why = "the same figure means different protection for a record added and for one replaced"
            remedy = "state the relation that the figures hold for"
            raise UsageError(what, where="--neighbouring", why=why, remedy=remedy)
        relation = neighbouring or str(importer.neighbouring)
        ledger = importer.ledger(record, unit=unit, neighbouring=relation, **stated)
    ledger.write(output)
    releases = counted(len(ledger.releases), "release", "releases")
    runs = sum(release.count for release in ledger)
    print_text(unwrapped(f"{output}: {releases}, {counted(runs, 'run', 'runs')}"))
    note("accounted for with `dpaudit verify --allow-unhashed`, never certified; taken on trust:")
    for line in ledger.header.to_json()["parameters"]["taken on trust"]:
        note(f"  - {line}")


def _record(source: Path) -> Any:
    """What the file holds: as torch reads weights, or as JSON."""
    with source.open("rb") as file:
        content = file.read(4)
        if content.startswith(_TORCH):
            from dpaudit.accountants.bridges.from_opacus import read_checkpoint

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
    found = [name for name, importer in IMPORTERS.working().items() if importer.recognises(record)]
    if len(found) != 1:
        what = (
            f"fields of {' and of '.join(sorted(found))}" if found else "no field that identifies the library"
        )
        why = "a figure means another mechanism in each library"
        raise UsageError(what, where="--from", why=why, remedy=f"give --from {'|'.join(IMPORTERS)}")
    return found[0]
