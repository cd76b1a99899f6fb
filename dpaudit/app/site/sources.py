"""Certificates, ledgers and budget books in folders, each read by itself: what cannot be read is named."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dpaudit.accountants.book import Account, Book
from dpaudit.app.verbs.book import DEFAULT_BOOK
from dpaudit.app.verbs.report import accounted_again, approximately
from dpaudit.certificate.certificate import Certificate
from dpaudit.claims.bounds import Bound
from dpaudit.errors import DpauditError, InputError, UsageError
from dpaudit.pipeline.accounting import Verified, verify
from dpaudit.pipeline.files import CERTIFICATE, LEDGER, OUTPUT, PRIVATE, ledger_beside
from dpaudit.progress import Work

#: What a file says of itself in its first bytes, whatever its name.
_CERTIFICATE, _LEDGER, _SQLITE = b"dpaudit.certificate/", b"dpaudit.ledger/", b"SQLite format 3\0"
_BEGINNING: Final = 4096
_SUFFIXES: Final = {".json", ".jsonl", ".sqlite"}

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Read:
    """A certificate, and its total as (epsilon, delta), computed again from its ledger; None without one."""

    certificate: Certificate
    computed: Sequence[Bound] | None


@dataclass
class Sources:
    """What was found, by the name of each file; `broken` is what could not be read, and why.

    `left_out` are files that are named as ours are, and in which nothing says what they are.
    """

    certificates: dict[str, Read] = field(default_factory=dict)
    ledgers: dict[str, Verified] = field(default_factory=dict)
    accounts: list[tuple[str, Account]] = field(default_factory=list)
    broken: dict[str, DpauditError] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    paths: dict[str, Path] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """How many files and accounts."""
        return len(self.certificates) + len(self.ledgers) + len(self.accounts) + len(self.broken)


def read_sources(given: Sequence[Path], books: Sequence[str], *, but: Path) -> Sources:
    """Everything in the files and folders that were given, but for one folder, and in books by address.

    Names are relative to the folder that was given; with several of them, its own name comes first. A ledger
    with a certificate beside it is listed by that alone. Raises `UsageError`: nothing is there.
    """
    found = Sources()
    for path in given:
        if not path.exists():
            what, remedy = "not there", "name a folder or a file that exists"
            raise UsageError(what, where=str(path), why="there is nothing to show", remedy=remedy)
        for file in sorted(_files(path, but.resolve(), found), key=Path.as_posix):
            inside = file.relative_to(path) if path.is_dir() else Path(file.name)
            name = inside.as_posix() if len(given) == 1 else f"{path.resolve().name}/{inside.as_posix()}"
            while name in found.paths:  # two folders have the same name
                name = f"{name} (2)"
            found.paths[name] = file
    paths = found.paths
    kinds = {name: kind for name, path in paths.items() if (kind := _kind_of(path))}
    found.left_out += [name for name in paths.keys() - kinds.keys() if _could_be_ours(paths[name])]
    spoken_for = {ledger_beside(paths[name]) for name, kind in kinds.items() if kind == "certificate"}
    wanted = {name: kind for name, kind in kinds.items() if paths[name] not in spoken_for}
    with Work("files", len(wanted) + len(books)) as work:
        for number, (name, kind) in enumerate(wanted.items()):
            work(number, name)
            _read_into(found, name, kind)
        for number, address in enumerate(books, start=len(wanted)):
            work(number)
            _try(found, address.rpartition("@")[2], functools.partial(_accounts, found, "", address))
    return found


def read_certificate(path: Path) -> Read:
    """A certificate with its figures computed again, if its ledger is beside it.

    Raises `DpauditError`: either cannot be read, or they contradict each other.
    """
    certificate, ledger = Certificate.read(path), ledger_beside(path)
    accounted = accounted_again(certificate, ledger) if ledger.is_file() else None
    return Read(certificate, None if accounted is None else approximately(accounted))


def _files(path: Path, but: Path, found: Sources) -> Iterator[Path]:
    """The files of a folder and of the folders in it, without hidden ones and links to folders."""

    def unread(error: OSError) -> None:
        name = Path(error.filename).relative_to(path).as_posix()
        found.broken[f"{name}/"] = UsageError(f"cannot be read: {error.strerror}", where=str(error.filename))

    if path.is_file():
        yield path
        return
    for here, folders, files in os.walk(path, onerror=unread):
        folders[:] = [one for one in folders if not one.startswith(".") and Path(here, one).resolve() != but]
        yield from (Path(here, one) for one in files if not one.startswith("."))


def _kind_of(path: Path) -> str | None:
    """What a file is, by its content or, where that is damaged, by the name that dpaudit gives such files."""
    name = path.name
    if not _could_be_ours(path):
        return None
    if path.exists() and not path.is_file():  # reading a pipe would block
        return None
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError:
        beginning = b""
    if path.suffix == ".json":
        return "certificate" if _CERTIFICATE in beginning or name == CERTIFICATE else None
    if path.suffix == ".jsonl":
        return "ledger" if _LEDGER in beginning or name == LEDGER else None
    return "book" if beginning.startswith(_SQLITE) or name == DEFAULT_BOOK else None


def _could_be_ours(path: Path) -> bool:
    """Whether a file is named as certificates, ledgers and books are; outputs and envelopes are none.

    Neither are the files of a run that diverged: a site is made to be shown, and they are not.
    """
    named = path.suffix in _SUFFIXES and path.name not in {OUTPUT, *PRIVATE}
    return named and not path.name.endswith(".dsse.json")


def _read_into(found: Sources, name: str, kind: str) -> None:
    path = found.paths[name]
    match kind:
        case "certificate":
            read = _try(found, name, lambda: read_certificate(path))
            found.certificates |= {} if read is None else {name: read}
        case "ledger":
            verified = _try(found, name, lambda: verify(path, allow_unhashed=True, most_rows=0))
            found.ledgers |= {} if verified is None else {name: verified}
        case _:
            _try(found, name, lambda: _accounts(found, name, path))


def _accounts(found: Sources, name: str, address: str | Path) -> None:
    """Return the accounts of a book; ignore a file of another program."""
    try:
        book = Book(address, make=False)
    except UsageError:
        if isinstance(address, Path) and address.name != DEFAULT_BOOK:
            found.left_out.append(name)
            return
        raise
    with book:
        found.accounts += [(name, book.account(dataset)) for dataset in book.datasets]


def _try(found: Sources, name: str, read: Callable[[], _Read]) -> _Read | None:
    """What was read; an error is kept under the file's name."""
    try:
        return read()
    except DpauditError as error:
        found.broken[name] = error
    except OSError as error:
        found.broken[name] = InputError(f"cannot be read: {error.strerror}", where=name)
    return None
