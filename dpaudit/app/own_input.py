"""A file is not written in the place of what it is made from."""

from __future__ import annotations

from pathlib import Path

from dpaudit.errors import UsageError


def refuse_own_input(output: Path, *sources: Path) -> None:
    """Raise `UsageError` where the output is one of the inputs, by whatever name."""
    for source in sources:
        if source.exists() and output.exists() and output.samefile(source):
            raise UsageError(
                f"the output is {source} itself",
                where=f"--output {output}",
                why="what it was made from would be lost",
                remedy="name another file",
            )
