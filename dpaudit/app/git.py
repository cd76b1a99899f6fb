"""What git knows about the files of a repository."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from dpaudit.errors import UsageError

#: The modes of a commit's entries that are no file.
_LINK, SUBMODULE, _FOLDER = b"120000", b"160000", b"040000"
_WORDS: Final = {_LINK: "a link", SUBMODULE: "a submodule", _FOLDER: "a folder"}


def git(folder: Path, *arguments: str) -> bytes | None:
    """What git prints; None where it fails or is not installed."""
    program = shutil.which("git")
    if program is None:
        return None
    done = subprocess.run([program, "-C", str(folder), *arguments], capture_output=True, check=False)  # noqa: S603  (no shell)
    return done.stdout if done.returncode == 0 else None


def file_at(folder: Path, commit: str, path: str) -> bytes | None:
    """The content of a file, given from `folder`, at a commit; None where it has none."""
    return git(folder, "cat-file", "blob", f"{commit}:./{os.path.relpath(folder / path, folder)}")


def path_in_repository(folder: Path, path: str) -> str | None:
    """A path, given from `folder`, from the root of the repository around it; None where it lies outside.

    Links below the root are part of the path: where they lead to is no part of what a commit says.
    """
    top = Path((git(folder, "rev-parse", "--show-toplevel") or b"").decode().strip())
    absolute = Path(os.path.abspath(folder / path))  # noqa: PTH100  (which follows links)
    roots = (one for one in reversed(absolute.parents) if one.exists() and one.samefile(top))
    root = next(roots, None)
    return None if root is None else absolute.relative_to(root).as_posix()


def modes_at(folder: Path, commit: str, path: str) -> dict[str, bytes]:
    """The mode of each entry on the way to a path, given from `folder`, as far as a commit has them."""
    inside = path_in_repository(folder, path)
    parts = [] if inside is None else inside.split("/")
    found: dict[str, bytes] = {}
    for depth in range(1, len(parts) + 1):
        name = "/".join(parts[:depth])
        entry = git(folder, "--literal-pathspecs", "ls-tree", "--full-tree", "-z", commit, "--", name)
        if not entry:
            break
        found[name] = entry.partition(b" ")[0]
    return found


def regular_file_at(folder: Path, commit: str, path: str) -> bytes | None:
    """The content of a file, given from `folder`, at a commit; None where the commit has nothing there.

    Raises `UsageError` if the path is a link, a submodule or a folder at that commit, or leads through a link
    or a submodule. The target of a link may have changed since that commit.
    """
    inside, modes = path_in_repository(folder, path), modes_at(folder, commit, path)
    for name, mode in modes.items():
        if mode in {_LINK, SUBMODULE} or (mode == _FOLDER and name == inside):
            why = "what it led to at that commit is not known from the commit alone"
            remedy = "name the file itself, by a path of folders of this repository"
            raise UsageError(f"{name} is {_WORDS[mode]} at {commit[:12]}", where=path, why=why, remedy=remedy)
    return git(folder, "cat-file", "blob", f"{commit}:{inside}") if inside in modes else None
