"""Pages that lead from command to command: whoever follows one sees what it shows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from tests.printed import is_printed
from tests.sweeps import sweep

DOCS = Path(__file__).parents[3] / "docs"
MAKE: dict[str, Any] = runpy.run_path(str(DOCS / "programs" / "make_walkthroughs.py"), run_name="pages")


@sweep("page", [*MAKE["PAGES"], *MAKE["BEGINNINGS"]], everyday=(0, 1))
def test_whoever_follows_the_page_sees_what_it_shows(page: str, python: list[str], tmp_path: Path) -> None:
    text, rest = MAKE["read"](page)
    assert text + rest == MAKE["path_of"](page).read_text(encoding="utf-8")
    assert text.count("$ dpaudit") >= 1
    walked = MAKE["walked"](text, tmp_path, python)
    # Lines are folded at other places where a folder has a longer name.
    shown = "".join(walked.split()).replace(str(tmp_path), MAKE["SHOWN_FOLDER"])
    assert is_printed(shown, "".join(text.split())), f"run: python docs/programs/make_walkthroughs.py {page}"


def test_what_a_page_shows_is_what_its_commands_print(tmp_path: Path) -> None:
    page = "```text\n# a.txt\nx\n```\n\n```console\n$ cat a.txt\nanother\n$ false\n$ echo $?\n0\n```\n"
    assert MAKE["walked"](page, tmp_path) == page.replace("another", "# a.txt\nx").replace("\n0\n", "\n1\n")
