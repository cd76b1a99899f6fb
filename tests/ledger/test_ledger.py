import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import L2, ZCDP, Claim, Gaussian, Ledger, Partition, Release, run
from dpaudit.errors import (
    DpauditError,
    InputError,
    IntegrityError,
    InvalidParameter,
    LedgerFormat,
    LedgerTampered,
    LedgerTruncated,
    LedgerVersion,
    NotCertifiable,
    RecordAfterFooter,
    UnhashedLedger,
    UsageError,
)
from tests import make
from tests.sweeps import sweep

BY_HAND = """\
{"record":"header","schema":"dpaudit.ledger/1","algorithm":"dp-apvi","unit":"trajectory",\
"neighbouring":"replace-one","trust_model":"central","schedule":"fixed",\
"claim":{"guarantee":{"kind":"zcdp","rho":0.5}},"parameters":{"horizon":3}}
{"record":"release","label":"n_sa","mechanism":{"kind":"gaussian","sigma":3.4641016151377544,\
"sensitivity":{"value":2.449489742783178,"norm":"l2","basis":"clipped"}},"count":1,\
"claimed":{"kind":"zcdp","rho":0.25}}
"""


def gaussian(sigma: float = 3.4641016151377544) -> Gaussian:
    return make.gaussian(sigma, 2.449489742783178)


def algorithm(data: Any, curator: Any) -> Any:
    curator.release(data, gaussian(), label="first")
    curator.release(data, make.laplace(1e-7, 2e-7), label="zweite Änderung", partition="a")
    return curator.release([data, data], gaussian(0.1 + 0.2), label="third", count=2, claimed=ZCDP(rho=1e3))


def written(path: Path) -> Path:
    run(algorithm, 0.0, claim=Claim(ZCDP(rho=0.5)), parameters={"delta": 1e-9, "x": [1.5, None]}, path=path)
    return path


def refused(path: Path, content: bytes | str, **allowed: bool) -> DpauditError:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((InputError, IntegrityError)) as caught:
        Ledger.read(path, **allowed)
    assert caught.value.where
    return caught.value  # type: ignore[return-value]


def chained(records: list[dict[str, Any]]) -> str:
    """A ledger file by the text of the format alone, with fields in the order they were given."""
    previous, lines = "", []
    for record in records:
        previous = hashlib.sha256(previous.encode() + rfc8785.dumps(record)).hexdigest()
        lines.append(json.dumps({**record, "hash": previous}))
    return "\n".join(lines) + "\n"


def records(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in found:
        del record["hash"]
    return found


def test_each_hash_is_sha256_over_the_last_hash_and_the_canonical_record(tmp_path: Path) -> None:
    path = written(tmp_path / "l.jsonl")
    previous = ""
    for line in path.read_bytes().splitlines():
        record = json.loads(line)
        stated = record.pop("hash")
        previous = hashlib.sha256(previous.encode() + rfc8785.dumps(record)).hexdigest()
        assert stated == previous
    assert Ledger.read(path).hash == previous


def test_any_order_of_fields_and_any_json_writer_will_do(tmp_path: Path) -> None:
    path = written(tmp_path / "l.jsonl")
    whole = Ledger.read(path)
    path.write_text(chained(records(path)))
    again = Ledger.read(path)
    assert again.releases == whole.releases
    assert again.hash == whole.hash


NUMBERS = st.floats(1e-12, 1e12)
MECHANISMS = st.builds(
    lambda sigma, size: Gaussian(sigma=sigma, sensitivity=L2(size, "proved")), NUMBERS, NUMBERS
) | st.builds(make.laplace, NUMBERS, NUMBERS)
RELEASES = st.builds(
    Release,
    label=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
    mechanism=MECHANISMS,
    count=st.integers(1, 10**6),
    partition=st.none()
    | st.builds(
        Partition, part=st.text("ab"), split=st.text("xy"), by=st.sampled_from(["position", "values"])
    ),
    claimed=st.none() | st.builds(lambda rho: ZCDP(rho=rho), NUMBERS),
)


@given(st.lists(RELEASES, max_size=5), st.dictionaries(st.text("pq"), NUMBERS | st.booleans() | st.none()))
def test_what_is_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, releases: list[Release], parameters: dict[str, Any]
) -> None:
    claim = Claim(ZCDP(rho=1.0))
    ledger = make.ledger(*releases, neighbouring="zero-out", parameters=parameters, claim=claim)
    again = Ledger.read(ledger.write(tmp_path_factory.getbasetemp() / "round.jsonl"))
    assert (again.header, again.releases, again.hash) == (ledger.header, tuple(releases), ledger.hash)
    assert again.complete
    assert again.claim == ledger.claim
    assert list(again.lines()) == list(ledger.lines())


def test_a_file_by_hand_is_read_only_with_permission_and_never_certifiable(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    assert isinstance(refused(path, BY_HAND), UnhashedLedger)
    for content in (BY_HAND, BY_HAND.rstrip("\n")):
        path.write_text(content)
        ledger = Ledger.read(path, allow_unhashed=True)
        assert ledger.releases[0].mechanism == Gaussian(
            sigma=3.4641016151377544, sensitivity=L2(2.449489742783178, "clipped")
        )
        assert ledger.releases[0].claimed == ZCDP(rho=0.25)
        with pytest.raises(NotCertifiable, match="hash chain"):
            ledger.require_certifiable()


def test_a_slip_in_the_last_line_by_hand_is_never_passed_over(tmp_path: Path) -> None:
    release = BY_HAND.splitlines()[1]
    of_release = (release[:-1], release.replace("1,", "1,,"), release.replace("2.449489742783178", "NaN"))
    for slip in (*of_release, "x"):
        refused(tmp_path / "l.jsonl", BY_HAND + slip, allow_unhashed=True, allow_truncated=True)


def test_a_file_cut_at_any_byte_is_never_complete(tmp_path: Path, nightly: bool) -> None:
    """By day it is cut near the ends of lines, and at every seventh byte elsewhere."""
    whole = written(tmp_path / "l.jsonl").read_bytes()
    cuts = range(len(whole) - 1)  # the last newline alone may be missing
    near = [at for at in cuts if at % 7 == 0 or b"\n" in whole[max(at - 2, 0) : at + 2]]
    for length in cuts if nightly else near:
        error = refused(tmp_path / "cut.jsonl", whole[:length])
        assert isinstance(error, LedgerTruncated)
        try:
            ledger = Ledger.read(tmp_path / "cut.jsonl", allow_truncated=True)
        except LedgerTruncated:
            assert length < whole.index(b"\n")  # not even a header
        else:
            with pytest.raises(NotCertifiable, match="footer"):
                ledger.require_certifiable()


@sweep("mask", [0x01, 0x20, 0x80], everyday=(0, 2))
def test_every_byte_that_is_changed_is_noticed(tmp_path: Path, mask: int, nightly: bool) -> None:
    """By day every byte is changed once, by one of two masks in turn."""
    whole = written(tmp_path / "l.jsonl").read_bytes()
    for position in range(len(whole)) if nightly else range(int(mask == 0x80), len(whole), 2):
        changed = bytearray(whole)
        changed[position] ^= mask
        refused(tmp_path / "changed.jsonl", bytes(changed))


def test_whitespace_for_the_last_newline_and_digits_that_change_no_double_are_noticed(tmp_path: Path) -> None:
    whole = written(tmp_path / "l.jsonl").read_bytes()
    assert b"3.4641016151377544" in whole
    assert float("3.4641016151377544") == float("3.4641016151377545")
    for old, new in ((b"3.4641016151377544", b"3.4641016151377545"), (b"1e-7", b"1E-7"), (b"1.5", b"1.50")):
        assert isinstance(refused(tmp_path / "x", whole.replace(old, new, 1)), LedgerTampered)
    for end in (b" ", b"\t", b"\r"):
        assert isinstance(refused(tmp_path / "x", whole[:-1] + end), LedgerTruncated)


def test_lines_swapped_removed_repeated_or_added_are_noticed(tmp_path: Path) -> None:
    lines = written(tmp_path / "l.jsonl").read_bytes().splitlines(keepends=True)
    header, one, two, three, footer = lines
    for wrong in (
        [header, two, one, three, footer],
        [header, two, three, footer],
        [header, one, one, two, three, footer],
        [one, two, three, footer],
        [header, header, one, two, three, footer],
        [header, one, b"\n", two, three, footer],
        [header, footer],
    ):
        refused(tmp_path / "x", b"".join(wrong))
    for after in (one, footer):
        assert isinstance(refused(tmp_path / "x", b"".join([*lines, after])), RecordAfterFooter)
    assert isinstance(refused(tmp_path / "x", b"".join(lines[:-1])), LedgerTruncated)


def test_a_footer_that_counts_otherwise_is_refused_even_with_its_hash_right(tmp_path: Path) -> None:
    whole = records(written(tmp_path / "l.jsonl"))
    for count, kind in ((2, LedgerTampered), (4, LedgerTampered), ("3", LedgerFormat), (True, LedgerFormat)):
        whole[-1]["releases"] = count
        assert isinstance(refused(tmp_path / "x", chained(whole)), kind)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (BY_HAND.replace("ledger/1", "ledger/2"), LedgerVersion),
        (BY_HAND.replace('"count":1', '"count":1,"count":2'), LedgerFormat),
        (BY_HAND.replace('"sigma":3.4641016151377544', '"sigma":NaN'), LedgerFormat),
        (BY_HAND.replace('"sigma":3.4641016151377544', '"sigma":-Infinity'), LedgerFormat),
        (BY_HAND.replace('"sigma":3.4641016151377544', '"sigma":1e999'), InvalidParameter),
        (BY_HAND.replace('"sigma":3.4641016151377544', '"sigma":0'), InvalidParameter),
        (BY_HAND.replace('"horizon":3', '"horizon":1e999'), InvalidParameter),
        (BY_HAND.replace('"count":1', '"count":1,"self":1'), InvalidParameter),
        (BY_HAND.replace('"count":1', '"count":0'), InvalidParameter),
        (BY_HAND.replace('"count":1', '"count":' + "9" * 5000), LedgerFormat),
        (BY_HAND.replace('"horizon":3', '"deep":' + "[" * 900 + "]" * 900), InputError),
        (BY_HAND.replace("release", "relaese"), LedgerFormat),
        (BY_HAND.replace("header", "footer"), LedgerFormat),
        ("[]\n", LedgerFormat),
        ("\n", LedgerFormat),
        ("\0" * 50, LedgerFormat),
        ("", LedgerTruncated),
    ],
)
def test_what_the_format_does_not_allow_is_refused_with_a_reason(
    tmp_path: Path, line: str, kind: type
) -> None:
    assert isinstance(refused(tmp_path / "l.jsonl", line, allow_unhashed=True), kind)


def test_a_missing_file_and_a_missing_folder_are_errors_of_ours(tmp_path: Path) -> None:
    with pytest.raises(LedgerFormat):
        Ledger.read(tmp_path / "none.jsonl")
    with pytest.raises(UsageError):
        run(algorithm, 0.0, path=tmp_path / "none" / "l.jsonl")


def test_a_run_that_is_killed_leaves_a_partial_file_and_the_old_one_untouched(tmp_path: Path) -> None:
    path = written(tmp_path / "l.jsonl")
    old = path.read_bytes()
    program = f"""
import os, signal
from dpaudit import *
def algorithm(data, curator):
    curator.release(1.0, Gaussian(sigma=1.0, sensitivity=L2(1.0)), label="before the end")
    os.kill(os.getpid(), signal.SIGKILL)
run(algorithm, None, path={os.fspath(path)!r})
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == old
    partial = tmp_path / "l.jsonl.partial"
    with pytest.raises(LedgerTruncated):
        Ledger.read(partial)
    ledger = Ledger.read(partial, allow_truncated=True)
    assert [release.label for release in ledger.releases] == ["before the end"]
    with pytest.raises(NotCertifiable, match="footer"):
        ledger.require_certifiable()


def test_a_run_that_fails_leaves_a_partial_file_and_the_old_one_untouched(tmp_path: Path) -> None:
    path = written(tmp_path / "l.jsonl")
    old = path.read_bytes()

    def failing(data: Any, curator: Any) -> Any:
        algorithm(data, curator)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(failing, 0.0, path=path)
    assert path.read_bytes() == old
    assert len(Ledger.read(tmp_path / "l.jsonl.partial", allow_truncated=True).releases) == 3
    with pytest.raises(InvalidParameter):
        run(algorithm, 0.0, path=tmp_path / "new.jsonl", parameters={"x": float("nan")})
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize("footer", ["", '{"record":"footer","releases":1}\n'])
def test_writing_a_ledger_without_hashes_gives_it_none(tmp_path: Path, footer: str) -> None:
    """Else reading a file written by hand and writing it again would make it certifiable."""
    first, second = tmp_path / "by-hand.jsonl", tmp_path / "again.jsonl"
    first.write_text(BY_HAND + footer, encoding="utf-8")
    ledger = Ledger.read(first, allow_unhashed=True)
    ledger.write(second)
    with pytest.raises(UnhashedLedger):
        Ledger.read(second)
    again = Ledger.read(second, allow_unhashed=True)
    assert (again.header, again.releases, again.complete) == (ledger.header, ledger.releases, bool(footer))
    with pytest.raises(NotCertifiable):
        again.require_certifiable()


def test_a_ledger_made_without_hashes_reads_back(tmp_path: Path) -> None:
    ledger = Ledger(make.header("zero-out"), hashed=False)
    ledger.append(make.release(gaussian(), 2))
    assert ledger.hash == ""
    again = Ledger.read(ledger.write(tmp_path / "ledger.jsonl"), allow_unhashed=True)
    assert (again.header, again.releases, again.hash) == (ledger.header, ledger.releases, "")
    assert not again.hashed


def test_writing_a_ledger_made_by_hand_finishes_it(tmp_path: Path) -> None:
    ledger = Ledger(make.header())
    ledger.append(make.release(gaussian()))
    path = ledger.write(tmp_path / "ledger.jsonl")
    assert Ledger.read(path).complete
    Ledger.read(path).require_certifiable()


def test_writing_a_ledger_that_was_cut_short_does_not(tmp_path: Path) -> None:
    ledger = make.ledger(gaussian())
    lines = ledger.write(tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:-1]))
    cut = Ledger.read(tmp_path / "cut.jsonl", allow_truncated=True)
    cut.write(tmp_path / "again.jsonl")
    assert not Ledger.read(tmp_path / "again.jsonl", allow_truncated=True).complete
    assert "no footer: releases may be missing" in cut._repr_html_()
    failed = Ledger(ledger.header)
    failed.append(Release(label="x", mechanism=gaussian()))
    failed.abandon()
    failed.write(tmp_path / "failed.jsonl")
    assert not Ledger.read(tmp_path / "failed.jsonl", allow_truncated=True).complete
