"""`dpaudit ledger show|check|diff`: show a ledger, check its hash chain, or compare two."""

from pathlib import Path

import click
from rich.console import RenderableType

from dpaudit.app.options.option import PATH
from dpaudit.app.text import output
from dpaudit.app.text.progress import progress_on
from dpaudit.app.text.tables import release_rows
from dpaudit.app.verbs.diff import ledger_diff
from dpaudit.errors import UnhashedLedger
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.ledger import Ledger


@click.group(epilog="Example: dpaudit ledger show out/ledger.jsonl")
def ledger() -> None:
    """Show a ledger, check its integrity, or compare two."""


ledger.add_command(ledger_diff)


@ledger.command(epilog="Example: dpaudit ledger show out/ledger.jsonl")
@click.argument("file", type=PATH)
@output.output_format_option
def show(file: Path, *, output_format: str) -> None:
    """Print FILE's header and releases.

    An unfinished or unhashed ledger is shown too, with a note that it is one.
    """
    found = Ledger.read(file, allow_unhashed=True, allow_truncated=True)
    if output_format == "json":
        answer = {"header": found.header.to_json(), "releases": [one.to_json() for one in found.releases]}
        digest = found.hash if found.hashed else None
        output.print_json({**answer, "complete": found.complete, "hashed": found.hashed, "hash": digest})
    else:
        output.print_text(*_text(found))


@ledger.command(epilog="Example: dpaudit ledger check out/ledger.jsonl")
@click.argument("file", type=PATH)
def check(file: Path) -> None:
    """Check FILE's format and hash chain.

    Exits 0 if it is whole, 2 if it is no ledger, 3 if it was truncated or edited.
    """
    try:
        with progress_on(file) as progress, LedgerStream(file, progress=progress) as stream:
            stream.read_to_the_end()
    except UnhashedLedger as error:
        error.remedy = "nothing can be checked here; `dpaudit verify --allow-unhashed` still accounts for it"
        raise
    number = output.counted(stream.number, "release", "releases")
    output.print_text(output.unwrapped(f"{file}: whole, {number}, hash {stream.hash}"))


def _text(found: Ledger) -> list[RenderableType]:
    header, noise = found.header, found.header.noise
    parts: list[RenderableType] = [
        output.line(f"{header.algorithm} per {header.unit} ({header.neighbouring}, {header.trust_model})"),
        output.line(f"claim: {header.claim.guarantee if header.claim else 'none'}"),
        output.line(f"schedule: {header.schedule}" + (f", budget {header.budget}" if header.budget else "")),
        output.line(f"noise: {noise.source}, {noise.sampler}" + (", seeded" if noise.seeded else "")),
    ]
    parts += [output.line(f"  {name} = {value}") for name, value in header.to_json()["parameters"].items()]
    rows = release_rows(found.releases[: output.MOST_ROWS])
    columns = ("release", "mechanism", "sensitivity", "partition", "claimed")
    spare = ("sensitivity", "partition")
    parts += [output.line(), output.table(columns, rows, whole=("claimed",), spare=spare)]
    if len(found.releases) > output.MOST_ROWS:
        left_out = len(found.releases) - output.MOST_ROWS
        parts.append(output.line(f"... and {left_out} more; --output-format json lists them all"))
    parts += [output.line(), output.line(output.counted(len(found.releases), "release", "releases"))]
    if not found.hashed:
        parts.append(output.line("unhashed: edits cannot be detected; never certifiable"))
    elif not found.complete:
        parts.append(output.line("truncated: no footer, so releases may be missing; never certifiable"))
    return parts
