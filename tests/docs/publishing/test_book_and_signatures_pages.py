"""The last command of docs/publishing/book.md, and of signatures.md, prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.publishing.test_gate_pages import blocks, run


@pytest.mark.nightly
@pytest.mark.parametrize("page", ["book", "signatures"])
def test_the_last_command_prints_what_is_shown(page: str, python: list[str], tmp_path: Path) -> None:
    commands, shown = blocks(f"docs/publishing/{page}.md", "")[:2]
    reservation, printed = "8faf761e", ""
    for line in re.findall(r"^dpaudit (.*)$", commands, flags=re.MULTILINE):
        words = shlex.split(line.replace("8faf761e", reservation), comments=True)
        done = run(python, tmp_path, "dpaudit.app.main", *words, columns=80)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
        reservation = printed.strip() if "reserve" in words else reservation
    assert printed.strip() == shown.strip().replace("8faf761e", reservation)
