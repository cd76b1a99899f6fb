"""The ledger: a header and every release of a run, append-only and hash-chained.

A ledger holds parameters, never data: nothing that depends on a private record enters it.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, Self

from dpaudit.errors import LedgerTampered, RecordAfterFooter, ScheduleBroken
from dpaudit.ledger.file import LedgerStream
from dpaudit.ledger.files import LedgerSink, replace_file
from dpaudit.ledger.header import Header, LedgerFacts, Noise, canonical_bytes, encode
from dpaudit.ledger.places import ReleasePlaces
from dpaudit.ledger.releases import Release
from dpaudit.notebook import as_html

__all__ = ["Header", "Ledger", "LedgerFacts", "Noise", "encode"]

#: Names that curators themselves give to draws.
OWN_SAMPLE: Final = re.compile("batch [0-9]{1,18}")


class Ledger(LedgerFacts):
    """A header and its releases, in order.

    Each line goes to the `sink` as it is made, and is read back from its file where it is asked for; without
    one, the ledger stays in memory. It is not `hashed` when read from another library's records, not from a
    run: then it is accounted for, and never certified.
    """

    def __init__(self, header: Header, sink: LedgerSink | None = None, *, hashed: bool = True) -> None:
        super().__init__(header, hashed=hashed)
        #: How many releases have been written.
        self.number = 0
        self._by_curator = 0
        #: The releases of a ledger without a sink.
        self._releases: list[Release] = []
        #: All releases as a tuple, made when it is asked for and kept until the next release.
        self._tuple: tuple[Release, ...] | None = None
        #: Where in the author's code the releases were made, if it was in this run; written to no file.
        self.places = ReleasePlaces()
        #: Who drew each sample that a release names, but for those that curators name themselves.
        self._drawers: dict[str, object] = {}
        self._batches = 0  # the largest number in a curator's own names
        self._sink = sink
        self._cut_short = False  # nobody knows whether releases are missing
        self._put(canonical_bytes(header.to_json()))

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases so far; raises as iterating does."""
        if self._tuple is None:
            self._tuple = tuple(self._releases if self._sink is None else self._read_back(self._sink))
        return self._tuple

    def __iter__(self) -> Iterator[Release]:
        """The releases so far; raises as `read`, and `LedgerTampered` if the sink's file was replaced."""
        if self._sink is not None and self._tuple is None:
            return self._read_back(self._sink)
        return iter(self.releases)

    def append(self, release: Release, *, by_curator: bool = False) -> None:
        """Write one release; `by_curator` is for the curator that draws it now.

        Raises:
            RecordAfterFooter: the ledger is finished.
            TrustMismatch: its trust model does not admit the mechanism.
        """
        self.require_admits(release.mechanism, f"release {release.label!r}")
        if self.complete:
            late, where = f"release {release.label!r} after the end of the ledger", self.place
            raise RecordAfterFooter(late, where=where, remedy="start a new run for a new release")
        self._put(release.canonical())
        self.number += 1
        self._by_curator += by_curator
        self._note_sample(release.sample)
        if self._sink is None:
            self._releases.append(release)
        self._tuple = None

    @property
    def by_curator(self) -> bool:
        """Whether curators of this process wrote all releases, each when it was drawn."""
        return self._by_curator == self.number

    def next_sample(self) -> str:
        """A new name for a draw of several sums, which no algorithm may give to another draw."""
        self._batches += 1
        return f"batch {self._batches}"

    def require_drawn_by(self, drawer: object, sample: str, where: str) -> None:
        """Raise `ScheduleBroken` unless the sample is new, or `drawer` named it before."""
        if self._drawers.setdefault(sample, drawer) is not drawer:
            what, why = (
                f"sample {sample!r}, which another curator drew",
                "this one does not know who is in it",
            )
            remedy = "give the draw a name that the ledger does not have"
            raise ScheduleBroken(what, where=where, why=why, remedy=remedy)

    def _note_sample(self, sample: str | None) -> None:
        if sample is None:
            return
        if OWN_SAMPLE.fullmatch(sample):
            self._batches = max(self._batches, int(sample.split()[1]))
        else:
            self._drawers.setdefault(sample, None)

    def finish(self) -> None:
        """Write the footer. A ledger without it is readable, never certifiable."""
        if not self.complete:
            self._put(self._footer())
            if self._sink is not None:
                self._sink.finish()
            self.complete = True

    def abandon(self) -> None:
        """The run failed: the footer will never come."""
        self._cut_short = not self.complete
        if self._sink is not None and not self.complete:
            self._sink.abandon()

    def lines(self) -> Iterator[bytes]:
        """The file's lines, each ending in a newline."""
        releases = (release.canonical() for release in self)
        footer = [self._footer()] if self.complete else []
        previous = ""
        for canonical in chain([canonical_bytes(self.header.to_json())], releases, footer):
            line, previous = self._encoded(previous, canonical)
            yield line

    def write(self, path: str | Path) -> Path:
        """Write the file as a whole: to a temporary file beside it, then renamed.

        A ledger that was made by hand is finished by it. One that was read cut short, whose run failed, or
        that holds another library's records stays without a footer: releases may be missing.
        """
        if self._sink is None and self.hashed and not self._cut_short:
            self.finish()
        return replace_file(path, self.lines())

    def _repr_html_(self) -> str:
        header, state = self.header, "complete" if self.complete else "no footer: releases may be missing"
        facts: dict[str, object] = {
            "unit": header.unit,
            "neighbouring": header.neighbouring,
            "trust model": header.trust_model,
        }
        facts |= {"claim": header.claim, "releases": self.number, "state": state}
        rows = [(one.label, one.mechanism.kind, one.count, one.claimed) for one in self]
        return as_html(
            f"Ledger of {header.algorithm}", facts, ("release", "mechanism", "count", "claimed"), rows
        )

    @classmethod
    def read(cls, path: str | Path, *, allow_unhashed: bool = False, allow_truncated: bool = False) -> Self:
        """Read a ledger file into memory, every line checked against its hash before it is used.

        `allow_unhashed` accepts a file written by hand, without hashes or footer; it is marked as such and
        can never be certified. `allow_truncated` accepts one without its footer; it is not `complete`.

        Raises:
            LedgerFormat, LedgerVersion, UnhashedLedger: the file is not a ledger this version reads.
            LedgerTruncated, LedgerTampered, RecordAfterFooter: the file is not what was written.
        """
        with LedgerStream(path, allow_unhashed=allow_unhashed, allow_truncated=allow_truncated) as stream:
            ledger = cls(stream.header, hashed=stream.hashed)
            ledger._releases = list(stream)
            for release in ledger._releases:
                ledger._note_sample(release.sample)
            ledger._hash, ledger.number = stream.hash, stream.number
            ledger.complete, ledger._cut_short = stream.complete, not stream.complete
        return ledger

    def require_kept(self) -> None:
        """Read the file back; raises as `read`, and `LedgerTampered` where another stands in its place."""
        if self._sink is not None:
            for _ in self._read_back(self._sink):
                pass

    def _read_back(self, sink: LedgerSink) -> Iterator[Release]:
        with LedgerStream(sink.file_path, allow_unhashed=not self.hashed, allow_truncated=True) as stream:
            yield from stream
            if stream.hash != self._hash:
                what, why = "not the file that this run wrote", "another run wrote to the same path"
                remedy = "give every run a path of its own"
                raise LedgerTampered(what, where=str(sink.file_path), why=why, remedy=remedy)

    def _footer(self) -> bytes:
        return canonical_bytes({"record": "footer", "releases": self.number})

    def _put(self, canonical: bytes) -> None:
        line, digest = self._encoded(self._hash, canonical)
        if self._sink is not None:
            self._sink.write(line)
        self._hash = digest

    def _encoded(self, previous: str, canonical: bytes) -> tuple[bytes, str]:
        return encode(previous, canonical) if self.hashed else (canonical + b"\n", "")
