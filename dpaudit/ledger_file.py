"""Reading a ledger file: every line checked against its hash before it is believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import rfc8785

from dpaudit.errors import (
    DpauditError,
    LedgerFormat,
    LedgerTampered,
    LedgerTruncated,
    LedgerVersion,
    RecordAfterFooter,
    UnhashedLedger,
)
from dpaudit.ledger import SCHEMA, Header, Ledger, chained
from dpaudit.releases import Release

_Record = TypeVar("_Record", Header, Release)


def read(path: str | Path, *, allow_unhashed: bool = False, allow_truncated: bool = False) -> Ledger:
    """Read a ledger file.

    Args:
        path: the file.
        allow_unhashed: accept a file written by hand, without hashes or footer; it is marked as such
            and can never be certified.
        allow_truncated: accept a file without its footer, to look at; it is not `complete`.

    Raises:
        LedgerFormat, LedgerVersion, UnhashedLedger: the file is not a ledger this version reads.
        LedgerTruncated, LedgerTampered, RecordAfterFooter: the file is not what was written.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LedgerFormat(
            f"cannot be read: {error.strerror}", where=str(path), remedy="name a ledger file"
        ) from None
    lines = content.split(b"\n")
    last_line_whole = lines[-1] == b""
    if last_line_whole:
        lines.pop()
    if not lines:
        raise LedgerTruncated("the file is empty", where=str(path))
    reader = _Reader(path, allow_unhashed=allow_unhashed)
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        try:
            record = _parse(line, where)
        except LedgerFormat:
            if number == len(lines) and not last_line_whole and _cut_short(line, reader):
                break  # a killed run leaves its last line half written
            raise
        reader.take(record, where)
        if reader.hashed:
            _require_exact_numbers(line, where)
    if reader.hashed and not last_line_whole and lines[-1] != lines[-1].rstrip():
        # A last line without its newline is whole all the same; one with something else there was edited.
        reader.complete = False
    ledger = reader.ledger()
    if not ledger.complete and ledger.hashed and not allow_truncated:
        raise LedgerTruncated(
            f"no footer after {len(ledger.releases)} releases: the run was cut short, or lines are gone",
            where=str(path),
        )
    return ledger


def _cut_short(line: bytes, reader: _Reader) -> bool:
    """Whether a line that is no JSON is the half of one, rather than a slip of somebody's hand."""
    return reader.hashed and (reader.header is not None or line.startswith(b"{"))


class _Reader:
    """Takes a ledger's records one by one, holding each line's hash against the chain so far."""

    def __init__(self, path: Path, *, allow_unhashed: bool) -> None:
        self.path = path
        self.allow_unhashed = allow_unhashed
        self.header: Header | None = None
        self.releases: list[Release] = []
        self.complete = False
        self.hashed = True
        self.digest = ""

    def ledger(self) -> Ledger:
        if self.header is None:
            raise LedgerTruncated("no header", where=str(self.path))
        return Ledger.restored(
            self.header, self.releases, complete=self.complete, hashed=self.hashed, digest=self.digest
        )

    def take(self, record: dict[str, Any], where: str) -> None:
        kind = record.get("record")
        if self.header is None:
            self._take_header(record, where)
        elif self.complete:
            raise RecordAfterFooter(f"a {kind} record after the footer", where=where)
        elif kind == "release":
            self._check_hash(record, where)
            self.releases.append(_build(Release, record, where))
        elif kind == "footer":
            self._check_hash(record, where)
            self._take_footer(record, where)
        else:
            raise LedgerFormat(
                f"unknown record {kind!r}", where=where, remedy="release and footer may follow the header"
            )

    def _take_header(self, record: dict[str, Any], where: str) -> None:
        if record.get("record") != "header":
            raise LedgerFormat(f"the first record is {record.get('record')!r}, not a header", where=where)
        if record.get("schema") != SCHEMA:
            raise LedgerVersion(
                f"schema {record.get('schema')!r}",
                where=where,
                remedy=f"this version of dpaudit reads {SCHEMA!r}",
            )
        self.hashed = "hash" in record
        if not self.hashed and not self.allow_unhashed:
            raise UnhashedLedger("the header carries no hash", where=where)
        self._check_hash(record, where)
        self.header = _build(Header, record, where)

    def _take_footer(self, record: dict[str, Any], where: str) -> None:
        stated = record.get("releases")
        if set(record) != {"record", "releases"} or isinstance(stated, bool) or not isinstance(stated, int):
            raise LedgerFormat(f"a footer with fields {sorted(record)}", where=where)
        if stated != len(self.releases):
            raise LedgerTampered(
                f"the footer counts {stated} releases, the file holds {len(self.releases)}", where=where
            )
        self.complete = True

    def _check_hash(self, record: dict[str, Any], where: str) -> None:
        """Take the hash out of the record and hold it against the chain."""
        stated = record.pop("hash", None)
        if not self.hashed:
            if stated is not None:
                raise LedgerTampered("a hash in a file whose header has none", where=where)
            return
        try:
            expected = chained(self.digest, rfc8785.dumps(record))
        except (rfc8785.CanonicalizationError, ValueError, RecursionError) as error:
            raise LedgerFormat(f"not canonical JSON: {error}", where=where) from None
        if stated != expected:
            raise LedgerTampered(
                f"the hash {str(stated)[:16]!r} does not follow from this line and the one before",
                where=where,
            )
        self.digest = expected


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise LedgerFormat(f"not a line of JSON: {error}", where=where) from None
    if not isinstance(record, dict):
        raise LedgerFormat(f"a {type(record).__name__} where a record should be", where=where)
    return record


def _require_exact_numbers(line: bytes, where: str) -> None:
    """Refuse digits that change no double, and so no hash: every edit of a hashed file must show."""

    def exact(digits: str) -> float:
        value = float(digits)
        if digits not in {repr(value), rfc8785.dumps(value).decode()}:
            raise LedgerTampered(
                f"the number {digits} is not written as it was hashed, {value!r}", where=where
            )
        return value

    json.loads(line, parse_float=exact)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number JSON knows")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a field stands twice in one object")
    return record


def _build(kind: type[_Record], record: dict[str, Any], where: str) -> _Record:
    try:
        return kind(**{name: value for name, value in record.items() if name != "record"})
    except DpauditError as error:
        error.where = f"{where}: {error.where}" if error.where else where
        raise
