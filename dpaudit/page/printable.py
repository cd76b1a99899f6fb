"""Text without characters that would command a terminal or a program that draws it."""

from typing import Any


def printable(text: str) -> str:
    """The text without characters that would command the terminal: file names and labels are foreign."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def printable_lines(text: str) -> str:
    """The text with each of its lines printable."""
    return "\n".join(map(printable, text.split("\n")))


def all_printable(value: Any) -> Any:
    """The same with every text in its fields and items printable."""
    if isinstance(value, dict):
        return {name: all_printable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [all_printable(item) for item in value]
    return printable(value) if isinstance(value, str) and not value.isprintable() else value
