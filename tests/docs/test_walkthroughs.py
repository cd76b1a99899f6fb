"""Pages that lead from command to command: whoever follows one sees what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("tutorial", "verdicts")
#: Where the pages' reader sits.
SHOWN_FOLDER = "/home/ann"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NAME = re.compile(r"# ([\w/]+\.\w+)\n")


def follow(page: str, folder: Path) -> None:
    """Write each file that the page shows, run each command, compare what it prints; in the page's order."""
    programs = folder / ".bin"
    programs.mkdir()
    dpaudit = programs / "dpaudit"
    dpaudit.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpaudit.app.main "$@"\n', encoding="utf-8")
    dpaudit.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "80"}
    environment["PYTHONPATH"] = str(ROOT)
    status = 0
    for language, block in BLOCK.findall(page):
        if language == "console":
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
                if command == "echo $?":
                    assert int(shown) == status
                    continue
                ran = subprocess.run(
                    ["sh", "-c", command],  # noqa: S607  (the page's own commands, as its reader types them)
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                status = ran.returncode
                # Lines are folded at other places where the folder's name is longer.
                printed = "".join((ran.stdout + ran.stderr).split()).replace(str(folder), SHOWN_FOLDER)
                assert printed == "".join(shown.split()), command
        elif name := NAME.match(block):
            (folder / name[1]).write_text(block, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_whoever_follows_the_page_sees_what_it_shows(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert text.count("$ dpaudit") > 1
    follow(text, tmp_path)


def test_a_page_that_shows_something_else_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        follow("```console\n$ echo one\ntwo\n```\n", tmp_path)
