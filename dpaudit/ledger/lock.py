"""One writer for an output folder, on this machine and on file systems that lock files."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dpaudit.errors import UsageError

LOCK: Final = ".dpaudit.lock"

#: What this process holds: locks of the operating system do not tell one of its threads from another.
_HELD: Final[set[Path]] = set()


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder; raises `UsageError` where another run holds it.

    The operating system lets go when a process ends, however it ends, so that what a killed one left behind
    holds nothing; and a child of a fork holds nothing that its parent does. Where files cannot be locked,
    nothing is held: what two runs then write at once does not pass the check of the ledger.
    """
    path = folder.resolve() / LOCK
    handle = _taken(path)
    _HELD.add(path)
    try:
        yield
    finally:
        _HELD.discard(path)
        if handle is not None:
            with contextlib.suppress(OSError):
                path.unlink()
            os.close(handle)


def _taken(path: Path) -> int | None:
    """The lock file, locked; None where the file system has no locks."""
    if path in _HELD:
        raise _refused(path, os.getpid())
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            writer = os.pread(handle, 20, 0)
            os.close(handle)
            raise _refused(path, int(writer) if writer.isdigit() else None) from None
        except OSError:
            os.close(handle)
            return None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                os.ftruncate(handle, 0)
                os.pwrite(handle, b"%d" % os.getpid(), 0)
                return handle
        os.close(handle)  # the writer before us has removed it: another one may be there by now


def _refused(path: Path, process: int | None) -> UsageError:
    who = "another run" if process is None else f"process {process}"
    why = "the ledger of one run would stand beside the certificate of another"
    remedy = "wait until it has finished, or name another folder"
    return UsageError(f"{who} is writing there", where=f"-o {path.parent}", why=why, remedy=remedy)
