"""Reading a ledger file line by line, each checked against its hash before it is used."""

from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

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
from dpaudit.json_text import strictly_parsed
from dpaudit.ledger.blocks import in_blocks, read_block, read_line
from dpaudit.ledger.columns import PlainReleases
from dpaudit.ledger.header import SCHEMA, Header, LedgerFacts, chained
from dpaudit.ledger.numbers import require_exact_numbers, with_doubles
from dpaudit.ledger.releases import Release

_Record = TypeVar("_Record", Header, Release)

#: What to do with a file that is JSON, and not one record a line.
_NO_LEDGER = (
    "name the ledger, such as the ledger.jsonl beside a certificate; `dpaudit report` reads certificates"
)

#: Progress is reported once in so many bytes.
_BYTES_BETWEEN_PROGRESS = 1 << 20


class LedgerStream(LedgerFacts):
    """A ledger file, read once from its first line to its last; a context, in which the file is open.

    The constructor reads the header. Iterating yields the releases in order. `complete`, `hash` and
    `number` are about the blocks of lines read so far. Options and errors are those of `Ledger.read`:
    the constructor raises errors in the header, and iteration raises all others. `progress` is called now and
    then with the number of bytes read since the last call.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        allow_unhashed: bool = False,
        allow_truncated: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.path = Path(path)
        #: How many releases have been read.
        self.number = 0
        self._taken, self._unreported = 1, 0  # lines, of which the header is the first, and bytes
        self._allow_truncated = allow_truncated
        self._progress = progress
        self._lines = self._read_lines()
        try:
            header, hashed, digest = self._first(allow_unhashed=allow_unhashed)
        except BaseException:
            self._lines.close()
            raise
        super().__init__(header, hashed=hashed)
        self._hash = digest
        self._blocks = self._in_blocks()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks.close()
        self._lines.close()

    def __iter__(self) -> Iterator[Release]:
        for found in self._blocks:
            if isinstance(found, PlainReleases):
                yield from found
            else:
                yield found

    def blocks(self) -> Iterator[Release | PlainReleases]:
        """The releases in order, plain ones that stand together in columns; instead of iterating."""
        return self._blocks

    def read_to_the_end(self) -> None:
        """Read the rest, only to check it."""
        for _ in self._blocks:
            pass

    def _read_lines(self) -> Generator[bytes, None, None]:
        """The lines with their newlines."""
        try:
            with self.path.open("rb") as file:
                yield from file
        except OSError as error:
            why, where = f"cannot be read: {error.strerror}", str(self.path)
            remedy = "name a ledger file"
            if self.path.is_dir():
                remedy += "; `dpaudit verify` takes a folder of ledgers"
            raise LedgerFormat(why, where=where, remedy=remedy) from None

    def _first(self, *, allow_unhashed: bool) -> tuple[Header, bool, str]:
        """The header, whether the file has hashes, and the header's own."""
        where, line = f"{self.path}:1", next(self._lines, b"")
        if not line:
            raise LedgerTruncated("the file is empty", where=str(self.path))
        try:
            record = _parse(line, where)
        except LedgerFormat:
            if line.endswith(b"\n") or not line.startswith(b"{"):
                raise
            raise LedgerTruncated("no header", where=str(self.path)) from None
        if record.get("record") != "header":
            what = "the first line is not a ledger's header"
            remedy = _NO_LEDGER if str(record.get("schema")).startswith("dpaudit.certificate/") else ""
            raise LedgerFormat(what, where=where, remedy=remedy)
        if record.get("schema") != SCHEMA:
            remedy = f"this version of dpaudit reads {SCHEMA!r}"
            raise LedgerVersion(f"schema {record.get('schema')!r}", where=where, remedy=remedy)
        hashed = "hash" in record
        if not hashed and not allow_unhashed:
            raise UnhashedLedger("the header carries no hash", where=where)
        if hashed:
            record = with_doubles(record, line, where)
        digest = _checked_hash(record, "", where, hashed=hashed)
        header = _build(Header, record, where)
        if hashed:
            require_exact_numbers(line, where)
        return header, hashed, digest

    def _in_blocks(self) -> Generator[Release | PlainReleases, None, None]:
        for found in in_blocks(self._lines, self._read_block):
            if isinstance(found, PlainReleases):
                yield found
            else:
                yield from self._read_releases(found)
        if not self.complete and self.hashed and not self._allow_truncated:
            missing = f"no footer after {self.number} releases: the run was cut short, or lines are gone"
            raise LedgerTruncated(missing, where=str(self.path))

    def _read_block(self, lines: list[bytes]) -> PlainReleases | None:
        found = read_block(lines, self._hash) if self.hashed and not self.complete else None
        if found is None:
            return None
        block, self._hash = found
        self.number += len(block)
        self._count(len(lines), sum(map(len, lines)))
        return block

    def _count(self, lines: int, size: int) -> None:
        self._taken += lines
        self._unreported += size
        if self._progress is not None and self._unreported >= _BYTES_BETWEEN_PROGRESS:
            self._progress(self._unreported)
            self._unreported = 0

    def _read_releases(self, lines: Iterable[bytes]) -> Iterator[Release]:
        for line in lines:
            self._count(1, len(line))
            plain = read_line(line, self._hash) if self.hashed and not self.complete else None
            if plain is not None:
                release, self._hash = plain
                self.number += 1
                yield release
                continue
            where, last_and_open = f"{self.path}:{self._taken}", not line.endswith(b"\n")
            try:
                record = _parse(line, where)
            except LedgerFormat:
                if not (last_and_open and self.hashed):
                    raise
                if self.complete:
                    raise RecordAfterFooter("an incomplete line after the footer", where=where) from None
                break  # a killed run leaves its last line half written
            if self.hashed:
                record = with_doubles(record, line, where)
            taken = self._take(record, where)
            if self.hashed:
                require_exact_numbers(line, where)
                if last_and_open and line != line.rstrip():
                    # A last line without its newline is whole; one with something else there was edited.
                    self.complete = False
            if taken is not None:
                self.require_admits(taken.mechanism, where)
                self.number += 1
                yield taken

    def _take(self, record: dict[str, Any], where: str) -> Release | None:
        """Check a record's hash against the chain; return it if it is a release, note it if the footer."""
        kind = record.get("record")
        if self.complete:
            raise RecordAfterFooter(f"a {kind} record after the footer", where=where)
        if kind not in ("release", "footer"):
            remedy = "release and footer may follow the header"
            raise LedgerFormat(f"unknown record {kind!r}", where=where, remedy=remedy)
        self._hash = _checked_hash(record, self._hash, where, hashed=self.hashed)
        if kind == "release":
            return _build(Release, record, where)
        stated = record.get("releases")
        if set(record) != {"record", "releases"} or isinstance(stated, bool) or not isinstance(stated, int):
            raise LedgerFormat(f"a footer with fields {sorted(record)}", where=where)
        if stated != self.number:
            counts = f"the footer counts {stated} releases, the file holds {self.number}"
            raise LedgerTampered(counts, where=where)
        self.complete = True
        return None


def _checked_hash(record: dict[str, Any], previous: str, where: str, *, hashed: bool) -> str:
    """Take the hash out of the record and check it against the chain; return the chain's new end."""
    stated = record.pop("hash", None)
    if not hashed:
        if stated is not None:
            raise LedgerTampered("a hash in a file whose header has none", where=where)
        return ""
    try:
        expected = chained(previous, rfc8785.dumps(record))
    except (rfc8785.CanonicalizationError, ValueError, RecursionError) as error:
        raise LedgerFormat(f"not canonical JSON: {error}", where=where) from None
    if stated != expected:
        words = f"the hash {str(stated)[:16]!r} does not follow from this line and the one before"
        raise LedgerTampered(words, where=where)
    return expected


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = strictly_parsed(line)
    except (ValueError, RecursionError) as error:
        remedy = _NO_LEDGER if line.strip() == b"{" else ""  # JSON over several lines
        raise LedgerFormat(f"not a line of JSON: {error}", where=where, remedy=remedy) from None
    if not isinstance(record, dict):
        raise LedgerFormat(f"a {type(record).__name__} where a record should be", where=where)
    return record


def _build(kind: type[_Record], record: dict[str, Any], where: str) -> _Record:
    try:
        return kind(**{name: value for name, value in record.items() if name != "record"})
    except DpauditError as error:
        error.where = f"{where}: {error.where}" if error.where else where
        raise
