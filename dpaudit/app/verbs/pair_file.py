"""The file that makes the smallest pair on which a claim is refuted."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from dpaudit.app.main import COMMAND
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


def write_pair(ctx: click.Context, folder: Path | None, sources: Sequence[str], target: str) -> None:
    """Write the first source for its owner alone, and print the command that audits on it again.

    The pair was declared public. If it contains private records nevertheless, this is the only file that
    holds them.
    """
    if folder is None or not sources:
        return
    path = replace_file(folder / PAIR, sources[0].encode(), mode=0o600)
    note(f"written: {path}, the smallest pair; run it again: {_audit_again(ctx, path, target)}")


def _audit_again(ctx: click.Context, path: Path, target: str) -> str:
    """Return the command that audits the target on a pair's file, with the options of this command."""
    root = ctx.find_root()
    audit = root.command.get_command(root, "audit") if isinstance(root.command, click.Group) else None
    known = {parameter.name for parameter in audit.params} if audit is not None else set()
    shared = known - {"pair_reference", "folder", "output_format"}
    options = {name: one for one in ctx.command.params for name in (*one.opts, *one.secondary_opts)}
    words = shlex.split(ctx.meta[COMMAND])
    words = words[words.index(str(ctx.info_name)) + 1 :]
    kept: list[str] = []
    while words:
        word = words.pop(0)
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        option = options.get(name)
        if not isinstance(option, click.Option):
            continue  # the target
        takes_next = name == word and not (option.is_flag or option.count)
        given = [word, *words[: int(takes_next)]]
        del words[: int(takes_next)]
        kept += given if option.name in shared else []
    return shlex.join(["dpaudit", "audit", target, "--pair", f"{path}:pair", *kept])
