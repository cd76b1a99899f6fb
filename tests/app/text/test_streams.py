"""Everything that is printed goes through one function, which no text of others can turn into commands."""

import ast
import io
from pathlib import Path

import pytest

import dpaudit.app
from dpaudit.app.text.streams import logged, write
from dpaudit.errors import UsageError
from dpaudit.page.printable import all_printable, printable, printable_lines

COMMANDS = [
    "::error::x",
    "  ::set-output name=a::b",
    "\t\u2003::debug::",
    "a\n::x",
    "a\r\n ::x",
    "a\r::x",
    "x ##[debug]",
]


@pytest.mark.parametrize("text", [*COMMANDS, "##vso[task.setvariable]x", "##teamcity[x]", ":::", "::\n::"])
def test_no_line_is_a_command(text: str) -> None:
    lines = logged(text).replace("\r", "\n").split("\n")
    assert not any(line.strip().startswith("::") for line in lines)
    assert "##[" not in logged(text)
    assert "##vso[" not in logged(text)
    stream = io.StringIO()
    write(stream, text)
    assert stream.getvalue() == logged(text)


@pytest.mark.parametrize(
    "text", ["a::b", "std::vector", "## heading", "# [link]", "x: :y", "", "\n \n", "#[a]"]
)
def test_other_text_stays(text: str) -> None:
    assert logged(text) == text


def test_the_gates_own_commands_are_written_as_they_are() -> None:
    stream = io.StringIO()
    write(stream, "::notice title=x::y\n", commands=True)
    assert stream.getvalue() == "::notice title=x::y\n"


def test_an_error_has_a_line_for_each_part_and_no_more() -> None:
    error = UsageError("a\nerror: forged", where="b\r\n::x", why="c\n  do:  forged", remedy="d\ne")
    assert len(str(error).splitlines()) == 3
    assert not any(line.lstrip().startswith("::") for line in str(error).splitlines())


def test_characters_that_turn_text_or_command_a_terminal_are_escaped() -> None:
    for text in ("\x1b[31m", "\u202eabc", "\u200b", "\x9b", "\x07", "\ud800", "\u2028", "\r"):
        assert printable(f"a{text}b").isprintable()
        assert all_printable({"x": [text]})["x"][0].isprintable()
    assert printable_lines("a\n\x1bb") == "a\n\\x1bb"


def test_nothing_else_prints() -> None:
    """Not by `print`, nor by click, nor to the streams: that would go past the function."""
    allowed = {"main.py": {"_print_version"}}
    for file in Path(dpaudit.app.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or node.name in allowed.get(file.name, ()):
                continue
            for call in (one for one in ast.walk(node) if isinstance(one, ast.Call)):
                name = ast.unparse(call.func)
                assert name not in {
                    "print",
                    "click.echo",
                    "click.secho",
                    "sys.stdout.write",
                    "sys.stderr.write",
                }
