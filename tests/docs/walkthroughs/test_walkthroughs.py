"""Pages that lead from command to command: whoever follows one sees what it shows."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from dpaudit.app.figures.reproduce import FIGURES
from tests.printed import is_printed
from tests.sweeps import sweep

DOCS = Path(__file__).parents[3] / "docs"
MAKE: dict[str, Any] = runpy.run_path(str(DOCS / "programs" / "make_walkthroughs.py"), run_name="pages")
REPRODUCE = "dpaudit reproduce "
#: What takes minutes; tests/app/figures and tests/docs/papers test it.
LONG = (REPRODUCE, "python docs/programs/")


def commands(page: str) -> list[tuple[str, str]]:
    """A page's commands, each with the lines that it shows."""
    text = MAKE["path_of"](page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    parts = "".join(blocks).split("$ ")[1:] if blocks else []
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


@sweep("page", [*MAKE["PAGES"], *MAKE["BEGINNINGS"]], everyday=(1,))
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


@sweep(
    "command, shown",
    [
        one
        for page in ("exploration", "lsvi", "online", "functional-noise")
        for one in commands(page)
        if not one[0].startswith(LONG)
    ],
    everyday=(-1,),
)
def test_a_command_prints_the_lines_that_are_shown_of_it(
    command: str, shown: str, python: list[str], tmp_path: Path
) -> None:
    """Lines of three points stand for any others, and so does the end."""
    printed = MAKE["walked"](f"```console\n$ {command}\n```\n", tmp_path, python)
    assert "Traceback" not in printed
    assert "error: " not in printed
    place, rest = 0, " ".join(printed.split("\n", 2)[2].split())
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        words = " ".join(part.split())
        assert words in rest[place:], printed
        place += rest[place:].index(words) + len(words)


@pytest.mark.parametrize("page", ["exploration", "lsvi", "online"])
def test_what_a_page_reproduces_is_there(page: str) -> None:
    named = [command.split()[2] for command, _ in commands(page) if command.startswith(REPRODUCE)]
    assert named
    assert set(named) <= set(FIGURES)


@pytest.mark.nightly
def test_the_page_on_sites_shows_what_the_command_prints(python: list[str], tmp_path: Path) -> None:
    runpy.run_path(str(DOCS / "programs" / "make_pages.py"), run_name="pages")["site"](tmp_path)
    ((command, shown),) = commands("site")
    printed = MAKE["walked"](f"```console\n$ {command}\n```\n", tmp_path, python)
    assert shown in printed
    assert "not read: old/certificate.json: DPA204" in printed
