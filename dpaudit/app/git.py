"""What git knows about the files of a repository."""

import os
import shutil
import subprocess
from pathlib import Path


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
