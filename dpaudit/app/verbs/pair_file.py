"""The file that makes the smallest pair on which a claim is refuted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dpaudit.app.options.files import make_folder
from dpaudit.app.text.streams import note
from dpaudit.errors import UsageError
from dpaudit.ledger.files import replace_file

PAIR: Final = "pair.py"


def begin_pair(folder: Path | None, method: str) -> None:
    """Make the folder, without an earlier file; raises `UsageError` for a method that compares no queries."""
    if folder is None:
        return
    if method != "replay":
        why = "an option that is ignored would look as if it had an effect"
        remedy = "leave it out, or use --method replay: it alone looks for a small pair"
        raise UsageError(f"--output with --method {method}", where="--output", why=why, remedy=remedy)
    make_folder(folder)
    (folder / PAIR).unlink(missing_ok=True)


def write_pair(folder: Path | None, sources: Sequence[str], target: str) -> None:
    """Write the first source for its owner alone, and say how the audit is run on it again.

    The pair was declared public. If it contains private records nevertheless, this is the only file that
    holds them.
    """
    if folder is None or not sources:
        return
    path = replace_file(folder / PAIR, sources[0].encode(), mode=0o600)
    note(f"written: {path}, the smallest pair; run it again: dpaudit audit {target} --pair {path}:pair ...")
