"""Signed certificates: Ed25519 over an in-toto statement in a DSSE envelope.

The statement's subject is the ledger file, by the SHA-256 of its bytes; its predicate is the certificate.
So one signature binds the figures to the file that they were computed from. Formats: Dead Simple Signing
Envelope 1.0, in-toto Attestation Framework 1, keys in PEM (PKCS #8 and SubjectPublicKeyInfo), as `openssl
genpkey -algorithm ed25519` writes them too. What a signature does not say: that the figures are right
(account for the ledger again), or that the key is whose one thinks (learn it some other way).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from dpaudit.certificate import Certificate
from dpaudit.errors import CertificateFormat, CertificateMismatch, MissingExtra, SignatureInvalid, UsageError
from dpaudit.files import replace_file
from dpaudit.json_text import strictly_parsed
from dpaudit.ledger import Ledger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def _decoded(text: Any) -> bytes:
    """Base64, standard or for addresses: an envelope may hold either."""
    if not isinstance(text, str):
        raise ValueError("must be base64")  # noqa: TRY004  (pydantic reports ValueErrors)
    return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)


_Base64 = Annotated[bytes, BeforeValidator(_decoded)]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:dpaudit:certificate:1"


def generate_keys(path: str | Path) -> tuple[Path, Path]:
    """Write a new private key, readable by its owner alone, and ``<path>.pub`` beside it.

    Raises:
        UsageError: one of the files exists already.
        MissingExtra: the library `cryptography` is not installed.
    """
    private, public = Path(path), Path(f"{path}.pub")
    _library()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    for file in (private, public):
        if file.exists():
            raise UsageError(
                "exists already",
                where=str(file),
                why="what was signed with a key that is overwritten can be signed by nobody again",
                remedy="name another file, or move this one away",
            )
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
    """The envelope, as JSON, that binds a certificate to its ledger's file under a private key.

    Args:
        certificate: what is signed.
        ledger: the ledger's file; the certificate must be about it.
        key: a PEM file with an Ed25519 private key.
        password: the key's, if it is encrypted.

    Raises:
        CertificateMismatch: the certificate is about another ledger.
        UsageError: the key cannot be used.
        MissingExtra: the library `cryptography` is not installed.
    """
    signing = _private_key(Path(key), password)
    certificate.require_ledger(Ledger.read(ledger))
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": Path(ledger).name, "digest": {"sha256": _digest(Path(ledger))}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": certificate.to_json(),
    }
    payload = json.dumps(statement, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    signature = signing.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(signing.public_key()), "sig": base64.b64encode(signature).decode()}],
    }
    return json.dumps(envelope, indent=2).encode() + b"\n"


def opened(envelope: str | Path, key: str | Path) -> tuple[Certificate, str]:
    """The certificate in an envelope that the key has signed, and its ledger file's SHA-256.

    Nothing of the payload is looked at before the signature is known to be valid.

    Args:
        envelope: the file.
        key: a PEM file with the Ed25519 public key that is trusted.

    Raises:
        SignatureInvalid: no signature of the envelope is by this key.
        CertificateFormat: not an envelope, or one about something else than a certificate.
        UsageError: the key cannot be used.
        MissingExtra: the library `cryptography` is not installed.
    """
    trusted = _public_key(Path(key))
    where = str(envelope)
    try:
        found = _parsed(_Envelope, Path(envelope).read_bytes(), where)
    except OSError as error:
        raise CertificateFormat(f"cannot be read: {error.strerror}", where=where) from None
    if not any(_is_signed(trusted, found.payload, signature.sig) for signature in found.signatures):
        raise SignatureInvalid(
            f"none of its {len(found.signatures)} signatures is by the key {key_id(trusted)[:16]}",
            where=where,
        )
    statement = _parsed(_Statement, found.payload, where)
    certificate = Certificate.from_record(statement.predicate, where=f"{where}: predicate")
    return certificate, statement.subject[0].digest.sha256


def require_file(ledger: str | Path, digest: str) -> None:
    """Raise `CertificateMismatch` unless the ledger's file is the one that was signed for."""
    found = _digest(Path(ledger))
    if found != digest:
        raise CertificateMismatch(
            f"its SHA-256 is {found[:16]}..., the one signed for is {digest[:16]}...", where=str(ledger)
        )


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What is really signed: type and content with their lengths, so that neither passes for the other."""
    name = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key's DER form, in hexadecimal: a hint which key it was, never a proof."""
    from cryptography.hazmat.primitives import serialization

    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


class _Signature(BaseModel):
    sig: _Base64


class _Envelope(BaseModel):
    """A DSSE envelope; fields that it does not know are ignored, as its standard asks."""

    payloadType: Literal["application/vnd.in-toto+json"]  # noqa: N815  (the standard's name)
    payload: _Base64
    signatures: list[_Signature]


class _Digests(BaseModel):
    sha256: str


class _Subject(BaseModel):
    digest: _Digests


class _Statement(BaseModel):
    """An in-toto statement about one file."""

    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: tuple[_Subject]
    predicateType: Literal["urn:dpaudit:certificate:1"]  # noqa: N815  (the standard's name)
    predicate: dict[str, Any]


_Record = TypeVar("_Record", bound=BaseModel)


def _parsed(kind: type[_Record], text: bytes, where: str) -> _Record:
    try:
        return kind.model_validate(strictly_parsed(text))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise CertificateFormat(
        f"not a DSSE envelope over an in-toto statement about one ledger's certificate: {reason}",
        where=where,
        why="a signature under something else says nothing about a privacy claim",
        remedy="give the file that `dpaudit sign` wrote",
    )


def _is_signed(key: Ed25519PublicKey, payload: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, pre_authentication_encoding(PAYLOAD_TYPE, payload))
    except InvalidSignature:
        return False
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _library() -> None:
    try:
        import cryptography  # noqa: F401  (only whether it is there)
    except ImportError:
        raise MissingExtra(
            "signatures need the library cryptography",
            where="signatures",
            why="without it nothing can be signed, and no signature checked",
            remedy="pip install 'dpaudit[sign]'",
        ) from None


def _private_key(path: Path, password: bytes | None) -> Ed25519PrivateKey:
    _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(path, "private", error) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(path, "private", "a key of another kind")
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise _unusable(path, "public", error) from None
    if not isinstance(key, Ed25519PublicKey):
        raise _unusable(path, "public", "a key of another kind")
    return key


def _unusable(path: Path, kind: str, error: object) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else str(error).split("\n")[0].split(",")[0]
    return UsageError(
        f"cannot be used as an Ed25519 {kind} key: {reason}",
        where=os.fspath(path),
        why="signatures are checked against exactly one key",
        remedy="make a pair with `dpaudit keygen KEY`: sign with KEY, check with KEY.pub",
    )
