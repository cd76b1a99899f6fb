"""`dpaudit diff` and `dpaudit ledger show|check|diff`: show a ledger, check its hash chain, compare two."""

from collections.abc import Callable
from pathlib import Path

import click
from rich.console import RenderableType

from dpaudit.app.options.files import about_file
from dpaudit.app.options.option import PATH
from dpaudit.app.text import output
from dpaudit.app.text.compared import Comparison, Grew, Side, claim_words, total_words
from dpaudit.app.text.failures import EXIT_NOT_PROVED
from dpaudit.app.text.progress import progress_on
from dpaudit.app.text.tables import release_rows
from dpaudit.certificate.certificate import CERTIFICATE_SCHEMA, Certificate
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.errors import UnhashedLedger
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.accounting import account

_EXITS = "Exits 0 if the budget did not grow, 1 if it grew or cannot be compared."

#: The JSON answer lists no more releases than this, those that grew most first.
MOST_ROWS_OF_JSON = 10_000


def is_ledger(path: Path) -> bool:
    """Return whether a file holds a ledger rather than a certificate: the first line shows which."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        first = file.readline(1 << 20)
    return first.strip() != b"{" and CERTIFICATE_SCHEMA.encode() not in first


def _read(path: Path) -> Ledger | Certificate:
    return _ledger(path) if is_ledger(path) else Certificate.read(path)


def _ledger(path: Path) -> Ledger:
    try:
        return Ledger.read(path)
    except UnhashedLedger as error:
        error.remedy = "compare the hashed file that `Ledger.write` or `dpaudit certify -o DIR` wrote"
        raise


def _side(of: Ledger | Certificate, wanted: AnyGuarantee | None, path: Path) -> Side:
    if isinstance(of, Certificate):
        return Side.of_certificate(of)
    claim = of.claim
    if wanted is not None:
        claim = Claim(wanted) if claim is None else claim.model_copy(update={"guarantee": wanted})
    with about_file(path):
        return Side.of_ledger(of.header, account(of, claim))


def _pair(found: Comparison, words: Callable[[Side], str], grew: Grew) -> dict[str, str | bool | None]:
    return {"base": words(found.base), "head": words(found.head), "grew": grew}


_VERDICTS: dict[Grew, str] = {
    True: "the budget GREW",
    False: "the budget did not grow",
    None: "cannot be compared",
}
_ANSWERS: dict[Grew, str] = {True: "grew", False: "no", None: "cannot tell"}


def _growth(found: Comparison) -> list[RenderableType]:
    rows: list[list[object]] = [
        ["claimed", claim_words(found.base), claim_words(found.head), _ANSWERS[found.claim_grew]],
        ["total", total_words(found.base), total_words(found.head), _ANSWERS[found.total_grew]],
    ]
    rows += [[name, before, after, "another term"] for name, before, after in found.terms]
    parts: list[RenderableType] = [output.line(_VERDICTS[found.grew]), output.line()]
    parts.append(output.table(("", "base", "head", "grew"), rows))
    changes = found.changes()
    if not changes:
        return [*parts, output.line(), output.line("every release is the same")]
    shown = [
        [c.label, c.status, c.base, c.head, "" if c.growth is None else _signed(c.growth)]
        for c in changes[: output.MOST_ROWS]
    ]
    columns = ("release", "", "base", "head", "growth")
    parts += [output.line(), output.table(columns, shown, whole=columns[1:], spare=("base", "head"))]
    if len(changes) > output.MOST_ROWS:
        left_out = len(changes) - output.MOST_ROWS
        parts.append(output.line(f"... and {left_out} more; --output-format json lists them"))
    words = [f"{c.label}: {c.why}" for c in changes[: output.MOST_ROWS] if c.why]
    return [*parts, output.line(), *output.bullets("What changed in them", words)]


def _signed(growth: float) -> str:
    return f"+{output.upper(growth)}" if growth > 0 else f"{growth:.6g}"


def _command(read: Callable[[Path], Ledger | Certificate], words: str, example: str) -> click.Command:
    @click.command("diff", help=words, epilog=f"Example: dpaudit {example}\n\n{_EXITS}")
    @click.argument("base", type=PATH)
    @click.argument("head", type=PATH)
    @output.output_format_option
    @click.pass_context
    def compare(ctx: click.Context, *, base: Path, head: Path, output_format: str) -> None:
        before, after = read(base), read(head)
        # Ledgers are accounted for on one scale: the one that HEAD is claimed on, if it claims anything.
        claim = after.claim or before.claim
        wanted = None if claim is None else claim.guarantee
        found = Comparison(_side(before, wanted, base), _side(after, wanted, head))
        if output_format == "json":
            answer = {
                "base": str(base),
                "head": str(head),
                "grew": found.grew,
                "terms": [{"name": n, "base": b, "head": h} for n, b, h in found.terms],
                "claim": _pair(found, claim_words, found.claim_grew),
                "total": _pair(found, total_words, found.total_grew),
                "releases": [change.to_json() for change in found.changes()[:MOST_ROWS_OF_JSON]],
            }
            output.print_json(answer)
        else:
            output.print_text(*_growth(found))
        if found.grew is not False:
            ctx.exit(EXIT_NOT_PROVED)

    return compare


diff = _command(
    _read,
    "Say which release made the budget grow from BASE to HEAD: certificates or ledgers.",
    "diff main/certificate.json out/certificate.json",
)
ledger_diff = _command(
    _ledger,
    "Say which release made the budget grow from BASE to HEAD.",
    "ledger diff main.jsonl out/ledger.jsonl",
)


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
