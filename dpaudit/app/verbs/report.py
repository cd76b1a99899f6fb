"""`dpaudit report`: one self-contained page about a certificate."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from dpaudit.accountants.accounting import Accounted
from dpaudit.accountants.composition.composition import Composition
from dpaudit.app.options.files import require_no_input
from dpaudit.app.options.option import PATH, option
from dpaudit.app.text.output import print_text, unwrapped
from dpaudit.app.text.streams import write
from dpaudit.certificate.certificate import Certificate
from dpaudit.claims.bounds import Bound
from dpaudit.errors import CannotBound, UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.certify import COMPARED
from dpaudit.pipeline.files import LEDGER, PRIVATE_MODE, certificate_in, ledger_beside
from dpaudit.pipeline.recheck import require_figures
from dpaudit.progress import Work

Format = Literal["html", "md", "latex", "card"]

#: Endings of files that say themselves what is in them; any other file is a page in HTML.
_FORMATS: dict[str, Format] = {".md": "md", ".tex": "latex"}


@click.command(
    epilog="""\b
Examples:
  dpaudit report out/certificate.json -o report.html
  dpaudit report out/certificate.json --format md
  dpaudit report out/certificate.json --format card
  dpaudit report out/certificate.json -o page.html --registry entry.yaml

Exits 0 whatever the verdict, 3 if the certificate is not what its ledger gives.
"""
)
@click.argument("certificate", type=PATH)
@option("-o --output path", PATH, "Write the report to this file; default: stdout.", metavar="FILE")
@option(
    "--format form",
    ["html", "md", "latex", "card"],
    "html: with pictures; md and latex: text and tables; card: a model card in Markdown."
    "  [default: by FILE's suffix, or html]",
)
@option(
    "--ledger",
    PATH,
    f"The ledger from which its figures are computed again; left out, the {LEDGER} beside CERTIFICATE.",
)
@option(
    "--registry",
    PATH,
    "Also write a YAML draft for the OpenDP registry of deployments, without the unknown fields.",
    metavar="FILE",
)
def report(
    *, certificate: Path, path: Path | None, form: Format | None, ledger: Path | None, registry: Path | None
) -> None:
    """Explain CERTIFICATE on one page, for people who did not make it.

    Its figures are computed again from its ledger; without a ledger, the page's first line says so. A folder
    stands for its certificate.json or certificate.private.json.
    """
    if certificate.is_dir():
        certificate = certificate_in(certificate)
    ending = "" if path is None else path.suffix.lower()
    if ending == ".pdf":
        remedy = "write an .html file, open it in a browser and print it"
        raise UsageError("a report as .pdf", where="--output", why="no page is printed here", remedy=remedy)
    form = form or _FORMATS.get(ending, "html")
    beside = ledger_beside(certificate)
    kept = ledger if ledger is not None else beside if beside.is_file() else None
    for output in (path, registry):
        if output is not None:
            require_no_input(output, certificate, *(() if kept is None else (kept,)))
    found = Certificate.read(certificate)
    accounted = None if kept is None else accounted_again(found, kept)
    computed = None if accounted is None else approximately(accounted)
    entry = None if registry is None else _entry(found, computed)
    whole = None if accounted is None else accounted.composition
    carried = None if kept is None or form != "html" else canonical(kept)
    if form == "card":
        text = _card(found, accounted)
    else:
        text = report_text(found, computed, form, whole=whole, ledger=carried)
    if registry is not None and entry is not None:
        replace_file(registry, entry.encode())
    if path is None:
        write(sys.stdout, text)
        return
    replace_file(path, text.encode(), mode=PRIVATE_MODE if found.diverged else None)
    print_text(*(unwrapped(f"written: {one}") for one in (path, registry) if one is not None))


def canonical(path: Path) -> bytes | None:
    """The canonical lines of a ledger that was read before; None: it is too large for a page."""
    from dpaudit.app.report.self_check import MOST_BYTES

    too_large = path.stat().st_size > 2 * MOST_BYTES
    return None if too_large else b"".join(Ledger.read(path, allow_unhashed=True).lines())


def accounted_again(certificate: Certificate, path: Path) -> Accounted:
    """What the ledger is accounted for, once all the certificate's figures were found in it.

    Raises what `Ledger.read` does, and `CertificateMismatch` where the two contradict each other.
    """
    ledger = Ledger.read(path, allow_unhashed=True)  # refused below with its reason
    certificate.require_ledger(ledger)
    return require_figures(certificate, ledger)


def approximately(accounted: Accounted) -> Sequence[Bound]:
    """The total as (epsilon, delta); empty where it has no bound there."""
    try:
        return accounted.bounds(COMPARED)
    except CannotBound:
        return ()


def _card(certificate: Certificate, accounted: Accounted | None) -> str:
    if accounted is None:
        why, remedy = "a card would repeat figures that nobody has checked", "give it with --ledger"
        raise UsageError("--format card without the ledger", where="--format", why=why, remedy=remedy)
    from dpaudit.app.report.model_card import model_card

    return model_card(certificate, accounted, approximately(accounted))


def _entry(certificate: Certificate, computed: Sequence[Bound] | None) -> str:
    if computed is None:
        why, remedy = "a register would repeat figures that nobody has checked", "give it with --ledger"
        raise UsageError("--registry without the ledger", where="--registry", why=why, remedy=remedy)
    from dpaudit.app.report.registry import registry_entry

    return registry_entry(certificate, computed)


def report_text(
    certificate: Certificate,
    computed: Sequence[Bound] | None,
    form: Format = "html",
    *,
    whole: Composition | None = None,
    up: str = "",
    ledger: bytes | None = None,
) -> str:
    """The report as the text of a file; `computed` as `dpaudit.app.report.report_page.report` has it.

    `whole` is the composition of the releases, if known. `up` is the address of the overview page of several
    certificates; an HTML page links to it. With a `ledger`, in canonical lines, the page
    checks itself.
    """
    from dpaudit.app.report.report_page import report as blocks
    from dpaudit.app.report.self_check import self_check
    from dpaudit.page.blocks import Linked, Paragraph, html_page, latex, markdown

    if form == "md":
        return markdown(blocks(certificate, computed), pictures=False)
    if form == "latex":
        return latex(blocks(certificate, computed))
    from dpaudit.app.report.report_charts import charts
    from dpaudit.page.chart import NOT_DRAWN, can_draw, specification, svg

    links = [Paragraph(Linked("All certificates", up))] if up else []
    scripts = "" if ledger is None else self_check(certificate, ledger)
    if not can_draw():
        return html_page([*blocks(certificate, computed), Paragraph(NOT_DRAWN), *links], {}, scripts)
    with Work("drawing the report"):
        drawn = charts(certificate, whole)
        captions = {name: caption for name, (_, caption) in drawn.items()}
        pictures = {name: svg(specification(picture)) for name, (picture, _) in drawn.items()}
        return html_page([*blocks(certificate, computed, captions), *links], pictures, scripts)
