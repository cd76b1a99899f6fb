"""`dpaudit check`: hold a certificate against its ledger by the one file `dpaudit/checker.py`."""

from pathlib import Path

import click

from dpaudit import checker
from dpaudit.app.options.option import PATH
from dpaudit.pipeline.files import certificate_in, ledger_beside


@click.command(
    epilog="""\b
Examples:
  dpaudit check out
  dpaudit check out/certificate.json out/ledger.jsonl

Exits 0 if everything holds, 1 if a figure or a field does not hold, 4 if the checker does not know a part,
and 2 if a file cannot be read. dpaudit/checker.py alone, copied beside the files, does the same.
"""
)
@click.argument("certificate", type=PATH)
@click.argument("ledger", metavar="[LEDGER]", required=False, type=PATH)
@click.pass_context
def check(ctx: click.Context, *, certificate: Path, ledger: Path | None) -> None:
    """Check every proved figure of CERTIFICATE against LEDGER, without the accountants that made it.

    CERTIFICATE may be the folder that `certify -o` wrote. LEDGER left out is the one beside it.
    """
    stated = certificate_in(certificate) if certificate.is_dir() else certificate
    ctx.exit(checker.main([str(stated), str(ledger or ledger_beside(stated))]))
