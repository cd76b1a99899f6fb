"""`dpaudit report`: one self-contained page about a certificate."""

from pathlib import Path
from typing import Literal

import click

from dpaudit.app.options.files import require_no_input
from dpaudit.app.options.option import PATH, option
from dpaudit.app.text.output import print_text, unwrapped
from dpaudit.certificate.certificate import Certificate
from dpaudit.ledger.files import replace_file

Format = Literal["html", "md", "latex"]

REPORT = "report.html"


@click.command(
    epilog="""\b
Examples:
  dpaudit report out/certificate.json -o report.html
  dpaudit report out/certificate.json --format md
"""
)
@click.argument("certificate", type=PATH)
@option("-o --output path", PATH, "Where the report goes; left out, to stdout.", metavar="FILE")
@option(
    "--format form",
    ["html", "md", "latex"],
    "html: with pictures; md and latex: words and tables.",
    default="html",
)
def report(*, certificate: Path, path: Path | None, form: Format) -> None:
    """Say what CERTIFICATE says, on one page for people who did not make it.

    Nothing is computed again: `dpaudit verify` does that from the ledger. Exits 0 whatever the verdict.
    """
    if path is not None:
        require_no_input(path, certificate)
    text = report_text(Certificate.read(certificate), form)
    if path is None:
        click.echo(text, nl=False)
        return
    replace_file(path, text.encode())
    print_text(unwrapped(f"written: {path}"))


def report_text(certificate: Certificate, form: Format = "html") -> str:
    """The report as the text of a file."""
    from dpaudit.app.report.blocks import html_page, latex, markdown
    from dpaudit.app.report.report_page import report as blocks

    if form == "md":
        return markdown(blocks(certificate), pictures=False)
    if form == "latex":
        return latex(blocks(certificate))
    from dpaudit.app.report.chart import specification, svg
    from dpaudit.app.report.report_charts import charts

    drawn = charts(certificate)
    captions = {name: caption for name, (_, caption) in drawn.items()}
    pictures = {name: svg(specification(picture)) for name, (picture, _) in drawn.items()}
    return html_page(blocks(certificate, captions), pictures)
