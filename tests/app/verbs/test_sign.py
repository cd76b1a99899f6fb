import base64
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization

from dpaudit import Certificate
from dpaudit.app.main import main
from dpaudit.certificate.certificate import _stated
from dpaudit.certificate.signatures import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    pre_authentication_encoding,
)
from dpaudit.errors import CertificateMismatch
from dpaudit.ledger.header import canonical_bytes
from dpaudit.ledger.ledger import Ledger, encode
from dpaudit.pipeline.recheck import require_figures

Invoke = Callable[..., Result]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate with its ledger in ``out``, signed, and the key pair beside it."""
    folder = tmp_path_factory.mktemp("original")
    for words in (
        ["certify", "dp-apvi", "-o", f"{folder}/out", "--seed", "3"],
        ["keygen", f"{folder}/key"],
        ["sign", f"{folder}/out/certificate.json", "--key", f"{folder}/key"],
    ):
        assert CliRunner().invoke(main, words).exit_code == 0
    return folder


@pytest.fixture
def certified(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path / "out"


def test_a_signed_certificate_stands(dpaudit: Invoke, certified: Path, tmp_path: Path) -> None:
    arguments = [certified / "certificate.dsse.json", "--key", tmp_path / "key.pub"]
    result = dpaudit(
        "verify-cert", *arguments, "--ledger", certified / "ledger.jsonl", "--output-format", "json"
    )
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["verdict"] == "PROVED"
    assert "the figures, computed again" in answer["checked"]
    assert "audits" in answer["as_stated"]
    alone = dpaudit("verify-cert", *arguments)
    assert alone.exit_code == 0
    assert "not checked" in alone.stderr


def test_tampering_a_wrong_key_and_another_ledger_exit_3(
    dpaudit: Invoke, certified: Path, ledger_file: Callable[..., Path], tmp_path: Path
) -> None:
    envelope, key = certified / "certificate.dsse.json", tmp_path / "key.pub"
    dpaudit("keygen", tmp_path / "other")
    assert dpaudit("verify-cert", envelope, "--key", tmp_path / "other.pub").exit_code == 3

    other = dpaudit("verify-cert", envelope, "--key", key, "--ledger", ledger_file(0.5))
    assert other.exit_code == 3
    assert "DPA209" in other.stderr

    record = json.loads(envelope.read_text())
    record["payload"] = record["payload"][:-8] + "AAAA" + record["payload"][-4:]
    envelope.write_text(json.dumps(record))
    edited = dpaudit("verify-cert", envelope, "--key", key)
    assert edited.exit_code == 3
    assert "DPA208" in edited.stderr


def test_a_certificate_edited_consistently_is_found_by_computing_again(
    certified: Path, tmp_path: Path
) -> None:
    """Its own key signed it, its claim and its bounds agree: only the ledger tells."""
    ledger = Ledger.read(certified / "ledger.jsonl")
    require_figures(Certificate.read(certified / "certificate.json"), ledger)  # the innocent twin
    record = json.loads((certified / "certificate.json").read_text())
    for bound in record["bounds"]:
        bound["guarantee"]["rho"] /= 2
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(record))
    with pytest.raises(CertificateMismatch, match="computed again"):
        require_figures(Certificate.read(forged), ledger)


def test_false_figures_are_not_signed(dpaudit: Invoke, certified: Path, tmp_path: Path) -> None:
    """The innocent twin is what `certified` signed."""
    record = json.loads((certified / "certificate.json").read_text())
    for bound in record["bounds"]:
        bound["guarantee"]["rho"] /= 2
    (certified / "forged.json").write_text(json.dumps(record))
    forged = dpaudit("sign", certified / "forged.json", "--key", tmp_path / "key")
    assert (forged.exit_code, forged.stdout) == (3, "")
    assert "DPA209" in forged.stderr
    assert "computed again" in forged.stderr
    assert not (certified / "forged.dsse.json").exists()


def test_nothing_is_signed_without_its_ledger(
    dpaudit: Invoke, refusal: Any, certified: Path, tmp_path: Path
) -> None:
    command = ["sign", certified / "certificate.json", "--key", tmp_path / "key"]
    again = dpaudit(*command)
    assert again.exit_code == 0
    assert "as stated, not checked: audits; the processes of the run; the second opinion" in again.stderr
    moved = (certified / "ledger.jsonl").rename(tmp_path / "moved.jsonl")
    (certified / "certificate.dsse.json").unlink()
    assert "name it with --ledger" in refusal(*command)
    assert not (certified / "certificate.dsse.json").exists()
    assert dpaudit(*command, "--ledger", moved).exit_code == 0


def test_a_premise_of_the_ledger_cannot_be_left_out(
    dpaudit: Invoke, mine: Callable[[str], str], tmp_path: Path
) -> None:
    """Its premise is false; the forged certificate does not mention it, and contradicts itself nowhere."""
    out, key = tmp_path / "out", tmp_path / "key"
    about = ["--unit", "row", "--neighbouring", "replace-one", "--pair", mine("pair")]
    assert dpaudit("certify", mine("premised"), *about, "-o", out).exit_code == 1
    dpaudit("keygen", key)
    envelope, ledger = out / "certificate.dsse.json", out / "ledger.jsonl"
    assert dpaudit("sign", out / "certificate.json", "--key", key).exit_code == 0
    held = ["verify-cert", envelope, "--key", f"{key}.pub", "--ledger", ledger]
    assert dpaudit(*held).exit_code == 1  # the innocent twin: unproved, and it says so

    record = json.loads((out / "certificate.json").read_text())
    record["proof"], record["claim"]["premises"], record["publishable"] = "PROVED", [], True
    for audit in record["audits"]:
        audit["claim"]["premises"] = []
    forged = out / "forged.json"
    forged.write_text(json.dumps(record))
    assert Certificate.read(forged).proof == "PROVED"
    refused = dpaudit("sign", forged, "--key", key, "--ledger", ledger)
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "the premise enough rows" in refused.stderr

    # A signer who does not use `dpaudit sign` is not believed either.
    envelope.write_bytes(enveloped(record, ledger, key))
    found = dpaudit(*held)
    assert (found.exit_code, found.stdout) == (3, "")
    assert "the premise enough rows" in found.stderr


@pytest.mark.parametrize("source", ["none", "replayed"])
def test_a_run_without_noise_carries_no_certificate(
    dpaudit: Invoke, certified: Path, tmp_path: Path, source: str
) -> None:
    """Somebody who edits the header computes every later hash anew; the certificate names the last."""
    path, key = certified / "ledger.jsonl", tmp_path / "key"
    digest, lines = "", b""
    for line in path.read_text().splitlines():
        record = json.loads(line)
        del record["hash"]
        if record["record"] == "header":
            record["noise"]["source"] = source
        encoded, digest = encode(digest, canonical_bytes(record))
        lines += encoded
    path.write_bytes(lines)
    forged = certified / "certificate.json"
    record = {**json.loads(forged.read_text()), "ledger_hash": digest}
    forged.write_text(json.dumps(record))
    refused = dpaudit("sign", forged, "--key", key, "-o", tmp_path / "forged.dsse.json")
    assert (refused.exit_code, refused.stdout) == (3, "")
    assert "can never be certified" in refused.stderr
    assert not (tmp_path / "forged.dsse.json").exists()

    envelope = tmp_path / "enveloped.json"
    envelope.write_bytes(enveloped(record, path, key))
    found = dpaudit("verify-cert", envelope, "--key", f"{key}.pub", "--ledger", path)
    assert (found.exit_code, found.stdout) == (3, "")
    assert "DPA209" in found.stderr
    assert "its noise was" in found.stderr


def enveloped(record: dict[str, Any], ledger: Path, key: Path) -> bytes:
    """An envelope with a valid signature over whatever certificate is given."""
    private: Any = serialization.load_pem_private_key(key.read_bytes(), None)
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"digest": {"sha256": hashlib.sha256(ledger.read_bytes()).hexdigest()}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": record,
    }
    payload = json.dumps(statement).encode()
    signature = private.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    written = {
        name: base64.b64encode(part).decode() for name, part in (("payload", payload), ("sig", signature))
    }
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": written["payload"],
        "signatures": [{"sig": written["sig"]}],
    }
    return json.dumps(envelope).encode()


def test_an_envelope_is_never_written_over_what_it_is_made_from(
    dpaudit: Invoke, refusal: Any, certified: Path, tmp_path: Path
) -> None:
    certificate, ledger, key = certified / "certificate.json", certified / "ledger.jsonl", tmp_path / "key"
    (tmp_path / "link").symlink_to(key)
    before = [path.read_bytes() for path in (certificate, ledger, key)]
    for output in (certificate, ledger, key, tmp_path / "link", certified / ".." / "key"):
        refused = refusal("sign", certificate, "--key", key, "-o", output)
        assert "DPA105" in refused
        assert "would be written over" in refused
        assert [path.read_bytes() for path in (certificate, ledger, key)] == before
    assert dpaudit("sign", certificate, "--key", key, "--ledger", key).exit_code != 0
    for taken in (certificate, ledger, key):
        assert dpaudit("keygen", taken).exit_code == 2
    assert [path.read_bytes() for path in (certificate, ledger, key)] == before
    # The innocent twin: an earlier envelope is replaced.
    assert dpaudit("sign", certificate, "--key", key).exit_code == 0


def test_a_password_is_whatever_bytes_the_environment_holds(
    dpaudit: Invoke, certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private: Any = serialization.load_pem_private_key((tmp_path / "key").read_bytes(), None)
    locked = tmp_path / "locked"
    encryption = serialization.BestAvailableEncryption(b"secr\xe9t")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked.write_bytes(private.private_bytes(pem, pkcs8, encryption))
    command = ["sign", certified / "certificate.json", "--key"]
    for key, password, exit_code in (
        (locked, b"secr\xe9t", 0),
        (locked, b"secret", 2),
        (locked, b"", 2),
        (tmp_path / "key", b"secr\xe9t", 2),
        (tmp_path / "key", b"", 0),
    ):
        monkeypatch.setenv("DPAUDIT_KEY_PASSWORD", os.fsdecode(password))
        result = dpaudit(*command, key)
        assert result.exit_code == exit_code
        assert "fault in dpaudit" not in result.stderr
        assert ("the environment variable DPAUDIT_KEY_PASSWORD" in result.stderr) is (exit_code == 2)


def _halve_a_curve(record: dict[str, Any]) -> None:
    points = record["profile"][0]["points"]
    record["profile"][0]["points"] = [[epsilon, delta / 2] for epsilon, delta in points]


def _add_a_bound_on_another_scale(record: dict[str, Any]) -> None:
    guarantee = {"kind": "pure-dp", "epsilon": record["bounds"][-1]["guarantee"]["rho"]}
    record["bounds"].append({"guarantee": guarantee, "method": "zcdp", "rigour": "float-pessimistic"})


def _state_a_release_on_another_scale(record: dict[str, Any]) -> None:
    release = record["releases"][0]
    release["claimed"] = None
    release["proved"] = {"kind": "pure-dp", "epsilon": release["proved"]["rho"]}


def _round_more_carefully(record: dict[str, Any]) -> None:
    for bound in record["bounds"]:
        bound["rigour"] = "interval"


def _round_a_curve_more_carefully(record: dict[str, Any]) -> None:
    record["profile"][0]["rigour"] = "interval"


def _say_that_it_is_tight(record: dict[str, Any]) -> None:
    record["bounds"][0]["at_least"] = record["bounds"][0]["guarantee"]["rho"]


def _leave_out_what_is_trusted(record: dict[str, Any]) -> None:
    record["not_checked"] = [c for c in record["not_checked"] if c["code"] != "only-through-ledger"]


def _say_that_a_replay_was_not_asked_for(record: dict[str, Any]) -> None:
    record["audits"] = []
    record["not_checked"].append({"code": "no-audit"})


def test_no_figure_is_believed_that_the_ledger_does_not_bear_out(certified: Path) -> None:
    ledger = Ledger.read(certified / "ledger.jsonl")
    for forge, complaint in (
        (_halve_a_curve, "its curve by"),
        (_add_a_bound_on_another_scale, "its bound by zcdp"),
        (_state_a_release_on_another_scale, "release 'n_sa'"),
        (_round_more_carefully, "not_checked lacks single-figures-rounded"),
        (_round_a_curve_more_carefully, "has rigour interval, which no curve"),
        (_say_that_it_is_tight, "could not be below 1, which no bound"),
        (_leave_out_what_is_trusted, "not_checked lacks only-through-ledger"),
        (_say_that_a_replay_was_not_asked_for, "not_checked lacks fixed-sequence"),
    ):
        record = json.loads((certified / "certificate.json").read_text())
        forge(record)
        with pytest.raises(CertificateMismatch, match=complaint):
            require_figures(Certificate(**_stated(record)), ledger)


@pytest.mark.parametrize("rigour", ["float-pessimistic", "interval"])
def test_an_enclosure_is_no_tighter_than_it_is_computed(
    dpaudit: Invoke, mine: Callable[[str], str], tmp_path: Path, rigour: str
) -> None:
    claim = ["--epsilon", 3, "--delta", 1e-6, "--unit", "row", "--neighbouring", "replace-one"]
    run = ["certify", mine("sums"), *claim, "--pair", mine("pair"), "--rigour", rigour, "-o", tmp_path]
    assert dpaudit(*run).exit_code == 0
    ledger = Ledger.read(tmp_path / "ledger.jsonl")
    require_figures(Certificate.read(tmp_path / "certificate.json"), ledger)  # the innocent twin
    record = json.loads((tmp_path / "certificate.json").read_text())
    bound = next(bound for bound in record["bounds"] if "at_least" in bound)
    assert bound["rigour"] == rigour
    # A larger bound is no forgery: but nothing says that the releases cost at least as much.
    record["bounds"] = [bound]
    bound["guarantee"]["epsilon"] *= 1.002
    require_figures(Certificate(**_stated(record)), ledger)
    bound["at_least"] *= 1.001
    with pytest.raises(CertificateMismatch, match="could not be below"):
        require_figures(Certificate(**_stated(record)), ledger)


def test_a_refuted_or_unproved_certificate_exits_1(
    dpaudit: Invoke, mine: Callable[[str], str], tmp_path: Path
) -> None:
    dpaudit("keygen", tmp_path / "key")
    target = mine("overclaimed")
    arguments = ["--rho", 0.125, "--unit", "row", "--neighbouring", "replace-one", "--pair", mine("pair")]
    out = tmp_path / "out"
    assert dpaudit("certify", target, *arguments, "-o", out).exit_code == 1
    assert dpaudit("sign", out / "certificate.json", "--key", tmp_path / "key").exit_code == 0
    result = dpaudit(
        "verify-cert",
        out / "certificate.dsse.json",
        "--key",
        tmp_path / "key.pub",
        "--ledger",
        out / "ledger.jsonl",
    )
    assert result.exit_code == 1
