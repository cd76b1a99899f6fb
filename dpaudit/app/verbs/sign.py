"""`dpaudit keygen`, `sign` and `verify-cert`: sign a certificate, and check a signed one."""

import os
from pathlib import Path

import click

from dpaudit.app.options.files import require_no_input
from dpaudit.app.options.option import PATH, option
from dpaudit.app.text.failures import EXIT_NOT_PROVED
from dpaudit.app.text.output import line, output_format_option, print_json, print_text, unwrapped
from dpaudit.app.text.streams import note
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.signatures import PASSWORD, generate_keys, read_signed, require_file
from dpaudit.certificate.signatures import sign as signed
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.ledger import Ledger
from dpaudit.pipeline.files import ledger_beside
from dpaudit.pipeline.recheck import AS_STATED, require_figures


@click.command(epilog="Example: dpaudit keygen signing-key")
@click.argument("key", type=PATH)
def keygen(key: Path) -> None:
    """Write a new Ed25519 key pair: KEY, for its owner alone, and KEY.pub, for everybody."""
    private, public = generate_keys(key)
    note(f"wrote {private} (keep it secret: it is not encrypted) and {public} (give this one to reviewers)")


@click.command(epilog="Example: dpaudit sign out/certificate.json --key signing-key")
@click.argument("certificate", type=PATH)
@option("--key", PATH, "The private key's PEM file.", required=True)
@option("--ledger", PATH, "Its ledger, if not ledger.jsonl beside the certificate.")
@option("-o --output", PATH, "The envelope; if not given, CERTIFICATE's name with .dsse.json.")
def sign(*, certificate: Path, key: Path, ledger: Path | None, output: Path | None) -> None:
    """Sign CERTIFICATE together with its ledger file: a DSSE envelope over an in-toto statement.

    The certificate is first compared with the ledger, and its figures are computed again. An encrypted key's
    password is read from the environment variable DPAUDIT_KEY_PASSWORD. The certificate of a run that
    diverged from its twin is refused.
    """
    path, written = ledger or ledger_beside(certificate), output or certificate.with_suffix(".dsse.json")
    require_no_input(written, key, certificate, path)
    stated = Certificate.read(certificate)
    if not path.is_file():
        where = str(certificate) if ledger is None else "--ledger"
        why = "a signature binds a certificate to its ledger's file, and the figures follow from it"
        remedy = "put the ledger that was written with it beside it, or name it with --ledger"
        raise UsageError(f"no ledger at {path}", where=where, why=why, remedy=remedy)
    # An empty variable is none; the bytes are the environment's own, whatever they encode.
    envelope = signed(stated, path, key, password=os.fsencode(os.environ.get(PASSWORD, "")) or None)
    require_figures(stated, Ledger.read(path))
    note(f"wrote {replace_file(written, envelope)}")
    note(f"as stated, not checked: {'; '.join(AS_STATED)}: the ledger does not contain these")


@click.command(
    epilog="""\b
Examples:
  dpaudit verify-cert c.dsse.json --key key.pub
  dpaudit verify-cert c.dsse.json --key key.pub --ledger ledger.jsonl

Exits 0 if the certificate is valid and proves its claim; 1 if it is valid but its claim is not proved or is
refuted by an audit; 3 if it is invalid: a wrong key, an edited envelope, another ledger, wrong figures;
2 if it cannot be judged: a file or key that cannot be read, or a signed file that is not a certificate.
"""
)
@click.argument("envelope", type=PATH)
@option("--key", PATH, "The public key that is trusted.", required=True)
@option(
    "--ledger",
    PATH,
    "Also compare it with this ledger: the file's digest, every release, and the recomputed figures.",
)
@output_format_option
@click.pass_context
def verify_cert(
    ctx: click.Context, *, envelope: Path, key: Path, ledger: Path | None, output_format: str
) -> None:
    """Check ENVELOPE's signature, and that its content follows from its ledger.

    Audits are not repeated and no other library is consulted: their results are shown as stated.
    """
    certificate, digest = read_signed(envelope, key)
    checked = ["signature", "the certificate against itself"]
    if ledger is not None:
        require_file(ledger, digest)
        found = Ledger.read(ledger, allow_unhashed=True)  # refused below with its reason
        certificate.require_ledger(found)
        require_figures(certificate, found)
        checked += ["the ledger's digest and hash chain", "every release", "the figures, computed again"]
        checked += ["what the proof takes on trust"]
    if output_format == "json":
        answer = {
            "verdict": certificate.proof,
            "experiment": certificate.experiment,
            "algorithm": certificate.algorithm,
            "claim": certificate.claim.to_json(),
            "ledger_sha256": digest,
        }
        print_json({**answer, "checked": checked, "as_stated": AS_STATED})
    else:
        print_text(
            unwrapped(str(envelope)),
            line(f"{certificate.algorithm}: {certificate.claim}"),
            line("proof", certificate.proof),
            line("experiment", certificate.experiment, "(as stated, not run again)"),
            line(f"checked: {'; '.join(checked)}"),
            line(f"as stated, not checked: {'; '.join(AS_STATED)}"),
        )
    if ledger is None:
        note("not checked: whether its figures follow from a ledger; give it with --ledger")
    refuted = certificate.experiment is Experiment.REFUTED
    failed = refuted or certificate.diverged or not certificate.all_proved
    ctx.exit(EXIT_NOT_PROVED if failed else 0)
