"""Files that are whole or not there at all."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dpaudit.errors import UsageError


def replace_file(
    path: str | os.PathLike[str], content: bytes | Iterable[bytes], *, mode: int | None = None
) -> Path:
    """Write `content` to a temporary file beside `path`, then rename: old file or new file, never half.

    Pieces of content are written as they come, so that a long file need never be in memory. The file is
    readable by its owner only until it is whole; then its permissions are `mode`, or as the umask allows.
    """
    target = Path(path)
    require_folder(target.parent)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask if mode is None else mode)  # noqa: PTH101  (mkstemp gave a name, not a Path)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def require_folder(folder: Path) -> None:
    """Raise `UsageError` unless `folder` is a folder that can be written to."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        what, remedy = "not a folder that can be written to", "create it, or name another"
        raise UsageError(what, where=str(folder), why="nothing could be kept", remedy=remedy)


class LedgerSink:
    """A ledger file in the making: ``<path>.partial`` until its footer is written, then `path`.

    Each line reaches the operating system before its output is returned, and so outlives a killed process.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        require_folder(self.path.parent)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self._file = self.partial.open("wb")
        #: Where the lines so far are, wherever the process goes.
        self.file_path = self.partial.absolute()

    def write(self, line: bytes) -> None:
        """Append one line and hand it to the operating system."""
        self._file.write(line)
        self._file.flush()

    def finish(self) -> None:
        """Put the finished file in the place of an older one."""
        os.fsync(self._file.fileno())
        self._file.close()
        self.file_path = self.partial.replace(self.path).absolute()

    def abandon(self) -> None:
        """Close the partial file and leave it where it is."""
        self._file.close()
