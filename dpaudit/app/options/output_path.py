"""Where a verb writes: never over what it read."""

from __future__ import annotations

from pathlib import Path

from dpaudit.errors import UsageError


def require_no_input(output: Path, *inputs: Path) -> None:
    """Raise `UsageError` if the output is one of the inputs, under whatever name or link."""
    for given in inputs:
        if _same(output, given):
            raise UsageError(
                f"would be written over: it is {given}, which is read",
                where=f"-o {output}",
                why="a file that is overwritten by what was made from it is lost",
                remedy="name another file",
            )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there, or out of reach
        return False
