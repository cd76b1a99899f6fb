"""A page of headings, sentences, tables and pictures, as Markdown and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True)
class Heading:
    """A heading; the first of a page is its title."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class Grid:
    """A table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A picture in the file `name`."""

    name: str
    caption: str


Block: TypeAlias = Heading | Paragraph | Grid | Picture

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.3em .7em;text-align:left;"
    "vertical-align:top}figcaption{color:#555}"
)


def markdown(blocks: Iterable[Block]) -> str:
    """The page as Markdown; pictures are files beside it."""
    parts: list[str] = []
    for block in blocks:
        match block:
            case Heading():
                parts.append(f"{'##' if parts else '#'} {block.text}")
            case Paragraph():
                parts.append(block.text)
            case Grid():
                lines = [block.columns, ["---"] * len(block.columns), *block.rows]
                parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
            case Picture():
                parts.append(f"![{block.caption}]({block.name})")
            case _:
                assert_never(block)
    return "\n\n".join(parts) + "\n"


def html_page(blocks: Sequence[Block], pictures: Mapping[str, str], script: str) -> str:
    """The page as one file that needs no other and no network.

    Args:
        blocks: the page.
        pictures: the Vega-Lite specification, as JSON, of each picture by its name.
        script: JavaScript that defines ``draw(selector, specification)``.
    """
    title = next(block.text for block in blocks if isinstance(block, Heading))
    body: list[str] = []
    for block in blocks:
        match block:
            case Heading():
                level = "h2" if body else "h1"
                body.append(f"<{level}>{html.escape(block.text)}</{level}>")
            case Paragraph():
                body.append(f"<p>{html.escape(block.text)}</p>")
            case Grid():
                head = "".join(f"<th>{html.escape(name)}</th>" for name in block.columns)
                rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in block.rows)
                body.append(f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")
            case Picture():
                place = f"picture-{len(body)}"
                # In a script, "</" would end it, even inside a string.
                specification = pictures[block.name].replace("</", "<\\/")
                body.append(
                    f'<figure><div id="{place}"></div><figcaption>{html.escape(block.caption)}</figcaption>'
                    f'</figure><script type="module">draw("#{place}", {specification});</script>'
                )
            case _:
                assert_never(block)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<style>{_STYLE}</style><script type="module">{script}</script></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
