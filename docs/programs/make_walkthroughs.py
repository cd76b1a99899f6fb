"""Run every command of a page and show what it prints: `python docs/programs/make_walkthroughs.py [PAGE...]`.

Of the pages in `BEGINNINGS` only the commands before the first heading are run.

A page's code blocks are taken in order. One that begins with ``# NAME`` is written to that file; of a
``console`` block each line after ``$ `` is run by the shell, all of a page in one folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1]
PAGES = ("tutorial", "verdicts", "real-data", "training")
#: Pages of which only what stands before the first heading is run: one example.
BEGINNINGS = ("policy-evaluation", "vapvi", "processes", "checker")
#: Where the pages' reader sits.
SHOWN_FOLDER = "/home/ann"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"# ([\w/]+\.\w+)\n")


def walked(page: str, folder: Path, python: Sequence[str] = (sys.executable,)) -> str:
    """The page with the output that its commands have now, whatever it showed before.

    ``python`` is the words that start Python.
    """
    programs = folder / ".bin"
    programs.mkdir()
    for name, words in (("dpaudit", "-m dpaudit.app.main"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(python)} {words} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    examples = folder / "examples"
    examples.symlink_to(DOCS.parent / "examples")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "80"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(DOCS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environment.pop("CI", None)  # where it is set, programs print otherwise
    environment["PYTHONWARNINGS"] = "ignore"  # the libraries' own
    status = 0

    def run(command: str) -> str:
        nonlocal status
        if command == "echo $?":
            return f"{status}\n"
        ran = subprocess.run(  # noqa: S603  (the pages are this repository's own)
            ["sh", "-c", command],  # noqa: S607
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        status = ran.returncode
        return (ran.stdout + ran.stderr).replace(str(folder), SHOWN_FOLDER)

    def shown(block: re.Match[str]) -> str:
        language, text = block[1], block[2]
        if language == "console":
            commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
            return "```console\n" + "".join(f"$ {command}\n{run(command)}" for command in commands) + "```"
        if name := _NAME.match(text):
            (folder / name[1]).write_text(text, encoding="utf-8")
        return block[0]

    return _BLOCK.sub(shown, page)


def path_of(page: str) -> Path:
    """Where the page is, in one of the folders."""
    return next(DOCS.rglob(f"{page}.md"))


def read(page: str) -> tuple[str, str]:
    """What is run of a page, and the rest."""
    text = path_of(page).read_text(encoding="utf-8")
    if page not in BEGINNINGS:
        return text, ""
    beginning, heading, rest = text.partition("\n## ")
    return beginning, heading + rest


if __name__ == "__main__":
    for page in sys.argv[1:] or (*PAGES, *BEGINNINGS):
        run_part, rest = read(page)
        with tempfile.TemporaryDirectory() as folder:
            path_of(page).write_text(walked(run_part, Path(folder)) + rest, encoding="utf-8")
