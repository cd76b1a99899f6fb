"""Signed certificates: Ed25519 over an in-toto statement in a DSSE envelope.

The statement's subject is the ledger file, by the SHA-256 of its bytes; its predicate is the certificate.
So one signature binds the figures to their ledger file. Formats: Dead Simple Signing
Envelope 1.0, in-toto Attestation Framework 1, keys in PEM (PKCS #8 and SubjectPublicKeyInfo), as `openssl
genpkey -algorithm ed25519` also writes them. A signature does not show that the figures are right (account
for the ledger again), or who owns the key (learn that from another source).
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from dpaudit.certificate.certificate import Certificate
from dpaudit.errors import (
    CertificateFormat,
    CertificateMismatch,
    MissingExtra,
    NotCertifiable,
    SignatureInvalid,
    UsageError,
)
from dpaudit.json_text import strictly_parsed
from dpaudit.ledger.files import replace_file
from dpaudit.ledger.ledger import Ledger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def _decoded(text: Any) -> bytes:
    """Decode base64, standard or URL-safe: an envelope may hold either."""
    if not isinstance(text, str):
        raise ValueError("must be base64")  # noqa: TRY004  (pydantic reports ValueErrors)
    return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)


_Base64 = Annotated[bytes, BeforeValidator(_decoded)]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:dpaudit:certificate:2"

#: The environment variable with an encrypted key's password: an option would stay in the shell's history.
PASSWORD: Final = "DPAUDIT_KEY_PASSWORD"  # noqa: S105  (the variable's name, not a password)

_OURS: Final = "the .dsse.json file that `dpaudit sign` wrote"


def generate_keys(path: str | Path) -> tuple[Path, Path]:
    """Write a new private key, readable by its owner alone, and ``<path>.pub`` beside it.

    Raises `UsageError` if one of the files exists already, and `MissingExtra` without `cryptography`.
    """
    private, public = Path(path), Path(f"{path}.pub")
    _require_library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for file in (private, public):
        if file.exists():
            why = "nothing can be signed again with a key that was overwritten"
            remedy = "name another file, or move this one away"
            raise UsageError("exists already", where=str(file), why=why, remedy=remedy)
    key = Ed25519PrivateKey.generate()
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    shown = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    replace_file(public, shown)
    replace_file(private, secret, mode=0o600)
    return private, public


def sign(
    certificate: Certificate, ledger: str | Path, key: str | Path, *, password: bytes | None = None
) -> bytes:
    """Return a JSON envelope that binds a certificate to its ledger file under a private key in PEM.

    Raises `NotCertifiable` if the run diverged from its twin, `CertificateMismatch` if the certificate is
    about another ledger, `UsageError` if the key cannot be used, and `MissingExtra` without
    `cryptography`.
    """
    if certificate.diverged:
        what = "the certificate of a run that diverged from its twin"
        why = "records decided what was released, and a signed certificate is made to be shown"
        remedy = "see what went wrong by `dpaudit certify --show-target-errors`; correct it and certify again"
        where = f"certificate of {certificate.algorithm!r}"
        raise NotCertifiable(what, where=where, why=why, remedy=remedy)
    signing: Ed25519PrivateKey = _key(Path(key), "private", password)
    certificate.require_ledger(Ledger.read(ledger, allow_unhashed=True))
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": Path(ledger).name, "digest": {"sha256": _digest(Path(ledger))}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": certificate.to_json(),
    }
    payload = json.dumps(statement, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    signature = base64.b64encode(signing.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))).decode()
    signatures = [{"keyid": key_id(signing.public_key()), "sig": signature}]
    body = base64.b64encode(payload).decode()
    envelope = {"payloadType": PAYLOAD_TYPE, "payload": body, "signatures": signatures}
    return json.dumps(envelope, indent=2).encode() + b"\n"


def read_signed(envelope: str | Path, key: str | Path) -> tuple[Certificate, str]:
    """Return the certificate in an envelope signed by the key, and its ledger file's SHA-256.

    One valid signature by the key is enough: signatures by unknown keys and malformed signatures are
    ignored, as the standard asks. The payload is read only after that check. The key is a PEM file with an
    Ed25519 public key.

    Raises:
        SignatureInvalid: no signature of the envelope is by this key, or the envelope is incomplete.
        CertificateFormat: the key signed something other than a certificate.
        UsageError: the key cannot be used, or the envelope cannot be read.
        MissingExtra: `cryptography` is not installed.
    """
    trusted: Ed25519PublicKey = _key(Path(key), "public")
    where = str(envelope)
    try:
        text = Path(envelope).read_bytes()
    except OSError as error:
        what, why = f"cannot be read: {error.strerror}", "there is no signature to check"
        raise UsageError(what, where=where, why=why, remedy=f"name {_OURS}") from None
    try:
        found = _parsed(_Envelope, text)
    except ValueError as error:
        what = f"no DSSE envelope over an in-toto statement: {error}"
        why = "a file that was cut short or edited carries no signature"
        remedy = f"give {_OURS}, or ask the signer for it again"
        raise SignatureInvalid(what, where=where, why=why, remedy=remedy) from None
    if not any(_is_signed(trusted, found.payload, signature) for signature in found.signatures):
        what = f"none of its {len(found.signatures)} signatures is by the key {key_id(trusted)[:16]}"
        raise SignatureInvalid(what, where=where)
    try:
        statement = _parsed(_Statement, found.payload)
    except ValueError as error:
        what = f"signed, but not an in-toto statement about one ledger's certificate: {error}"
        why = "a signature of anything else says nothing about a privacy claim"
        raise CertificateFormat(what, where=where, why=why, remedy=f"give {_OURS}") from None
    certificate = Certificate.from_record(statement.predicate, where=f"{where}: predicate")
    return certificate, statement.subject[0].digest.sha256


def require_file(ledger: str | Path, digest: str) -> None:
    """Raise `CertificateMismatch` unless the ledger file has the signed hash."""
    try:
        found = _digest(Path(ledger))
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        why = "there is no ledger to hold the certificate against"
        remedy = "name the ledger that was written beside the certificate"
        raise UsageError(what, where=str(ledger), why=why, remedy=remedy) from None
    if found != digest:
        what = f"its SHA-256 is {found[:16]}..., the one signed for is {digest[:16]}..."
        raise CertificateMismatch(what, where=str(ledger))


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the signed bytes: type and content with their lengths, so that they cannot be confused."""
    name = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of the public key's DER form, in hexadecimal: a hint at the key, not a proof."""
    from cryptography.hazmat.primitives import serialization

    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


class _Envelope(BaseModel):
    """A DSSE envelope; unknown fields and malformed signatures are ignored, as its standard asks."""

    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815  (the standard's name)
    payload: _Base64
    signatures: list[Any]


class _Digests(BaseModel):
    sha256: str


class _Subject(BaseModel):
    digest: _Digests


class _Statement(BaseModel):
    """An in-toto statement about one file."""

    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Subject]
    predicateType: Literal["urn:dpaudit:certificate:2"]  # noqa: N815  (the standard's name)
    predicate: dict[str, Any]


_Record = TypeVar("_Record", bound=BaseModel)


def _parsed(kind: type[_Record], text: bytes) -> _Record:
    """Return the record; a `ValueError` describes a fault."""
    try:
        return kind.model_validate(strictly_parsed(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else "no JSON object") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _is_signed(key: Ed25519PublicKey, payload: bytes, entry: Any) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        signature = _decoded(entry["sig"])
        key.verify(signature, pre_authentication_encoding(PAYLOAD_TYPE, payload))
    except (InvalidSignature, ValueError, TypeError, LookupError):
        return False
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_library() -> None:
    try:
        import cryptography  # noqa: F401  (a test that it is installed)
    except ImportError:
        what = "signatures need the library cryptography"
        why = "without it nothing can be signed, and no signature checked"
        raise MissingExtra(what, where="signatures", why=why, remedy="pip install 'dpaudit[sign]'") from None


def _key(path: Path, kind: Literal["private", "public"], password: bytes | None = None) -> Any:
    """Return the Ed25519 key of this kind from a PEM file."""
    _require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    remedy = "make a pair with `dpaudit keygen KEY`: sign with KEY, check with KEY.pub"
    key: object
    try:
        if kind == "private":
            key = serialization.load_pem_private_key(path.read_bytes(), password)
        else:
            key = serialization.load_pem_public_key(path.read_bytes())
        wanted = ed25519.Ed25519PrivateKey if kind == "private" else ed25519.Ed25519PublicKey
        if isinstance(key, wanted):
            return key
        reason = "a key of another kind"
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        words = error.strerror if isinstance(error, OSError) else str(error).split("\n")[0].split(",")[0]
        reason = f"{words}"
        if isinstance(error, TypeError):  # the library's error for a missing or a superfluous password
            remedy = f"the key is not encrypted: unset the environment variable {PASSWORD}"
            if password is None:
                remedy = f"the key is encrypted: set the environment variable {PASSWORD} to its password"
        elif password is not None and "password" in str(error):
            remedy = f"set the environment variable {PASSWORD} to this key's password"
    what = f"cannot be used as an Ed25519 {kind} key: {reason}"
    where = str(path)
    raise UsageError(what, where=where, why="signatures are checked against exactly one key", remedy=remedy)
