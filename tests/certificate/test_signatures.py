"""Envelopes that another implementation reads, and ours refuses unless they are as they were signed."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from dpaudit import ZCDP, Certificate, Claim, Curator, judge, run
from dpaudit.accountants.accounting import account
from dpaudit.certificate.signatures import (
    generate_keys,
    pre_authentication_encoding,
    read_signed,
    require_file,
    sign,
)
from dpaudit.errors import CertificateFormat, CertificateMismatch, SignatureInvalid, UsageError
from tests import make


def algorithm(data: Any, curator: Curator) -> Any:
    return curator.release(data, make.gaussian(4.0, 2.0), label="sum")


class Signed:
    """A certificate, its ledger, a key pair and the envelope, in a folder."""

    def __init__(self, folder: Path) -> None:
        claim = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")
        ledger = run(algorithm, np.zeros(2), claim=claim).ledger
        self.ledger = ledger.write(folder / "ledger.jsonl")
        self.certificate = judge(ledger, account(ledger), [], command="dpaudit certify")
        self.private, self.public = generate_keys(folder / "key")
        self.envelope = folder / "certificate.dsse.json"
        self.text = sign(self.certificate, self.ledger, self.private)
        self.envelope.write_bytes(self.text)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return Signed(tmp_path_factory.mktemp("signed"))


def test_the_standards_own_example_of_what_is_signed() -> None:
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_a_signed_certificate_is_read_back(signed: Signed) -> None:
    certificate, digest = read_signed(signed.envelope, signed.public)
    assert certificate == signed.certificate
    require_file(signed.ledger, digest)


def test_another_implementation_accepts_the_envelope_and_refuses_another_key(
    signed: Signed, tmp_path: Path
) -> None:
    envelope = Envelope.from_dict(json.loads(signed.text))
    (name,) = (signature.keyid for signature in envelope.signatures.values())
    assert len(envelope.verify([_foreign(signed.public, name)], 1)) == 1
    _, other = generate_keys(tmp_path / "other")
    with pytest.raises(VerificationError):
        envelope.verify([_foreign(other, name)], 1)


def _foreign(public: Path, name: str) -> SSlibKey:
    return SSlibKey.from_crypto(serialization.load_pem_public_key(public.read_bytes()), keyid=name)


def test_only_the_owner_reads_the_private_key(signed: Signed) -> None:
    assert stat.S_IMODE(signed.private.stat().st_mode) == 0o600


def test_a_key_is_never_overwritten(signed: Signed) -> None:
    before = signed.private.read_bytes()
    with pytest.raises(UsageError, match="exists already"):
        generate_keys(signed.private)
    assert signed.private.read_bytes() == before


def test_a_wrong_key_is_found(signed: Signed, tmp_path: Path) -> None:
    _, other = generate_keys(tmp_path / "other")
    with pytest.raises(SignatureInvalid):
        read_signed(signed.envelope, other)


def test_a_figure_changed_after_signing_is_found(signed: Signed, tmp_path: Path) -> None:
    record = json.loads(signed.text)
    statement = json.loads(base64.b64decode(record["payload"]))
    statement["predicate"]["algorithm"] = "another"
    record["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(record))
    with pytest.raises(SignatureInvalid):
        read_signed(path, signed.public)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_one_byte_changed_is_an_error_or_changes_nothing(
    signed: Signed, tmp_path: Path, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(signed.text) - 1))
    value = data.draw(st.integers(0, 255))
    edited = signed.text[:place] + bytes([value]) + signed.text[place + 1 :]
    path = tmp_path / "edited.json"
    path.write_bytes(edited)
    try:
        certificate, digest = read_signed(path, signed.public)
    except SignatureInvalid:
        return
    # What is left: the key's hint, white space, an unused bit of base64.
    assert certificate == signed.certificate
    require_file(signed.ledger, digest)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"payloadType": 1}', '{"payload": "?"}', "[" * 100_000, '{"a": NaN}']
)
def test_what_is_no_envelope_is_said_to_be_none(signed: Signed, tmp_path: Path, text: str) -> None:
    path = tmp_path / "e.json"
    path.write_text(text)
    with pytest.raises(SignatureInvalid, match="no DSSE envelope") as caught:
        read_signed(path, signed.public)
    assert caught.value.exit_status == 3


def test_an_envelope_that_was_cut_or_relabelled_carries_no_signature(signed: Signed, tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    record = json.loads(signed.text)
    for length in range(0, len(signed.text.rstrip()), 97):
        path.write_bytes(signed.text[:length])
        with pytest.raises(SignatureInvalid):
            read_signed(path, signed.public)
    for edited in (
        {**record, "payloadType": "application/json"},
        {**record, "payload": "!!"},
        {**record, "payload": None},
        {**record, "signatures": []},
        {**record, "signatures": None},
        {name: value for name, value in record.items() if name != "payloadType"},
    ):
        path.write_text(json.dumps(edited))
        with pytest.raises(SignatureInvalid):
            read_signed(path, signed.public)


@pytest.mark.parametrize(
    "extra",
    [
        {"sig": "!!"},
        {"sig": "AAAA"},
        {"sig": None},
        {"sig": "é"},
        {"keyid": "another"},
        {},
        None,
        "sig",
        3,
        [],
    ],
)
def test_entries_that_are_no_signatures_hide_none(signed: Signed, tmp_path: Path, extra: Any) -> None:
    path = tmp_path / "e.json"
    record = json.loads(signed.text)
    for entries in ([extra, *record["signatures"]], [*record["signatures"], extra]):
        path.write_text(json.dumps({**record, "signatures": entries}))
        assert read_signed(path, signed.public)[0] == signed.certificate
    path.write_text(json.dumps({**record, "signatures": [extra]}))
    with pytest.raises(SignatureInvalid, match="none of its 1 signatures"):
        read_signed(path, signed.public)


def test_an_envelope_that_cannot_be_read_is_another_matter(signed: Signed, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(UsageError, match="cannot be read") as caught:
            read_signed(path, signed.public)
        assert "no signature to check" in caught.value.why
        assert "dpaudit sign" in caught.value.remedy


def test_a_ledger_that_cannot_be_read_is_another_matter(signed: Signed, tmp_path: Path) -> None:
    _, digest = read_signed(signed.envelope, signed.public)
    for path in (tmp_path, tmp_path / "absent.jsonl"):
        with pytest.raises(UsageError, match="cannot be read") as caught:
            require_file(path, digest)
        assert "beside the certificate" in caught.value.remedy


def test_a_ledger_without_hashes_carries_no_certificate(signed: Signed, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in signed.ledger.read_text().splitlines()]
    path = tmp_path / "unhashed.jsonl"
    bare = [{name: value for name, value in line.items() if name != "hash"} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in bare))
    with pytest.raises(CertificateMismatch, match="without its hash chain"):
        sign(signed.certificate, path, signed.private)


def test_a_valid_signature_under_something_else_is_no_certificate(signed: Signed, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(signed.private.read_bytes(), None)
    payload = json.dumps({"_type": "https://in-toto.io/Statement/v1", "subject": []}).encode()
    signature = key.sign(pre_authentication_encoding("application/vnd.in-toto+json", payload))  # type: ignore[union-attr,call-arg]
    path = tmp_path / "e.json"
    encoded = {"payload": payload, "sig": signature}
    words = {name: base64.b64encode(value).decode() for name, value in encoded.items()}
    path.write_text(
        json.dumps(
            {
                "payloadType": "application/vnd.in-toto+json",
                "payload": words["payload"],
                "signatures": [{"sig": words["sig"]}],
            }
        )
    )
    with pytest.raises(CertificateFormat, match="ledger's certificate"):
        read_signed(path, signed.public)


def test_a_certificate_of_another_ledger_is_not_signed(signed: Signed, tmp_path: Path) -> None:
    other = run(algorithm, np.ones(2), claim=signed.certificate.claim).ledger.write(tmp_path / "other.jsonl")
    with pytest.raises(CertificateMismatch):
        sign(signed.certificate, other, signed.private)
    _, digest = read_signed(signed.envelope, signed.public)
    with pytest.raises(CertificateMismatch, match="SHA-256"):
        require_file(other, digest)


def test_keys_of_other_kinds_are_refused(signed: Signed, tmp_path: Path) -> None:
    elliptic = generate_private_key(SECP256R1())
    path = tmp_path / "ec"
    path.write_bytes(
        elliptic.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    for file in (path, signed.public, tmp_path / "absent", tmp_path):
        with pytest.raises(UsageError, match="Ed25519 private key"):
            sign(signed.certificate, signed.ledger, file)
    with pytest.raises(UsageError, match="Ed25519 public key"):
        read_signed(signed.envelope, signed.private)


def test_an_encrypted_key_needs_its_password(signed: Signed, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(signed.private.read_bytes(), None)
    locked = tmp_path / "locked"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for file, password, words in (
        (locked, None, "is encrypted: set the environment variable DPAUDIT_KEY_PASSWORD"),
        (locked, b"wrong", "set the environment variable DPAUDIT_KEY_PASSWORD to this key's"),
        (signed.private, b"secret", "not encrypted: unset the environment variable DPAUDIT_KEY_PASSWORD"),
        (signed.public, b"secret", "sign with KEY"),
    ):
        with pytest.raises(UsageError, match="Ed25519 private key") as caught:
            sign(signed.certificate, signed.ledger, file, password=password)
        assert words in caught.value.remedy
    # Ed25519 has no randomness of its own: the same envelope.
    assert sign(signed.certificate, signed.ledger, locked, password=b"secret") == signed.text


def test_the_certificate_on_disk_is_what_is_signed(signed: Signed, tmp_path: Path) -> None:
    read = Certificate.read(signed.certificate.write(tmp_path / "c.json"))
    assert sign(read, signed.ledger, signed.private) == signed.text
