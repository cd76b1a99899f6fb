"""`dpaudit keygen`, `sign` and `verify-cert`: who vouches for a certificate, and whether it still stands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from dpaudit.accountants.profile_points import understated
from dpaudit.app.claim_options import accounted
from dpaudit.app.failures import EXIT_NOT_PROVED, traceback_option
from dpaudit.app.output import line, note, output_format_option, print_json, print_text, unwrapped
from dpaudit.certificate import Certificate
from dpaudit.errors import CertificateMismatch
from dpaudit.files import replace_file
from dpaudit.ledger import Ledger
from dpaudit.signatures import generate_keys, opened, require_file
from dpaudit.signatures import sign as signed
from dpaudit.verdicts import Accounting, Experiment, meets

#: Where an encrypted key's password is taken from: an option would stand in the shell's history.
PASSWORD = "DPAUDIT_KEY_PASSWORD"  # noqa: S105  (the variable's name, not a password)


@click.command(epilog="Example: dpaudit keygen signing-key")
@click.argument("key", type=click.Path(path_type=Path))
@traceback_option
def keygen(key: Path) -> None:
    """Write a new Ed25519 key pair: KEY, for its owner alone, and KEY.pub, for everybody."""
    private, public = generate_keys(key)
    note(f"wrote {private} (keep it secret: it is not encrypted) and {public} (give it to reviewers)")


@click.command(epilog="Example: dpaudit sign out/certificate.json --key signing-key")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The private key's PEM file.")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="Its ledger, if not ledger.jsonl beside the certificate.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The envelope; if not given, CERTIFICATE's name with .dsse.json.",
)
@traceback_option
def sign(*, certificate: Path, key: Path, ledger: Path | None, output: Path | None) -> None:
    """Sign CERTIFICATE together with its ledger file: a DSSE envelope over an in-toto statement.

    The certificate is held against the ledger first. An encrypted key's password is read from the
    environment variable DPAUDIT_KEY_PASSWORD.
    """
    password = os.environ.get(PASSWORD)
    envelope = signed(
        Certificate.read(certificate),
        ledger or certificate.with_name("ledger.jsonl"),
        key,
        password=None if password is None else password.encode(),
    )
    note(f"wrote {replace_file(output or certificate.with_suffix('.dsse.json'), envelope)}")


@click.command(
    epilog="""\b
Examples:
  dpaudit verify-cert c.dsse.json --key key.pub
  dpaudit verify-cert c.dsse.json --key key.pub --ledger ledger.jsonl

Exits 0 if the certificate stands and proves its claim, 1 if it stands and does not (or an audit refuted it),
3 if it does not stand: a wrong key, an edited envelope, another ledger, figures that do not follow.
"""
)
@click.argument("envelope", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="The public key that is trusted.")
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="Hold it against the ledger too: the file's digest, every release, and the figures, computed again.",
)
@output_format_option
@traceback_option
@click.pass_context
def verify_cert(
    ctx: click.Context, *, envelope: Path, key: Path, ledger: Path | None, output_format: str
) -> None:
    """Check ENVELOPE's signature, and that what it says follows from its ledger."""
    certificate, digest = opened(envelope, key)
    checked = ["signature", "the certificate against itself"]
    if ledger is not None:
        require_file(ledger, digest)
        found = Ledger.read(ledger)
        certificate.require_ledger(found)
        require_figures(certificate, found)
        checked += ["the ledger's digest and hash chain", "every release", "the figures, computed again"]
    answer = {
        "verdict": certificate.proof,
        "experiment": certificate.experiment,
        "algorithm": certificate.algorithm,
        "claim": certificate.claim.to_json(),
        "ledger_sha256": digest,
        "checked": checked,
    }
    if output_format == "json":
        print_json(answer)
    else:
        print_text(*_text(envelope, certificate, checked))
    if ledger is None:
        note("not checked: whether its figures follow from a ledger; give it with --ledger")
    refuted = certificate.experiment is Experiment.REFUTED
    ctx.exit(EXIT_NOT_PROVED if refuted or not certificate.all_proved else 0)


def require_figures(certificate: Certificate, ledger: Ledger) -> None:
    """Account for the ledger again: the certificate may not promise more than comes out.

    Larger figures than today's accountants find are no forgery: accountants become tighter.

    Raises:
        CertificateMismatch: a figure, of the total or of a release, is smaller than the one computed; or a
            verdict is better.
    """
    rigours = {bound.rigour for bound in certificate.bounds}
    again = accounted(ledger, certificate.claim, "interval" if "interval" in rigours else "float-pessimistic")
    for complaint in (*_overstated(certificate, again), *understated(certificate.profile, ledger, again)):
        raise CertificateMismatch(complaint, where=f"certificate of {certificate.algorithm!r}")


def _overstated(certificate: Certificate, again: Accounting) -> list[str]:
    found = []
    if again.verdict is not certificate.proof and certificate.proof == "PROVED":
        found.append(f"it says PROVED; its ledger, accounted for again, gives {again.verdict}")
    for bound in certificate.bounds:
        computed = [one for one in again.bounds if one.method == bound.method] or list(again.bounds)
        if not any(meets(one.guarantee, bound.guarantee) for one in computed):
            found.append(
                f"its bound by {bound.method} is {bound.guarantee}; computed again it is "
                f"{computed[0].guarantee if computed else 'none'}"
            )
    for stated, release in zip(certificate.releases, again.releases, strict=True):
        if not meets(release.proved, stated.proved):
            found.append(f"release {release.label!r} is {release.proved}, not {stated.proved}")
    return found


def _text(envelope: Path, certificate: Certificate, checked: list[str]) -> list[Any]:
    return [
        unwrapped(str(envelope)),
        line(f"{certificate.algorithm}: {certificate.claim}"),
        line("proof", certificate.proof),
        line("experiment", certificate.experiment),
        line(f"checked: {'; '.join(checked)}"),
    ]
