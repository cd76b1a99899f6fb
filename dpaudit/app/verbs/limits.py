"""`dpaudit limits`: what a certificate or a ledger leaves unchecked, or what any of them may."""

from pathlib import Path

import click

from dpaudit.app.options.option import PATH
from dpaudit.app.text.conditions import sentences
from dpaudit.app.text.output import bullets, line, output_format_option, print_json, print_text, table
from dpaudit.app.verbs.ledger import is_ledger
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.conditions import Code
from dpaudit.pipeline.accounting import verify
from dpaudit.pipeline.files import certificate_in

_GROUPS = {False: "Special to a run", True: "General"}


@click.command(epilog="Example: dpaudit limits out/certificate.json")
@click.argument("file", metavar="[CERTIFICATE]", required=False, type=PATH)
@output_format_option
def limits(*, file: Path | None, output_format: str) -> None:
    """Print everything that CERTIFICATE, or a ledger, leaves unchecked.

    Without CERTIFICATE, print every possible condition and the case it applies to. A folder stands for the
    certificate in it.
    """
    if file is None:
        _every(output_format)
        return
    if is_ledger(file):
        conditions = verify(file, allow_unhashed=True, most_rows=0).accounting.not_checked
    else:
        conditions = Certificate.read(certificate_in(file) if file.is_dir() else file).not_checked
    if output_format == "json":
        print_json([condition.to_json() for condition in conditions])
        return
    said = sentences(conditions)
    for general, head in _GROUPS.items():
        words = [each for each, code in said.items() if code.general is general]
        print_text(
            *bullets(f"Not checked: {head.lower()}", words), *([line()] if words and not general else [])
        )


def _every(output_format: str) -> None:
    if output_format == "json":
        fields = ("when", "sentence", "general")
        print_json({str(code): {name: getattr(code, name) for name in fields} for code in Code})
        return
    for general, head in _GROUPS.items():
        rows = [(code, code.when, code.sentence) for code in Code if code.general is general]
        print_text(table((head, "stated for", "not checked"), rows), line())
